"""Writing of functions of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import count
from types import EllipsisType
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import GraphNode, NotWritable, WriterTable
from netweave.graph import DOMAIN, OPSET, Graph, find_operator

# Numbers become constants: integers int64, others float32, lists of them one axis. What a loop computes of
# values from outside alone is recorded outside: ONNX Runtime does not move such nodes, and would compute
# the areas of all boxes anew for each box.

Number = int | float | Sequence[int] | Sequence[float] | np.ndarray


_SCOPES: ContextVar[list[list[ir.Node]]] = ContextVar("scopes")
"""The nodes recorded so far: of the function, and of each loop that is being recorded, innermost last."""

_NUMBERS: ContextVar[Iterator[int]] = ContextVar("numbers")
"""Numbers for the names of a function's values."""


def _sign(op_type: str) -> Callable[[Tensor, Tensor | Number], Tensor]:
    return lambda left, right: op(op_type, left, right)


class Tensor:
    """A value while a body is written; comparisons and arithmetic record nodes.

    Args:
        value: The value.
        depth: In how many loops it is computed; 0 for one of the function itself.
    """

    def __init__(self, value: ir.Value, depth: int = 0) -> None:
        self.value = value
        self.depth = depth

    __add__, __sub__, __mul__, __truediv__ = map(_sign, ("Add", "Sub", "Mul", "Div"))
    __lt__, __le__ = map(_sign, ("Less", "LessOrEqual"))
    __gt__, __ge__ = map(_sign, ("Greater", "GreaterOrEqual"))
    __and__, __or__ = map(_sign, ("And", "Or"))

    def __rsub__(self, other: Number) -> Tensor:
        return op("Sub", other, self)

    def __invert__(self) -> Tensor:
        return op("Not", self)

    def __neg__(self) -> Tensor:
        return op("Neg", self)

    def __getitem__(self, place: tuple[EllipsisType, int | slice]) -> Tensor:
        """Return an element or a range of the last axis: ``boxes[..., 2]``, ``boxes[..., :2]``."""
        _, last = place
        if isinstance(last, int):
            return op("Gather", self, last, axis=-1)
        begin, end = last.start or 0, np.iinfo(np.int64).max if last.stop is None else last.stop
        return op("Slice", self, [begin], [end], [-1])

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
    """Record the nodes of a function in the list that is given."""
    nodes: list[ir.Node] = []
    tokens = _SCOPES.set([nodes]), _NUMBERS.set(count())
    try:
        yield nodes
    finally:
        _SCOPES.reset(tokens[0])
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
    """Record a node and return its outputs."""
    operands = [_operand(each) for each in inputs]
    depth = max((operand.depth for operand in operands if operand), default=0)
    return _record(op_type, operands, depth, outputs=outputs, attributes=attributes)


def op(op_type: str, *inputs: Tensor | Number | None, **attributes: Any) -> Tensor:
    """Record a node and return its one output."""
    return multi_op(op_type, *inputs, **attributes)[0]


def _operand(each: Tensor | Number | None) -> Tensor | None:
    return each if isinstance(each, Tensor) or each is None else constant(each)


def _record(
    op_type: str,
    operands: Sequence[Tensor | None],
    depth: int,
    *,
    outputs: int = 1,
    attributes: dict[str, Any] | None = None,
) -> list[Tensor]:
    values = [operand.value if operand else None for operand in operands]
    results = [ir.Value(name=named(op_type)) for _ in range(outputs)]
    attrs = [
        a if isinstance(a, ir.Attr) else ir.convenience.convert_attribute(k, a)
        for k, a in (attributes or {}).items()
    ]
    node = ir.Node("", op_type, values, attrs, outputs=results, name=results[0].name)
    _SCOPES.get()[depth].append(node)
    return [Tensor(value, depth) for value in results]


# What the formulas of graph/ops/box_geometry need of an array library: this module is one.


def where(condition: Tensor, chosen: Tensor | Number, other: Tensor | Number) -> Tensor:
    """Return one tensor where the condition holds, the other elsewhere.

    The larger or smaller of two becomes ``Max`` or ``Min``, which take half the time.
    """
    if isinstance(chosen, Tensor) and isinstance(other, Tensor):
        extreme = {(other.value, chosen.value): "Max", (chosen.value, other.value): "Min"}
        compared = condition.value.producer()
        if compared is not None and compared.op_type == "Less" and not condition.value.uses():
            first, second = compared.inputs
            if first is not None and second is not None and (first, second) in extreme:
                _SCOPES.get()[condition.depth].remove(compared)
                return op(extreme[first, second], chosen, other)
    return op("Where", condition, chosen, other)


