"""Nets as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD, settings_text
from netweave.formats import FORMATS
from netweave.graph import (
    BATCH,
    Cost,
    Graph,
    LayerSummary,
    NodeSummary,
    ValueSummary,
    layer_summaries,
    node_summaries,
    total_cost,
    value_summary,
)
from netweave.graph.passes.rewriting import likely_size, open_shapes
from netweave.graph.summary import amount_text, bytes_text, dims_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from netweave.api.timing import Gain
    from netweave.comparison import NetRecord
    from netweave.training.cluster.topology import Role, Topology


# The table takes the widest form that fits: all in columns, or, on a narrow terminal, two lines a row.

UNBOUNDED = 2000
"""Columns in which every table has room, to measure it."""

SETTINGS_WIDTH = 24
"""The narrowest column of settings that is still to be read; below it rows have two lines."""


@dataclass(frozen=True, slots=True)
class Row:
    """One layer or node as the terminal shows it; empty texts where there is nothing to show."""

    name: str
    type: str
    settings: Text
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: str
    multiply_adds: str


def show_net(console: Console, graph: Graph, *, nodes: bool, batch: int) -> None:
    """Print a net.

    Args:
        console: Where to.
        graph: The net.
        nodes: Show operators instead of the source's layers.
        batch: Batch size for the costs.
    """
    if nodes:
        rows = [_node_row(row) for row in node_summaries(graph, batch=batch)]
    else:
        rows = [_layer_row(row) for row in layer_summaries(graph, batch=batch)]
    console.print(heading(graph))
    noun = "node" if nodes else "layer"
    cost = total_cost(graph, batch=batch)
    totals = Row(
        name=f"{len(rows):,} {noun}{'' if len(rows) == 1 else 's'}",
        type="",
        settings=Text(),
        inputs=(),
        outputs=(),
        parameters=_parameters_text(cost),
        multiply_adds=_cost_text(cost),
    )
    console.print(_fitting(console, noun, rows, totals))
    console.print(_summary(graph, cost, batch))


def heading(graph: Graph | NetRecord) -> Text:
    """Return the line that names a net."""
    titles = {row.name: row.title for row in FORMATS}
    parts = [titles.get(graph.format, graph.format), ", ".join(graph.files)]
    return Text.assemble((graph.name, "bold"), *((f"  {part}", "dim") for part in parts if part))


def converted(graph: Graph, out: Path) -> RenderableType:
    """Return what ``convert`` says when it has written a file."""
    own = sorted({node.op_type for node in graph.nodes if node.domain})
    lines = Text.assemble(
        ("wrote ", "green"),
        (str(out), "bold"),
        f"  {bytes_text(out.stat().st_size)}: {len(graph.layers):,} layers as "
        f"{len(graph.nodes):,} nodes, {graph.num_parameters:,} parameters",
    )
    if own and out.suffix == ".onnx":
        lines.append(
            f"\nnote: ONNX has no operator for {', '.join(own)}; they are written in the domain netweave, "
            "which other runtimes do not know",
            style="yellow",
        )
    if not graph.loaded:
        lines.append("\nnote: no weights were found; the values in the file are drawn", style="yellow")
    elif graph.initial:
        lines.append("\nnote: the values in the file are first ones, which nobody trained", style="yellow")
    return lines


def gained(gain: Gain) -> Text:
    """Return what ``convert --for inference`` says: before and after, of the net as it predicts."""
    a, b = gain.before, gain.after
    return Text(
        f"gained: nodes {a.nodes:,} -> {b.nodes:,}; parameters {a.elements:,} -> {b.elements:,}; "
        f"multiply-adds {amount_text(a.multiply_adds)} -> {amount_text(b.multiply_adds)}; "
        f"{gain.backend} {1e3 * a.median_s:.1f} -> {1e3 * b.median_s:.1f} ms (median of runs in turns; "
        f"fastest {1e3 * a.fastest_s:.1f} -> {1e3 * b.fastest_s:.1f} ms)"
    )


def weights_written(graph: Graph, out: Path) -> Text:
    """Return what ``convert`` says when it has written weights alone."""
    size = bytes_text(out.stat().st_size)
    return Text.assemble(
        ("wrote ", "green"), (str(out), "bold"), f"  {size}: {graph.num_parameters:,} parameters"
    )


def _layer_row(row: LayerSummary) -> Row:
    return Row(
        name=row.layer.key,
        type=row.layer.type,
        settings=settings_text(row.layer.settings),
        inputs=_shapes(row.inputs),
        outputs=_shapes(row.outputs),
        parameters=_parameters_text(row.cost) if row.cost.parameters else "",
        multiply_adds=_cost_text(row.cost),
    )


def _parameters_text(cost: Cost) -> str:
    return f"{'>= ' if cost.has_open_parameters else ''}{cost.parameters:,}"


def _node_row(row: NodeSummary) -> Row:
    stored = sum(prod(_known(value)) for value in row.stored)
    is_open = any(None in _sizes(value) for value in row.stored)
    return Row(
        name=row.name,
        type=row.operator,
        settings=settings_text(row.attributes),
        inputs=_shapes(row.inputs),
        outputs=_shapes(row.outputs),
        parameters=f"{'>= ' if is_open else ''}{stored:,}" if stored else "",
        multiply_adds=_cost_text(row.cost),
    )


def _sizes(value: ValueSummary) -> list[int | None]:
    return [dim if isinstance(dim, int) else None for dim in value.dims or ()]


def _known(value: ValueSummary) -> list[int]:
    return [size for size in _sizes(value) if size is not None]


def _shapes(values: Sequence[ValueSummary]) -> tuple[str, ...]:
    return tuple(dims_text(value.dims) for value in values if not value.gone)


def _cost_text(cost: Cost) -> str:
    return _bounded(amount_text(cost.multiply_adds), cost) if cost.multiply_adds or not cost.exact else ""


def _bounded(text: str, cost: Cost) -> str:
    """Say that a cost is a lower bound if a size was unknown."""
    return text if cost.exact else "?" if text[0] == "0" else f">= {text}"


def _fitting(console: Console, noun: str, rows: Sequence[Row], totals: Row) -> Table:
    wide = _wide(noun, rows, totals)
    settings = wide.columns[2]
    longest = max([len("settings"), *(row.settings.cell_len for row in rows)])
    settings.width = min(longest, SETTINGS_WIDTH)
    unbounded = console.options.update(max_width=UNBOUNDED)
    needed = Measurement.get(console, unbounded, wide)
    if needed.minimum > console.width:
        return _narrow(noun, rows, totals)
    # only what the other columns leave: rich would fold their words
    settings.width = min(longest, settings.width + max(console.width - needed.maximum, 0))
    return wide


def _table() -> Table:
    return Table(
        box=LINE_BELOW_HEAD, show_footer=True, header_style="bold", footer_style="bold", pad_edge=False
    )


def _wide(noun: str, rows: Sequence[Row], totals: Row) -> Table:
    table = _table()
    table.add_column(noun, totals.name, overflow="fold")
    table.add_column("type", style="cyan", overflow="fold")
    table.add_column("settings", overflow="fold")
    table.add_column("input", style="dim", overflow="fold")
    table.add_column("output", overflow="fold")
    table.add_column("parameters", totals.parameters, justify="right", no_wrap=True)
    table.add_column("multiply-adds", totals.multiply_adds, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(row.name),
            Text(row.type),
            row.settings,
            Text("\n".join(row.inputs)),
            Text("\n".join(row.outputs)),
            row.parameters,
            row.multiply_adds,
        )
    return table


def _narrow(noun: str, rows: Sequence[Row], totals: Row) -> Table:
    table = _table()
    table.add_column(f"{noun}, type\nsettings", totals.name, overflow="fold")
    table.add_column("input\noutput", overflow="fold")
    table.add_column("parameters", totals.parameters, justify="right", no_wrap=True, vertical="top")
    table.add_column("multiply-\nadds", totals.multiply_adds, justify="right", no_wrap=True)
    for row in rows:
        name = Text.assemble(row.name, "  ", (row.type, "cyan"))
        if row.settings:
            name.append("\n").append_text(row.settings)
        inputs = ("".join(f"{text}\n" for text in row.inputs), "dim")
        shapes = Text.assemble(inputs, "\n".join(row.outputs))
        table.add_row(name, shapes, row.parameters, row.multiply_adds)
    return table


def _summary(graph: Graph, cost: Cost, batch: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for label, values in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        texts = (f"{value.name} {dims_text(value.dims)}" for value in map(value_summary, values))
        grid.add_row(label, Text(", ".join(texts)))
    grid.add_row("weights", _weights(graph))
    grid.add_row("activations", f"{_bounded(bytes_text(cost.activation_bytes), cost)} at batch size {batch}")
    for note in graph.notes:
        grid.add_row("note", Text(note, style="yellow"))
    if not cost.exact:
        text = f"some sizes are not known; say them with --input-shape {_likely_shape(graph)}"
        grid.add_row("note", Text(text, style="yellow"))
    return grid


def _likely_shape(graph: Graph) -> str:
    shapes = open_shapes(graph)
    size = likely_size(graph) if shapes else None
    if size is None:
        return "NAME=SIZES"
    name, dims = next(iter(shapes.items()))
    return f"{name}={dims_text(tuple(size if dim is None else 1 if dim == BATCH else dim for dim in dims))}"


def _weights(graph: Graph) -> Text:
    if not graph.parameters:
        return Text("none")
    size = f"{bytes_text(4 * graph.num_parameters)} in {len(graph.parameters):,} arrays"
    if any(parameter.open_axes for parameter in graph.parameters.values()):
        size = f">= {size}"
    if graph.loaded and graph.initial:
        first = sum(parameter.initial for parameter in graph.parameters.values())
        return Text(f"{size}; {first:,} of them hold first values, which nobody trained", style="yellow")
    if graph.loaded:
        return Text(size)
    missing = sum(not parameter.loaded for parameter in graph.parameters.values())
    return Text(f"{size}; {missing:,} of them not found, drawn instead", style="yellow")


def show_cluster(console: Console, topology: Topology) -> None:
    """Print who holds what.

    Args:
        console: Where to.
        topology: The roles and holders.
    """
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    for head in ("process", "role"):
        table.add_column(head)
    for head in ("slices", "bytes"):
        table.add_column(head, justify="right")
    table.add_column("parameters", overflow="fold")
    for role in topology.roles:
        table.add_row(str(role.rank), str(role), *_held(topology, role))
    console.print(table)
    for text in topology.cluster.without_effect():
        console.print(f"note: {text}", soft_wrap=True)
    console.print(
        f"placement {topology.cluster.placement}: the largest server holds {topology.imbalance:.2f} times "
        "the mean",
        soft_wrap=True,
    )


def _held(topology: Topology, role: Role) -> tuple[str, str, str]:
    """Return slices, bytes and parameters of a server; of those that it holds in part, how much."""
    if role.server is None:
        return "", "", ""
    layout = topology.placement.layout
    slices = topology.slices_of(role.server)
    held: dict[str, int] = {}
    for number in slices:
        for span in layout.slices[number]:
            held[span.key] = held.get(span.key, 0) + span.stop - span.start
    sizes: dict[str, int] = {}
    for spans in layout.slices:
        for span in spans:
            sizes[span.key] = max(sizes.get(span.key, 0), span.stop)
    names = [key if size == sizes[key] else f"{key} ({size / sizes[key]:.0%})" for key, size in held.items()]
    return str(len(slices)), f"{topology.bytes_of(role.server):,}", ", ".join(names)
