"""The table of operators that can be written for Caffe, what one is written from, and a layer as written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import GraphNode, NotWritable, WriterTable
from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored array of a layer.

    Attributes:
        array: Gives its values.
        source: Name of the stored value that it is, if it is one as it stands; layers with the same share it.
    """

    array: Callable[[], np.ndarray]
    source: str | None = None


@dataclass(frozen=True, slots=True)
class CaffeLayer:
    """One layer; its blobs are values here, each with a name of its own.

    Attributes:
        type: Caffe's name of the type.
        bottoms: Names of the values that it reads.
        tops: Names of the values that it makes.
        settings: Its parameters, as ``Schema.encode`` takes them.
        blobs: Its stored arrays.
        sources: Names of the source's layers that it does.
    """

    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    blobs: tuple[Blob, ...] = ()
    sources: tuple[str, ...] = ()


Step = tuple[str, dict[str, Any]]
"""A layer of one bottom and one top: its type and its parameters."""


class CaffeNode(GraphNode):
    """A node that is being written as layers of Caffe.

    Args:
        node: The node.
        graph: Its graph.
    """

    def __init__(self, node: ir.Node, graph: Graph) -> None:
        super().__init__(node, graph)
        self._num_inner = 0

    @property
    def output(self) -> str:
        """Name of the node's first output."""
        return self.ir_node.outputs[0].name or ""

    def name(self, index: int) -> str:
        """Return the name of an input that is a blob.

        Raises:
            NotWritable: It is a stored array.
        """
        if self.is_stored(index):
            raise NotWritable(f"its input {self.value(index).name!r} is stored, and a layer reads blobs only")
        return self.value(index).name or ""

    def inner(self) -> str:
        """Return a name for a value between two layers of the node."""
        self._num_inner += 1
        return f"{self.output}/{self._num_inner}"

    def blob(self, index: int) -> Blob:
        """Return a stored input as an array of a layer."""
        return Blob(self.lazy_array(index), self.value(index).name)

    def layer(
        self,
        kind: str,
        bottoms: Sequence[str],
        settings: dict[str, Any] | None = None,
        *,
        top: str | None = None,
        blobs: Sequence[Blob] = (),
    ) -> CaffeLayer:
        """Return a layer of the node.

        Args:
            kind: Caffe's name of the type.
            bottoms: Names of the values that it reads.
            settings: Its parameters.
            top: Name of the value that it makes; the node's output if it is left out.
            blobs: Its stored arrays.
        """
        made = self.output if top is None else top
        return CaffeLayer(kind, tuple(bottoms), (made,), settings or {}, tuple(blobs), self.layers)

    def chain(self, *steps: Step, bottom: str | None = None, top: str | None = None) -> list[CaffeLayer]:
        """Return layers one after another, by default from the node's first input to its output."""
        value = self.name(0) if bottom is None else bottom
        made = []
        for number, (kind, settings) in enumerate(steps, start=1):
            end = (self.output if top is None else top) if number == len(steps) else self.inner()
            made.append(self.layer(kind, [value], settings, top=end))
            value = end
        return made


TABLE: WriterTable[CaffeNode, list[CaffeLayer]] = WriterTable()
"""The operators that can be written, as layers in their order."""

writes = TABLE.writes


def power(*, scale: float = 1.0, shift: float = 0.0, exponent: float = 1.0) -> Step:
    """Return ``(shift + scale * x) ** exponent`` as a step."""
    given = {"power": (exponent, 1.0), "scale": (scale, 1.0), "shift": (shift, 0.0)}
    return "Power", {"power_param": {name: value for name, (value, usual) in given.items() if value != usual}}


def per_axis(
    name: str, numbers: Sequence[int], *, default: int | None, repeated: bool = True
) -> dict[str, Any]:
    """Return a setting with a number for each axis of a window, in the shortest form that Caffe has.

    Args:
        name: ``kernel_size``, ``stride``, ``pad`` or ``dilation``.
        numbers: One for each axis.
        default: What Caffe takes when it is left out.
        repeated: Whether the setting may be a list.
    """
    if set(numbers) == {default}:
        return {}
    if len(set(numbers)) == 1:
        return {name: [numbers[0]] if repeated else numbers[0]}
    if len(numbers) == 2 and name != "dilation":
        short = name.removesuffix("_size")
        return {f"{short}_h": numbers[0], f"{short}_w": numbers[1]}
    return {name: list(numbers)}
