"""Functions of ``keras.ops`` that losses are made of; arrays of other layers, and masks, for objectives."""

from __future__ import annotations

import onnx_ir as ir

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.lowering.channels_last import Operand, Stored, Tensor
from netweave.formats.lowering.channels_last.layer import along, arg, drop, reduce

EPSILON = 1e-7
"""``keras.config.epsilon()``: probabilities are bounded by it and 1 minus it."""

WEIGHT = "NetweaveWeight"
"""The class of a layer that gives an array of another one; Keras has none, and no file holds it."""


@layer_reader(WEIGHT)
def weight(ctx: KerasLayer) -> Tensor:
    """An array that a layer before has read, as it is stored."""
    stored = ctx.known_array(ctx.string("key", ""))
    return Tensor(ctx.in_layout(stored))


MASK = "NetweaveMask"
"""The class of a layer that gives the mask of a tensor; Keras has none, and no file holds it."""


@layer_reader(MASK)
def mask_of(ctx: KerasLayer) -> Tensor:
    """1 at the steps of a tensor that count, else 0."""
    mask = ctx.mask(ctx.x)
    if mask is None:
        raise ctx.unsupported("is given a tensor without a mask")
    return ctx.as_type(mask, ir.DataType.FLOAT)


@layer_reader("Where")
def where(ctx: KerasLayer) -> Tensor:
    """One tensor where a condition holds, else another."""
    given = [*ctx.args, *ctx.kwargs.values()]
    like = next((value for value in given[1:] if isinstance(value, Tensor)), None)
    if len(given) != 3 or like is None or not isinstance(given[0], Tensor):
        raise ctx.unsupported("is given no condition and two values, of which one is a tensor")
    values = [value if isinstance(value, Tensor) else ctx.scalar(value, like) for value in given[1:]]
    condition = ctx.as_type(given[0], ir.DataType.BOOL)
    return ctx.broadcast("Where", [condition, *values])


@layer_reader("OneHot")
def one_hot(ctx: KerasLayer) -> Tensor:
    """A row of zeros with a one for each number, on a new last axis."""
    if ctx.integer("axis", -1) != -1:
        raise ctx.unsupported("axis: only the last one is supported")
    ctx.string("dtype", "float32")
    numbers = ctx.as_type(ctx.x, ir.DataType.INT64)
    depth = ctx.integers([ctx.positive("num_classes")])
    return Tensor(ctx.add("OneHot", [numbers, depth, ctx.constant([0.0, 1.0])], {"axis": -1}))


@layer_reader("Argmax", "Argmin")
def arg_max(ctx: KerasLayer) -> Tensor:
    """The number of the largest, or least, element along an axis."""
    return arg(ctx, "ArgMax" if ctx.type == "Argmax" else "ArgMin", ctx.x, ctx.integer("axis", -1))


@layer_reader("OnesLike", "ZerosLike")
def like(ctx: KerasLayer) -> Tensor:
    """A tensor of the same sizes; not ``x * 0``, which is NaN for infinity."""
    same = ctx.broadcast("Equal", [ctx.x, ctx.x])
    op_type = "Or" if ctx.type == "OnesLike" else "And"
    return ctx.as_type(ctx.broadcast(op_type, [same, ctx.unary("Not", same)]), ir.DataType.FLOAT)


@layer_reader("Logsumexp")
def log_sum_exp(ctx: KerasLayer) -> Tensor:
    """The logarithm of the sum of exponentials over some axes, or all of them."""
    return reduce(ctx, "ReduceLogSumExp", ctx.x, ctx.axes(), keep=ctx.boolean("keepdims", False))


@layer_reader("Log1p", "Expm1")
def near_zero(ctx: KerasLayer) -> Tensor:
    """A function of each element."""
    return ctx.elementwise(ctx.type, ctx.x)


