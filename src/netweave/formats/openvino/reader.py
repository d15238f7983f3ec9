"""From the files of an IR to its Graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from netweave.errors import ReadError
from netweave.files import Source
from netweave.files.source import read_bytes
from netweave.files.unknown_names import UnknownLayer, check_input_names, refuse_unknown_layers
from netweave.formats.lowering.channels_last import (
    ChannelsLastLayer,
    ChannelsLastNet,
    Operand,
    Stored,
    Tensor,
)
from netweave.formats.lowering.windows import check_given_sizes, check_input_size, unknown_sizes
from netweave.formats.openvino.constants import DTYPES, Constants, weights_beside
from netweave.formats.openvino.context import OpenVINOOperation
from netweave.formats.openvino.document import Document, IRLayer, Port, parse_size, read_document
from netweave.formats.openvino.operators import READERS, REASONS
from netweave.graph import BATCH, Graph, GraphBuilder, Origin
from netweave.graph.ordering import CycleError, inputs_first

INPUT, CONSTANT, RESULT = "Parameter", "Const", "Result"


def read(source: Source) -> Graph:
    """Read a net of OpenVINO."""
    file = str(source.net)
    document = read_document(read_bytes(source.net), file=file)
    layers = _in_order(document)
    refuse_unknown_layers(
        [
            UnknownLayer(layer.type, layer.name, layer.line)
            for layer in layers
            if layer.type not in READERS and layer.type not in {INPUT, CONSTANT, RESULT}
        ],
        place=file,
        noun="operator",
        known=READERS,
        reasons=REASONS,
        how_to="add-an-openvino-operator",
    )
    constants = Constants(weights_beside(source.net, source.weights), net=source.net.name)
    return _Reading(document, constants, source.input_shapes, source.net.stem).graph(layers)


def _in_order(document: Document) -> list[IRLayer]:
    """Return the layers that the net's outputs need, and its inputs, each after those that it reads."""
    layers = document.layers

    def sources(key: str) -> list[str]:
        return [source for source, _ in layers[key].inputs]

    for layer in layers.values():
        missing = [source for source, _ in layer.inputs if source not in layers]
        if missing:
            raise ReadError(
                f"reads the layer {missing[0]!r:.40}, which the file does not contain",
                place=document.place(layer),
            )
    ends = [layer.id for layer in layers.values() if layer.type in {INPUT, RESULT}]
    if not any(layer.type == RESULT for layer in layers.values()):
        raise ReadError("has no layer of type Result, so no output", place=document.file)
    try:
        return [layers[key] for key in inputs_first(ends, sources, known=())]
    except CycleError as circle:
        layer = layers[circle.path[-1]]
        raise ReadError("depends on its own output", place=document.place(layer)) from circle


