"""Stored arrays of two nets that are the same but for rounding, in the rounded net's layout."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.weights import outputs_first

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    import onnx_ir as ir

    from netweave.graph import Graph

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
