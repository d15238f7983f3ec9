"""Cutting a part out of a graph, as a graph of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.graph import Graph, LayerTable, layer_keys, parameter_key
from netweave.graph.uses import needed_nodes, reads

if TYPE_CHECKING:
    from collections.abc import Sequence


class Extractor:
    """Cuts parts out of one graph; the graph must not change in the meantime.

    The names are looked up in an index that is made once, so that a cut costs about as much as the part
    is large.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values = graph.values()
        self._values.update(graph.find(graph.aliases))
        self._node_position = {node: index for index, node in enumerate(graph.nodes)}
        self._layer_position = {key: index for index, key in enumerate(graph.layers)}

    def extract(self, *, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the part of the graph between some values; see ``extract``."""
        given = [self._value(name) for name in inputs]
        wanted = [self._value(name) for name in outputs]
        nodes = sorted(needed_nodes(wanted, given=given), key=self._node_position.__getitem__)
        known = {*given, *(value for node in nodes for value in node.outputs)}
        loose = dict.fromkeys(v for v in [*wanted, *_all_reads(nodes)] if v not in known)
        missing = [value.name for value in loose if not value.is_initializer()]
        if missing:
            raise UsageError(
                f"cannot cut {', '.join(outputs)} out of {self._graph.name!r}: "
                f"also needed as inputs: {', '.join(map(repr, missing))}"
            )
        view = ir.GraphView(
            given,
            wanted,
            nodes=nodes,
            initializers=list(loose),
            opset_imports=self._graph.model.graph.opset_imports,
            name=self._graph.name,
        )
        return self._wrapped(view.clone(), nodes)

    def _value(self, name: str) -> ir.Value:
        if name not in self._values:
            raise UsageError(f"no value named {name!r} in net {self._graph.name!r}")
        return self._values[name]

    def _wrapped(self, part: ir.Graph, nodes: Sequence[ir.Node]) -> Graph:
        whole = self._graph
        places = self._layer_position
        layers = sorted(
            {k for node in nodes for k in layer_keys(node) if k in places}, key=places.__getitem__
        )
        stored = dict.fromkeys(filter(None, map(parameter_key, part.initializers.values())))
        model = ir.Model(
            part,
            ir_version=whole.model.ir_version,
            producer_name=whole.model.producer_name,
            functions=list(whole.model.functions.values()),
        )
        return Graph(
            model=model,
            layers=LayerTable(whole.layers[key] for key in layers),
            parameters={key: whole.parameters[key] for key in stored if key in whole.parameters},
            declared={v.name: whole.declared[v.name] for v in part.inputs if v.name in whole.declared},
            format=whole.format,
            files=whole.files,
            unread={name: x for name, x in whole.unread.items() if name in part.initializers},
        )


def extract(graph: Graph, *, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """Return the nodes between some values as a graph of its own; ``graph`` is not changed.

    Names of values and nodes stay; initializers, layers and parameters of the part come along, arrays
    are shared. Many cuts of one graph are made faster by one ``Extractor``.

    Args:
        graph: The graph to cut from.
        inputs: Names of the values that the part is given: any values, also initializers.
        outputs: Names of the values that it gives back.

    Raises:
        UsageError: A name is unknown, or the outputs need more than the inputs.
    """
    return Extractor(graph).extract(inputs=inputs, outputs=outputs)


def _all_reads(nodes: Sequence[ir.Node]) -> list[ir.Value]:
    return [value for node in nodes for value in reads(node)]
