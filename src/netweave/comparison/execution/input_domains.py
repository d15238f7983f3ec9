"""Domains and views of inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.metric import BLOCK, OUTPUT_TOLERANCE, is_constant
from netweave.graph import attributes_of, known_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import onnx_ir as ir

    from netweave.comparison.execution.inputs import InputMapping
    from netweave.comparison.metric import Signals, SignalValues
    from netweave.graph import Graph


# A value is followed through operators that keep or shift it to those that bound it (rows of a table) and
# those that decide by it (thresholds, clips). The values at which they decide are its *landmarks*: draws
# aim at both sides of each.

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
            tensors, ``mask`` for what says which steps count, ``positions`` for places of steps; empty for
            anything else.
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
        self._add_positions(value)
        return self._domain.merged(Domain(landmarks=tuple(self._landmarks)))

    def _add_mask(self, value: ir.Value) -> None:
        """Take a tensor of integers for a mask where its name or its complement (``1 - x``) says so."""
        is_number = value.dtype is not None and value.dtype.numpy().kind in "iu"
        if is_number and self._domain.low is None and ("mask" in str(value.name).lower() or self._is_mask):
            self._domain = self._domain.merged(Domain(0, 1, kind="mask"))

    def _add_positions(self, value: ir.Value) -> None:
        """Take integers that are called positions for places in a sequence."""
        is_number = value.dtype is not None and value.dtype.numpy().kind in "iu"
        if is_number and "position" in str(value.name).lower() and not self._domain.kind:
            self._domain = self._domain.merged(Domain(low=0, kind="positions"))

    def _read(self, node: ir.Node, index: int, state: _State) -> None:
        """Note what a reader says of the tensor."""
        op = node.op_type
        if index in SIZE_INPUTS.get(op, ()):
            self._domain = self._domain.merged(Domain(0, 1, kind="size"))
        elif INDEX_INPUTS.get(op) == index:
            self._bound(state, _num_places(node))
        elif op == "OneHot" and index == 0:
            depth = next(iter(_numbers_input_domains(node.inputs[1])), 0.0)
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
        landmarks = map(state.inverse, numbers)
        self._landmarks |= {x for x in landmarks if isfinite(x) and abs(x) <= LARGEST_LANDMARK}

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
        bounds = [next(iter(_numbers_input_domains(v)), None) for v in (*node.inputs[1:], None, None)[:2]]
        low, high = bounds
        return state.limited(-np.inf if low is None else low, np.inf if high is None else high)
    numbers = [x for value in node.inputs for x in _numbers_input_domains(value)]
    if not numbers:
        return state
    if node.op_type == "Min":
        return state.limited(-np.inf, max(numbers))
    return state.limited(min(numbers), np.inf)


def _numbers_input_domains(value: ir.Value | None) -> list[float]:
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
    return [x for i, value in enumerate(node.inputs) if i != index for x in _numbers_input_domains(value)]


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


# Nets permute the axes of an input, slice it into several images, reverse its channels and shift its values
# before the first filters read it. None of that hides how the weights of these filters relate to the input.

KEPT = frozenset(
    {
        "Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Div", "Dropout", "Identity",
        "LRN", "MaxPool", "Mul", "Neg", "Pad", "Relu", "Resize", "Sigmoid", "Sqrt", "Sub", "Tanh",
    }
)  # fmt: skip
"""Operators that leave axes and channels where they are."""

SIZED = frozenset({"Pad", "Resize"})
"""Operators whose other inputs are sizes, which may be computed."""

Entries = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """An input of a net as a node sees it.

    Attributes:
        name: Name of the input.
        axes: For each axis of the value, the axis of the input.
        entries: For each axis of the value, which entries of the input it holds; None for all of them, also
            where their number is not known.
        dropped: Axes of the input that the value lacks: one entry was taken out of them.
    """

    name: str
    axes: tuple[int, ...]
    entries: tuple[Entries | None, ...]
    dropped: tuple[int, ...] = ()

    @classmethod
    def of_input(cls, value: ir.Value) -> View | None:
        """Return an input as itself; None if its number of axes is not known."""
        shape = known_shape(value)
        if shape is None:
            return None
        entries = [None if size is None else tuple(range(size)) for size in shape]
        return cls(str(value.name), tuple(range(len(shape))), tuple(entries[:1] and [None, *entries[1:]]))

    @property
    def all_axes(self) -> tuple[int, ...]:
        """The axes of the input in the order in which they are seen; those that are not, last."""
        return (*self.axes, *self.dropped)

    def permuted(self, perm: Sequence[int]) -> View:
        """Return the view with its axes permuted."""
        return replace(
            self, axes=tuple(self.axes[i] for i in perm), entries=tuple(self.entries[i] for i in perm)
        )

    def taken(self, axis: int, chosen: Entries | slice) -> View | None:
        """Return the view of some entries along an axis; None if its entries are not known."""
        known = self.entries[axis]
        if known is None:
            return None
        if isinstance(chosen, slice):
            picked = known[chosen]
        elif all(-len(known) <= i < len(known) for i in chosen):
            picked = tuple(known[i] for i in chosen)
        else:
            return None
        return self.with_entries(axis, picked)

    def with_entries(self, axis: int, entries: Entries) -> View:
        """Return the view with other entries along an axis."""
        return replace(self, entries=(*self.entries[:axis], entries, *self.entries[axis + 1 :]))

    def without(self, axis: int) -> View:
        """Return the view without an axis."""
        axis %= len(self.axes)
        return replace(
            self,
            axes=self.axes[:axis] + self.axes[axis + 1 :],
            entries=self.entries[:axis] + self.entries[axis + 1 :],
            dropped=tuple(sorted((*self.dropped, self.axes[axis]))),
        )


def views_of(signals: Signals) -> dict[str, View]:
    """Return the views of a net's inputs, by the names of the values that hold them."""
    views: dict[str, View] = {}
    for value in signals.graph.inputs:
        view = View.of_input(value)
        if view is not None:
            views[str(value.name)] = view
    for node in signals.graph.nodes:
        inputs = node.inputs[:1] if node.op_type in SIZED else node.inputs
        sources = [v for v in inputs if v is not None and not is_constant(v)]
        known = [views[str(v.name)] for v in sources if str(v.name) in views]
        if not node.domain and known and len(known) == len(sources):
            views |= _made(node, known)
    return views


