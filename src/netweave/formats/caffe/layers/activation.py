"""Layers that act on each element alone, one file of Caffe's each."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from netweave.formats.caffe.call import Call, layer
from netweave.formats.caffe.python_code import parse_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

_FLOAT = 1
"""ONNX's number of the type float."""


_NEUTRAL = {"Mul": 1.0, "Add": 0.0, "Pow": 1.0}


def _one(op_type: str, call: Call) -> Sequence[ir.Value]:
    return [call.add(op_type, [call.bottoms[0]], top=0)]


for _type, _op_type in {"Sigmoid": "Sigmoid", "TanH": "Tanh", "AbsVal": "Abs", "BNLL": "Softplus"}.items():
    layer(_type)(partial(_one, _op_type))


@layer("ReLU")
def relu(call: Call) -> Sequence[ir.Value]:
    """``max(x, 0) + negative_slope * min(x, 0)``."""
    slope = call.spec["relu_param"]["negative_slope"]
    if slope == 0:
        return [call.add("Relu", [call.bottoms[0]], top=0)]
    return [call.add("LeakyRelu", [call.bottoms[0]], {"alpha": slope}, top=0)]


@layer("ReLU6")
def relu6(call: Call) -> Sequence[ir.Value]:
    """A ReLU that ends at 6: ``relu6_layer.cpp`` of MobileNet's branches."""
    slope = call.spec["relu6_param"]["negative_slope"]
    low = call.bottoms[0] if slope == 0 else call.add("LeakyRelu", [call.bottoms[0]], {"alpha": slope})
    bounds = [call.constant(0.0) if slope == 0 else None, call.constant(6.0)]
    return [call.add("Clip", [low, *bounds], top=0)]


@layer("PReLU")
def prelu(call: Call) -> Sequence[ir.Value]:
    """A slope below 0 for each channel (axis 1), or one for all."""
    parameter = call.spec["prelu_param"]
    shape = call.shape()
    if len(shape) < 2:
        raise call.wrong_shape(f"needs a channel axis, found {len(shape)} axes")
    if parameter["channel_shared"]:
        slope = call.blob(0, (), "slope", parameter["filler"], layout=(("reshape", (1,)),))
    else:
        channels = call.size(1)
        per_channel = (channels, *[1] * (len(shape) - 2))
        layout = (("reshape", per_channel),) if len(per_channel) > 1 else ()
        slope = call.blob(0, (channels,), "slope", parameter["filler"], layout=layout)
    return [call.add("PRelu", [call.bottoms[0], slope], top=0)]


@layer("ELU")
def elu(call: Call) -> Sequence[ir.Value]:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    return [call.add("Elu", [call.bottoms[0]], {"alpha": call.spec["elu_param"]["alpha"]}, top=0)]


@layer("Swish")
def swish(call: Call) -> Sequence[ir.Value]:
    """``x * sigmoid(beta * x)``."""
    x, beta = call.bottoms[0], call.spec["swish_param"]["beta"]
    inner = x if beta == 1 else call.add("Mul", [x, call.constant(beta)])
    return [call.add("Mul", [x, call.add("Sigmoid", [inner])], top=0)]


@layer("Clip")
def clip(call: Call) -> Sequence[ir.Value]:
    """``x`` between ``min`` and ``max``, both required."""
    parameter = call.spec["clip_param"]
    for name in ("min", "max"):
        if name not in parameter:
            raise call.wrong(f"has no {name!r}", parameter.line)
    low, high = call.constant(parameter["min"]), call.constant(parameter["max"])
    return [call.add("Clip", [call.bottoms[0], low, high], top=0)]


@layer("Threshold")
def threshold(call: Call) -> Sequence[ir.Value]:
    """1 above the threshold, 0 elsewhere."""
    bound = call.constant(call.spec["threshold_param"]["threshold"])
    return [call.add("Cast", [call.add("Greater", [call.bottoms[0], bound])], {"to": _FLOAT}, top=0)]


