"""Elementwise layers and losses of Caffe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.files import file_beside
from netweave.files.protobuf import Message
from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.python_code import parse_settings
from netweave.formats.caffe.weights import read_blob
from netweave.formats.lowering import MANY
from netweave.formats.lowering.elementwise import rectify, swish
from netweave.graph import DOMAIN, set_ties
from netweave.graph.ops.losses import SMALLEST
from netweave.graph.summary import dims_text

_NEUTRAL = {"Mul": 1.0, "Add": 0.0, "Pow": 1.0}


def _one(op_type: str, ctx: CaffeLayer) -> Sequence[ir.Value]:
    return [ctx.add(op_type, [ctx.x], top=0)]


for _type, _op_type in {"Sigmoid": "Sigmoid", "TanH": "Tanh", "AbsVal": "Abs", "BNLL": "Softplus"}.items():
    layer(_type)(partial(_one, _op_type))


@layer("ReLU")
def relu(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """``max(x, 0) + negative_slope * min(x, 0)``."""
    return [ctx.as_top(rectify(ctx, ctx.x, slope=ctx.spec["relu_param"]["negative_slope"]))]


@layer("ReLU6")
def relu6(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A ReLU that ends at 6: ``relu6_layer.cpp`` of MobileNet's branches."""
    return [ctx.as_top(rectify(ctx, ctx.x, slope=ctx.spec["relu6_param"]["negative_slope"], limit=6.0))]