def _made(node: ir.Node, known: list[View]) -> dict[str, View]:
    """Return the views that a node makes of views."""
    if node.op_type == "Concat":
        results = [_joined(known, attributes_of(node)["axis"])]
    elif len(known) > 1:
        return {}
    elif node.op_type in KEPT:
        results = [known[0]]
    elif node.op_type == "Split":
        results = _split(node, known[0])
    else:
        make = {"Transpose": _transposed, "Slice": _sliced, "Gather": _gathered, "Squeeze": _squeezed}
        results = [make[node.op_type](node, known[0])] if node.op_type in make else []
    pairs = zip(node.outputs, results, strict=False)
    return {str(value.name): view for value, view in pairs if view is not None and _has_axes_of(value, view)}


def _has_axes_of(value: ir.Value, view: View) -> bool:
    """Return whether a value has as many axes as a view; an added constant may have more."""
    shape = known_shape(value)
    return shape is None or len(shape) == len(view.axes)


def _transposed(node: ir.Node, view: View) -> View | None:
    perm = attributes_of(node).get("perm") or tuple(reversed(range(len(view.axes))))
    return view.permuted(perm) if len(perm) == len(view.axes) else None


def _split(node: ir.Node, view: View) -> list[View | None]:
    axis = attributes_of(node).get("axis", 0) % len(view.axes)
    parts: list[View | None] = []
    begin = 0
    for value in node.outputs:
        shape = known_shape(value)
        size = None if shape is None else shape[axis]
        if size is None:
            return parts
        parts.append(view.taken(axis, slice(begin, begin + size)))
        begin += size
    return parts


def _sliced(node: ir.Node, view: View) -> View | None:
    rows = [_numbers_input_views(value) for value in node.inputs[1:]]
    starts, ends = rows[:2]
    if starts is None or ends is None or any(v is not None and r is None for v, r in _rest(node, rows)):
        return None
    axes = rows[2] if len(rows) > 2 and rows[2] is not None else list(range(len(starts)))
    steps = rows[3] if len(rows) > 3 and rows[3] is not None else [1] * len(starts)
    part: View | None = view
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis % len(view.axes)
        if part is None or (place == 0 and (start, step) != (0, 1)):
            return None
        if place == 0 or (part.entries[place] is None and start == 0 and step == 1):
            continue  # of an axis of unknown size only its beginning, which says nothing of orders
        part = part.taken(place, _bounds(start, end, step))
    return part


def _rest(node: ir.Node, rows: list[list[int] | None]) -> list[tuple[ir.Value | None, list[int] | None]]:
    return list(zip(node.inputs[1:], rows, strict=True))


def _bounds(start: int, end: int, step: int) -> slice:
    """Return bounds as Python has them, which has no number for "to the first entry, backwards"."""
    return slice(start, None if step < 0 and end < -(1 << 30) else end, step)


