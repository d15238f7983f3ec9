"""Arithmetic of two or more values, and sums over axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.writing import Refused
from netweave.formats.pytorch.source.table import Call, written

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_PAIRS = {"Max": "torch.maximum", "Min": "torch.minimum"}


@written(*_SIGNS)
def sign(call: Call) -> Step:
    """Two operands with a sign between them."""
    return _pair(call, f"<left> {_SIGNS[call.node.op_type]} <right>")


@written("Pow")
def power(call: Call) -> Step:
    """A power."""
    return _pair(call, "<left> ** <right>")


def _pair(call: Call, form: str) -> Step:
    left, read, module = call.operand(0, 0)
    right, more, other = call.operand(1, len(read))
    if module and other:
        raise Refused("both its operands are stored")
    template = form.replace("<left>", left).replace("<right>", right)
    return call.step(template, inputs=[*read, *more], module=module or other, binds=False)


@written("Sum", "Max", "Min")
def several(call: Call) -> Step:
    """A sum, maximum or minimum of several values."""
    numbers = list(range(call.num_inputs))
    if any(call.is_stored(index) for index in numbers):
        if len(numbers) == 2 and call.node.op_type == "Sum":
            return _pair(call, "<left> + <right>")
        raise Refused("one of its inputs is stored")
    places = [f"{{{index}}}" for index in numbers]
    if call.node.op_type == "Sum":
        return call.step(" + ".join(places), inputs=numbers, binds=len(numbers) == 1)
    text = places[0]
    for place in places[1:]:
        text = f"{_PAIRS[call.node.op_type]}({text}, {place})"
    return call.step(text, inputs=numbers)


_REDUCTIONS = {
    "ReduceMean": "{0}.mean(<axes><keep>)",
    "ReduceSum": "{0}.sum(<axes><keep>)",
    "ReduceMax": "{0}.amax(<axes><keep>)",
    "ReduceMin": "{0}.amin(<axes><keep>)",
    "ReduceSumSquare": "{0}.square().sum(<axes><keep>)",
    "ReduceL2": "torch.linalg.vector_norm({0}, dim=<axes><keep>)",
}


@written(*_REDUCTIONS)
def reduction(call: Call) -> Step:
    """Over some axes, or all."""
    if call.has(1):
        axes = call.wholes(1)
    elif call.get("noop_with_empty_axes", 0):
        return call.step("{0}")
    else:
        axes = list(range(call.rank(0)))
    keep = ", keepdim=True" if call.get("keepdims", 1) else ""
    shown = repr(axes[0]) if len(axes) == 1 else repr(tuple(axes))
    template = _REDUCTIONS[call.node.op_type].replace("<axes>", shown).replace("<keep>", keep)
    return call.step(template)