class _Reading:
    """Lowers the layers of one net, in order."""

    def __init__(
        self,
        document: Document,
        constants: Constants,
        input_shapes: Mapping[str, tuple[int, ...]],
        name: str,
    ) -> None:
        self.document = document
        self.constants = constants
        self.input_shapes = input_shapes
        self.builder = GraphBuilder(name, format="openvino", files=(document.file, *constants.files))
        self.values: dict[Port, Operand] = {}
        self.input_names: list[str] = []

    def graph(self, layers: Sequence[IRLayer]) -> Graph:
        """Return the Graph."""
        # in the file's order, which is not that in which outputs need them
        inputs = [layer for layer in self.document.layers.values() if layer.type == INPUT]
        results = [layer for layer in self.document.layers.values() if layer.type == RESULT]
        names = _named_apart([self._tensor_name(layer.inputs[0], layer) for layer in results if layer.inputs])
        self.net = ChannelsLastNet(self.builder, reserved=names)
        for layer in inputs:
            self._add_input(layer)
        check_input_names(self.input_shapes, self.input_names, place=self.document.file)
        self.constants.taken = frozenset({*names, *self.input_names})
        for layer in layers:
            if layer.type == CONSTANT:
                value = self.constants.value(layer, place=self.document.place(layer))
                self.values[layer.id, self._port(layer)] = value
            elif layer.type not in {INPUT, RESULT}:
                self._lower(layer)
        outputs = [self._value(layer.inputs[0], layer) for layer in results if layer.inputs]
        whole_net = ChannelsLastLayer(self.net, place=self.document.file)
        return self.builder.finish(whole_net.net_outputs(outputs, names))

    def _port(self, layer: IRLayer) -> str:
        if not layer.outputs:
            raise ReadError("has no output", place=self.document.place(layer))
        return layer.outputs[0].id

    def _tensor_name(self, port: Port, reader: IRLayer) -> str:
        """Return the name of a tensor: its own, or that of its layer."""
        layer = self.document.layers[port[0]]
        names = [name for output in layer.outputs if output.id == port[1] for name in output.names]
        return min(names, key=lambda name: (len(name), name)) if names else layer.name

    def _value(self, port: Port, reader: IRLayer) -> Operand:
        if port not in self.values:
            name = self.document.layers[port[0]].name
            raise ReadError(
                f"reads output {port[1]!r:.40} of layer {name!r:.100}, which the layer does not give",
                place=self.document.place(reader),
            )
        return self.values[port]

    def _add_input(self, layer: IRLayer) -> None:
        place, port = self.document.place(layer), self._port(layer)
        name = self._tensor_name((layer.id, port), layer)
        kind = layer.settings.get("element_type", layer.outputs[0].precision.lower())
        if kind not in DTYPES:
            raise ReadError(f"is an input of type {kind!r:.40}, which is not supported", place=place)
        text = layer.settings.get("shape", "")
        if "..." in text:
            raise unknown_sizes(name, place=place, example="1x3x224x224")
        declared = [parse_size(size, place=place) for size in text.split(",") if size.strip()]
        given = self.input_shapes.get(name)
        if given is not None:
            check_given_sizes(name, declared, given, place=place)
        sizes: tuple[int | None, ...] = given or tuple(declared)
        check_input_size(name, sizes, place=place)
        dims: list[int | str | None] = list(sizes)
        if dims and declared[0] is None:
            dims[0] = BATCH
        dtype = ir.DataType.from_numpy(DTYPES[kind])
        self.input_names.append(name)
        self.values[layer.id, port] = Tensor(self.builder.input(name, dims, dtype=dtype, batch=False))

    def _lower(self, layer: IRLayer) -> None:
        operands = [self._value(port, layer) for port in layer.inputs]
        place = self.document.place(layer)
        ctx = OpenVINOOperation(self.net, layer, operands, place=place)
        entry = self.builder.layers.new(
            layer.name,
            layer.type,
            dict(layer.settings),
            outputs=tuple(self._tensor_name((layer.id, output.id), layer) for output in layer.outputs),
            origin=Origin(self.document.file, layer.line),
        )
        with ctx.located_errors():
            if all(isinstance(x, Stored) for x in operands):
                items = _items(READERS[layer.type].read(ctx))  # of what is stored alone: nothing to show
            else:
                with ctx.recorded(entry, operands) as outputs:
                    items = _items(READERS[layer.type].read(ctx))
                    outputs += [item for item in items if isinstance(item, Tensor)]
        for output, item in zip(layer.outputs, items, strict=False):
            self.values[layer.id, output.id] = item


def _items(items: Operand | Sequence[Operand]) -> list[Operand]:
    return [items] if isinstance(items, Operand) else list(items)


def _named_apart(names: Sequence[str]) -> list[str]:
    """Return names of which each is another: a second one is numbered."""
    apart: list[str] = []
    for name in names:
        free, count = name, 1
        while free in apart:
            free, count = f"{name}_{count}", count + 1
        apart.append(free)
    return apart