@layer("Power")
def power(call: Call) -> Sequence[ir.Value]:
    """``(shift + scale * x) ** power``."""
    parameter = call.spec["power_param"]
    return [
        _chain(call, ("Mul", parameter["scale"]), ("Add", parameter["shift"]), ("Pow", parameter["power"]))
    ]


@layer("Exp")
def exp(call: Call) -> Sequence[ir.Value]:
    """``base ** (shift + scale * x)``; base -1 stands for e."""
    parameter = call.spec["exp_param"]
    base = _log_of_base(call, parameter["base"])
    scale, shift = base * parameter["scale"], base * parameter["shift"]
    return [_chain(call, ("Mul", scale), ("Add", shift), ("Exp", None))]


@layer("Log")
def log(call: Call) -> Sequence[ir.Value]:
    """The logarithm of ``shift + scale * x`` to the base; base -1 stands for e."""
    parameter = call.spec["log_param"]
    factor = 1 / _log_of_base(call, parameter["base"])
    scale, shift = parameter["scale"], parameter["shift"]
    return [_chain(call, ("Mul", scale), ("Add", shift), ("Log", None), ("Mul", factor))]


@layer("Dropout")
def dropout(call: Call) -> Sequence[ir.Value]:
    """Zeroes elements in training and scales the rest; outside it, nothing.

    With ``scale_train: false`` (Faster R-CNN) the rest is not scaled in training, but all are outside it.
    """
    parameter = call.spec["dropout_param"]
    ratio = parameter["dropout_ratio"]
    if parameter["sample_weights_test"]:
        raise call.unsupported(
            "'sample_weights_test' of Bayesian SegNet, which draws in phase TEST too, is not read",
            parameter.line_of("sample_weights_test"),
        )
    if not 0 <= ratio < 1:
        raise call.wrong(f"'dropout_ratio' is {ratio}, expected 0 or more and less than 1")
    if not parameter["scale_train"]:
        if call.phase == "TRAIN":
            raise call.unsupported("'scale_train: false' is read in phase TEST only", parameter.line)
        return [call.add("Mul", [call.bottoms[0], call.constant(1 - ratio)], top=0)]
    return [call.add("Dropout", [call.bottoms[0], call.constant(ratio)], top=0)]


@layer("spatial_dropout.SpatialDropoutLayer")
def spatial_dropout(call: Call) -> Sequence[ir.Value]:
    """Drops whole channels in training: ENet's ``spatial_dropout.py``, which scales outside it as well."""
    try:
        settings = parse_settings(call.spec["python_param"]["param_str"])
        ratio = float(settings["p"])
    except (ValueError, KeyError, TypeError) as error:
        raise call.wrong("'param_str' has no number 'p'", call.spec["python_param"].line) from error
    if not 0 < ratio < 1:
        raise call.wrong(f"'param_str' has the 'p' {ratio:g}, expected a number between 0 and 1")
    if settings.get("phase") == "TRAIN":
        raise call.unsupported(
            "drops whole channels, as 'param_str' has the 'phase' TRAIN; only TEST is read"
        )
    return [call.add("Mul", [call.bottoms[0], call.constant(1 / (1 - ratio))], top=0)]


def _log_of_base(call: Call, base: float) -> float:
    if base == -1:
        return 1.0
    if base <= 0 or base == 1:
        raise call.wrong(f"'base' is {base}, expected -1 (for e) or a positive number other than 1")
    return math.log(base)


def _chain(call: Call, *steps: tuple[str, float | None]) -> ir.Value:
    """Apply operators, each with its number if it has one; those that change nothing are left out."""
    kept = [step for step in steps if step[1] is None or step[1] != _NEUTRAL[step[0]]] or [("Identity", None)]
    x = call.bottoms[0]
    for index, (op_type, number) in enumerate(kept, start=1):
        inputs = [x] if number is None else [x, call.constant(number)]
        x = call.add(op_type, inputs, top=0 if index == len(kept) else None)
    return x