def exp(x: Tensor) -> Tensor:
    """Return the exponential of each element."""
    return op("Exp", x)


def concatenate(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors joined along an axis."""
    return op("Concat", *tensors, axis=axis)


def loop(
    most: Tensor | Number,
    goes_on: Tensor | None,
    state: Sequence[Tensor],
    step: Callable[..., tuple[Tensor | None, Sequence[Tensor], Sequence[Tensor]]],
) -> list[Tensor]:
    """Record a ``Loop`` and return the last state, then what the steps gave, stacked.

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
    scopes = _SCOPES.get()
    outer, inner = len(scopes) - 1, len(scopes)
    nodes: list[ir.Node] = []
    scopes.append(nodes)
    try:
        again, new, given = step(Tensor(number, inner), *(Tensor(value, inner) for value in old))
        again = Tensor(runs, inner) if again is None else again
        # copies, since what a body gives must be computed in it
        results = [_record("Identity", [value], inner)[0].value for value in (again, *new, *given)]
    finally:
        scopes.pop()
    body = ir.Graph([number, runs, *old], results, nodes=nodes, name=named("body"))
    # recorded where the loop stands, whatever its inputs: its body may read values of that place
    operands = [_operand(each) for each in (most, goes_on, *state)]
    return _record("Loop", operands, outer, outputs=len(new) + len(given), attributes={"body": body})


Body = Callable[["FunctionNode"], Sequence[Tensor]]

LOWEST = float(np.finfo(np.float32).min)
"""Stands for minus infinity, as in the sources."""


class FunctionNode(GraphNode):
    """One node while a body is written for it.

    Attributes:
        inputs: Its inputs in the body, those left out not counted.
        settings: Its attributes, and the defaults of those that are left out.
    """

    def __init__(self, node: ir.Node, graph: Graph, inputs: Sequence[Tensor]) -> None:
        super().__init__(node, graph)
        self.inputs = inputs
        self.settings: dict[str, Any] = {**find_operator(node.op_type).defaults, **self.attributes}


TABLE: WriterTable[FunctionNode, Sequence[Tensor]] = WriterTable()
"""The operators that have a body; a function writes it and returns the outputs."""


REASONS: dict[str, str] = {}
"""Why other operators have no body, whatever their settings."""


def body(*names: str) -> Callable[[Body], Body]:
    """Register the decorated function for operators; it raises ``NotWritable`` where ONNX has no form."""
    return TABLE.writes(*names, domain=DOMAIN)


def without(*names: str, reason: str) -> None:
    """Register operators that have no body, with the reason."""
    REASONS.update(dict.fromkeys(names, reason))


def with_functions(graph: Graph) -> Graph:
    """Return the net with a function for each of Netweave's operators that standard ONNX can express.

    Nodes that call functions of different bodies name theirs as ``overload``. What has no form stays without.
    """
    own = [node for node in graph.nodes if node.domain == DOMAIN]
    if not own:
        return graph
    bodies: dict[str, dict[bytes, str]] = {}
    copy = replace(graph, model=graph.model.clone())
    for node in copy.nodes:
        if node.domain != DOMAIN:
            continue
        function = _function(node, copy)
        if function is None:
            continue
        known = bodies.setdefault(node.op_type, {})
        content = ir.to_proto(function).SerializeToString(deterministic=True)
        if content not in known:
            known[content] = str(len(known)) if known else ""
            function.overload = known[content]
            copy.model.functions[function.identifier()] = function
        node.overload = known[content]
    return copy


def why_without(op_type: str) -> str | None:
    """Return why an operator of the domain ``netweave`` has no function, None if it has."""
    return None if TABLE.has(op_type, DOMAIN) else REASONS.get(op_type, "no body is written for it")


def _function(node: ir.Node, graph: Graph) -> ir.Function | None:
    """Return the function of a node, None if it has no form in standard ONNX."""
    given = [value for value in node.inputs if value is not None]
    inputs = [ir.Value(name=f"input_{number}") for number in range(len(given))]
    with recording() as nodes:
        try:
            outputs = TABLE.find(node)(FunctionNode(node, graph, [Tensor(value) for value in inputs]))
        except NotWritable:
            return None
    body = ir.Graph(
        inputs, [t.value for t in outputs], nodes=nodes, opset_imports={"": OPSET}, name=node.op_type
    )
    attributes = [ir.Attr(name, attr.type, None) for name, attr in node.attributes.items()]
    return ir.Function(DOMAIN, node.op_type, graph=body, attributes=attributes)
