"""Normalisation by what is normalised itself: of neighbouring channels, of groups, of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.steps import Field
from netweave.formats.keras.source.table import KerasNode, writes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from netweave.files.source_code.steps import Step

State = dict[str, "Callable[[], np.ndarray]"]


@writes("LRN")
def local_response(node: KerasNode) -> Step:
    """By the channels around each one: a function of the file's own."""
    node.need_image()
    return node.step(node.with_settings("local_response_norm({0}, <size>, <alpha>, <beta>, <bias>)"))


@writes("LayerNormalization")
def layer_normalization(node: KerasNode) -> Step:
    """Over the last axes, or those that they are in Keras."""
    rank = node.rank(0)
    first = node.axis()
    places = [node.place(axis) for axis in range(first, rank)]
    mine = sorted(places)
    order = [places.index(axis) for axis in mine]
    sizes = [size or 0 for size in node.shape(0)[first:]]
    state: State = {
        name: _turned(node, index, sizes, order)
        for index, name in ((1, "gamma"), (2, "beta"))
        if node.has(index)
    }
    if 0 in sizes or any(value.uses() for value in node.outputs[1:]):
        raise NotWritable("its sizes are not known, or its mean is read")
    fields = (
        Field("axis", -1 if mine == [rank - 1] else mine[0] if len(mine) == 1 else mine, -1),
        Field("epsilon", node.decimal("epsilon"), 1e-3),
        Field("center", node.has(2), True),
    )
    return node.weighted("LayerNormalization", fields, state)


def _turned(node: KerasNode, index: int, sizes: list[int], order: list[int]) -> Callable[[], np.ndarray]:
    """Return a function that gives an array of the normalised axes in Keras's order of them."""
    array = node.broadcast_array(index, sizes)
    return lambda: array().transpose(order)


@writes("InstanceNormalization", "GroupNormalization")
def group_normalization(node: KerasNode) -> Step:
    """Over height, width and the channels of a group; -1 stands for groups of one channel."""
    node.dimensions()
    groups = node.get("num_groups") if node.op_type == "GroupNormalization" else -1
    fields = (Field("groups", groups), Field("epsilon", node.decimal("epsilon"), 1e-3))
    return node.weighted(
        "GroupNormalization", fields, {"gamma": node.lazy_array(1), "beta": node.lazy_array(2)}
    )
