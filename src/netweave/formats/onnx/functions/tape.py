"""Writing the body of a function as Python writes arithmetic: tensors with operators, nodes noted down.

Numbers become constants: whole ones int64, others float32, lists of them one axis.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Number = int | float | Sequence[int] | Sequence[float] | np.ndarray


_NODES: ContextVar[list[ir.Node]] = ContextVar("nodes")
"""Where nodes are noted down: in a function, or in the body of a loop."""

_NUMBERS: ContextVar[Iterator[int]] = ContextVar("numbers")
"""Numbers for the names of a function's values."""


class Tensor:
    """A value while a body is written; comparisons and arithmetic note nodes down."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def __add__(self, other: Tensor | Number) -> Tensor:
        return op("Add", self, other)

    def __sub__(self, other: Tensor | Number) -> Tensor:
        return op("Sub", self, other)

    def __rsub__(self, other: Number) -> Tensor:
        return op("Sub", other, self)

    def __mul__(self, other: Tensor | Number) -> Tensor:
        return op("Mul", self, other)

    def __truediv__(self, other: Tensor | Number) -> Tensor:
        return op("Div", self, other)

    def __lt__(self, other: Tensor | Number) -> Tensor:
        return op("Less", self, other)

    def __le__(self, other: Tensor | Number) -> Tensor:
        return op("LessOrEqual", self, other)

    def __gt__(self, other: Tensor | Number) -> Tensor:
        return op("Greater", self, other)

    def __ge__(self, other: Tensor | Number) -> Tensor:
        return op("GreaterOrEqual", self, other)

    def __and__(self, other: Tensor) -> Tensor:
        return op("And", self, other)

    def __or__(self, other: Tensor) -> Tensor:
        return op("Or", self, other)

    def __invert__(self) -> Tensor:
        return op("Not", self)

    def __neg__(self) -> Tensor:
        return op("Neg", self)

    def size(self, axis: int) -> Tensor:
        """Return the size of an axis, counted from the front, as a list of one."""
        return self.sizes(axis, axis + 1)

    def sizes(self, begin: int = 0, end: int | None = None) -> Tensor:
        """Return the sizes of some axes, or of all, as a list."""
        return op("Shape", self, start=begin, **({} if end is None else {"end": end}))

    def part(self, begin: Tensor | Number, end: Tensor | Number, *, axis: int) -> Tensor:
        """Return a slice along an axis; the borders are lists of one number."""
        first, last = ([b] if isinstance(b, int) else b for b in (begin, end))
        return op("Slice", self, first, last, [axis])

    def cast(self, dtype: ir.DataType) -> Tensor:
        """Return the tensor with another element type."""
        return op("Cast", self, to=int(dtype))

    def at(self, *axes: int) -> Tensor:
        """Return the tensor with axes of size 1 put in, where they come to stand."""
        return op("Unsqueeze", self, list(axes))

    def split(self, num_parts: int, *, axis: int) -> list[Tensor]:
        """Return equal parts along an axis."""
        return multi_op("Split", self, num_outputs=num_parts, outputs=num_parts, axis=axis)


@contextmanager
def recording() -> Iterator[list[ir.Node]]:
    """Note down the nodes of a function in the list that is given."""
    nodes: list[ir.Node] = []
    tokens = _NODES.set(nodes), _NUMBERS.set(count())
    try:
        yield nodes
    finally:
        _NODES.reset(tokens[0])
        _NUMBERS.reset(tokens[1])


def named(stem: str) -> str:
    """Return a name that no other value of the function has."""
    return f"{stem.lower()}_{next(_NUMBERS.get())}"


def constant(array: Any) -> Tensor:
    """Return numbers as a tensor: whole ones as int64, others as float32, arrays as they are."""
    if not isinstance(array, np.ndarray):
        array = np.asarray(array)
        array = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
    return multi_op("Constant", value=ir.AttrTensor("value", ir.tensor(array)))[0]


def multi_op(
    op_type: str, *inputs: Tensor | Number | None, outputs: int = 1, **attributes: Any
) -> list[Tensor]:
    """Note down a node and return its outputs."""
    values = [
        operand.value if isinstance(operand, Tensor) else None if operand is None else constant(operand).value
        for operand in inputs
    ]
    made = [ir.Value(name=named(op_type)) for _ in range(outputs)]
    attrs = [
        a if isinstance(a, ir.Attr) else ir.convenience.convert_attribute(k, a) for k, a in attributes.items()
    ]
    _NODES.get().append(ir.Node("", op_type, values, attrs, outputs=made, name=made[0].name))
    return [Tensor(value) for value in made]


def op(op_type: str, *inputs: Tensor | Number | None, **attributes: Any) -> Tensor:
    """Note down a node and return its one output."""
    return multi_op(op_type, *inputs, **attributes)[0]


def loop(
    most: Tensor | Number,
    goes_on: Tensor | None,
    state: Sequence[Tensor],
    step: Callable[..., tuple[Tensor | None, Sequence[Tensor], Sequence[Tensor]]],
) -> list[Tensor]:
    """Note down a ``Loop`` and return the last state, then what the steps gave, stacked.

    Args:
        most: Steps at most.
        goes_on: Whether there is a first step; None: always.
        state: What one step hands to the next.
        step: Given the number of the step and the state, returns whether there is a next step (None: as
            ``goes_on``), the new state, and what it gives.
    """
    number = ir.Value(name=named("step"), type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    runs = ir.Value(name=named("runs"), type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    old = [ir.Value(name=named("state")) for _ in state]
    nodes: list[ir.Node] = []
    token = _NODES.set(nodes)
    try:
        again, new, given = step(Tensor(number), *(Tensor(value) for value in old))
        again = op("Identity", Tensor(runs)) if again is None else again
        outputs = [op("Identity", value).value for value in (again, *new, *given)]
    finally:
        _NODES.reset(token)
    body = ir.Graph([number, runs, *old], outputs, nodes=nodes, name=named("body"))
    return multi_op("Loop", most, goes_on, *state, outputs=len(new) + len(given), body=body)
