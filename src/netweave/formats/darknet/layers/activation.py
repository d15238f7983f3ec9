"""Activations by Darknet's names (activations.c, activations.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.darknet.call import Call, layer

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

_NODES: dict[str, tuple[str, dict[str, Any]]] = {
    "relu": ("Relu", {}),
    "logistic": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
    "elu": ("Elu", {"alpha": 1.0}),
    "selu": ("Selu", {"alpha": 1.6732, "gamma": 1.0507}),
    "leaky": ("LeakyRelu", {"alpha": 0.1}),
    "relie": ("LeakyRelu", {"alpha": 0.01}),
    "mish": ("Mish", {}),
    "gelu": ("Gelu", {"approximate": "tanh"}),
}


def _swish(call: Call, x: ir.Value) -> ir.Value:
    return call.add("Mul", [x, call.add("Sigmoid", [x])])


def _loggy(call: Call, x: ir.Value) -> ir.Value:
    twice = call.add("Mul", [call.add("Sigmoid", [x]), call.constant(2.0)])
    return call.add("Sub", [twice, call.constant(1.0)])


def _ramp(call: Call, x: ir.Value) -> ir.Value:
    return call.add("Add", [call.add("Relu", [x]), call.add("Mul", [x, call.constant(0.1)])])


def _clipped(low: float, high: float) -> Callable[[Call, ir.Value], ir.Value]:
    return lambda call, x: call.add("Clip", [x, call.constant(low), call.constant(high)])


_FORMULAS: dict[str, Callable[[Call, ir.Value], ir.Value]] = {
    "linear": lambda call, x: x,
    "swish": _swish,
    "loggy": _loggy,
    "ramp": _ramp,
    "relu6": _clipped(0.0, 6.0),
    "hardtan": _clipped(-1.0, 1.0),
}


def activate(call: Call, x: ir.Value, default: str) -> ir.Value:
    """Add the activation that a layer names.

    Args:
        call: The layer.
        x: What to activate.
        default: The activation of a layer that names none.

    Raises:
        UnsupportedError: The name is not known; Darknet itself goes on with ``relu``.
    """
    name = call.section.text("activation", default)
    if name in _NODES:
        op_type, attributes = _NODES[name]
        return call.add(op_type, [x], attributes)
    if name not in _FORMULAS:
        known = ", ".join(sorted([*_NODES, *_FORMULAS]))
        raise call.refuse(f"the activation {name!r} is not read; those that are: {known}")
    return _FORMULAS[name](call, x)


@layer("activation")
def activation(call: Call) -> ir.Value:
    """An activation alone."""
    return activate(call, call.input, "linear")


@layer("softmax", "soft")
def softmax(call: Call) -> ir.Value:
    """Softmax over each of ``groups`` equal parts of a row, at a ``temperature``; or over the channels."""
    section = call.section
    if section.has("tree"):
        raise call.refuse("a softmax over a tree of classes is not read")
    x = call.input
    if section.number("spatial", 0.0):
        return call.add("Softmax", [x], {"axis": 1})
    temperature = section.number("temperature", 1.0)
    rows = call.rows(x)
    if temperature != 1.0:
        rows = call.add("Div", [rows, call.constant(temperature)])
    groups = section.whole("groups", 1, least=1)
    if groups == 1:
        return call.add("Softmax", [rows], {"axis": 1})
    parts = call.add("Reshape", [rows, call.wholes([0, groups, -1])])
    return call.add("Flatten", [call.add("Softmax", [parts], {"axis": 2})], {"axis": 1})


@layer("dropout", "cost", "empty", "silence")
def passed_on(call: Call) -> ir.Value:
    """A layer that only training knows, or that does nothing: what comes in goes out."""
    return call.input
