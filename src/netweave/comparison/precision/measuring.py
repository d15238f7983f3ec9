"""Measuring of precision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.weights import outputs_first
from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.inputs import InputMapping
from netweave.comparison.execution.sizes import declared_sizes
from netweave.comparison.explain.isolated import tensor_values
from netweave.comparison.metric import relative_error
from netweave.comparison.precision.ranges import SMALL, range_ratio
from netweave.comparison.result.comparison import TensorMapping, TensorValues
from netweave.errors import RunError
from netweave.graph import Graph
from netweave.graph.passes.rounding import (
    ExplicitRounding,
    Quantiser,
    RoundingPoint,
    StoredRounding,
    rounding_points,
)
from netweave.graph.passes.rounding.formats import round_to_float

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Loss:
    """The error that rounding causes in one tensor, relative to the rms of the tensor without rounding.

    Attributes:
        seen: What the rounded net loses.
        expected: What it loses with the reference's arrays properly rounded, and ranges that fit.
    """

    seen: float
    expected: float


def own_inputs(
    nets: tuple[Graph, Graph],
    mappings: Sequence[TensorMapping],
    *,
    of_b: bool,
    probe: Mapping[str, np.ndarray] | None,
    seed: int,
) -> list[Inputs]:
    """Return inputs of one of two nets: the user's own, or drawn ones within the range of its input.

    Args:
        nets: A and B; the net whose inputs are wanted with its roundings.
        mappings: How A's inputs become B's.
        of_b: Whether the inputs are those of B.
        probe: Inputs of A by name.
        seed: What is drawn by.
    """
    if probe is not None:
        return [{m.b: m.apply(probe[m.a]) if of_b else probe[m.a] for m in mappings}]
    known = [InputMapping.from_mapping(mapping) for mapping in mappings]
    sizes = declared_sizes(*nets, known, num_samples=1)
    if of_b:
        sizes = {mapping.b: mapping.sizes_of_b(sizes[mapping.a]) for mapping in known}
    net = nets[1] if of_b else nets[0]
    is_single = all(size[:1] == (1,) for size in sizes.values())
    drawn = memory_budget.draw(
        net, {name: (2, *size[1:]) if is_single else size for name, size in sizes.items()}, seed=seed
    ).inputs
    ranges = {str(p.value.name): p.quantiser.range for p in rounding_points(net) if p.quantiser is not None}
    within = {name: _within(x, ranges.get(name)) for name, x in drawn.items()}
    if not is_single:
        return [within]
    return [{name: x[i : i + 1] for name, x in within.items()} for i in range(2)]


def _within(x: np.ndarray, bounds: tuple[float, float] | None) -> np.ndarray:
    """Bring drawn values into the range that an input was calibrated with: noise, then a smooth image."""
    if bounds is None:
        return x
    low, high = bounds
    middle, span = (low + high) / 2, high - low
    scaled = middle + x.astype(np.float64) * span / 8
    if len(x) > 1:
        smooth = x[1].astype(np.float64)
        scaled[1] = middle + (smooth - smooth.mean()) * span / 2
    return np.clip(scaled, low, high).astype(x.dtype)


def fitted_inputs(
    inputs: Sequence[Inputs], runs: Sequence[Inputs], points: Sequence[RoundingPoint]
) -> list[Inputs]:
    """Return drawn inputs so much paler that a net's ranges hold what it makes of them, all but one.

    Nobody says what a net was calibrated on. A drawn image may drive all of its layers beyond their ranges,
    which is then no fault of any of them.

    Args:
        inputs: The inputs.
        runs: What the net computes of each, without rounding.
        points: Where it rounds.
    """
    static = [
        (str(point.value.name), point.quantiser.range) for point in points if point.quantiser is not None
    ]
    fitted = []
    for given, run in zip(inputs, runs, strict=True):
        ratios = [
            range_ratio(run[name], bounds) for name, bounds in static if name in run and name not in given
        ]
        factor = min(_least(ratios), 1.0)
        bounds = dict(static)
        fitted.append({name: _paler(x, bounds.get(name), factor) for name, x in given.items()})
    return fitted


def _least(ratios: Sequence[float]) -> float:
    """Return the least of some ratios, or the second where the least stands out: it may be at fault."""
    first, *others = sorted(ratios) or [1.0]
    return others[0] if others and first < SMALL * others[0] else first


def _paler(x: np.ndarray, bounds: tuple[float, float] | None, factor: float) -> np.ndarray:
    if bounds is None or factor >= 1:
        return x
    middle = (bounds[0] + bounds[1]) / 2
    return np.asarray(middle + (x - middle) * factor, x.dtype)


def run_at(graph: Graph, inputs: Sequence[Inputs], taps: Sequence[str]) -> list[Inputs]:
    """Run a net on inputs one after another; return what it computes by name.

    Raises:
        RunError: The net does not take inputs of these sizes.
    """
    fitted = memory_budget.resized(graph, {name: x.shape for name, x in inputs[0].items()})
    if fitted is None:
        sizes = ", ".join(f"{name}={'x'.join(map(str, x.shape))}" for name, x in inputs[0].items())
        raise RunError(f"{graph.name}: does not take inputs of {sizes}; give sizes that both nets take")
    known = fitted.values().keys() | fitted.aliases.keys()
    present = [name for name in taps if name in known]
    return [memory_budget.run_tapped(fitted, memory_budget.Probe(given, ""), present) for given in inputs]


def with_arrays(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """Return a copy of a graph with other numbers in some initializers."""
    copy = graph.clone()
    for name, array in arrays.items():
        value = copy.model.graph.initializers.get(name)
        if value is not None:
            value.const_value = ir.Tensor(np.asarray(array), name=name)
            value.shape = ir.Shape(np.shape(array))
    return copy


def properly_rounded(array: np.ndarray, rounding: StoredRounding, *, is_right: bool, axis: int) -> np.ndarray:
    """Return what a format holds of an array; with scales made for it, where its own are wrong."""
    quantiser = rounding.quantiser
    if quantiser is None:
        return round_to_float(array, rounding.dtype)
    if not is_right:
        others = tuple(i for i in range(array.ndim) if i != axis)
        largest = np.abs(array).max(axis=others) if array.ndim else np.abs(array)
        scale = np.maximum(largest, 1e-30) / (2 ** (rounding.dtype.bitwidth - 1) - 1)
        signed = ir.DataType.INT32 if rounding.dtype.bitwidth > 16 else ir.DataType.INT8
        quantiser = Quantiser(signed, np.asarray(scale), np.zeros(np.shape(scale), np.int64), axis)
    return replace(rounding, quantiser=quantiser).rounded(array)


def point_arrays(explicit: Graph, ranges: Mapping[str, tuple[float, int]]) -> dict[str, np.ndarray]:
    """Return the initializers that give nodes that round another scale and zero point.

    Args:
        explicit: The net with its roundings.
        ranges: Scale and zero point by the name of the node.
    """
    arrays: dict[str, np.ndarray] = {}
    for point in rounding_points(explicit):
        wanted = ranges.get(str(point.there.name))
        if wanted is None or point.quantiser is None:
            continue
        for node in (point.there, *point.backs):
            for value, number in zip(node.inputs[1:3], wanted, strict=False):
                if value is not None and value.const_value is not None:
                    dtype = value.const_value.numpy().dtype
                    limits = point.quantiser.limits
                    number = number if dtype.kind == "f" else int(np.clip(number, *limits))
                    arrays[str(value.name)] = np.full(value.const_value.shape.numpy(), number, dtype)
    return arrays


class Measurement:
    """The losses of a rounded net, each tensor of which is held against the net without rounding.

    Args:
        rounded: The net with its roundings.
        inputs: What it is run on.
        reference: What it computes there without rounding.
        names: The tensors that are measured, by their names without rounding.
        proper: Its initializers as they should be, where that may be otherwise.
    """

    def __init__(
        self,
        rounded: ExplicitRounding,
        inputs: Sequence[Inputs],
        reference: Sequence[Inputs],
        names: Sequence[str],
        proper: Mapping[str, np.ndarray],
    ) -> None:
        self._graph = rounded.graph
        self._inputs = inputs
        self._reference = reference
        self._proper = proper
        self._after = {
            str(point.value.name): str(point.backs[0].outputs[0].name)
            for point in rounding_points(self._graph)
            if point.backs
        }
        taps = [self._rounded(name) for name in names]
        self._seen = run_at(self._graph, inputs, taps)
        self._expected = self._seen
        if self._is_other(proper):
            self._expected = run_at(with_arrays(self._graph, proper), inputs, taps)

    def loss(self, name: str) -> Loss | None:
        """Return the loss at a tensor; None where a net does not compute it."""
        seen, expected = self._error(self._seen, name), self._error(self._expected, name)
        return None if seen is None or expected is None else Loss(seen, expected)

    def values(self, name: str, names: tuple[str, str], *, of_b: bool) -> TensorValues | None:
        """Return what is shown of a tensor with and without rounding; None where a net does not compute it.

        Args:
            name: The tensor.
            names: What it is called in A and in B.
            of_b: Whether B is the rounded net.
        """
        other = self._rounded(name)
        rows = [
            (wanted[name], run[other])
            for wanted, run in zip(self._reference, self._seen, strict=True)
            if name in wanted and other in run
        ]
        if not rows:
            return None
        real, rounded = (np.concatenate([np.atleast_1d(x) for x in part]) for part in zip(*rows, strict=True))
        a, b = (real, rounded) if of_b else (rounded, real)
        return tensor_values(a, b, name_a=names[0], name_b=names[1])

    def with_fault(self, key: str, name: str) -> float | None:
        """Return the loss at a tensor with one fault, and everything else as it should be.

        Args:
            key: The initializer or the rounding node that is at fault.
            name: The tensor.
        """
        kept = {key, *point_arrays(self._graph, {key: (1.0, 0)})}
        arrays = {own: array for own, array in self._proper.items() if own not in kept}
        run = run_at(with_arrays(self._graph, arrays), self._inputs, [self._rounded(name)])
        return self._error(run, name)

    def _rounded(self, name: str) -> str:
        """Return the name of a tensor after rounding."""
        return self._after.get(name, name)

    def _error(self, runs: Sequence[Inputs], name: str) -> float | None:
        other = self._rounded(name)
        errors = [
            relative_error(wanted[name], run[other])
            for wanted, run in zip(self._reference, runs, strict=True)
            if name in wanted and other in run
        ]
        return max(errors, default=None)

    def _is_other(self, arrays: Mapping[str, np.ndarray]) -> bool:
        own = self._graph.model.graph.initializers
        tensors = {name: own[name].const_value for name in arrays if name in own}
        return any(x is not None and bool((x.numpy() != arrays[name]).any()) for name, x in tensors.items())


SIMILAR = 0.7
"""Cosine above which two arrays are taken for each other wherever they stand.

