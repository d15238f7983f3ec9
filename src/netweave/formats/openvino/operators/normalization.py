"""Normalisations and softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.lowering.channels_last.axes import along, reduce
from netweave.formats.openvino.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.openvino.context import OpenVINOOperation


@operator_reader("SoftMax", "Softmax", "LogSoftmax")
def softmax(ctx: OpenVINOOperation) -> Tensor:
    """Over one axis."""
    return along(ctx, "LogSoftmax" if ctx.op == "LogSoftmax" else "Softmax", ctx.x, ctx.integer("axis", 1))


@operator_reader("LRN")
def lrn(ctx: OpenVINOOperation) -> Tensor:
    """``x / (bias + alpha / size * sum of squares) ** beta`` over neighbouring channels."""
    axes = [ctx.axis(axis) for axis in ctx.integers_input(1, "the axes")]
    if axes != [1]:
        raise ctx.unsupported(f"normalises over the axes {axes}, expected the channels alone")
    names = ("alpha", "beta", "bias")
    attributes = {"size": ctx.integer("size"), **{name: ctx.number(name) for name in names}}
    return Tensor(ctx.add("LRN", [ctx.x], attributes))


@operator_reader("MVN")
def mean_variance(ctx: OpenVINOOperation) -> Tensor:
    """Without its mean, and divided by its deviation, over some axes."""
    x, rank = ctx.tensor(ctx.x), ctx.rank()
    axes = [ctx.axis(axis) for axis in ctx.integers_input(1, "the axes")]
    epsilon, inside = (
        ctx.number("eps", 1e-9),
        ctx.choice("eps_mode", ("inside_sqrt", "outside_sqrt"), "inside_sqrt"),
    )
    scales = ctx.flag("normalize_variance", True)
    last = list(range(min(axes, default=rank), rank))
    sizes = ctx.shape(x)
    if scales and inside == "inside_sqrt" and sorted(axes) == last and None not in [sizes[a] for a in last]:
        ones = ctx.constant(np.ones([sizes[axis] or 1 for axis in last], np.float32))
        attributes = {"axis": last[0] - rank, "epsilon": epsilon}
        return Tensor(ctx.add("LayerNormalization", [x, ones], attributes))
    centred = ctx.broadcast("Sub", [x, reduce(ctx, "ReduceMean", x, axes, keep=True)])
    if not scales:
        return centred
    variance = reduce(ctx, "ReduceMean", ctx.elementwise("square", centred), axes, keep=True)
    number = ctx.scalar(epsilon, variance)
    if inside == "inside_sqrt":
        deviation = ctx.elementwise("sqrt", ctx.broadcast("Add", [variance, number]))
    else:
        deviation = ctx.broadcast("Add", [ctx.elementwise("sqrt", variance), number])
    return ctx.broadcast("Div", [centred, deviation])


@operator_reader("NormalizeL2")
def normalize_l2(ctx: OpenVINOOperation) -> Tensor:
    """Divided by the root of the sum of squares over some axes."""
    axes = [ctx.axis(axis) for axis in ctx.integers_input(1, "the axes")]
    total = reduce(ctx, "ReduceSumSquare", ctx.x, axes, keep=True)
    op_type = "Add" if ctx.choice("eps_mode", ("add", "max"), "add") == "add" else "Max"
    raised = ctx.broadcast(op_type, [total, ctx.scalar(ctx.number("eps"), total)])
    return ctx.broadcast("Div", [ctx.x, ctx.elementwise("sqrt", raised)])
