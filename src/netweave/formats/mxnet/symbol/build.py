"""From the nodes of a symbol to its Graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import UnsupportedError, WeightError
from netweave.files.unknown import (
    UnknownLayer,
    UnknownSetting,
    check_input_names,
    refuse_unknown_layers,
    refuse_unknown_settings,
)
from netweave.formats.mxnet.symbol.context import MXNetOperator
from netweave.formats.mxnet.symbol.deduce import deduce
from netweave.formats.mxnet.symbol.operators import READERS, REASONS
from netweave.formats.mxnet.symbol.registry import ROLES
from netweave.formats.mxnet.symbol.variables import Variables
from netweave.formats.mxnet.symbol.vertex import Vertex
from netweave.graph import Graph, GraphBuilder, layer_keys
from netweave.graph.wording import names_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from netweave.formats.mxnet.symbol.document import Document
    from netweave.formats.mxnet.symbol.vertex import Output


def build(
    document: Document,
    *,
    name: str,
    input_shapes: Mapping[str, tuple[int, ...]],
    arrays: Mapping[str, np.ndarray] | None = None,
    file: str = "",
    open_batch: bool = True,
) -> Graph:
    """Return the Graph of a net.

    Args:
        document: The net, upgraded.
        name: What the Graph is called.
        input_shapes: Input sizes by name, batch size first.
        arrays: The stored arrays by name, without ``arg:`` and ``aux:``; None if there are none.
        file: Name of the file that they are from.
        open_batch: Whether the batch stays symbolic; otherwise the Graph is for the sizes given alone.

    Raises:
        ReadError: A setting is not what its operator takes.
        UnsupportedError: The net has operators or settings that Netweave does not read.
        ShapeError: Sizes do not fit, or are not known and needed.
        WeightError: The stored arrays are not those of the net.
        UsageError: The caller gave sizes for an input that the net does not have.
    """
    return _Build(document, name, input_shapes, arrays, file, open_batch=open_batch).graph()


class _Build:
    """A symbol on its way to a Graph."""

    def __init__(
        self,
        document: Document,
        name: str,
        input_shapes: Mapping[str, tuple[int, ...]],
        arrays: Mapping[str, np.ndarray] | None,
        file: str,
        *,
        open_batch: bool,
    ) -> None:
        self._document = document
        self._nodes = document.nodes
        self._input_shapes = input_shapes
        self._arrays = arrays
        self._file = file
        files = [document.file, file] if file else [document.file]
        self._builder = GraphBuilder(name, format="mxnet", files=files)
        self._variables = Variables(
            self._builder,
            arrays,
            file=file,
            input_shapes=input_shapes,
            deduced=deduce(self._nodes, arrays or {}),
            open_batch=open_batch,
        )
        self._outputs: dict[Vertex, Sequence[ir.Value]] = {}
        self._unknown_settings: list[UnknownSetting] = []

    def graph(self) -> Graph:
        """Read every node and return the Graph."""
        self._check_operators()
        self._check_arrays()
        for node in self._nodes:
            if not node.is_variable:
                self._outputs[node] = self._read(node)
        refuse_unknown_settings(self._unknown_settings, place=self._document.file)
        graph = self._builder.finish(self._heads())
        self._check_input_shapes(graph)
        return graph

    def _read(self, node: Vertex) -> Sequence[ir.Value]:
        reader = READERS[node.op]
        settings = node.settings
        layer = self._builder.layers.new(node.name, node.op, dict(node.attributes), origin=node.origin)
        with self._builder.layer(layer):
            ctx = MXNetOperator(
                self._builder,
                node,
                settings,
                names=reader.argument_names(settings),
                sources=[self._input(entry, node) for entry in node.inputs],
                variables=self._variables,
            )
            lowered = reader.read(ctx)
            values = [lowered] if isinstance(lowered, ir.Value) else lowered
            outputs = self._named(values, reader.output_names(node.name, len(values)), layer.key)
        self._builder.record(layer, inputs=ctx.read.values(), outputs=outputs, parameters=ctx.parameters)
        self._unknown_settings += settings.unknown(UnknownLayer(node.op, node.name, node.origin.line))
        return outputs

    def _named(self, values: Sequence[ir.Value], names: Sequence[str], key: str) -> list[ir.Value]:
        """Give an operator's outputs their names; a value that was there before gets a name of its own."""
        named: list[ir.Value] = []
        for value, name in zip(values, names, strict=True):
            producer = value.producer()
            own = producer is not None and key in layer_keys(producer) and value not in named
            output = value if own else self._builder.add("Identity", [value])
            self._builder.rename(output, name)
            named.append(output)
        return named

    def _input(self, output: Output, reading: Vertex) -> ir.Value | Vertex:
        node, number = output
        if node.is_variable and not number:
            return node
        outputs = self._outputs.get(node, ())
        if number >= len(outputs):
            raise UnsupportedError(
                f"reads output {number} of {node.name!r} ({node.op}), of which Netweave makes {len(outputs)}",
                place=reading.place,
            )
        return outputs[number]

    def _heads(self) -> list[ir.Value]:
        heads: list[ir.Value] = []
        for output in self._document.heads:
            node = output.vertex
            head = self._input(output, node)
            value = self._variables.value(head) if isinstance(head, Vertex) else head
            if value.producer() is None or value in heads:
                value = self._builder.add("Identity", [value], outputs=f"{node.name}_output")
            heads.append(value)
        return heads

    def _check_operators(self) -> None:
        """Refuse a net with unknown operators, naming each once with its nodes."""
        refuse_unknown_layers(
            [
                UnknownLayer(node.op, node.name, node.origin.line)
                for node in self._nodes
                if not node.is_variable and node.op not in READERS
            ],
            place=self._document.file,
            noun="operator",
            known=READERS,
            reasons=REASONS,
            how_to="add-an-mxnet-operator",
        )

    def _check_arrays(self) -> None:
        """Refuse stored arrays that leave out some that layers need, naming them all."""
        if self._arrays is None:
            return
        needed: list[str] = []
        for node in self._nodes:
            for name, (source, _) in zip(node.argument_names() or (), node.inputs, strict=False):
                if name in ROLES and source.is_variable and not self._variables.is_input(source):
                    needed.append(source.name)
        missing = [name for name in dict.fromkeys(needed) if name not in self._arrays]
        if missing:
            raise WeightError(
                f"does not hold {names_text(missing)}, which {self._document.file} needs; it contains "
                f"{names_text(self._arrays, most=3)}",
                place=self._file,
            )

    def _check_input_shapes(self, graph: Graph) -> None:
        inputs = [value.name or "" for value in graph.inputs]
        check_input_names(self._input_shapes, inputs, place=self._document.file)
