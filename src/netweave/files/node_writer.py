"""Shared parts of the writers: a node that is being written, and the table of writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeVar

import numpy as np
import onnx_ir as ir

from netweave.errors import UnsupportedError
from netweave.graph import Graph, attributes_of, default_attributes, known_shape

NodeT = TypeVar("NodeT")
ResultT = TypeVar("ResultT")


class NotWritable(Exception):  # noqa: N818 (never reaches the user: NotWritableNodes collects it)
    """The target framework has no form for a node; the message is the reason."""


class NotWritableNodes:
    """Collects the nodes that cannot be written, so that one error names them all.

    Args:
        graph: The graph that is being written.
        target: What is being written, as the error names it: ``PyTorch source``.
        hint: What the user can do instead.
    """

    def __init__(self, graph: Graph, target: str, hint: str = "write it as .onnx instead") -> None:
        self._graph = graph
        self._target = target
        self._hint = hint
        self._nodes: dict[str, list[ir.Node]] = {}

    @contextmanager
    def collecting(self, node: ir.Node) -> Iterator[None]:
        """Record the node if the block raises ``NotWritable``."""
        try:
            yield
        except NotWritable as reason:
            kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self._nodes.setdefault(f"{kind}: {reason}" if reason.args else kind, []).append(node)

    def check(self) -> None:
        """Raise ``UnsupportedError`` if any node was recorded; it names each reason with its first node."""
        if not self._nodes:
            return
        reasons = "; ".join(
            f"{kind} ({len(nodes)}, first {nodes[0].name!r}{self._line(nodes[0])})"
            for kind, nodes in self._nodes.items()
        )
        raise UnsupportedError(
            f"cannot be written as {self._target}: {reasons}; {self._hint}",
            place=self._graph.files[0] if self._graph.files else self._graph.name,
        )

    def _line(self, node: ir.Node) -> str:
        """Return where the source defines a node, if it has lines."""
        origins = [layer.origin for layer in self._graph.layers_of(node)]
        lines = [origin.line for origin in origins if origin is not None and origin.line is not None]
        return f" on line {lines[0]}" if lines else ""


class WriterTable(Generic[NodeT, ResultT]):
    """The operators that a framework has a form for, each with the function that writes it."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], Callable[[NodeT], ResultT]] = {}

    def writes(
        self, *op_types: str, domain: str = ""
    ) -> Callable[[Callable[[NodeT], ResultT]], Callable[[NodeT], ResultT]]:
        """Register the decorated function for operators; it raises ``NotWritable`` where it has no form."""

        def register(write: Callable[[NodeT], ResultT]) -> Callable[[NodeT], ResultT]:
            for op_type in op_types:
                assert (domain, op_type) not in self._writers, f"{domain}.{op_type} has two writers"
                self._writers[domain, op_type] = write
            return write

        return register

    def find(self, node: ir.Node) -> Callable[[NodeT], ResultT]:
        """Return the function that writes a node.

        Raises:
            NotWritable: No function is registered for its operator, or no framework has its form.
        """
        writer = self._writers.get((node.domain, node.op_type))
        if writer is None:
            raise NotWritable
        if reason := _what_no_writer_takes(node):
            raise NotWritable(reason)
        return writer

    def has(self, op_type: str, domain: str) -> bool:
        """Return whether a function is registered for an operator."""
        return (domain, op_type) in self._writers

    def names(self) -> list[tuple[str, str]]:
        """Return the operators as (domain, name), sorted."""
        return sorted(self._writers)


def _what_no_writer_takes(node: ir.Node) -> str:
    """Return what ONNX defines for a node and all frameworks do otherwise; empty if there is nothing."""
    made = node.outputs[0]
    if node.op_type == "Div" and made.dtype is not None and made.dtype.is_integer():
        return "integers are divided without their remainder"
    if node.op_type == "Resize" and _resizes_more_than_images(node):
        return "it resizes the batch or the channels"
    return ""


def _resizes_more_than_images(node: ir.Node) -> bool:
    """Return whether a Resize changes the size of the batch or the channels."""
    old, new = known_shape(node.inputs[0]), known_shape(node.outputs[0])
    pairs = zip(old[:2], new[:2], strict=True) if old is not None and new is not None else ()
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return True
    scales = node.inputs[2].const_value if len(node.inputs) > 2 and node.inputs[2] is not None else None
    if scales is None or "axes" in node.attributes:
        return False
    return bool((scales.numpy()[:2] != 1).any())


