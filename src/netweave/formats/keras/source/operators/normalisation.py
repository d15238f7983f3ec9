"""Normalisation by what is normalised itself: of neighbouring channels, of groups, of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.source_code.steps import Field
from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.keras.source.table import Call, channels_last, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.files.source_code.steps import Step

State = dict[str, "Callable[[], np.ndarray]"]


@written("LRN")
def local_response(call: Call) -> Step:
    """By the channels around each one: a function of the file's own."""
    call.need_image()
    settings = [call.get("alpha", 1e-4), call.get("beta", 0.75), call.get("bias", 1.0)]
    given = ", ".join([str(call.get("size")), *map(number, settings)])
    return call.step(f"local_response_norm({{0}}, {given})")


@written("LayerNormalization")
def layer_normalization(call: Call) -> Step:
    """Over the last axes, or those that they are in Keras."""
    rank = call.rank(0)
    first = call.axis("axis", -1)
    places = [channels_last(axis, rank) for axis in range(first, rank)]
    mine = sorted(places)
    order = [places.index(axis) for axis in mine]
    sizes = [size or 0 for size in call.shape(0)[first:]]
    state: State = {
        name: _turned(call, index, sizes, order)
        for index, name in ((1, "gamma"), (2, "beta"))
        if call.has(index)
    }
    if 0 in sizes or any(value.uses() for value in call.node.outputs[1:]):
        raise Refused("its sizes are not known, or its mean is read")
    fields = (
        Field("axis", -1 if mine == [rank - 1] else mine[0] if len(mine) == 1 else mine, -1),
        Field("epsilon", round(call.get("epsilon", 1e-5), 10), 1e-3),
        Field("center", call.has(2), True),
    )
    return call.weighted("LayerNormalization", fields, state)


def _turned(call: Call, index: int, sizes: list[int], order: list[int]) -> Callable[[], np.ndarray]:
    """Return a function that gives an array of the normalised axes in Keras's order of them."""
    array = call.lazily(index)
    return lambda: np.broadcast_to(array(), sizes).transpose(order)


@written("InstanceNormalization", "GroupNormalization")
def group_normalization(call: Call) -> Step:
    """Over height, width and the channels of a group; -1 stands for groups of one channel."""
    call.need_image()
    groups = call.get("num_groups") if call.node.op_type == "GroupNormalization" else -1
    fields = (Field("groups", groups), Field("epsilon", round(call.get("epsilon", 1e-5), 10), 1e-3))
    return call.weighted("GroupNormalization", fields, {"gamma": call.lazily(1), "beta": call.lazily(2)})
