"""Recurrent layers as one operator, or as steps written one by one in plain operators, and their weights.

A step of an LSTM is known by how it ends, ``o * tanh(f * c + i * g)``. How its gates are packed is not read
off the operators before that, but asked for: the weights are numbered, and unit vectors sent through them.

H hidden units, I inputs; gates in ONNX's order i, o, f, c.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from netweave.comparison.assembled_weights import BIASES, MAX_ELEMENTS, in_first_half, numbered
from netweave.errors import NetweaveError
from netweave.graph import Graph, attributes_of, with_arrays
from netweave.graph.passes.extraction import extract
from netweave.graph.stored import stored_arrays
from netweave.runtime.backends import prepare

PRODUCTS = frozenset({"Gemm", "MatMul"})


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one LSTM: ``kernel`` (4H, I), ``recurrent`` (4H, H) and ``bias`` (4H), of both sums."""

    kernel: np.ndarray
    recurrent: np.ndarray
    bias: np.ndarray

    def fits(self, other: Weights) -> bool:
        """Return whether another layer is as large."""
        return self.kernel.shape == other.kernel.shape and self.recurrent.shape == other.recurrent.shape


@dataclass(frozen=True)
class Fused:
    """An LSTM that is one node, of one direction."""

    node: ir.Node

    def read(self) -> Weights:
        """Return its weights."""
        kernel, recurrent = self._array(1), self._array(2)
        rows = len(recurrent)
        has_bias = len(self.node.inputs) > BIASES and self.node.inputs[BIASES] is not None
        both = self._array(BIASES)[None] if has_bias else np.zeros((1, 2 * rows), np.float32)
        return Weights(kernel, recurrent, in_first_half(both)[0, :rows])

    def write(self, weights: Weights) -> dict[str, np.ndarray]:
        """Give the node's values these weights, in place; none of them is a stored array by itself."""
        bias = np.concatenate([weights.bias, np.zeros_like(weights.bias)])
        for index, array in ((1, weights.kernel), (2, weights.recurrent), (BIASES, bias)):
            value = self.node.inputs[index] if index < len(self.node.inputs) else None
            if value is not None:
                value.const_value = ir.Tensor(array[None].astype(np.float32), name=value.name)
        return {}

    def _array(self, index: int) -> np.ndarray:
        value = self.node.inputs[index]
        assert value is not None
        assert value.const_value is not None
        array: np.ndarray = value.const_value.numpy()[0]
        return array


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an LSTM in plain operators: its gates before their activations, and its states."""

    gates: tuple[ir.Value, ...]
    before: ir.Value
    cell: ir.Value
    hidden: ir.Value


@dataclass(frozen=True)
class Unrolled:
    """An LSTM written step by step; the second step stands for all, since they share their arrays."""

    graph: Graph
    step: Step
    hidden: ir.Value
    x: ir.Value

    @cached_property
    def _piece(self) -> Graph:
        names = [str(value.name) for value in (self.x, self.hidden)]
        return extract(self.graph, inputs=names, outputs=[str(gate.name) for gate in self.step.gates])

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        return stored_arrays(self._piece)

    @cached_property
    def _constant(self) -> np.ndarray:
        """Constant added to the gates, whatever is stored (4, H): a bias of the forget gate."""
        return self._run({}, *self._rows(1))[:, 0]

    @cached_property
    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of each weight: (4H, I) and (4H, H)."""
        given = numbered({key: array for key, array in self._arrays.items() if array.ndim > 1})
        numbers = []
        for index, value in enumerate((self.x, self.hidden)):
            width = _width(value)
            rows = list(self._rows(width))
            rows[index] = np.eye(width, dtype=np.float32)
            gates = self._run(given, *rows) - self._constant[:, None]
            numbers.append(gates.transpose(0, 2, 1).reshape(-1, width).astype(np.int64))
        return numbers[0], numbers[1]

    @cached_property
    def _biases(self) -> dict[str, np.ndarray]:
        """Numbers of the elements of each bias that is added (4H)."""
        biases = {}
        for key, array in self._arrays.items():
            if array.ndim == 1:
                gates = self._run(numbered({key: array}), *self._rows(1))[:, 0] - self._constant
                biases[key] = gates.reshape(-1).astype(np.int64)
        return biases

    def read(self) -> Weights:
        """Return its weights."""
        kernels = [array.ravel() for array in self._arrays.values() if array.ndim > 1]
        flat = np.concatenate([np.zeros(1, np.float32), *kernels])
        kernel, recurrent = (flat[numbers] for numbers in self._numbers)
        bias = self._constant.reshape(-1).astype(np.float32)
        for key, numbers in self._biases.items():
            bias = bias + np.concatenate([np.zeros(1, np.float32), self._arrays[key]])[numbers]
        return Weights(kernel, recurrent, bias)

    def write(self, weights: Weights) -> dict[str, np.ndarray]:
        """Return the stored arrays that make its weights these, by key."""
        shapes = {key: array.shape for key, array in self._arrays.items() if array.ndim > 1}
        flat = np.zeros(1 + sum(int(np.prod(shape)) for shape in shapes.values()), np.float32)
        for numbers, array in zip(self._numbers, (weights.kernel, weights.recurrent), strict=True):
            flat[numbers] = array
        arrays, start = {}, 1
        for key, shape in shapes.items():
            size = int(np.prod(shape))
            arrays[key] = flat[start : start + size].reshape(shape)
            start += size
        left = weights.bias - self._constant.reshape(-1)
        for key, numbers in self._biases.items():
            values = np.zeros(1 + self._arrays[key].size, np.float32)
            values[numbers] = left
            arrays[key], left = values[1:], np.zeros_like(left)
        return arrays

    def _rows(self, count: int) -> Iterator[np.ndarray]:
        for value in (self.x, self.hidden):
            yield np.zeros((count, _width(value)), np.float32)

    def _run(self, given: Mapping[str, np.ndarray], x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """Return the gates (4, rows, H) with these arrays, the others being zero."""
        arrays = {key: given.get(key, np.zeros_like(array)) for key, array in self._arrays.items()}
        names = [str(value.name) for value in self._piece.inputs]
        gates = prepare(with_arrays(self._piece, arrays)).run(dict(zip(names, (x, hidden), strict=True)))
        return np.stack([gates[str(gate.name)] for gate in self.step.gates])


Layer = Fused | Unrolled


def recurrent_layers(graph: Graph) -> list[Layer]:
    """Return the LSTMs of a net in the order of their first steps; those of both directions are left out."""
    layers: list[Layer] = []
    steps = [step for node in graph.nodes if (step := _step(node)) is not None]
    by_cell, by_before = {step.cell: step for step in steps}, {step.before: step for step in steps}
    for node in graph.nodes:
        if node.op_type == "LSTM" and attributes_of(node).get("direction", "forward") == "forward":
            layers.append(Fused(node))
        first = by_cell.get(node.outputs[0])
        if first is not None and first.before not in by_cell and first.cell in by_before:
            layers += _unrolled(graph, first, by_before[first.cell])
    return layers


def _unrolled(graph: Graph, first: Step, second: Step) -> list[Unrolled]:
    sources = {x for gate in second.gates for x in _multiplied(gate, first.hidden)}
    layer = Unrolled(graph, second, first.hidden, sources.pop()) if len(sources) == 1 else None
    if layer is None or any(_width(value) == 0 for value in (layer.x, layer.hidden)):
        return []
    return [layer]


def copy_recurrent(source: Sequence[Layer], target: Sequence[Layer]) -> dict[str, np.ndarray]:
    """Give the recurrent layers of a net the weights of another's, in their order.

    Args:
        source: Layers to read.
        target: Layers to write; values of theirs that no stored array stands for are changed in place.

    Returns:
        The stored arrays of those that are written step by step, by key.
    """
    copied: dict[str, np.ndarray] = {}
    if len(source) != len(target) or all(isinstance(layer, Fused) for layer in (*source, *target)):
        return copied  # nodes of one kind are aligned as all others are
    try:
        pairs = [(given.read(), taken.read(), taken) for given, taken in zip(source, target, strict=True)]
        for weights, old, layer in pairs:
            copied |= layer.write(weights) if weights.fits(old) else {}
    except NetweaveError:
        return {}  # a part that cannot be run alone
    return copied


def _step(node: ir.Node) -> Step | None:
    """Return the step that a product is the output of."""
    for first, second in _factors(node):
        out, state = _argument(first, "Sigmoid"), _argument(second, "Tanh")
        total = state.producer() if state is not None else None
        if out is None or state is None or total is None or total.op_type != "Add":
            continue
        makers = [value.producer() if value is not None else None for value in total.inputs]
        for taken, kept in (makers, makers[::-1]):
            for (i, candidate), (f, before) in itertools.product(_factors(taken), _factors(kept)):
                gates = (_argument(i, "Sigmoid"), out, _argument(f, "Sigmoid"), _argument(candidate, "Tanh"))
                known = tuple(gate for gate in gates if gate is not None)
                if len(known) == len(gates):
                    return Step(known, before, state, node.outputs[0])
    return None


def _factors(node: ir.Node | None) -> list[tuple[ir.Value, ir.Value]]:
    """Return the two factors of a product, in both orders."""
    if node is None or node.op_type != "Mul" or node.inputs[0] is None or node.inputs[1] is None:
        return []
    a, b = node.inputs[0], node.inputs[1]
    return [(a, b), (b, a)]


def _argument(value: ir.Value, op_type: str) -> ir.Value | None:
    """Return what an activation reads, if it is of this kind."""
    producer = value.producer()
    return producer.inputs[0] if producer is not None and producer.op_type == op_type else None


def _multiplied(gate: ir.Value, hidden: ir.Value) -> set[ir.Value]:
    """Return what is multiplied by weights to make a gate, besides the last output."""
    factors, todo, seen = set(), [gate], set()
    while todo:
        node = todo.pop().producer()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.op_type in PRODUCTS and node.inputs[0] is not None:
            factors |= _beside(node.inputs[0], hidden)
        else:
            todo += [value for value in node.inputs if value is not None]
    return factors


def _beside(value: ir.Value, hidden: ir.Value) -> set[ir.Value]:
    if value is hidden:
        return set()
    producer = value.producer()
    if producer is not None and producer.op_type == "Concat" and hidden in producer.inputs:
        return {part for part in producer.inputs if part is not None and part is not hidden}
    return {value}


def _width(value: ir.Value) -> int:
    """Size of the last axis; 0 if it is open, or the value is no (batch, width)."""
    dims = value.shape.dims if value.shape is not None else ()
    return dims[1] if len(dims) == 2 and isinstance(dims[1], int) and dims[1] ** 2 < MAX_ELEMENTS else 0
