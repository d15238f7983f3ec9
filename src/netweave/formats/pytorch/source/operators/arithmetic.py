"""Arithmetic of two or more values, and sums over axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.pytorch.source.operators.weighted import biased_linear
from netweave.formats.pytorch.source.table import PyTorchNode, writes

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_PAIRS = {"Max": "torch.maximum", "Min": "torch.minimum"}


@writes(*_SIGNS)
def sign(node: PyTorchNode) -> Step:
    """Two operands with a sign between them, or a dense layer with the bias that is added to it."""
    if node.op_type == "Add" and (dense := biased_linear(node)) is not None:
        return dense
    return _pair(node, f"<left> {_SIGNS[node.op_type]} <right>")


@writes("Pow")
def power(node: PyTorchNode) -> Step:
    """A power."""
    return _pair(node, "<left> ** <right>")


def _pair(node: PyTorchNode, form: str) -> Step:
    left, read, module = node.operand(0, 0)
    right, more, other = node.operand(1, len(read))
    if module and other:
        raise NotWritable("both its operands are stored")
    template = form.replace("<left>", left).replace("<right>", right)
    return node.step(template, inputs=[*read, *more], module=module or other, binds=False)


@writes("Sum", "Max", "Min")
def several(node: PyTorchNode) -> Step:
    """A sum, maximum or minimum of several values."""
    numbers = list(range(node.num_inputs))
    if any(node.is_stored(index) for index in numbers):
        if len(numbers) == 2 and node.op_type == "Sum":
            return _pair(node, "<left> + <right>")
        raise NotWritable("one of its inputs is stored")
    places = [f"{{{index}}}" for index in numbers]
    if node.op_type == "Sum":
        return node.step(" + ".join(places), inputs=numbers, binds=len(numbers) == 1)
    text = places[0]
    for place in places[1:]:
        text = f"{_PAIRS[node.op_type]}({text}, {place})"
    return node.step(text, inputs=numbers)


_REDUCTIONS = {
    "ReduceMean": "{0}.mean(<axes><keep>)",
    "ReduceSum": "{0}.sum(<axes><keep>)",
    "ReduceMax": "{0}.amax(<axes><keep>)",
    "ReduceMin": "{0}.amin(<axes><keep>)",
    "ReduceSumSquare": "{0}.square().sum(<axes><keep>)",
    "ReduceL2": "torch.linalg.vector_norm({0}, dim=<axes><keep>)",
}


@writes(*_REDUCTIONS)
def reduction(node: PyTorchNode) -> Step:
    """Over some axes, or all."""
    if node.has(1):
        axes = node.ints(1)
    elif node.get("noop_with_empty_axes"):
        return node.step("{0}")
    else:
        axes = list(range(node.rank(0)))
    keep = ", keepdim=True" if node.get("keepdims") else ""
    shown = repr(axes[0]) if len(axes) == 1 else repr(tuple(axes))
    template = _REDUCTIONS[node.op_type].replace("<axes>", shown).replace("<keep>", keep)
    return node.step(template)
