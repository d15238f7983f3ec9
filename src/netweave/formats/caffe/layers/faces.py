"""Layers that nets for recognising faces are trained with: of SphereFace, CenterFace, NormFace and AMSoftmax.

Of ``margin_inner_product_layer.cpp``, ``center_loss_layer.cpp``, ``normalize_layer.cu``, and
caffe-windows' ``label_specific_add.cu`` and ``label_specific_margin.cu``. Where the code for GPUs has other
numbers than that for CPUs, these are the GPUs', on which the nets were trained.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.graph import DOMAIN, scale_gradients

MARGINS = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3, "QUADRUPLE": 4}

EPSILON = 1e-12
"""Added to a sum of squares, inside the root; the code for CPUs adds 1e-6."""


def unit_rows(ctx: CaffeLayer, weight: ir.Value, epsilon: float = EPSILON) -> ir.Value:
    """Return the rows of a weight, scaled to length 1; in training they replace the stored ones."""
    if ctx.phase == "TRAIN":
        return ctx.add("UnitRows", [weight], {"epsilon": epsilon}, domain=DOMAIN)
    return ctx.add("Div", [weight, _length(ctx, weight, epsilon)])


def _length(ctx: CaffeLayer, x: ir.Value, epsilon: float) -> ir.Value:
    squares = ctx.add("ReduceSum", [ctx.add("Mul", [x, x]), ctx.integers([1])])
    return ctx.add("Sqrt", [ctx.add("Add", [squares, ctx.constant(epsilon)])])


def normalize_channels(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Divide by the norm over the channels of each place; the second top is the norm.

    Raises:
        ReadError: There is no such norm.
        UnsupportedError: The gradient is the fork's other one.
    """
    parameter, x = ctx.spec["normalize_param"], ctx.x
    if parameter["fix_gradient"]:
        raise ctx.unsupported("'fix_gradient' is not supported", parameter.line_of("fix_gradient"))
    kind = parameter["normalize_type"]
    if kind not in {"L1", "L2"}:
        raise ctx.read_error(
            f"'normalize_type' is {kind!r}, expected L1 or L2", parameter.line_of("normalize_type")
        )
    if kind == "L2":
        norm = _length(ctx, x, EPSILON)
    else:
        norm = ctx.add("Add", [ctx.add("ReduceL1", [x, ctx.integers([1])]), ctx.constant(1e-6)])
    y = ctx.add("Div", [x, norm], top=0)
    if len(ctx.tops) == 1:
        return [y]
    shown = ctx.add("Identity", [norm], top=1)
    if not parameter["bp_norm"]:
        scale_gradients(shown, {0: 0.0})
    return [y, shown]


def _expect_rows(ctx: CaffeLayer) -> int:
    """Return the number of classes of a bottom of one row for each record."""
    if ctx.rank() != 2:
        raise ctx.shape_error(f"its first bottom has {ctx.rank()} axes, expected the batch and the classes")
    return ctx.size(1)


def _with_number(ctx: CaffeLayer, tops: Sequence[ir.Value], number: ir.Value) -> list[ir.Value]:
    """Return the tops and, where the layer has a second one, the number under its name."""
    shown = [ctx.add("Identity", [number], top=1)] if len(ctx.tops) == 2 else []
    return [*tops, *shown]


def _growth(ctx: CaffeLayer, *, gamma: float, power: float, first: int) -> ir.Value:
    """Return ``(1 + gamma * n) ** power``, n being the number of batches so far and ``first``."""
    count = ctx.add("CallCount", [ctx.bottoms[1]], {"first": first}, domain=DOMAIN)
    base = ctx.add("Add", [ctx.add("Mul", [count, ctx.constant(gamma)]), ctx.constant(1.0)])
    return ctx.add("Pow", [base, ctx.constant(power)])


