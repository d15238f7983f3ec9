"""Convolutions over a concatenation that they alone read: sums of convolutions of its parts."""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from netweave.graph import attributes_of, known_shape
from netweave.graph.passes.rewrite import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.graph import Graph


@Pass
def sum_of_parts(graph: Graph) -> None:
    """Make a convolution over a concatenation of channels a sum of convolutions, where that saves memory.

    The concatenation, a copy of its parts, goes; a sum for each further part comes, which must be smaller
    than the copy. Runtimes add within the convolution. The weights are cut when they are read.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        concat = _concat_before(node)
        counts = _channels(concat) if concat is not None else None
        weight = known_shape(node.inputs[1]) if counts is not None else None
        if concat is None or counts is None or weight is None or weight[0] is None:
            continue
        if weight[0] * (len(counts) - 1) < sum(counts):
            _spread(rewriter, node, concat, counts)


def _concat_before(conv: ir.Node) -> ir.Node | None:
    """Return the concatenation of channels that an ungrouped convolution alone reads."""
    value = conv.inputs[0] if (conv.domain, conv.op_type) == ("", "Conv") else None
    maker = value.producer() if value is not None and has_one_reader(value) else None
    if maker is None or (maker.domain, maker.op_type) != ("", "Concat"):
        return None
    shape, axis = known_shape(maker.outputs[0]), maker.attributes.get_int("axis", 0)
    over_channels = axis == 1 or (shape is not None and axis + len(shape) == 1)
    return maker if over_channels and conv.attributes.get_int("group", 1) == 1 else None


def _channels(concat: ir.Node) -> list[int] | None:
    """Return how many channels each part has, if all say so and there are several."""
    shapes = [known_shape(value) for value in concat.inputs]
    counts = [shape[1] for shape in shapes if shape is not None and shape[1] is not None]
    return counts if 1 < len(counts) == len(shapes) else None


def _spread(rewriter: Rewriter, conv: ir.Node, concat: ir.Node, counts: Sequence[int]) -> None:
    """Put a sum of convolutions in the place of a concatenation and the convolution over it."""
    whole, whole_shape = conv.inputs[1], conv.outputs[0].shape
    weights = whole.const_value if whole is not None and whole.is_initializer() else None
    if whole is None or weights is None or whole.is_graph_input():
        return
    made: list[ir.Value] = []
    for part, (begin, end) in zip(concat.inputs, pairwise(accumulate(counts, initial=0)), strict=True):
        weight = rewriter.computed(
            partial(_cut, weights, begin, end),
            name=f"{whole.name}/{begin}",
            like=weights,
            shape=[weights.shape.numpy()[0], end - begin, *weights.shape.numpy()[2:]],
        )
        bias = [] if made else conv.inputs[2:]
        made.append(rewriter.insert(conv, "Conv", [part, weight, *bias], attributes_of(conv)).outputs[0])
    total, *rest, last = made
    for value in rest:
        total = rewriter.insert(conv, "Add", [total, value]).outputs[0]
        made.append(total)
    for value in made:
        value.shape, value.type = whole_shape, conv.outputs[0].type
    rewriter.replace([concat, conv], "Add", [total, last], {})


def _cut(weights: ir.TensorProtocol, begin: int, end: int) -> np.ndarray:
    return weights.numpy()[:, begin:end]
