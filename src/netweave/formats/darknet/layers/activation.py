"""Activations by Darknet's names (activations.c, activations.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.darknet.context import DarknetLayer, layer

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


def _swish(ctx: DarknetLayer, x: ir.Value) -> ir.Value:
    return ctx.add("Mul", [x, ctx.add("Sigmoid", [x])])


def _loggy(ctx: DarknetLayer, x: ir.Value) -> ir.Value:
    twice = ctx.add("Mul", [ctx.add("Sigmoid", [x]), ctx.constant(2.0)])
    return ctx.add("Sub", [twice, ctx.constant(1.0)])


def _ramp(ctx: DarknetLayer, x: ir.Value) -> ir.Value:
    return ctx.add("Add", [ctx.add("Relu", [x]), ctx.add("Mul", [x, ctx.constant(0.1)])])


def _clipped(low: float, high: float) -> Callable[[DarknetLayer, ir.Value], ir.Value]:
    return lambda ctx, x: ctx.add("Clip", [x, ctx.constant(low), ctx.constant(high)])


_FORMULAS: dict[str, Callable[[DarknetLayer, ir.Value], ir.Value]] = {
    "linear": lambda ctx, x: x,
    "swish": _swish,
    "loggy": _loggy,
    "ramp": _ramp,
    "relu6": _clipped(0.0, 6.0),
    "hardtan": _clipped(-1.0, 1.0),
}


def activate(ctx: DarknetLayer, x: ir.Value, default: str) -> ir.Value:
    """Add the activation that a layer names.

    Args:
        ctx: The layer.
        x: What to activate.
        default: The activation of a layer that names none.

    Raises:
        UnsupportedError: The name is not known; Darknet itself goes on with ``relu``.
    """
    name = ctx.section.string("activation", default)
    if name in _NODES:
        op_type, attributes = _NODES[name]
        return ctx.add(op_type, [x], attributes)
    if name not in _FORMULAS:
        known = ", ".join(sorted([*_NODES, *_FORMULAS]))
        raise ctx.unsupported(f"the activation {name!r} is not read; those that are: {known}")
    return _FORMULAS[name](ctx, x)


@layer("activation")
def activation(ctx: DarknetLayer) -> ir.Value:
    """An activation alone."""
    return activate(ctx, ctx.x, "linear")


@layer("softmax", "soft")
def softmax(ctx: DarknetLayer) -> ir.Value:
    """Softmax over each of ``groups`` equal parts of a row, at a ``temperature``; or over the channels."""
    section = ctx.section
    if section.has("tree"):
        raise ctx.unsupported("a softmax over a tree of classes is not read")
    x = ctx.x
    if section.number("spatial", 0.0):
        return ctx.add("Softmax", [x], {"axis": 1})
    temperature = section.number("temperature", 1.0)
    rows = ctx.flatten(x)
    if temperature != 1.0:
        rows = ctx.add("Div", [rows, ctx.constant(temperature)])
    groups = section.integer("groups", 1, least=1)
    if groups == 1:
        return ctx.add("Softmax", [rows], {"axis": 1})
    parts = ctx.reshape(rows, [0, groups, -1])
    return ctx.flatten(ctx.add("Softmax", [parts], {"axis": 2}))


@layer("dropout", "cost", "empty", "silence")
def passed_on(ctx: DarknetLayer) -> ir.Value:
    """A layer that only training knows, or that does nothing: what comes in goes out."""
    return ctx.x
