"""Tiling: layers that are computed over bands of the image, to stay within a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.graph import total_cost
from netweave.graph.passes.bands import NotTileableError, is_tileable, tile
from netweave.graph.wording import bytes_text
from netweave.runtime.memory_plan.net import prepare
from netweave.runtime.memory_plan.program import timeline
from netweave.runtime.memory_plan.recompute import MULTIPLY_ADDS_PER_BYTE, bottlenecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

BANDS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of bands that are tried."""

PLACES = 4
"""So many places before and behind the largest layer are tried as ends of what is tiled."""


def tile_to_fit(graph: Graph, limit: int, *, batch: int = 1) -> Graph:
    """Return a graph that computes the same with less memory: its large layers over bands of the image.

    Where the most memory is alive, the run of layers is tiled that costs the least more and fits; if none
    does, the one that brings the most, and so on.

    Args:
        graph: The net as it predicts, with known heights and widths.
        limit: Bytes for values and kernels, besides parameters and inputs.
        batch: Records in a batch.

    Raises:
        UsageError: No tiling fits; the message says how near one came.
    """
    peak, _ = _peak(graph, batch)
    while peak > limit:
        tried = [
            (now, cost, found) for found in _tilings(graph, batch) for now, cost in [_judged(found, batch)]
        ]
        fitting = [row for row in tried if row[0] <= limit]
        best = min(fitting, key=lambda row: row[1]) if fitting else min(tried, key=_first, default=None)
        if best is None or best[0] >= peak:
            raise UsageError(
                f"{graph.name}: a run of {batch} needs {bytes_text(peak)} at least, over bands of the image "
                f"where that helps, and is limited to {bytes_text(limit)}; give it more, or run fewer at once"
            )
        peak, graph = best[0], best[2]
    return graph


def _first(row: tuple[int, float, Graph]) -> int:
    return row[0]


def _judged(graph: Graph, batch: int) -> tuple[int, float]:
    """Return what a graph needs, and what it costs: multiply-adds, and filters written anew for each band."""
    net = prepare(graph, batch=batch)
    plan = timeline(net)
    written = sum(buffer.num_bytes for buffer in plan.buffers if buffer.kind == "workspace")
    return plan.peak, total_cost(graph, batch=batch).multiply_adds + MULTIPLY_ADDS_PER_BYTE * written


def _peak(graph: Graph, batch: int) -> tuple[int, int]:
    """Return the most bytes alive in a run, and the number of the node at which they are."""
    live = timeline(prepare(graph, batch=batch)).live_bytes()
    return max(live, default=0), live.index(max(live)) if live else 0


def _tilings(graph: Graph, batch: int) -> Iterator[Graph]:
    """Yield the graph with the layers around its largest tiled."""
    net = prepare(graph, batch=batch)
    _, at = _peak(graph, batch)
    places = bottlenecks(net)
    cuts = [i for i, node in enumerate(net.nodes) if any(value in places for value in net.outputs[node])]
    begins = [*[cut + 1 for cut in cuts if cut < at][-PLACES:], 0]
    ends = [cut for cut in cuts if cut >= at][:PLACES]
    last = len(net.nodes) - 1
    if len(ends) < PLACES and set(net.outputs[net.nodes[last]]) == set(graph.outputs):
        ends = sorted({*ends, last})  # a net whose last layers are its largest
    for begin in dict.fromkeys(begins):
        for end in ends:
            nodes = [part for node in net.nodes[begin : end + 1] for part in net.parts_of(node)]
            if all(map(is_tileable, nodes)):
                yield from _by_bands(graph, nodes)


def _by_bands(graph: Graph, nodes: Sequence[ir.Node]) -> Iterator[Graph]:
    for count in BANDS:
        try:
            yield tile(graph, nodes, count)
        except NotTileableError:
            return
