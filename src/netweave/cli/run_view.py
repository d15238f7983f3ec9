"""Inputs and outputs of a run, on a terminal and as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from netweave.cli.console import LINE_BELOW_HEAD
from netweave.cli.net_view import heading
from netweave.graph.wording import dims_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from netweave.graph import Graph

STATISTICS: Mapping[str, Callable[[np.ndarray], float]] = {
    "min": lambda x: float(x.min()),
    "mean": lambda x: float(x.mean()),
    "max": lambda x: float(x.max()),
    "rms": lambda x: float(np.sqrt(np.square(x).mean())),
}
"""What is said of an array's values."""

DRAWN_NOTE = "note: no weights were found; they were drawn, and so the values say nothing of a trained net"

FIRST_VALUES_NOTE = "note: the weights are first values, and so the values say nothing of a trained net"


def show_results(
    console: Console,
    graph: Graph,
    given: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray],
    *,
    taps: Sequence[str],
    output_file: str | None,
) -> None:
    """Print inputs, outputs and taps of a run: sizes and the spread of the values."""
    table = Table(box=LINE_BELOW_HEAD, header_style="bold", pad_edge=False)
    table.add_column("", style="dim")
    table.add_column("value", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in STATISTICS:
        table.add_column(name, justify="right", no_wrap=True)
    rows = [("in", name, array) for name, array in given.items()]
    rows += [("tap" if name in taps else "out", name, array) for name, array in results.items()]
    for label, name, array in rows:
        numbers = (f"{number:.4g}" for number in statistics(array).values())
        table.add_row(label, Text(name), dims_text(array.shape), *numbers)
    console.print(heading(graph), table, sep="\n")
    if not graph.loaded or graph.initial:
        note = FIRST_VALUES_NOTE if graph.loaded else DRAWN_NOTE
        console.print(Text(note, style="yellow"))
    if output_file:
        console.print(Text.assemble(("wrote ", "green"), (output_file, "bold")))


def statistics(array: np.ndarray) -> dict[str, float]:
    """Return the spread of an array's values, summed in float64; empty for an empty array."""
    if not array.size:
        return {}
    wide = array.astype(np.float64)
    return {name: measure(wide) for name, measure in STATISTICS.items()}


def results_json(
    graph: Graph, given: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Return inputs and outputs of a run as JSON values, without the arrays themselves."""
    return {
        "net": graph.name,
        "files": list(graph.files),
        "inputs": {name: _array_json(array) for name, array in given.items()},
        "outputs": {name: _array_json(array) for name, array in results.items()},
    }


def _array_json(array: np.ndarray) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": str(array.dtype), **statistics(array)}
