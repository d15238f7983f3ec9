"""A Comparison in a notebook: the verdict, what explains it, and the two nets side by side."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from netweave.graph import Graph
from netweave.graph.html import facts_html, fragment, table_html
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    from netweave.comparison.result.comparison import Comparison, Finding, Group
    from netweave.comparison.result.report import NetRecord

COLOURS = {
    "EQUAL": "good",
    "MAPPED": "good",
    "STRUCTURE": "info",
    "LATENT": "warn",
    "PROPAGATED": "warn",
    "DIFFERENT": "bad",
    "ONLY_A": "bad",
    "ONLY_B": "bad",
    "UNKNOWN": "warn",
}
"""Colours of a group by the name of its status."""


def comparison_html(comparison: Comparison) -> str:
    """Return a comparison as HTML."""
    verdict = comparison.verdict
    columns = (
        f"A: {comparison.a.name}",
        f"B: {comparison.b.name}",
        "status",
        "error / rms",
        "evidence",
    )
    return fragment(
        f"<div class=verdict-{verdict.look.colour}><b>{verdict.mark} {escape(comparison.sentence)}</b></div>",
        facts_html(_facts(comparison)),
        *(facts_html(_explanation(finding)) for finding in comparison.findings),
        table_html(columns, [_row(comparison, group) for group in comparison.groups]),
    )


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    mappings = [
        (label, f"{mapping.a} -> {mapping.b}" + (f": {mapping.text}" if mapping.text else ""))
        for label, side in (("input", comparison.inputs), ("output", comparison.outputs))
        for mapping in side
    ]
    exercised = [("exercised", str(comparison.coverage))] if comparison.coverage is not None else []
    return mappings + exercised + [("note", note) for note in comparison.notes]


def _explanation(finding: Finding) -> list[tuple[str, str]]:
    sides = [
        f"{layer} ({place})" if place else layer
        for layer, place in ((finding.layer_a, finding.place_a), (finding.layer_b, finding.place_b))
        if layer or place
    ]
    rows = [("where", " against ".join(sides)), ("cause", finding.cause), ("fix", finding.fix or "not known")]
    if finding.error is not None:
        rows.append(("error / rms", ratio_text(finding.error)))
    if finding.error_fixed is not None:
        rows.append(("with the fix", ratio_text(finding.error_fixed)))
    return rows


def _row(comparison: Comparison, group: Group) -> list[str]:
    paired = group.nodes_a and group.nodes_b
    return [
        _layers(comparison.a, group.layers_a, group.nodes_a),
        _layers(comparison.b, group.layers_b, group.nodes_b),
        f"<span class={COLOURS[group.status.name]}>{group.status.value}</span>",
        _error(group),
        f"<span class=dim>{group.evidence_text}</span>" if paired else "",
    ]


def _error(group: Group) -> str:
    if group.error is None:
        return ""
    explained = group.rounding_error
    rest = "" if explained is None else f" <span class=dim>(rounding: {ratio_text(explained)})</span>"
    return f"{ratio_text(group.error)}{rest}"


def _layers(graph: Graph | NetRecord, keys: tuple[str, ...], nodes: tuple[str, ...]) -> str:
    named = [
        f"{escape(key)} <span class=dim>{escape(graph.layers[key].type)}</span>"
        for key in keys
        if key in graph.layers
    ]
    return "<br>".join(named or map(escape, nodes))
