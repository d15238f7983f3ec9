"""From the files of a net to its message, its weights and its Graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from netweave.errors import ReadError, SourceError
from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.files.prototext import parse_text
from netweave.files.source import read_bytes, read_head
from netweave.formats.caffe.file_types import HEAD_BYTES, Kind, find_kind
from netweave.formats.caffe.net import build
from netweave.formats.caffe.schema import caffe_schema, upgrade
from netweave.formats.caffe.weights import SUFFIXES, find_weights, net_weights, read_weights, weights_alone
from netweave.graph import Graph

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
