"""Activations by Darknet's names (activations.c, activations.h)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from netweave.formats.darknet.context import DarknetLayer, layer
from netweave.formats.lowering.activations import FUNCTIONS, gelu, rectify

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

_SHARED = ("relu", "logistic", "tanh", "elu", "mish", "swish", "relu6", "hardtan")
"""Activations that compute the same in all frameworks."""


def _loggy(ctx: DarknetLayer, x: ir.Value) -> ir.Value:
    twice = ctx.add("Mul", [ctx.add("Sigmoid", [x]), ctx.constant(2.0)])
    return ctx.add("Sub", [twice, ctx.constant(1.0)])


def _ramp(ctx: DarknetLayer, x: ir.Value) -> ir.Value:
    return ctx.add("Add", [ctx.add("Relu", [x]), ctx.add("Mul", [x, ctx.constant(0.1)])])


_ACTIVATIONS: dict[str, Callable[[DarknetLayer, ir.Value], ir.Value]] = {
    **{name: FUNCTIONS[name] for name in _SHARED},
    "gelu": partial(gelu, approximate=True),
    "leaky": partial(rectify, slope=0.1),
    "linear": lambda ctx, x: x,
    "loggy": _loggy,
    "ramp": _ramp,
    "relie": partial(rectify, slope=0.01),
    # Darknet rounds the constants of SELU to four places.
    "selu": lambda ctx, x: ctx.add("Selu", [x], {"alpha": 1.6732, "gamma": 1.0507}),
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
    if name not in _ACTIVATIONS:
        known = ", ".join(sorted(_ACTIVATIONS))
        raise ctx.unsupported(f"the activation {name!r} is not supported; expected one of {known}")
    return _ACTIVATIONS[name](ctx, x)


@layer("activation")
def activation(ctx: DarknetLayer) -> ir.Value:
    """An activation alone."""
    return activate(ctx, ctx.x, "linear")


@layer("softmax", "soft")
def softmax(ctx: DarknetLayer) -> ir.Value:
    """Softmax over each of ``groups`` equal parts of a row, at a ``temperature``; or over the channels."""
    section = ctx.section
    if section.has("tree"):
        raise ctx.unsupported("a softmax over a tree of classes is not supported")
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


@layer("dropout")
def dropout(ctx: DarknetLayer) -> ir.Value:
    """In training a share of the numbers becomes 0, and the others are scaled up; else nothing happens."""
    if not ctx.trains:
        return ctx.x
    probability = ctx.section.number("probability", 0.5)
    if not 0 <= probability < 1:
        raise ctx.section.read_error("probability", "a number from 0 to below 1")
    return ctx.add("Dropout", [ctx.x, ctx.constant(probability)])


@layer("cost", "empty", "silence")
def passed_on(ctx: DarknetLayer) -> ir.Value:
    """A layer that only training knows, or that does nothing: what comes in goes out."""
    return ctx.x
