"""Layers that act on each element alone, one file of Caffe's each."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.python_code import parse_settings
from netweave.formats.lowering.activations import rectify, swish

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    With ``scale_train: false`` (Faster R-CNN) the rest is not scaled in training, but all are outside it.
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
        if ctx.phase == "TRAIN":
            raise ctx.unsupported("'scale_train: false' is supported only in phase TEST", parameter.line)
        return [ctx.add("Mul", [ctx.x, ctx.constant(1 - ratio)], top=0)]
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