def _gathered(node: ir.Node, view: View) -> View | None:
    index = node.inputs[1]
    array: np.ndarray | None = (
        None if index is None or index.const_value is None else index.const_value.numpy()
    )
    if array is None or array.ndim > 1:
        return None
    axis = attributes_of(node).get("axis", 0) % len(view.axes)
    taken = view.taken(axis, tuple(int(i) for i in array.reshape(-1)))
    return taken.without(axis) if taken is not None and array.ndim == 0 else taken


def _squeezed(node: ir.Node, view: View) -> View | None:
    axes = _numbers_input_views(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None:
        return None
    squeezed = view
    for axis in sorted((axis % len(view.axes) for axis in axes), reverse=True):
        squeezed = squeezed.without(axis)
    return squeezed


def _joined(views: list[View], axis: int) -> View | None:
    """Return what slices of one input are together; None if they are of several."""
    first = views[0]
    axis %= len(first.axes)
    parts: list[int] = []
    for view in views:
        own = view.entries[axis] if axis < len(view.entries) else None
        if own is None or view.with_entries(axis, ()) != first.with_entries(axis, ()):
            return None
        parts += own
    return first.with_entries(axis, tuple(parts))


def _numbers_input_views(value: ir.Value | None) -> list[int] | None:
    if value is None or value.const_value is None:
        return None
    return [int(number) for number in value.const_value.numpy().reshape(-1)]


LEAST_VARIATION = 10 * OUTPUT_TOLERANCE
"""A tensor that varies by less than this, relative to its rms, agrees with almost any (decision 0128)."""

BOUNDS = {
    "Sigmoid": (0.0, 1.0),
    "HardSigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
    "Softsign": (-1.0, 1.0),
    "Erf": (-1.0, 1.0),
}
"""Outputs at which the operators saturate."""

SATURATED = 1e-4
"""An element nearer than this to a bound of its operator is saturated, and proves nothing (decision 0128)."""


class Variation:
    """Tells the informative signals of a net.

    Args:
        signals: The net.
        runs: Its tensors by signal, of one run or several on other inputs.
    """

    def __init__(self, signals: Signals, runs: Sequence[SignalValues | Mapping[str, np.ndarray]]) -> None:
        self._signals = signals
        self._runs = runs
        self._flaws: dict[str, str] = {}

    def flaw(self, name: str) -> str:
        """Return why agreement on a signal proves nothing: ``constant``, ...; empty if it does."""
        if name not in self._flaws:
            self._flaws[name] = self._find_flaw(name)
        return self._flaws[name]

    def _find_flaw(self, name: str) -> str:
        tensors = [run[name] for run in self._runs if name in run]
        if not tensors or tensors[0].dtype.kind not in "fiub":
            return ""
        if not tensors[0].size:
            return "empty"
        if tensors[0].dtype.kind != "f":
            first = tensors[0].flat[0]
            return "constant" if all((x == first).all() for x in tensors) else ""
        samples = [row.reshape(-1) for x in tensors for row in (x if x.ndim > 1 else x[None])]
        finite = [row for row in samples if np.isfinite(row).all()]
        if not finite:
            return "not finite"
        if all(_is_saturated(row, self._signals.producer.get(name)) for row in finite):
            return "saturated"
        return "" if _varies(finite) else "constant"


def _is_saturated(row: np.ndarray, producer: ir.Node | None) -> bool:
    """Return whether all elements of a sample are at a bound of the operator that makes them."""
    bounds = BOUNDS.get(producer.op_type) if producer is not None else None
    if bounds is None:
        return False
    distance = np.minimum(np.abs(row - bounds[0]), np.abs(row - bounds[1]))
    return bool(distance.max() < SATURATED)


def _varies(rows: Sequence[np.ndarray]) -> bool:
    """Return whether samples differ from one another; where there is one only, whether its elements do."""
    if len(rows) > 1 and len({row.size for row in rows}) == 1:
        return any(_is_apart(rows[0], row) for row in rows[1:])
    return any(_is_apart(row, np.full_like(row, row.mean(dtype=np.float64))) for row in rows)


def _is_apart(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two samples differ by more than the least variation, relative to the size of both."""
    distance = size = 0.0
    with np.errstate(all="ignore"):
        for start in range(0, a.size, BLOCK):
            x, y = (row[start : start + BLOCK].astype(np.float64) for row in (a, b))
            size += float(np.dot(x, x) + np.dot(y, y)) / 2
            x -= y
            distance += float(np.dot(x, x))
        return bool(np.sqrt(distance) > LEAST_VARIATION * np.sqrt(size))
