"""Poolings whose one window is the whole image, which are global poolings of that size of image."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from netweave.errors import ShapeError
from netweave.graph import attributes_of, known_shape
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.rewrite import Pass
from netweave.graph.passes.specialise import specialise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

GLOBAL = {"AveragePool": "GlobalAveragePool", "MaxPool": "GlobalMaxPool"}
REDUCTIONS = frozenset({"ReduceMean", "ReduceMax"})


@Pass
def pool_whole_images(graph: Graph) -> None:
    """Make poolings global that take one window of all of their image, at the sizes that the net declares.

    A net with open sizes stays as it is.
    """
    pools = [node for node in graph.nodes if node.op_type in GLOBAL]
    sizes = _declared(graph)
    if sizes is None or not pools:
        return
    if not _is_at(graph, pools, sizes):
        try:
            pools = [node for node in specialise(graph, sizes).nodes if node.op_type in GLOBAL]
        except ShapeError:  # the declared sizes do not fit, which running the net says better
            return
    whole = {node.name for node in pools if _covers_its_image(node)}
    for node in graph.nodes:
        if node.name in whole:
            node.op_type, node.domain = GLOBAL[node.op_type], ""
            node.attributes.clear()


def _is_at(graph: Graph, pools: Sequence[ir.Node], sizes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether the shapes of a graph are those at some sizes, the batch aside, as far as poolings show.

    To infer the shapes of thousands of nodes once more takes as long as to compare them.
    """
    if any((known_shape(value) or ())[1:] != sizes[str(value.name)][1:] for value in graph.inputs):
        return False
    shapes = [known_shape(node.inputs[0]) for node in pools]
    # ``specialise`` makes plain attributes of a rule (SAME, rounding up), which only then can be judged
    has_rule = any(node.domain or node.attributes.get("auto_pad") is not None for node in pools)
    return not has_rule and all(shape is not None and None not in shape[1:] for shape in shapes)


def num_global_pools(graph: Graph) -> int:
    """Return how many poolings of a graph are global, whatever the size of the image."""
    return sum(_is_global(node) for node in graph.nodes)


def _is_global(node: ir.Node) -> bool:
    if node.domain:
        return False
    if node.op_type not in REDUCTIONS:
        return node.op_type in GLOBAL.values()
    axes = attributes_of(node).get("axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        stored = node.inputs[1].const_value
        axes = None if stored is None else stored.numpy().tolist()
    return sorted(axes or ()) in ([2, 3], [-2, -1])


def _declared(graph: Graph) -> dict[str, tuple[int, ...]] | None:
    """Return the sizes of a net's inputs with a batch of one; None if some are open."""
    sizes: dict[str, tuple[int, ...]] = {}
    for value in graph.inputs:
        name = str(value.name)
        known = tuple(graph.declared.get(name) or known_shape(value) or ())
        filled = [size for size in known[1:] if size]
        if not known or len(filled) != len(known) - 1:
            return None
        sizes[name] = (known[0] or 1, *filled)
    return sizes


def _covers_its_image(node: ir.Node) -> bool:
    """Return whether a pooling's window is exactly the image that it reads."""
    shape = known_shape(node.inputs[0]) if node.op_type in GLOBAL and node.inputs else None
    if shape is None or len(shape) < 3:
        return False
    windows = PoolWindows.of(node.domain, attributes_of(node))
    is_whole = windows.spans == windows.kernel == list(shape[2:])
    return is_whole and not windows.any_pad and prod(windows.kernel) > 1
