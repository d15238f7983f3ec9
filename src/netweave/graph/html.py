"""A Graph in a notebook; and the few pieces of HTML that other values are shown with as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.graph.costs import total_cost
from netweave.graph.summary import (
    LayerSummary,
    amount_text,
    bytes_text,
    layer_summaries,
    settings_texts,
    value_summary,
)

if TYPE_CHECKING:
    from netweave.graph.graph import Graph

STYLE = """<style>
.netweave {font-size: 13px; line-height: 1.4}
.netweave .scroll {max-height: 32em; overflow: auto}
.netweave table {border-collapse: collapse; margin: .5em 0}
.netweave th, .netweave td {text-align: left; vertical-align: top; padding: .15em .8em .15em 0; border: 0;
  border-bottom: 1px solid rgba(128, 128, 128, .25); background: none}
.netweave tfoot td {font-weight: bold; border-bottom: 0}
.netweave .number {text-align: right; font-variant-numeric: tabular-nums}
.netweave .dim {opacity: .65}
.netweave .good {color: #1a7f37}
.netweave .bad {color: #cf222e}
.netweave .warn {color: #9a6700}
.netweave .info {color: #2f7fc4}
.netweave .verdict-green {color: #1a7f37}
.netweave .verdict-teal {color: #0b7285}
.netweave .verdict-orange {color: #b04500}
.netweave .verdict-blue {color: #0b62a8}
.netweave .verdict-red {color: #c21f2c}
.netweave .verdict-yellow {color: #8a5d00}
</style>"""
"""Colours that are read on white and on black; everything else takes the notebook's own."""

COLUMNS = ("layer", "type", "settings", "input", "output", "parameters", "multiply-adds")
NUMBERS = frozenset({"parameters", "multiply-adds"})


_drawings: dict[type, Callable[[Any, str], str]] = {}


def set_drawing(kind: type, draw: Callable[[Any, str], str]) -> None:
    """Say how values of a class are drawn in notebooks; the viewer, which draws, is above this package.

    Args:
        kind: The class.
        draw: Given a value and its table as HTML, returns what is shown.
    """
    _drawings[kind] = draw


def drawn(shown: Any, table: str) -> str:
    """Return a value as a notebook shows it: drawn, if something can draw it, else its table."""
    draw = _drawings.get(type(shown))
    return draw(shown, table) if draw else table


def graph_html(graph: Graph) -> str:
    """Return a net as HTML: what goes in and out, and a table of its layers."""
    cost = total_cost(graph)
    facts = [
        ("inputs", _values(graph.inputs)),
        ("outputs", _values(graph.outputs)),
        ("weights", f"{bytes_text(4 * graph.num_parameters)}{'' if graph.loaded else ', not all found'}"),
        ("activations", f"{bytes_text(cost.activation_bytes)} at batch size 1"),
        *(("note", note) for note in graph.notes),
    ]
    heading = f"<b>{escape(graph.name)}</b> <span class=dim>{escape(graph.format)}</span>"
    total = [
        f"{len(graph.layers)} layer{'' if len(graph.layers) == 1 else 's'}",
        "",
        "",
        "",
        "",
        f"{graph.num_parameters:,}",
    ]
    total.append(amount_text(cost.multiply_adds))
    rows = [_row(summary) for summary in layer_summaries(graph)]
    return fragment(
        f"<div>{heading}</div>", facts_html(facts), table_html(COLUMNS, rows, NUMBERS, foot=total)
    )


def fragment(*parts: str) -> str:
    """Return parts as one piece of a page, with the style that they need."""
    return f"{STYLE}<div class=netweave>{''.join(parts)}</div>"


def facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and texts as two columns."""
    rows = "".join(f"<tr><td class=dim>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in facts)
    return f"<table>{rows}</table>"


def table_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: frozenset[str] = frozenset(),
    *,
    foot: Sequence[str] = (),
) -> str:
    """Return a table that scrolls when it is long.

    Args:
        columns: The names of the columns.
        rows: Their cells, as HTML.
        numbers: Columns that are aligned to the right.
        foot: Cells of a last row, as HTML.
    """

    def line(cells: Sequence[str], tag: str = "td") -> str:
        kinds = (" class=number" if name in numbers else "" for name in columns)
        parts = (f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(parts)}</tr>"

    head = f"<thead>{line([escape(name) for name in columns], 'th')}</thead>"
    body = f"<tbody>{''.join(map(line, rows))}</tbody>"
    return (
        f"<div class=scroll><table>{head}{body}{f'<tfoot>{line(foot)}</tfoot>' if foot else ''}</table></div>"
    )


def _row(summary: LayerSummary) -> list[str]:
    layer, cost = summary.layer, summary.cost
    settings = " ".join(
        f"<span class=dim>{escape(name)}=</span>{escape(value)}"
        for name, value in settings_texts(layer.settings)
    )
    return [
        escape(layer.key),
        escape(layer.type),
        settings,
        "<br>".join(escape(str(value)) for value in summary.inputs if not value.gone),
        "<br>".join(escape(str(value)) for value in summary.outputs if not value.gone),
        f"{cost.parameters:,}" if cost.parameters else "",
        amount_text(cost.multiply_adds) if cost.multiply_adds else "",
    ]


def _values(values: Iterable[ir.Value]) -> str:
    return ", ".join(f"{value.name} {value}" for value in map(value_summary, values))
