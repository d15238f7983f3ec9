"""Stored arrays that a net puts together before a layer reads them: which element goes where, and back.

Keras's LSTM has one bias and ONNX's two, with the gates in another order; an exporter of PyTorch cuts and
joins what the module stores. So what a layer reads is numbered element by element, and not named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netweave.errors import NetweaveError
from netweave.graph import Graph, parameter_key, with_arrays
from netweave.graph.passes.extraction import extract
from netweave.graph.stored import stored_arrays
from netweave.runtime.backends import prepare

MOVES = frozenset(
    {
        "Concat",
        "Expand",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators that put elements elsewhere and change none."""

MAX_ELEMENTS = 1 << 24
"""Numbers of more elements than this are not exact in float32."""

SUMMED = frozenset({"LSTM", "RNN"})
"""Operators that add up both halves of their biases: those of the input, and those of the state."""

BIASES = 3
"""Position of the biases among their inputs."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The origin of the elements of a value.

    Attributes:
        arrays: The stored arrays, by key, whose values do not matter.
        numbers: For each element of the value: one more than its place in all arrays, flattened and in a row;
            0 for a constant.
    """

    arrays: dict[str, np.ndarray]
    numbers: np.ndarray

    @classmethod
    def of(cls, graph: Graph, name: str) -> Packing | None:
        """Return how a value is made of stored arrays; None if they are computed with, or there are none."""
        try:
            piece = extract(graph, inputs=[], outputs=[name])
        except NetweaveError:
            return None  # not a value of this graph, or one that hangs on an input
        arrays = stored_arrays(piece)
        count = sum(array.size for array in arrays.values())
        if not 0 < count < MAX_ELEMENTS or any(
            node.domain or node.op_type not in MOVES for node in piece.nodes
        ):
            return None
        if any(_is_number(value) for node in piece.nodes for value in node.inputs):
            return None
        (numbers,) = prepare(with_arrays(piece, numbered(arrays))).run({}).values()
        return cls(arrays, numbers.astype(np.int64))

    def undo(self, array: np.ndarray) -> dict[str, np.ndarray]:
        """Return the stored arrays that make the value this one; elements that are not in it are zero."""
        flat = np.zeros(1 + sum(old.size for old in self.arrays.values()), array.dtype)
        flat[self.numbers.ravel()] = array.ravel()
        arrays, start = {}, 1
        for key, old in self.arrays.items():
            arrays[key] = flat[start : start + old.size].reshape(old.shape)
            start += old.size
        return arrays


def unpacked(graph: Graph, value: ir.Value) -> dict[str, np.ndarray]:
    """Return the stored arrays of a graph, by key, that give a value of its folded form its array.

    Args:
        graph: The graph as it was read.
        value: An initializer that was computed ahead from stored arrays, with its new array.
    """
    packing = Packing.of(graph, str(value.name))
    if packing is None or value.const_value is None:
        return {}
    array = value.const_value.numpy()
    if (packing.numbers == 0).any() and _is_bias(value):
        array = in_first_half(array)
    is_lost = bool(array[packing.numbers == 0].any())
    return {} if is_lost else packing.undo(array)


def numbered(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays whose elements are 1, 2, 3, ... through all of them."""
    numbers, start = {}, 1
    for key, array in arrays.items():
        numbers[key] = np.arange(start, start + array.size, dtype=np.float32).reshape(array.shape)
        start += array.size
    return numbers


def _is_number(value: ir.Value | None) -> bool:
    """Return whether a value is a constant that could be taken for the number of an element."""
    if value is None or value.const_value is None or parameter_key(value) is not None:
        return False
    array = value.const_value.numpy()
    return array.dtype.kind == "f" and bool(array.any())


def _is_bias(value: ir.Value) -> bool:
    return all(use.node.op_type in SUMMED and use.idx == BIASES for use in value.uses())


def in_first_half(biases: np.ndarray) -> np.ndarray:
    """Return biases of (directions, 2 * rows) with their sums in the first half."""
    first, second = np.split(biases, 2, axis=1)
    return np.concatenate([first + second, np.zeros_like(second)], axis=1)