@layer("PReLU")
def prelu(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A slope below 0 for each channel (axis 1), or one for all."""
    parameter = ctx.spec["prelu_param"]
    shape = ctx.shape()
    if len(shape) < 2:
        raise ctx.shape_error(f"needs a channel axis, found {len(shape)} axes")
    if parameter["channel_shared"]:
        slope = ctx.blob(0, (), "slope", parameter["filler"], layout=(("reshape", (1,)),))
    else:
        channels = ctx.size(1)
        per_channel = (channels, *[1] * (len(shape) - 2))
        layout = (("reshape", per_channel),) if len(per_channel) > 1 else ()
        slope = ctx.blob(0, (channels,), "slope", parameter["filler"], layout=layout)
    return [ctx.add("PRelu", [ctx.x, slope], top=0)]


@layer("ELU")
def elu(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    return [ctx.add("Elu", [ctx.x], {"alpha": ctx.spec["elu_param"]["alpha"]}, top=0)]


@layer("Swish")
def swish_layer(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """``x * sigmoid(beta * x)``."""
    return [ctx.as_top(swish(ctx, ctx.x, ctx.spec["swish_param"]["beta"]))]


@layer("Clip")
def clip(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """``x`` between ``min`` and ``max``, both required."""
    parameter = ctx.spec["clip_param"]
    for name in ("min", "max"):
        if name not in parameter:
            raise ctx.read_error(f"has no {name!r}", parameter.line)
    low, high = ctx.constant(parameter["min"]), ctx.constant(parameter["max"])
    return [ctx.add("Clip", [ctx.x, low, high], top=0)]


@layer("Threshold")
def threshold(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """1 above the threshold, 0 elsewhere."""
    bound = ctx.constant(ctx.spec["threshold_param"]["threshold"])
    return [ctx.add("Cast", [ctx.add("Greater", [ctx.x, bound])], {"to": ir.DataType.FLOAT}, top=0)]


@layer("Power")
def power(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """``(shift + scale * x) ** power``."""
    parameter = ctx.spec["power_param"]
    return [
        _chain(ctx, ("Mul", parameter["scale"]), ("Add", parameter["shift"]), ("Pow", parameter["power"]))
    ]


@layer("Exp")
def exp(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """``base ** (shift + scale * x)``; base -1 stands for e."""
    parameter = ctx.spec["exp_param"]
    base = _log_of_base(ctx, parameter["base"])
    scale, shift = base * parameter["scale"], base * parameter["shift"]
    return [_chain(ctx, ("Mul", scale), ("Add", shift), ("Exp", None))]


@layer("Log")
def log(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The logarithm of ``shift + scale * x`` to the base; base -1 stands for e."""
    parameter = ctx.spec["log_param"]
    factor = 1 / _log_of_base(ctx, parameter["base"])
    scale, shift = parameter["scale"], parameter["shift"]
    return [_chain(ctx, ("Mul", scale), ("Add", shift), ("Log", None), ("Mul", factor))]


@layer("Dropout")
def dropout(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Zeroes elements in training and scales the rest; outside it, nothing.

    With ``scale_train: false`` (Faster R-CNN) the rest is not scaled in training, but all are outside it: in
    both cases the ordinary dropout times the share of elements that stay.
    """
    parameter = ctx.spec["dropout_param"]
    ratio = parameter["dropout_ratio"]
    if parameter["sample_weights_test"]:
        raise ctx.unsupported(
            "'sample_weights_test' of Bayesian SegNet, which samples in phase TEST too, is not supported",
            parameter.line_of("sample_weights_test"),
        )
    if not 0 <= ratio < 1:
        raise ctx.read_error(f"'dropout_ratio' is {ratio}, expected 0 or more and less than 1")
    if not parameter["scale_train"]:
        x = ctx.add("Dropout", [ctx.x, ctx.constant(ratio)]) if ctx.phase == "TRAIN" else ctx.x
        return [ctx.add("Mul", [x, ctx.constant(1 - ratio)], top=0)]
    return [ctx.add("Dropout", [ctx.x, ctx.constant(ratio)], top=0)]


@layer("spatial_dropout.SpatialDropoutLayer")
def spatial_dropout(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Drops whole channels in training: ENet's ``spatial_dropout.py``, which scales outside it as well."""
    try:
        settings = parse_settings(ctx.spec["python_param"]["param_str"])
        ratio = float(settings["p"])
    except (ValueError, KeyError, TypeError) as error:
        raise ctx.read_error("'param_str' has no number 'p'", ctx.spec["python_param"].line) from error
    if not 0 < ratio < 1:
        raise ctx.read_error(f"'param_str' has the 'p' {ratio:g}, expected a number between 0 and 1")
    if settings.get("phase") == "TRAIN":
        raise ctx.unsupported(
            "drops whole channels, as 'param_str' has the 'phase' TRAIN; only TEST is supported"
        )
    return [ctx.add("Mul", [ctx.x, ctx.constant(1 / (1 - ratio))], top=0)]


def _log_of_base(ctx: CaffeLayer, base: float) -> float:
    if base == -1:
        return 1.0
    if base <= 0 or base == 1:
        raise ctx.read_error(f"'base' is {base}, expected -1 (for e) or a positive number other than 1")
    return math.log(base)


def _chain(ctx: CaffeLayer, *steps: tuple[str, float | None]) -> ir.Value:
    """Apply operators, each with its number if it has one; those that change nothing are left out."""
    kept = [step for step in steps if step[1] is None or step[1] != _NEUTRAL[step[0]]] or [("Identity", None)]
    x = ctx.x
    for index, (op_type, number) in enumerate(kept, start=1):
        inputs = [x] if number is None else [x, ctx.constant(number)]
        x = ctx.add(op_type, inputs, top=0 if index == len(kept) else None)
    return x


# ``eltwise_layer.cpp``, ``scale_layer.cpp``, ``bias_layer.cpp``; Reduction, ArgMax and Softmax.

_ELTWISE = {"PROD": "Mul", "SUM": "Sum", "MAX": "Max"}


@layer("Eltwise", bottoms=(2, MANY))
def eltwise(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Product, sum with coefficients, or maximum of bottoms of one size; nothing is broadcast."""
    parameter = ctx.spec["eltwise_param"]
    operation, coefficients = parameter["operation"], parameter["coeff"]
    shapes = [ctx.shape(bottom) for bottom in ctx.bottoms]
    if len(set(shapes)) > 1:
        raise ctx.shape_error(
            f"its bottoms must have the same shape, found {', '.join(map(dims_text, shapes))}"
        )
    if coefficients and (operation == "PROD" or len(coefficients) != len(ctx.bottoms)):
        raise ctx.read_error(
            f"has {len(coefficients)} 'coeff' for {operation} of {len(ctx.bottoms)} bottoms; "
            "expected none, or with SUM one for each",
            parameter.line_of("coeff"),
        )
    values = list(ctx.bottoms)
    if operation == "SUM":
        for index, coefficient in enumerate(coefficients):
            if coefficient != 1:
                values[index] = ctx.add("Mul", [values[index], ctx.constant(coefficient)])
    if operation != "PROD":
        made = ctx.add(_ELTWISE[operation], values, top=0)
        return [set_ties(made, "second") if operation == "MAX" else made]
    product = values[0]
    for index, value in enumerate(values[1:], start=2):
        product = ctx.add("Mul", [product, value], top=0 if index == len(values) else None)
    return [product]


@layer("Axpy", bottoms=3)
def scaled_sum(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The first bottom, a number for each channel, times the second, plus the third: ``axpy_layer.cpp``."""
    scale, x, y = (ctx.shape(ctx.bottoms[index]) for index in range(3))
    if x != y or scale[:2] != x[:2] or any(size != 1 for size in scale[2:]):
        raise ctx.shape_error(
            f"its bottoms are {dims_text(scale)}, {dims_text(x)} and {dims_text(y)}, expected one number per "
            "channel and two of the same shape"
        )
    factor = ctx.x
    if len(scale) < len(x):
        shape = ctx.integers([0, 0, *[1] * (len(x) - 2)])
        factor = ctx.add("Reshape", [factor, shape])
    return [ctx.add("Add", [ctx.add("Mul", [ctx.bottoms[1], factor]), ctx.bottoms[2]], top=0)]


@layer("Scale", bottoms=(1, 2))
def scale(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Times a stored array or the second bottom, then plus a stored bias, along some axes."""
    parameter = ctx.spec["scale_param"]
    gamma, shape, layout = _factor(ctx, parameter, "gamma")
    if not parameter["bias_term"]:
        return [ctx.add("Mul", [ctx.x, gamma], top=0)]
    bias = ctx.blob(2 - len(ctx.bottoms), shape, "beta", parameter["bias_filler"], layout=layout)
    return [ctx.add("Add", [ctx.add("Mul", [ctx.x, gamma]), bias], top=0)]


@layer("Bias", bottoms=(1, 2))
def bias(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Plus a stored array or the second bottom, along some axes."""
    term, _, _ = _factor(ctx, ctx.spec["bias_param"], "bias")
    return [ctx.add("Add", [ctx.x, term], top=0)]


def _factor(
    ctx: CaffeLayer, parameter: Message, role: str
) -> tuple[ir.Value, tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
    """Return the operand, ready to be broadcast, with its sizes in Caffe and the steps between them."""
    whole = ctx.shape()
    if len(ctx.bottoms) == 2:
        return _second_bottom(ctx, parameter)
    num_axes = parameter["num_axes"]
    axis = ctx.axis(parameter["axis"]) if num_axes else 0
    end = len(whole) if num_axes == -1 else axis + num_axes
    if num_axes < -1 or end > len(whole):
        raise ctx.shape_error(f"axes {axis} to {end - 1} are out of range for {len(whole)} axes")
    shape = tuple(ctx.size(each) for each in range(axis, end))
    layout = _broadcast(shape, len(whole) - end)
    return ctx.blob(0, shape, role, parameter["filler"], layout=layout), shape, layout


def _second_bottom(
    ctx: CaffeLayer, parameter: Message
) -> tuple[ir.Value, tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
    whole, part = ctx.shape(), ctx.shape(ctx.bottoms[1])
    axis = ctx.axis(parameter["axis"]) if part else 0
    if whole[axis : axis + len(part)] != part:
        raise ctx.shape_error(
            f"its second bottom is {dims_text(part)}, which does not match the first ({dims_text(whole)}) "
            f"from axis {axis} on"
        )
    behind = len(whole) - axis - len(part)
    operand = ctx.bottoms[1]
    if behind and part:
        axes = list(range(len(part), len(part) + behind))
        operand = ctx.unsqueeze(operand, axes)
    shape = tuple(size or ctx.batch or 1 for size in part)
    return operand, shape, _broadcast(shape, behind)


def _broadcast(shape: tuple[int, ...], behind: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (("reshape", (*shape, *[1] * behind)),) if shape and behind else ()


_REDUCTIONS = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


@layer("Reduction")
def reduction(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Sum, sum of magnitudes, of squares, or mean over all axes from ``axis`` on, times a coefficient."""
    parameter = ctx.spec["reduction_param"]
    axes = list(range(ctx.axis(parameter["axis"]), ctx.rank()))
    inputs = [ctx.x, ctx.integers(axes)]
    coefficient = parameter["coeff"]
    plain = coefficient == 1
    reduced = ctx.add(_REDUCTIONS[parameter["operation"]], inputs, {"keepdims": 0}, top=0 if plain else None)
    return [reduced if plain else ctx.add("Mul", [reduced, ctx.constant(coefficient)], top=0)]


@layer("Softmax")
def softmax(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Softmax along one axis."""
    axis = ctx.axis(ctx.spec["softmax_param"]["axis"])
    return [ctx.add("Softmax", [ctx.x], {"axis": axis}, top=0)]


@layer("ArgMax")
def arg_max(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Indices of the ``top_k`` largest, as floats; of equal ones the last comes first.

    Without an axis, over all of an image: (N, 1, top_k), with values (N, 2, top_k). With one, that axis
    becomes ``top_k`` indices, or values instead if ``out_max_val``.
    """
    parameter = ctx.spec["argmax_param"]
    top_k, values_too = parameter["top_k"], parameter["out_max_val"]
    has_axis = "axis" in parameter
    axis = ctx.axis(parameter["axis"]) if has_axis else 1
    shape = ctx.shape()
    count = ctx.size(axis) if has_axis else prod(ctx.size(each) for each in range(1, len(shape)))
    if not 1 <= top_k <= count:
        raise ctx.read_error(f"'top_k' is {top_k}, expected 1 to {count}", parameter.line_of("top_k"))
    x = ctx.x if has_axis else ctx.add("Flatten", [ctx.x], {"axis": 1})
    values, indices = _largest(ctx, x, axis, top_k, count)
    if has_axis:
        return [ctx.add("Identity", [values if values_too else indices], top=0)]
    middle = ctx.integers([1])
    if not values_too:
        return [ctx.add("Unsqueeze", [indices, middle], top=0)]
    parts = [ctx.add("Unsqueeze", [part, middle]) for part in (indices, values)]
    return [ctx.add("Concat", parts, {"axis": 1}, top=0)]


def _largest(ctx: CaffeLayer, x: ir.Value, axis: int, top_k: int, count: int) -> tuple[ir.Value, ir.Value]:
    """Return values and indices; TopK prefers the first of equal ones, so it is given them backwards."""
    ends = ([-1], [-count - 1], [axis], [-1])
    backwards = ctx.add("Slice", [x, *(ctx.constant(end, dtype="int64") for end in ends)])
    k = ctx.integers([top_k])
    values, places = ctx.add_many("TopK", [backwards, k], {"axis": axis}, outputs=2)
    indices = ctx.add("Sub", [ctx.constant(count - 1, dtype="int64"), places])
    return values, ctx.cast(indices, ir.DataType.FLOAT)


def _add(ctx: CaffeLayer, inputs: Sequence[ir.Value], attributes: dict[str, Any]) -> Sequence[ir.Value]:
    return ctx.add_many(ctx.layer.type, inputs, attributes, domain=DOMAIN, outputs=ctx.tops)


def normalization(ctx: CaffeLayer, default: str) -> dict[str, Any]:
    """Return what a loss is divided by; ``normalize`` is the older form, and ``normalization`` wins."""
    parameter = ctx.spec["loss_param"]
    if parameter["weight_by_label_freqs"] and ctx.layer.type != "SoftmaxWithLoss":
        line = parameter.line_of("weight_by_label_freqs")
        raise ctx.unsupported("'weight_by_label_freqs' of the SegNet branch is for SoftmaxWithLoss", line)
    if parameter.get("normalization", "") == "PRE_FIXED":
        raise ctx.unsupported(
            "'normalization' PRE_FIXED of the R-FCN branch is not supported",
            parameter.line_of("normalization"),
        )
    if "normalization" in parameter:
        default = parameter["normalization"]
    elif "normalize" in parameter:
        default = "VALID" if parameter["normalize"] else "BATCH_SIZE"
    return {"normalization": default, "ignore_label": parameter.get("ignore_label", None)}


@layer("SoftmaxWithLoss", bottoms=2, tops=(1, 2))
def softmax_with_loss(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Softmax and the logarithmic loss of the labels; the softmax is the second top."""
    axis = ctx.axis(ctx.spec["softmax_param"]["axis"])
    parameter, how = ctx.spec["loss_param"], normalization(ctx, "VALID")
    if not parameter["weight_by_label_freqs"]:
        return _add(ctx, ctx.bottoms, {"axis": axis, "min_probability": SMALLEST} | how)
    weights, classes = parameter["class_weighting"], ctx.x.shape[axis] if ctx.x.shape is not None else None
    if len(weights) != classes:
        line = parameter.line_of("weight_by_label_freqs")
        raise ctx.read_error(f"has {len(weights)} class_weighting for {classes} classes", line)
    gains = ctx.constant(
        np.diag(weights).astype(np.float32)
    )  # SegNet's branch: the loss of a label by its weight
    inputs = [*ctx.bottoms, gains]
    return ctx.add_many("InfogainLoss", inputs, {"axis": axis} | how, domain=DOMAIN, outputs=ctx.tops)


@layer("SigmoidCrossEntropyLoss", bottoms=2, tops=(1, 2))
def sigmoid_cross_entropy(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Cross entropy of independent probabilities; the sigmoid is the second top."""
    attributes = normalization(ctx, "BATCH_SIZE")
    loss = ctx.add(ctx.layer.type, ctx.bottoms, attributes, domain=DOMAIN, top=0)
    return [loss] if len(ctx.tops) == 1 else [loss, ctx.add("Sigmoid", [ctx.x], top=1)]


@layer("ClassBalancedSigmoidCrossEntropyLoss", bottoms=2)
def class_balanced(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Cross entropy of edges (target 1) and the rest (0), each weighted by the share of the other.

    HED's sigmoid_cross_entropy_loss_layer.cpp: the shares are those in each record, which are summed and
    divided by the batch size; other targets do not count.
    """
    x, target = ctx.bottoms
    if x.shape is None:
        raise ctx.unsupported("reads an input without sizes")
    axes = ctx.integers(list(range(1, len(x.shape))))
    edges, others = (
        ctx.cast(ctx.add("Equal", [target, ctx.constant(at)]), ir.DataType.FLOAT) for at in (1.0, 0.0)
    )
    num_edges, num_others = (ctx.add("ReduceSum", [one, axes], {"keepdims": 1}) for one in (edges, others))
    weights = ctx.add(
        "Div",
        [
            ctx.add("Add", [ctx.add("Mul", [edges, num_others]), ctx.add("Mul", [others, num_edges])]),
            ctx.add("Add", [num_edges, num_others]),
        ],
    )
    positive = ctx.add("Sub", [ctx.add("Relu", [x]), ctx.add("Mul", [x, target])])
    tail = ctx.add("Softplus", [ctx.add("Neg", [ctx.add("Abs", [x])])])
    losses = ctx.add("Mul", [weights, ctx.add("Add", [positive, tail])])
    sums = ctx.add("ReduceSum", [losses, axes], {"keepdims": 0})
    return [ctx.add("ReduceMean", [sums, ctx.integers([0])], {"keepdims": 0}, top=0)]


@layer("EuclideanLoss", bottoms=2)
@layer("MultinomialLogisticLoss", bottoms=2)
def plain(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A loss without settings."""
    return _add(ctx, ctx.bottoms, {})


@layer("HingeLoss", bottoms=2)
def hinge(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """One class against all others."""
    return _add(ctx, ctx.bottoms, {"norm": ctx.spec["hinge_loss_param"]["norm"]})


@layer("ContrastiveLoss", bottoms=3)
def contrastive(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Pairs of rows and whether they are alike."""
    parameter = ctx.spec["contrastive_loss_param"]
    attributes = {"margin": parameter["margin"], "legacy_version": int(parameter["legacy_version"])}
    return _add(ctx, ctx.bottoms, attributes)


@layer("SmoothL1Loss", bottoms=(2, 4))
def smooth_l1(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Squares near 0, absolute values beyond; with weights of the differences and of their losses.

    A layer of the Faster R-CNN branch, which divides by the batch size whatever ``loss_param`` says.
    """
    if len(ctx.bottoms) == 3:
        raise ctx.unsupported("has 3 bottoms, as in the R-FCN branch; only 2 or 4 are read")
    return _add(ctx, ctx.bottoms, {"sigma": ctx.spec["smooth_l1_loss_param"]["sigma"]})


@layer("InfogainLoss", bottoms=(2, 3), tops=(1, 2))
def infogain(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Softmax and a loss that weighs all classes by a matrix: the third bottom, or a file."""
    parameter = ctx.spec["infogain_loss_param"]
    bottoms = list(ctx.bottoms)
    if len(bottoms) == 2:
        path = _beside(ctx, parameter["source"])
        if path is None:
            raise ctx.read_error(
                "the matrix of gains is neither a third bottom nor in a file beside the net: "
                f"there is no {parameter['source']!r}",
                parameter.line_of("source"),
            )
        bottoms.append(ctx.constant(read_blob(path).astype(np.float32)))
    attributes = {"axis": ctx.axis(parameter["axis"])} | normalization(ctx, "VALID")
    return _add(ctx, bottoms, attributes)


def _beside(ctx: CaffeLayer, name: str) -> Path | None:
    folder = Path(ctx.layer.origin.file).parent if ctx.layer.origin else Path()
    return file_beside(folder, name)


@layer("Accuracy", bottoms=2, tops=(1, 2))
def accuracy(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The share of labels among the ``top_k`` best; by class as second top."""
    parameter = ctx.spec["accuracy_param"]
    if parameter["min_is_better"]:
        raise ctx.unsupported("'min_is_better' is not supported", parameter.line_of("min_is_better"))
    attributes = {
        "axis": ctx.axis(parameter["axis"]),
        "top_k": parameter["top_k"],
        "ignore_label": parameter.get("ignore_label", None),
    }
    return _add(ctx, ctx.bottoms, attributes)


def fuses(parameter: Message) -> bool:
    """Return whether another layer is joined behind the layer of this parameter."""
    return bool(parameter["relu"] or parameter.get("fusion_type", "") == "SUM_FUSION")


def joined(ctx: CaffeLayer, parameter: Message, value: ir.Value) -> ir.Value:
    """Return what the layers that are joined behind a layer make of its own value: its only top.

    ``mkldnn_convolution_layer.cpp``: the second bottom is added, then comes the ReLU with its slope.

    Args:
        ctx: The layer.
        parameter: Its parameter with the fields of the Intel branch.
        value: What the layer itself computes.

    Raises:
        ReadError: There is not one top.
        ShapeError: What is to be added has another size.
        UnsupportedError: What is added has coefficients.
    """
    if len(ctx.tops) != 1:
        name = "relu" if parameter["relu"] else "fusion_type"
        raise ctx.read_error(
            f"{name!r} of the Intel branch is for one top, found {len(ctx.tops)}", parameter.line_of(name)
        )
    if parameter.get("fusion_type", "") == "SUM_FUSION" and len(ctx.bottoms) > 1:
        value = _added(ctx, parameter, value)
    if parameter["relu"]:
        value = rectify(ctx, value, slope=parameter.get("negative_slope", 0.0))
    return ctx.as_top(value)


def refuse_fused(ctx: CaffeLayer, parameter: Message) -> None:
    """Raise ``UnsupportedError`` where something is joined behind a layer that is read without it."""
    for name in ("relu", "fusion_type"):
        if parameter.get(name, False) not in {False, "NONE_FUSION"}:
            raise ctx.unsupported(
                f"{name!r} of the Intel branch is not supported in a layer of type {ctx.spec['type']}; write "
                "the layer that it stands for after it",
                parameter.line_of(name),
            )


def _added(ctx: CaffeLayer, parameter: Message, value: ir.Value) -> ir.Value:
    if any(number != 1 for number in parameter["coeff"]):
        raise ctx.unsupported(
            f"'coeff' is {list(parameter['coeff'])}, and the branch itself ignores it outside of its 8-bit "
            "kernels; only 1 is supported",
            parameter.line_of("coeff"),
        )
    size, expected = ("x".join(map(str, ctx.shape(each)[1:])) for each in (ctx.bottoms[1], value))
    if size != expected:
        raise ctx.shape_error(
            f"'fusion_type' adds its second bottom, of the size {size}, expected {expected}",
            parameter.line_of("fusion_type"),
        )
    return ctx.add("Add", [value, ctx.bottoms[1]])