@layer("MarginInnerProduct", bottoms=2, tops=(1, 2))
def margin_inner_product(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Products with rows of length 1, the label's with a multiple of its angle (A-Softmax).

    The products without a margin count lambda times as much: ``base * (1 + gamma * n) ** -power``, at least
    ``lambda_min``, for the n-th batch of training; in test phase n is 1. It is the second top.
    """
    parameter = ctx.spec["margin_inner_product_param"]
    axis = ctx.axis(parameter["axis"])
    if axis != 1:
        raise ctx.unsupported(f"'axis' is {axis}, only 1 is supported", parameter.line_of("axis"))
    num_output = ctx.positive_field(parameter, "num_output")
    x = ctx.x if ctx.rank() == 2 else ctx.add("Flatten", [ctx.x], {"axis": 1})
    weight = ctx.blob(0, (num_output, ctx.size(1, x)), "weight", parameter["weight_filler"])
    growth = _growth(
        ctx, gamma=parameter["gamma"], power=-parameter["power"], first=parameter["iteration"] + 1
    )
    falling = ctx.add("Mul", [growth, ctx.constant(parameter["base"])])
    share = ctx.add("Max", [falling, ctx.constant(parameter["lambda_min"])])
    inputs = [x, unit_rows(ctx, weight, 0.0), ctx.bottoms[1], share]
    attributes = {"margin": MARGINS[parameter["type"]]}
    return _with_number(ctx, [ctx.add(ctx.layer.type, inputs, attributes, domain=DOMAIN, top=0)], share)


@layer("CenterLoss", bottoms=2)
def center_loss(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Distances to a stored center for each class, which follows the features of its class."""
    parameter = ctx.spec["center_loss_param"]
    axis = ctx.axis(parameter["axis"])
    if axis != 1:
        raise ctx.unsupported(f"'axis' is {axis}, only 1 is supported", parameter.line_of("axis"))
    kind = parameter["distance_type"]
    if kind not in {"L1", "L2"}:
        raise ctx.read_error(
            f"'distance_type' is {kind!r}, expected L1 or L2", parameter.line_of("distance_type")
        )
    x = ctx.x if ctx.rank() == 2 else ctx.add("Flatten", [ctx.x], {"axis": 1})
    shape = (ctx.positive_field(parameter, "num_output"), ctx.size(1, x))
    centers = ctx.blob(0, shape, "weight", parameter["center_filler"])
    inputs = [x, ctx.bottoms[1], centers]
    return [ctx.add("CenterLoss", inputs, {"distance_type": kind}, domain=DOMAIN, top=0)]


@layer("LabelSpecificAdd", bottoms=2, tops=(1, 2))
def label_specific_add(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """In training a number is added to what stands at the label, where that is more than minus the number.

    It is ``bias``, or with ``bias_base`` a number that grows with the batches between ``bias_min`` and
    ``bias_max``. In test phase nothing is added, whatever ``transform_test`` says, as in the source.
    """
    parameter, classes = ctx.spec["label_specific_add_param"], _expect_rows(ctx)
    bias = ctx.constant([parameter["bias"]])
    if ctx.phase == "TEST":
        return _with_number(ctx, [ctx.add("Identity", [ctx.x], top=0)], bias)
    if "bias_base" in parameter:
        growth = _growth(
            ctx, gamma=parameter["bias_gamma"], power=parameter["bias_power"], first=parameter["iteration"]
        )
        grown = ctx.add("Add", [growth, ctx.constant(parameter["bias_base"] - 1.0)])
        least = ctx.add("Max", [grown, ctx.constant(parameter["bias_min"])])
        bias = ctx.add("Min", [least, ctx.constant(parameter["bias_max"])])
    labels = ctx.add("Reshape", [ctx.cast(ctx.bottoms[1], ir.DataType.INT64), ctx.integers([-1])])
    depth = ctx.integers([classes])
    at_label = ctx.cast(ctx.add("OneHot", [labels, depth, ctx.constant([0.0, 1.0])]), ir.DataType.BOOL)
    is_large = ctx.add("Greater", [ctx.x, ctx.add("Neg", [bias])])
    added = ctx.add("Where", [ctx.add("And", [at_label, is_large]), bias, ctx.constant(0.0)])
    return _with_number(ctx, [ctx.add("Add", [ctx.x, added], top=0)], bias)


@layer("LabelSpecificMargin", bottoms=2, tops=(1, 2))
def label_specific_margin(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """In training the label's cosine is that of a larger angle: by degrees (HARD) or by a factor (SOFT).

    The margin is ``margin_base + (1 + gamma * n) ** power - 1`` after n batches, at most ``margin_max`` where
    that is set. In test phase nothing changes, whatever ``margin_on_test`` says, as in the source.
    """
    parameter = ctx.spec["label_specific_margin_param"]
    for name in ("auto_tune", "reset_margin"):
        if parameter[name]:
            raise ctx.unsupported(f"{name!r} is not supported", parameter.line_of(name))
    if "margin_base" not in parameter:
        raise ctx.read_error("has no 'margin_base'; set the margin", parameter.line)
    _expect_rows(ctx)
    if ctx.phase == "TEST":
        margin = ctx.constant([parameter["margin_base"]])
        return _with_number(ctx, [ctx.add("Identity", [ctx.x], top=0)], margin)
    growth = _growth(ctx, gamma=parameter["gamma"], power=parameter["power"], first=parameter["iteration"])
    margin = ctx.add("Add", [growth, ctx.constant(parameter["margin_base"] - 1.0)])
    if "margin_max" in parameter:
        margin = ctx.add("Min", [margin, ctx.constant(parameter["margin_max"])])
    inputs, attributes = [ctx.x, ctx.bottoms[1], margin], {"kind": parameter["type"]}
    return _with_number(ctx, [ctx.add(ctx.layer.type, inputs, attributes, domain=DOMAIN, top=0)], margin)
