"""Domains of inputs: the values that a tensor can take, derived from the operators that read it.

A value is followed through operators that keep or shift it to those that bound it (rows of a table) and those
that decide by it (thresholds, clips). The values at which they decide are its *landmarks*: draws aim at both
sides of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import known_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import onnx_ir as ir

    from netweave.comparison.execution.input_mapping import InputMapping
    from netweave.graph import Graph

LARGEST_LANDMARK = 1e6
"""Constants beyond it stand for infinity (the largest float, the -1e9 of a mask), and are not aimed at."""

MAX_LANDMARKS = 64
"""Largest number of landmarks; of more, such as a table of thresholds, evenly picked ones are kept."""

OPEN_RANGE = 1 << 20
"""Integers that nothing bounds are drawn up to this size: their squares and products overflow int32."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Values that a tensor can take.

    Attributes:
        low: Least value; None if nothing bounds it.
        high: Largest value; None likewise.
        landmarks: Values at which an operator decides otherwise.
        is_integral: The values are rounded to integers before they count, as the ids in a float tensor.
        kind: ``boxes`` and ``scores`` for what non-maximum suppression reads, ``size`` for what sets sizes of
            tensors; empty for anything else.
    """

    low: int | None = None
    high: int | None = None
    landmarks: tuple[float, ...] = ()
    is_integral: bool = False
    kind: str = ""

    def merged(self, other: Domain) -> Domain:
        """Return the values that both allow, with the landmarks of both."""
        landmarks = sorted({*self.landmarks, *other.landmarks})
        return Domain(
            _tighter(self.low, other.low, max),
            _tighter(self.high, other.high, min),
            tuple(landmarks[:: -(-len(landmarks) // MAX_LANDMARKS) or 1]),
            self.is_integral or other.is_integral,
            self.kind or other.kind,
        )

    def scaled(self, factor: float) -> Domain:
        """Return the domain of a tensor that is multiplied by a factor to become one of this domain."""
        return self if factor == 1 else replace(self, landmarks=tuple(x * factor for x in self.landmarks))


def domain_of(value: ir.Value, within: Callable[[ir.Node], bool] | None = None) -> Domain:
    """Return the values that a tensor can take by what reads it.

    Args:
        value: The tensor.
        within: Tells the nodes that count as readers; all do by default.
    """
    return _Walk(within).run(value)


def pair_domains(
    a: Graph, b: Graph, mappings: Sequence[InputMapping], *, is_narrow: bool = False
) -> dict[str, Domain]:
    """Return the values that inputs of A can take, by name, so that B can take them as well.

    Args:
        a: The first net.
        b: The second net.
        mappings: How A's inputs become B's.
        is_narrow: Draw integers from 0 and 1 alone, for nets that do not run on others.
    """
    inputs_a, inputs_b = ({str(value.name): value for value in net.inputs} for net in (a, b))
    domains = {}
    for mapping in mappings:
        values = inputs_a[mapping.a], inputs_b[mapping.b]
        of_a, of_b = map(domain_of, values)
        domain = of_a.merged(of_b.scaled(1 / mapping.scale))
        if any(value.dtype is not None and value.dtype.numpy().kind in "iu" for value in values):
            domain = _of_type(domain, values)
            domain = replace(domain, is_integral=domain.is_integral or mapping.scale == 1)
            domain = domain.merged(Domain(0, 1)) if is_narrow else domain
        domains[mapping.a] = domain
    return domains


def _of_type(domain: Domain, values: Iterable[ir.Value]) -> Domain:
    """Return a domain whose integers all given tensors can hold."""
    for value in values:
        if value.dtype is not None and value.dtype.numpy().kind in "iu":
            info = np.iinfo(value.dtype.numpy())
            low, high = max(int(info.min), -OPEN_RANGE), min(int(info.max), OPEN_RANGE)
            domain = domain.merged(Domain(low, high))
    return domain


@dataclass(frozen=True, slots=True)
class _State:
    """A tensor as ``scale * x + offset``, limited to a range; the walk starts from the tensor ``x``."""

    scale: float = 1.0
    offset: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    is_integral: bool = False

    def inverse(self, y: float) -> float:
        return (y - self.offset) / self.scale

    def shifted(self, *, scale: float = 1.0, offset: float = 0.0) -> _State:
        ends = sorted((self.low * scale + offset, self.high * scale + offset))
        return replace(
            self, scale=self.scale * scale, offset=self.offset * scale + offset, low=ends[0], high=ends[1]
        )

    def limited(self, low: float, high: float) -> _State:
        return replace(self, low=max(self.low, low), high=min(self.high, high))


PASSING = frozenset(
    {
        "Cast", "Ceil", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Floor", "Gather",
        "Identity", "MaxPool", "Pad", "Reshape", "Round", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
        "Transpose", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""Operators whose results are values of what they read."""

