"""Layouts of values in written Keras code: channels last, or as in the Graph.

Convolutions, poolings and their like read images, sequences and volumes: Keras has the channels of these
last, the Graph has them on axis 1. What is between them, elementwise or along some axes, is the same in both
orders and keeps that of its neighbours. All other values are as in the Graph: sequences of words, windows of
an image whose net has put the channels last by itself, matrices of attention. A Transpose or Reshape leads
from one order to the other.
"""

from __future__ import annotations

import onnx_ir as ir

from netweave.graph import DOMAIN, Graph, known_shape

IMAGE = 4
"""Number of axes of an image: batch, height, width, channels."""

RANKS = frozenset({3, 4, 5})
"""Numbers of axes of what may be convolved: sequences, images, volumes."""

_CHANNELS_LAST = frozenset(
    """
    AveragePool Conv ConvTranspose GlobalAveragePool GlobalMaxPool GroupNormalization InstanceNormalization
    LRN MaxPool Resize
    """.split()  # noqa: SIM905 (a list of a dozen strings is harder to read)
)
"""Operators that Keras has for channels last only, standard ones and those of the domain ``netweave``."""

_FREE = frozenset({"Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that are written from any order to any."""


def channels_last_values(graph: Graph) -> frozenset[str]:
    """Return the names of the values that have channels last in Keras."""
    groups = _Groups()
    for node in graph.nodes:
        values = [value for value in (*node.inputs, *node.outputs) if value is not None and _may_be(value)]
        if node.domain in {"", DOMAIN} and node.op_type in _CHANNELS_LAST:
            groups.mark(values)
        elif node.domain or node.op_type not in _FREE:
            groups.join(values)
    groups.mark([value for value in (*graph.inputs, *graph.outputs) if _rank(value) == IMAGE])
    return groups.marked()


def _may_be(value: ir.Value) -> bool:
    return value.const_value is None and _rank(value) in RANKS


def _rank(value: ir.Value) -> int | None:
    shape = known_shape(value)
    return None if shape is None else len(shape)


class _Groups:
    """Values that have one order, by the name of any of them."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._marked: set[str] = set()

    def join(self, values: list[ir.Value]) -> None:
        """Give values of one number of axes one order."""
        for value in values:
            for other in values:
                if other is not value and _rank(other) == _rank(value):
                    self._parents[self._root(value.name or "")] = self._root(other.name or "")
                    break

    def mark(self, values: list[ir.Value]) -> None:
        """Give values channels last."""
        self._marked.update(self._root(value.name or "") for value in values)

    def marked(self) -> frozenset[str]:
        """Return the names of all values that have channels last."""
        roots = {self._root(name) for name in self._marked}
        return frozenset(name for name in self._parents if self._root(name) in roots)

    def _root(self, name: str) -> str:
        self._parents.setdefault(name, name)
        while self._parents[name] != name:
            self._parents[name] = self._parents[self._parents[name]]
            name = self._parents[name]
        return name