class GraphNode:
    """A node of the graph that is being written.

    Args:
        node: The node.
        graph: The graph.

    Attributes:
        layers: Names of the source's layers that the node belongs to.
    """

    def __init__(self, node: ir.Node, graph: Graph) -> None:
        self.ir_node = node
        self.graph = graph
        self.op_type = node.op_type
        self.domain = node.domain
        self.outputs = node.outputs
        self.attributes = attributes_of(node)
        self.layers = self.layers_of(node)

    def for_node(self, node: ir.Node) -> Self:
        """Return another node of the same graph."""
        return type(self)(node, self.graph)

    def layers_of(self, node: ir.Node) -> tuple[str, ...]:
        """Return the names of the source's layers that a node of the graph belongs to."""
        return tuple(layer.name for layer in self.graph.layers_of(node))

    @property
    def num_inputs(self) -> int:
        """Number of inputs, omitted trailing ones not counted."""
        inputs = list(self.ir_node.inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        return len(inputs)

    def has(self, index: int) -> bool:
        """Return whether an input is given."""
        return index < len(self.ir_node.inputs) and self.ir_node.inputs[index] is not None

    def value(self, index: int) -> ir.Value:
        """Return an input.

        Raises:
            NotWritable: It is omitted.
        """
        value = self.ir_node.inputs[index]
        if value is None:
            raise NotWritable(f"its input {index} is omitted")
        return value

    def is_stored(self, index: int) -> bool:
        """Return whether an input is a stored array."""
        return self.value(index).const_value is not None

    def lazy_array(self, index: int) -> Callable[[], np.ndarray]:
        """Return a function that loads a stored input: weights are read only when a file is written.

        Raises:
            NotWritable: The net computes the input.
        """
        tensor = self.value(index).const_value
        if tensor is None:
            raise self._computed(index)
        return tensor.numpy

    def broadcast_array(self, index: int, sizes: Sequence[int]) -> Callable[[], np.ndarray]:
        """Return a function that loads a stored input and repeats it to sizes."""
        array = self.lazy_array(index)
        return lambda: np.broadcast_to(array(), sizes)

    def constant(self, index: int) -> np.ndarray:
        """Return a stored input."""
        return np.asarray(self.lazy_array(index)())

    def stored_shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of a stored input, without loading it."""
        tensor = self.value(index).const_value
        if tensor is None:
            raise self._computed(index)
        return tuple(tensor.shape.numpy())

    def _computed(self, index: int) -> NotWritable:
        return NotWritable(f"its input {self.value(index).name!r} is computed, expected a stored array")

    def one_example(self, index: int) -> np.ndarray | None:
        """Return a stored input of one example, repeated for all of them or not; None for a computed one.

        Raises:
            NotWritable: It is stored and differs from example to example.
        """
        value = self.value(index)
        maker = value.producer()
        if maker is not None and maker.op_type == "Expand" and not maker.domain:
            expand = self.for_node(maker)
            is_row = expand.is_stored(0) and expand.shape(0) == (1, *self.shape(index)[1:])
            return expand.constant(0) if is_row else None
        if value.const_value is None:
            return None
        if self.stored_shape(index)[:1] != (1,):
            raise NotWritable("one of its inputs is stored, and differs from example to example")
        return self.constant(index)

    def ints(self, index: int) -> list[int]:
        """Return a stored input as a list of integers."""
        return [int(number) for number in self.constant(index).reshape(-1)]

    def shape(self, index: int) -> tuple[int | None, ...]:
        """Return the shape of an input, None for a dimension that is not known.

        Raises:
            NotWritable: Not even its rank is known.
        """
        shape = known_shape(self.value(index))
        if shape is None:
            raise NotWritable(f"the rank of {self.value(index).name!r} is not known")
        return shape

    def rank(self, index: int) -> int:
        """Return the number of axes of an input."""
        return len(self.shape(index))

    def axis(self) -> int:
        """Return the attribute ``axis``, which is one of the first input, counted from the front."""
        return int(self.get("axis")) % self.rank(0)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute: ONNX's default where the node has none, or else the one given here."""
        if name in self.attributes:
            return self.attributes[name]
        return default if self.domain else default_attributes(self.op_type).get(name, default)

    def decimal(self, name: str) -> float:
        """Return an attribute as the shortest decimal that the file's float32 stands for."""
        return float(str(np.float32(self.get(name))))

    def is_used(self, index: int) -> bool:
        """Return whether anything reads an output, or the net returns it."""
        if index >= len(self.outputs):
            return False
        return bool(self.outputs[index].uses()) or self.outputs[index].is_graph_output()


def producer_of(value: ir.Value | None) -> ir.Node | None:
    """Return the node that makes a value, if there are both."""
    return value.producer() if value is not None else None


def int_or_tuple(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """Return one number for equal ones, as most frameworks take it for every axis."""
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)