COMPARING = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"})

SIZE_INPUTS = {
    "Reshape": {1},
    "Expand": {1},
    "Tile": {1},
    "Pad": {1, 3},
    "ConstantOfShape": {0},
    "Range": {0, 1, 2},
    "Slice": {1, 2, 3, 4},
    "TopK": {1},
    "Resize": {2, 3},
    "Split": {1},
    "Squeeze": {1},
    "Unsqueeze": {1},
    "Loop": {0},
    "CumSum": {1},
    "LSTM": {4},
    "GRU": {4},
    "RNN": {4},
}
"""Inputs of operators that set the sizes of tensors, or choose among their axes."""

INDEX_INPUTS = {"Gather": 1, "GatherElements": 1, "ScatterElements": 1, "GatherND": 1, "ScatterND": 1}
"""Inputs of operators that are places in their first input."""

MAX_VISITS = 2000
"""Values that are followed from one input: behind so many, what reads it says little of its range."""


class _Walk:
    """Follows a tensor through a graph and gathers what its readers say of it."""

    def __init__(self, within: Callable[[ir.Node], bool] | None) -> None:
        self._within = within
        self._domain = Domain()
        self._landmarks: set[float] = set()
        self._is_mask = False

    def run(self, value: ir.Value) -> Domain:
        todo = [(value, _State())]
        seen: set[int] = set()
        while todo and len(seen) < MAX_VISITS:
            tensor, state = todo.pop()
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            for node, index in tensor.uses():
                if self._within is None or self._within(node):
                    self._read(node, index, state)
                    passed = self._pass(node, index, state)
                    todo += [(out, passed) for out in node.outputs] if passed is not None else []
        self._add_mask(value)
        return self._domain.merged(Domain(landmarks=tuple(self._landmarks)))

    def _add_mask(self, value: ir.Value) -> None:
        """Take a tensor of integers for a mask where its name or its complement (``1 - x``) says so."""
        is_number = value.dtype is not None and value.dtype.numpy().kind in "iu"
        if is_number and self._domain.low is None and ("mask" in str(value.name).lower() or self._is_mask):
            self._domain = self._domain.merged(Domain(0, 1))

    def _read(self, node: ir.Node, index: int, state: _State) -> None:
        """Note what a reader says of the tensor."""
        op = node.op_type
        if index in SIZE_INPUTS.get(op, ()):
            self._domain = self._domain.merged(Domain(0, 1, kind="size"))
        elif INDEX_INPUTS.get(op) == index:
            self._bound(state, _num_places(node))
        elif op == "OneHot" and index == 0:
            depth = next(iter(_numbers(node.inputs[1])), 0.0)
            self._add_landmarks(state, [-1.0, 0.0, depth - 1, depth])
        elif op == "NonMaxSuppression" and index < 2:
            self._domain = self._domain.merged(Domain(kind=("boxes", "scores")[index]))
        elif op in COMPARING or op in {"Clip", "Min", "Max", "Mod"}:
            self._add_landmarks(state, _other_numbers(node, index))
        elif op in {"Relu", "Abs", "Sign", "Sqrt", "Log"}:
            self._add_landmarks(state, [0.0])
        elif op in {"Round", "Floor", "Ceil"}:
            self._add_landmarks(state, [0.5, 1.5, 2.5])
        elif op == "Sub" and index == 1 and _other_numbers(node, index) == [1.0]:
            self._is_mask = True

    def _bound(self, state: _State, count: int | None) -> None:
        if count is None:
            return
        low = ceil(state.inverse(0)) if state.low < 0 else None
        high = floor(state.inverse(count - 1)) if state.high > count - 1 else None
        if state.scale < 0:
            low, high = high, low
        self._domain = self._domain.merged(Domain(low, high, is_integral=state.is_integral))

    def _add_landmarks(self, state: _State, numbers: Iterable[float]) -> None:
        found = map(state.inverse, numbers)
        self._landmarks |= {x for x in found if isfinite(x) and abs(x) <= LARGEST_LANDMARK}

    def _pass(self, node: ir.Node, index: int, state: _State) -> _State | None:
        """Return what a reader makes of the tensor; None if that is no longer the tensor's own values."""
        op = node.op_type
        if op in PASSING and (index == 0 or op in {"Concat", "Where"}) and not (op == "Where" and index == 0):
            return _cast(node, state) if op == "Cast" else state
        if op == "Neg":
            return state.shifted(scale=-1.0)
        numbers = _other_numbers(node, index)
        if op in {"Clip", "Min", "Max"}:
            return _limited(node, state)
        if not numbers or op not in {"Add", "Sub", "Mul", "Div"}:
            return None
        return _arithmetic(op, index, state, sum(numbers) / len(numbers))


