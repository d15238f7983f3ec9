"""Small changes to a node of a graph that is being read: constants, added nodes, moved attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.graph import known_shape, layer_keys, make_attributes, set_layer_keys
from netweave.graph.graph import has_subgraphs, subgraphs
from netweave.graph.naming import take_name


def all_graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph and the bodies inside it, outermost first; quicker than ``Graph.subgraphs``."""
    yield graph
    for node in graph:
        if has_subgraphs(node):
            for body in subgraphs(node):
                yield from all_graphs(body)


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes of a graph and of the bodies inside it."""
    for inner in all_graphs(graph):
        yield from inner


class Names:
    """The names in use in a graph and its bodies, for values and for nodes."""

    def __init__(self, graph: ir.Graph) -> None:
        graphs = list(all_graphs(graph))
        self._values = {value.name for inner in graphs for value in all_values(inner)}
        self._nodes = {node.name for inner in graphs for node in inner}

    def value(self, stem: str) -> str:
        """Return a free name for a value and take it."""
        return take_name(stem, self._values, separator="@", first=1)

    def node(self, stem: str) -> str:
        """Return a free name for a node and take it."""
        return take_name(stem, self._nodes, separator="@", first=1)


def all_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the inputs, initializers and node outputs of a graph, without those of bodies."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


class Editor:
    """Changes one node in place; what it adds stands before the node and belongs to its layers.

    Attributes:
        node: The node.
        version: The opset that the node is written in.
        added: Nodes added so far, in order.
        after: A node put behind, if any.
    """

    def __init__(self, node: ir.Node, version: int, names: Names) -> None:
        if node.graph is None or isinstance(node.graph, ir.Function):
            raise TypeError("a node can be edited only inside a graph")
        self.node = node
        self.version = version
        self.added: list[ir.Node] = []
        self.after: ir.Node | None = None
        self._graph = node.graph
        self._names = names

    def input(self, index: int) -> ir.Value | None:
        """Return an input, None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def set_input(self, index: int, value: ir.Value | None) -> None:
        """Set an input; those before it that are not there are left out."""
        old = self.input(index)
        if index >= len(self.node.inputs):
            self.node.resize_inputs(index + 1)
        self.node.replace_input_with(index, value)
        if old is not None and old.is_initializer() and not old.uses() and not old.is_graph_output():
            self._graph.initializers.pop(old.name or "", None)

    def shape(self, index: int = 0) -> tuple[int | None, ...] | None:
        """Return the sizes of an input, as far as they are known."""
        return known_shape(self.input(index))

    def take(self, name: str, default: Any = None) -> Any:
        """Remove an attribute and return its value."""
        attribute = self.node.attributes.pop(name, None)
        return default if attribute is None else attribute.value

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value."""
        attribute = self.node.attributes.get(name)
        return default if attribute is None else attribute.value

    def put(self, **attributes: Any) -> None:
        """Set attributes."""
        for attribute in make_attributes(attributes):
            self.node.attributes[attribute.name] = attribute

    def constant(self, values: Any, dtype: ir.DataType, name: str) -> ir.Value:
        """Return a new initializer."""
        tensor = ir.Tensor(np.asarray(values, dtype=dtype.numpy()))
        value = ir.Value(
            name=self._names.value(f"{self.node.name}/{name}"),
            shape=ir.Shape(tensor.shape.numpy()),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self._graph.register_initializer(value)
        return value

    def add(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None = None
    ) -> ir.Value:
        """Put a new node before this one and return its output."""
        new = self._make(op_type, inputs, attributes or {})
        self._graph.insert_before(self.node, new)
        self.added.append(new)
        return new.outputs[0]

    def add_after(self, op_type: str, others: Sequence[ir.Value]) -> None:
        """Put a new node behind this one, which takes over its first output's name and readers."""
        inner = self.node.outputs[0]
        new = self._make(op_type, [inner, *others], {})
        outer = new.outputs[0]
        self._graph.insert_after(self.node, new)
        ir.convenience.replace_all_uses_with(inner, outer, replace_graph_outputs=True)
        new.replace_input_with(0, inner)
        inner.name, outer.name = outer.name, inner.name
        self.after = new

    def _make(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any]
    ) -> ir.Node:
        stem = f"{self.node.name}/{op_type}"
        new = ir.Node(
            "",
            op_type,
            list(inputs),
            attributes=make_attributes(attributes),
            name=self._names.node(stem),
        )
        new.outputs[0].name = self._names.value(stem)
        set_layer_keys(new, layer_keys(self.node))
        return new
