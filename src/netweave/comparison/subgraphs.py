"""Pieces of a net: some of its nodes, with the views and sizes between them, as a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx_ir as ir

from netweave.comparison.metric import Signals, is_view
from netweave.graph import DOMAIN, OPSET, Graph
from netweave.graph.graph import captured, subgraphs

Find = Callable[[ir.Value | None], ir.Value | None]


class SubgraphBuilder:
    """Copies nodes of one net into a new graph, with the views between them and the sizes that they read.

    Args:
        signals: The net.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        self._constants: dict[str, ir.Value] = {}

    def add(
        self,
        nodes: Iterable[ir.Node],
        outputs: Sequence[str],
        shapes: Mapping[str, Sequence[int]],
        *,
        prefix: str,
    ) -> list[str]:
        """Add a group; return the signals that it must be fed, whose inputs are named with the prefix.

        Args:
            nodes: The group, in topological order.
            outputs: Signals of the group to give back, named with the prefix.
            shapes: Sizes of the signals that will be fed.
            prefix: Put before the names of values.
        """
        copies: dict[str, ir.Value] = {}
        fed: list[str] = []
        find = self._finder(copies, fed, shapes, prefix)
        for node in nodes:
            self._copy(node, find, copies, prefix)
        self._outputs += [copies[name] for name in outputs]
        return fed

    def add_views(self, value: ir.Value, shapes: Mapping[str, Sequence[int]]) -> None:
        """Add the views that lead to a value, which becomes an output; see ``add``."""
        copies: dict[str, ir.Value] = {}
        value_copy = self._finder(copies, [], shapes, "")(value)
        if value_copy is not None:
            self._outputs.append(value_copy)

    def _finder(
        self, copies: dict[str, ir.Value], fed: list[str], shapes: Mapping[str, Sequence[int]], prefix: str
    ) -> Find:
        def find(value: ir.Value | None) -> ir.Value | None:
            if value is None:
                return None
            name = str(value.name)
            if name in copies:
                return copies[name]
            if value.is_initializer():
                return self._constant(value)
            producer = value.producer()
            is_seen_through = name in self._signals.sizes or (
                producer is not None and is_view(producer) and name != self._signals.root.get(name, name)
            )
            if producer is not None and is_seen_through:
                self._copy(producer, find, copies, prefix)
                return copies[name]
            copies[name] = _input(f"{prefix}{name}", value, shapes.get(name))
            self._inputs.append(copies[name])
            fed.append(name)
            return copies[name]

        return find

    def _copy(
        self,
        node: ir.Node,
        find: Callable[[ir.Value | None], ir.Value | None],
        copies: dict[str, ir.Value],
        prefix: str,
    ) -> None:
        inputs = [find(value) for value in node.inputs]
        given = {value: find(value) for value in captured(node)}
        attributes = node.attributes.values()
        copy = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            attributes=[_with_given(attribute, given) for attribute in attributes]
            if given
            else [*attributes],
            num_outputs=len(node.outputs),
            name=f"{prefix}{node.name}",
            metadata_props=dict(node.metadata_props),
        )
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name = f"{prefix}{old.name}" if old.name else ""
            new.type = old.type
            if old.name:
                copies[old.name] = new
        self._nodes.append(copy)

    def _constant(self, value: ir.Value) -> ir.Value:
        name = str(value.name)
        if name not in self._constants:
            self._constants[name] = ir.Value(
                name=name, shape=value.shape, type=value.type, const_value=value.const_value
            )
        return self._constants[name]

    def finish(self) -> Graph:
        """Return the graph of all groups added."""
        graph = ir.Graph(
            self._inputs,
            self._outputs,
            nodes=self._nodes,
            initializers=list(self._constants.values()),
            opset_imports={"": OPSET, DOMAIN: 1, **self._signals.graph.model.opset_imports},
            name="test",
        )
        source = self._signals.graph
        return Graph(ir.Model(graph, ir_version=source.model.ir_version), layers=source.layers)


def _with_given(attribute: ir.Attr, given: Mapping[ir.Value, ir.Value | None]) -> ir.Attr:
    """Return an attribute whose inner graph, if it is one, reads other values of the graph around it."""
    if attribute.type != ir.AttributeType.GRAPH:
        return attribute
    graph = attribute.as_graph().clone(allow_outer_scope_values=True)
    _read_given(graph, given)
    return ir.AttrGraph(attribute.name, graph)


def _read_given(graph: ir.Graph, given: Mapping[ir.Value, ir.Value | None]) -> None:
    for node in graph:
        for index, value in enumerate(node.inputs):
            if value is not None and value in given:
                node.replace_input_with(index, given[value])
        for inner in subgraphs(node):
            _read_given(inner, given)
    for index, value in enumerate(graph.outputs):
        if (other := given.get(value)) is not None:
            graph.outputs[index] = other


def _input(name: str, value: ir.Value, shape: Sequence[int] | None) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape) if shape else value.shape, type=value.type)