def _arithmetic(op: str, index: int, state: _State, number: float) -> _State | None:
    """Return the state behind an operation with a number; None where it has no inverse."""
    if op == "Add":
        return state.shifted(offset=number)
    if op == "Sub":
        return state.shifted(offset=-number) if index == 0 else state.shifted(scale=-1.0, offset=number)
    if number == 0 or (op == "Div" and index == 1):
        return None
    return state.shifted(scale=number if op == "Mul" else 1 / number)


def _cast(node: ir.Node, state: _State) -> _State | None:
    kind = node.outputs[0].dtype.numpy().kind if node.outputs[0].dtype is not None else "f"
    return None if kind == "b" else replace(state, is_integral=state.is_integral or kind in "iu")


def _limited(node: ir.Node, state: _State) -> _State:
    if node.op_type == "Clip":
        bounds = [next(iter(_numbers(v)), None) for v in (*node.inputs[1:], None, None)[:2]]
        low, high = bounds
        return state.limited(-np.inf if low is None else low, np.inf if high is None else high)
    numbers = [x for value in node.inputs for x in _numbers(value)]
    if not numbers:
        return state
    if node.op_type == "Min":
        return state.limited(-np.inf, max(numbers))
    return state.limited(min(numbers), np.inf)


def _numbers(value: ir.Value | None) -> list[float]:
    """Return the numbers of a constant, evenly picked from a large one; nothing for what is computed."""
    if value is None or value.const_value is None:
        return []
    array = value.const_value.numpy().reshape(-1)
    if array.dtype.kind not in "fiu":
        return []
    step = max(1, -(-array.size // MAX_LANDMARKS))
    return [float(x) for x in array[::step]]


def _other_numbers(node: ir.Node, index: int) -> list[float]:
    """Return the numbers of a node's constants besides one of its inputs."""
    return [x for i, value in enumerate(node.inputs) if i != index for x in _numbers(value)]


def _num_places(node: ir.Node) -> int | None:
    """Return how many places there are along the axis that a node looks up; None if that is open."""
    shape = None if node.inputs[0] is None else known_shape(node.inputs[0])
    if not shape:
        return None
    if node.op_type in {"GatherND", "ScatterND"}:
        sizes = [size for size in shape if size is not None]
        return min(sizes) if len(sizes) == len(shape) else None
    attribute = node.attributes.get("axis")
    return shape[attribute.as_int() if attribute is not None else 0]


def _tighter(a: int | None, b: int | None, choose: Callable[[int, int], int]) -> int | None:
    return choose(a, b) if a is not None and b is not None else a if a is not None else b