@layer_reader("BinaryCrossentropy")
def binary_cross_entropy(ctx: KerasLayer) -> Tensor:
    """The loss of each element, whose label is between 0 and 1.

    It is computed from the input of the sigmoid, wherever that is known:
    ``max(z, 0) - z t + log(1 + exp(-|z|))``.
    """
    target, output = _target_and_output(ctx)
    z = output if ctx.boolean("from_logits", False) else ctx.logits("sigmoid", output)
    if z is not None:
        linear = ctx.broadcast("Sub", [ctx.unary("Relu", z), ctx.broadcast("Mul", [z, target])])
        rest = ctx.unary("Softplus", ctx.unary("Neg", ctx.unary("Abs", z)))
        return ctx.broadcast("Add", [linear, rest])
    p = _bounded(ctx, output)
    one = ctx.scalar(1.0, output)
    of_ones = ctx.broadcast("Mul", [target, ctx.unary("Log", p)])
    not_p = ctx.unary("Log", ctx.broadcast("Sub", [one, p]))
    of_zeros = ctx.broadcast("Mul", [ctx.broadcast("Sub", [one, target]), not_p])
    return ctx.unary("Neg", ctx.broadcast("Add", [of_ones, of_zeros]))


@layer_reader("CategoricalCrossentropy")
def categorical_cross_entropy(ctx: KerasLayer) -> Tensor:
    """With probabilities of classes, over one axis, the last by default."""
    target, output = _target_and_output(ctx)
    axis = ctx.integer("axis", -1)
    logs = _log_probabilities(ctx, output, axis, normalise=True)
    total = reduce(ctx, "ReduceSum", ctx.broadcast("Mul", [target, logs]), [axis], keep=False)
    return ctx.unary("Neg", total)


@layer_reader("SparseCategoricalCrossentropy")
def sparse_categorical_cross_entropy(ctx: KerasLayer) -> Tensor:
    """With numbers of classes; classes are the last axis.

    Keras takes probabilities for logits after their logarithm, so that they are made to add up to 1.
    """
    target, output = _target_and_output(ctx)
    if ctx.axis(ctx.integer("axis", -1), ctx.rank(output)) != ctx.rank(output) - 1:
        raise ctx.unsupported("axis: only the last one is supported")
    if ctx.rank(target) == ctx.rank(output):
        target = drop(ctx, target, [-1])
    logs = _log_probabilities(ctx, output, -1, normalise=False)
    numbers = ctx.unsqueeze(ctx.as_type(target, ir.DataType.INT64), [-1])
    chosen = ctx.add("GatherElements", [logs, numbers], {"axis": -1})
    return ctx.unary("Neg", drop(ctx, chosen, [-1]))


def _target_and_output(ctx: KerasLayer) -> tuple[Tensor, Tensor]:
    if len(ctx.inputs) != 2:
        raise ctx.unsupported(f"has {len(ctx.inputs)} tensors as inputs, expected a target and an output")
    return ctx.inputs[0], ctx.inputs[1]


def _log_probabilities(ctx: KerasLayer, output: Tensor, axis: int, *, normalise: bool) -> Tensor:
    is_last = ctx.axis(axis, ctx.rank(output)) == ctx.rank(output) - 1
    before = ctx.logits("softmax", output) if is_last else None
    z = output if ctx.boolean("from_logits", False) else before
    if z is not None:
        return along(ctx, "LogSoftmax", z, axis)
    if not normalise:
        return along(ctx, "LogSoftmax", ctx.unary("Log", _bounded(ctx, output)), axis)
    total = reduce(ctx, "ReduceSum", output, [axis], keep=True)
    return ctx.unary("Log", _bounded(ctx, ctx.broadcast("Div", [output, total])))


def _bounded(ctx: KerasLayer, x: Operand) -> Tensor:
    assert not isinstance(x, Stored)
    tensor = ctx.tensor(x)
    bounds = [ctx.scalar(EPSILON, tensor), ctx.scalar(1.0 - EPSILON, tensor)]
    return ctx.unary("Clip", tensor, more=bounds)