Rounding to 8 bits leaves more than 0.999, a scale applied along the wrong axis 0.8 and more; unrelated
filters of 27 weights rarely reach 0.6. Below, only the order of the layers speaks.
"""

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


@dataclass(frozen=True, slots=True, eq=False)
class StoredInput:
    """A stored array at one input of a node.

    Attributes:
        node: The node.
        index: Position among its inputs.
        value: The initializer.
    """

    node: ir.Node
    index: int
    value: ir.Value

    @property
    def is_filters(self) -> bool:
        """True if it holds filters, whose outputs stand on different axes in different operators."""
        return self.node.op_type in _PRODUCTS and self.index == 1 and len(self.value.shape or ()) >= 2

    @property
    def is_bias(self) -> bool:
        """True if it is added to the outputs of filters."""
        return self.node.op_type in _PRODUCTS and self.index == 2

    def array(self) -> np.ndarray:
        """Return the numbers, those of filters with their outputs first."""
        assert self.value.const_value is not None
        array = self.value.const_value.numpy()
        return outputs_first(self.node, array) if self.is_filters else array

    def key(self, array: np.ndarray) -> Hashable:
        """Return what two arrays must have in common."""
        if self.is_filters:
            return "filters", len(array), array.size
        role = "bias" if self.node.op_type in _PRODUCTS | {"Add"} else self.node.op_type
        return role, self.index if role != "bias" else 0, array.size

    def laid_out(self, array: np.ndarray) -> np.ndarray:
        """Return numbers with outputs first in the layout of this initializer."""
        assert self.value.const_value is not None
        shape = tuple(int(size) for size in self.value.const_value.shape.numpy())
        if not self.is_filters:
            return array.reshape(shape)
        turned = outputs_first(self.node, np.arange(int(np.prod(shape))).reshape(shape))
        laid = np.empty(array.size, array.dtype)
        laid[turned.reshape(-1)] = array.reshape(-1)
        return laid.reshape(shape)


def stored_inputs(graph: Graph) -> Iterator[StoredInput]:
    """Yield the stored arrays of floating-point numbers that nodes read, each once."""
    seen: set[str] = set()
    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            if value is None or value.const_value is None or str(value.name) in seen:
                continue
            if value.dtype is not None and value.dtype.is_floating_point():
                seen.add(str(value.name))
                yield StoredInput(node, index, value)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayPair:
    """A stored array of the rounded net, and the reference's array that it is but for rounding.

    Attributes:
        place: Where the rounded net reads its array.
        reference: Where the reference reads its own.
        wanted: The reference's numbers in the rounded net's layout.
    """

    place: StoredInput
    reference: StoredInput
    wanted: np.ndarray

    def laid_out(self, array: np.ndarray) -> np.ndarray:
        """Return numbers in the layout of the reference's array in that of the rounded net's."""
        first = outputs_first(self.reference.node, array) if self.reference.is_filters else array
        return self.place.laid_out(first)


def pair_arrays(reference: Graph, rounded: Graph) -> dict[str, ArrayPair]:
    """Return for stored arrays of the rounded net the reference's.

    Arrays of one role and size are paired by their cosine, the most similar first, and what is left by the
    order of the layers if it is as many on both sides.

    Args:
        reference: The net in full precision.
        rounded: The net in fewer bits, its arrays as real numbers.

    Returns:
        The pairs by initializer of the rounded net.
    """
    rows_a, rows_b = _by_key(reference), _by_key(rounded)
    pairs: dict[str, ArrayPair] = {}
    for key, of_b in rows_b.items():
        of_a = rows_a.get(key, [])
        for i, j in _match([x for _, x in of_a], [x for _, x in of_b]):
            stored, (other, array) = of_b[j][0], of_a[i]
            pairs[str(stored.value.name)] = ArrayPair(stored, other, stored.laid_out(array))
    return pairs


def _by_key(graph: Graph) -> Mapping[Hashable, list[tuple[StoredInput, np.ndarray]]]:
    rows: dict[Hashable, list[tuple[StoredInput, np.ndarray]]] = defaultdict(list)
    for stored in stored_inputs(graph):
        array = stored.array()
        rows[stored.key(array)].append((stored, array))
    return rows


def _match(a: list[np.ndarray], b: list[np.ndarray]) -> list[tuple[int, int]]:
    """Pair arrays of one size: by similarity, then by order."""
    if not a or not b:
        return []
    cosine = _unit_rows(a) @ _unit_rows(b).T
    place = np.abs(np.arange(len(a))[:, None] / len(a) - np.arange(len(b))[None] / len(b))
    score = cosine - 1e-6 * place  # equal arrays are told apart by where they stand
    free_a, free_b = set(range(len(a))), set(range(len(b)))
    pairs = []
    for flat in np.argsort(-score, axis=None):
        i, j = divmod(int(flat), len(b))
        if cosine[i, j] < SIMILAR or not free_a or not free_b:
            break
        if i in free_a and j in free_b:
            pairs.append((i, j))
            free_a.remove(i)
            free_b.remove(j)
    if len(a) == len(b):
        pairs += zip(sorted(free_a), sorted(free_b), strict=True)
    return pairs


def _unit_rows(arrays: list[np.ndarray]) -> np.ndarray:
    rows = np.stack([array.reshape(-1).astype(np.float64) for array in arrays])
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.asarray(rows / np.maximum(norms, 1e-300))
