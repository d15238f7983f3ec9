"""Attention with its dense layers, as writers say it in the words of their framework."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from netweave.files.node_writer import GraphNode

_FIRST = 3
"""The input that is the first array: weight and bias of query, key, value and output follow one another."""


def is_usual_scale(scale: float, width: int) -> bool:
    """Return whether a scale is one divided by the root of the features of a head, as frameworks take it."""
    return math.isclose(scale * math.sqrt(width), 1, rel_tol=1e-6)


@dataclass(frozen=True, slots=True)
class ProjectedAttention:
    """A MultiHeadAttention that is being written.

    Attributes:
        node: The node.
        num_heads: Number of heads.
        width: Features of each head of queries and keys.
        value_width: Features of each head of values.
        num_outputs: Features that it makes of each step.
        scale: What scores are multiplied by where no weight takes that over: the usual one.
        has_bias: Whether any of the dense layers has a bias.
    """

    node: GraphNode
    num_heads: int
    width: int
    value_width: int
    num_outputs: int
    scale: float
    has_bias: bool

    @classmethod
    def of(cls, node: GraphNode) -> ProjectedAttention:
        """Return what a node says.

        Raises:
            NotWritable: Its arrays are computed.
        """
        num_heads = node.get("num_heads")
        width = node.stored_shape(_FIRST)[1] // num_heads
        value_width = node.stored_shape(_FIRST + 4)[1] // num_heads
        num_outputs = node.stored_shape(_FIRST + 6)[1]
        has_bias = any(node.constant(_FIRST + 2 * part + 1).any() for part in range(4))
        return cls(node, num_heads, width, value_width, num_outputs, 1 / math.sqrt(width), has_bias)

    @property
    def input_features(self) -> list[int]:
        """Features of each step of query, key and value."""
        return [self.node.stored_shape(_FIRST + 2 * part)[0] for part in range(3)]

    @property
    def features(self) -> int:
        """Features of each step of the query."""
        return self.input_features[0]

    def weight(self, part: int) -> np.ndarray:
        """Load the weight (inputs, outputs) of query, key, value or output: 0 to 3."""
        return self._scaled(self.node.constant(_FIRST + 2 * part), part)

    def rows(self, part: int) -> np.ndarray:
        """Load the weight of query, key, value or output with a row for each output."""
        return self.weight(part).T

    def bias(self, part: int) -> np.ndarray:
        """Load the bias (outputs,) of query, key, value or output."""
        return self._scaled(self.node.constant(_FIRST + 2 * part + 1), part)

    def packed_weight(self) -> np.ndarray:
        """Load the weights of query, key and value below one another, a row for each output."""
        return np.concatenate([self.rows(part) for part in range(3)])

    def packed_bias(self) -> np.ndarray:
        """Load the biases of query, key and value after one another."""
        return np.concatenate([self.bias(part) for part in range(3)])

    def _scaled(self, array: np.ndarray, part: int) -> np.ndarray:
        """Take a scale that is not the usual one into the query's arrays."""
        factor = float(self.node.get("scale")) / self.scale
        if part or is_usual_scale(self.node.get("scale"), self.width):
            return array
        return (array * np.float64(factor)).astype(array.dtype)
