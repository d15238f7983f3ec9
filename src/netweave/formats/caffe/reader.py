"""From the files of a net to its message, its weights and its Graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir

from netweave.errors import ReadError, SourceError
from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.files.prototext import parse_text
from netweave.files.source import read_bytes, read_head
from netweave.formats.caffe.context import CaffeLayer
from netweave.formats.caffe.file_types import HEAD_BYTES, Kind, find_kind
from netweave.formats.caffe.inputs import NetInput, brings_data, find_inputs
from netweave.formats.caffe.layers import LAYERS
from netweave.formats.caffe.net import Wired, Wiring, build, entry, included, net_state, wire
from netweave.formats.caffe.parameters import Blobs
from netweave.formats.caffe.python_code import type_of
from netweave.formats.caffe.schema import caffe_schema, upgrade
from netweave.formats.caffe.weights import SUFFIXES, find_weights, net_weights, read_weights, weights_alone
from netweave.graph import Graph, GraphBuilder, Layer

_OTHERS = {
    "": "is an HDF5 file, which holds weights but no layers; give the .prototxt, and this as its weights",
    "SolverParameter": "is a solver, not a net; give the net that it trains",
    "SolverState": "is the state of a solver, which holds no net; give the .prototxt of the net",
    "LabelMap": "is a map of labels, not a net; give the .prototxt of the net",
    "BlobProto": "is a single array (a mean file), not a net; give the .prototxt of the net",
}

LENIENT = ("LayerParameter", "V1LayerParameter", "TransformationParameter", "DataParameter")
"""Kinds with unknown fields that do no harm: a layer that is not read is named by its type, and how data is
augmented is no part of a net."""


def read(source: Source) -> Graph:
    """Read a Caffe net: text or bytes, of any age.

    A file of weights keeps the net that was trained. Where that cannot be built (it was cut off, or is one of
    a training branch) and nothing else is given, its arrays are read alone.
    """
    place = str(source.net)
    path = find_weights(source)
    if path is not None:
        return build(parse_net(source.net), source, read_weights(path))
    try:
        net = parse_net(source.net)
        own = any(layer["blobs"] for layer in net["layer"])
        return build(net, source, net_weights(net, place=place) if own else None)
    except SourceError as error:
        if not source.net.name.endswith(SUFFIXES):
            raise
        alone = weights_alone(source.net)
        if alone is None:
            raise
        reason = error.message.split(";")[0]
        note = f"{place}: read as weights alone, since the net in it cannot be built ({reason})"
        return replace(alone, notes=(note,))


def parse_net(path: Path) -> Message:
    """Return the net that a file of text or bytes holds, in its current form.

    Raises:
        ReadError: The file cannot be read, is of another kind, or has no layers.
    """
    place = str(path)
    head = read_head(path, HEAD_BYTES)
    kind = find_kind(head)
    if kind is not None and kind.message != "NetParameter":
        solver = _net_of_solver(read_bytes(path), kind, place)
        raise ReadError(_OTHERS[kind.message] + solver, place=place)
    text = kind.text if kind is not None else b"\0" not in head
    net = (
        parse_text(read_bytes(path), caffe_schema(), "NetParameter", place=place, lenient=LENIENT)
        if text
        else caffe_schema().decode_file("NetParameter", path, place=place)
    )
    upgrade(net, place=place)
    if not net["layer"]:
        raise ReadError("has no layers, so it is not a Caffe net", place=place)
    if not text and not any(layer["bottom"] or layer["top"] for layer in net["layer"]):
        raise ReadError(
            "holds weights but no layers; give the .prototxt, with this file as its weights",
            place=place,
        )
    return net


def _net_of_solver(content: bytes, kind: Kind, place: str) -> str:
    if kind.message != "SolverParameter":
        return ""
    try:
        solver: Message = parse_text(content, caffe_schema(), kind.message, place=place)
    except ReadError:
        return ""
    if "net_param" in solver or "train_net_param" in solver:
        return ", which stands in the solver itself; put it into a file of its own"
    return f": {(solver['net'] or solver['train_net'])!r}" if solver["net"] or solver["train_net"] else ""


DOMAIN = "caffe"
"""Domain of nodes that stand for layers as the file has them."""


def read_structure(source: Source) -> Graph:
    """Read a Caffe net with a node of its type for each layer that is not read, or stands behind one.

    Layers before them have operators and sizes. Stored arrays are not read, and nothing can be computed
    with such a net.

    Raises:
        SourceError: The file is damaged.
    """
    place = str(source.net)
    net = parse_net(source.net)
    state = net_state(net, source)
    wiring = wire(included(net, state, place=place), of=net["layer"], place=place)
    inputs = _inputs(wiring, source)
    batch = next((declared.shape[0] for declared in inputs.values() if declared.batch), None)
    builder = GraphBuilder(net["name"] or source.net.stem, format="caffe", files=[place])
    blobs = Blobs(builder, None, net=place)
    values: dict[str, ir.Value] = {}
    unknown: set[str] = set()
    for wired in wiring.layers:
        layer = entry(builder, wired, place)
        bottoms = [values[name] for name in wired.bottoms]
        with builder.layer(layer):
            if brings_data(wired.spec) and inputs.keys() >= set(wired.tops):
                tops = [
                    builder.input(name, inputs[name].shape, batch=inputs[name].batch) for name in wired.tops
                ]
            else:
                ctx = CaffeLayer(
                    builder,
                    place=layer.place,
                    layer=layer,
                    spec=wired.spec,
                    bottoms=bottoms,
                    tops=wired.tops,
                    blobs=blobs,
                    phase=state.phase,
                    batch=batch,
                )
                known = _known(ctx)
                if type_of(wired.spec) not in LAYERS and not brings_data(wired.spec):
                    unknown.add(str(wired.spec["type"]))
                tops = known if known is not None else _as_it_is(builder, wired, layer, values)
        values.update(zip(wired.tops, tops, strict=False))
        builder.record(
            layer, inputs=bottoms, outputs=tops[: len(wired.tops)], parameters=blobs.keys(layer.key)
        )
    outputs = [values[name] for name in wiring.outputs]
    graph = builder.finish(outputs)
    graph.unknown = tuple(sorted(unknown))
    return graph


def _inputs(wiring: Wiring, source: Source) -> dict[str, NetInput]:
    """Return the inputs of a net; none if sizes of some are in its data, which is elsewhere."""
    try:
        return find_inputs(wiring.layers, source, None)
    except SourceError:
        return {}


def _known(ctx: CaffeLayer) -> list[ir.Value] | None:
    """Return what a layer makes that is read and of which all inputs have sizes; None for others."""
    reader = LAYERS.get(type_of(ctx.spec))
    if reader is None or brings_data(ctx.spec) or any(value.shape is None for value in ctx.bottoms):
        return None
    try:
        tops = list(reader.read(ctx))
    except SourceError:
        return None
    return tops if len(tops) >= len(ctx.tops) else None


def _as_it_is(
    builder: GraphBuilder, wired: Wired, layer: Layer, values: Mapping[str, ir.Value]
) -> list[ir.Value]:
    bottoms = [values[name] for name in wired.bottoms]
    return list(builder.add_opaque(layer.type, bottoms, domain=DOMAIN, outputs=wired.tops))
