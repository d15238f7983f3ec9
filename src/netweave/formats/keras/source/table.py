"""The table of operators that can be written, and what one is written from, channels last or first.

Convolutions, poolings and their like read images, sequences and volumes: Keras has the channels of these
last, the Graph has them on axis 1. What is between them, elementwise or along some axes, is the same in both
orders and keeps that of its neighbours. All other values are as in the Graph: sequences of words, windows of
an image whose net has put the channels last by itself, matrices of attention. A Transpose or Reshape leads
from one order to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable, WriterTable
from netweave.files.source_code.forward import Field, Module, Step
from netweave.files.source_code.node import SourceNode
from netweave.graph import DOMAIN, Graph, known_shape
from netweave.graph.passes.windows import same_pads

if TYPE_CHECKING:
    from netweave.formats.lowering.windows import Window


class KerasNode(SourceNode):
    """A node that is being written.

    Args:
        node: The node.
        graph: The graph.
        channels_last: Names of the values that have channels last in Keras.
    """

    def __init__(self, node: ir.Node, graph: Graph, channels_last: AbstractSet[str]) -> None:
        super().__init__(node, graph)
        self._channels_last = channels_last

    def step(
        self, template: str, *, inputs: Sequence[int] = (0,), module: Module | None = None, **more: Any
    ) -> Step:
        """Return the node as an expression over some of its inputs, none of which may be stored."""
        if any(self.is_stored(index) for index in inputs):
            raise NotWritable("one of its inputs is stored")
        return super().step(template, inputs=inputs, module=module, **more)

    def default_name(self) -> str:
        """Return the name that the node has in its file."""
        return self.ir_node.name or self.op_type

    def weighted(
        self,
        kind: str,
        fields: Sequence[Field],
        state: dict[str, Callable[[], np.ndarray]],
        template: str = "{m}({0})",
    ) -> Step:
        """Return the node as a layer with weights; its state is in Keras's order, by Keras's names."""
        return self.step(template, module=Module(f"layers.{kind}", tuple(fields), state))

    def for_node(self, node: ir.Node) -> KerasNode:
        """Return another node of the same graph."""
        return KerasNode(node, self.graph, self._channels_last)

    def has_channels_last(self, index: int = 0) -> bool:
        """Return whether an input has channels last in Keras."""
        return self.value(index).name in self._channels_last

    def makes_channels_last(self, index: int = 0) -> bool:
        """Return whether an output has channels last in Keras."""
        return self.outputs[index].name in self._channels_last

    def is_image(self, index: int = 0) -> bool:
        """Return whether an input is an image with channels last in Keras."""
        return self.rank(index) == IMAGE and self.has_channels_last(index)

    def place(self, axis: int, index: int = 0) -> int:
        """Return where an axis of an input, counted from the front, is in Keras."""
        return places(self.rank(index))[axis] if self.has_channels_last(index) else axis

    def sizes(self, index: int = 0) -> list[int] | None:
        """Return the spatial sizes of an input, height and width of an image; None if they are not known."""
        spatial = self.shape(index)[2:]
        known = [size for size in spatial if size is not None]
        return known if len(known) == len(spatial) else None

    def need_image(self, index: int = 0) -> None:
        """Refuse a value that is no image."""
        if self.rank(index) != IMAGE:
            raise NotWritable(f"it is written over images only, found {self.rank(index)} axes")

    def dimensions(self, index: int = 0) -> str:
        """Return what the names of layers over a value end with: 1D for sequences, 2D for images, 3D.

        Raises:
            NotWritable: The value has another number of axes.
        """
        if self.rank(index) not in RANKS:
            raise NotWritable(f"it is written over 1, 2 or 3 spatial axes, found {self.rank(index)} axes")
        return f"{self.rank(index) - 2}D"


TABLE: WriterTable[KerasNode, Step | list[Step]] = WriterTable()
"""The operators that can be written."""

writes = TABLE.writes


def places(rank: int) -> list[int]:
    """Return where each axis of the Graph is in Keras, if channels are last there.

    >>> places(4)
    [0, 3, 1, 2]
    """
    return [0, rank - 1, *range(1, rank - 1)]


def order(rank: int) -> list[int]:
    """Return which axis of the Graph each axis of Keras is, if channels are last there.

    >>> order(4)
    [0, 2, 3, 1]
    """
    return [0, *range(2, rank), 1]


def around(begin: Sequence[int], end: Sequence[int]) -> str:
    """Return what is put around the spatial axes as Keras takes it.

    >>> around([1, 1], [1, 1]), around([0, 2], [1, 2]), around([0], [1])
    ('1', '((0, 1), (2, 2))', '(0, 1)')
    """
    pairs = tuple(zip(begin, end, strict=True))
    return str(begin[0]) if len({*begin, *end}) == 1 else repr(pairs if len(pairs) > 1 else pairs[0])


def is_same(node: KerasNode, window: Window) -> bool:
    """Return whether Keras's word ``same`` gives the padding of a window over an image."""
    if node.get("auto_pad", "NOTSET") == "SAME_UPPER":
        return True
    # with steps of 1 the padding is the same for every size
    sizes = node.sizes() or ([1] * len(window.kernel) if set(window.strides) == {1} else None)
    if sizes is None or not any(window.onnx_pads):
        return False
    numbers = {"strides": window.strides, "dilations": window.dilations}
    return window.onnx_pads == same_pads(sizes, window.kernel, **numbers, upper=True)


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
