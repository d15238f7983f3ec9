"""Reader of ONNX, and of files with unknown operators, to be looked at."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx_ir as ir

from netweave.errors import UsageError
from netweave.files import Source
from netweave.files.checksums import CHANGED
from netweave.files.onnx import Rows, metadata, read_model
from netweave.files.onnx.editing import all_nodes
from netweave.files.onnx.layers import make_layers, make_parameters
from netweave.files.onnx.model import SEAL_FIELD, inline, is_as_sealed, parse, to_model
from netweave.files.onnx.upgrades import is_known_operator
from netweave.files.protobuf_fields import BYTES, MAX_VARINT, VARINT, read_varint
from netweave.graph import Graph, Parameter


def read(source: Source) -> Graph:
    """Read an ONNX net of any opset.

    The graph comes in opset ``OPSET``, without functions, with the batch size free where the net allows
    it. A file that Netweave wrote gives back the layers, parameters and declared shapes of its source; drawn
    values that it wrote are first values now, since the file holds them and anybody may have changed them.

    Raises:
        SourceError: The file cannot be read, or holds something unknown.
        UsageError: Input sizes are given for something that is no input.
    """
    if source.weights is not None:
        raise UsageError(f"an ONNX file contains its weights; do not give {str(source.weights)!r}")
    place = str(source.net)
    saved: metadata.Saved | None = None

    def rows(model: ir.Model) -> Rows:
        nonlocal saved
        saved = metadata.load(model, place=place)
        layers = saved.layers if saved else make_layers(model, file=place)
        return Rows(layers, batch_is_named=saved is not None)

    content = read_model(
        parse(source.net), source.net, rows, input_shapes=source.input_shapes, partial=source.partial
    )
    if not is_as_sealed(source.net):
        content = replace(content, notes=(*content.notes, f"{place}: {CHANGED}"))
    if saved:
        saved.tag(content.model, place=place)
        graph = replace(saved.graph(content.model), files=(place,), assumed={})
        graph.notes += tuple(note for note in content.notes if note.endswith(CHANGED))
        graph.parameters = {key: _held(parameter) for key, parameter in saved.parameters.items()}
    else:
        parameters = make_parameters(content.model, content.layers)
        graph = Graph(
            content.model, content.layers, parameters, content.declared, "onnx", (place,), content.notes
        )
    graph.declared |= source.input_shapes  # the caller declares the sizes that the file leaves open
    return graph


def _held(parameter: Parameter) -> Parameter:
    """Return a stored array as one whose values the file holds."""
    return parameter if parameter.loaded else replace(parameter, loaded=True, initial=True)


GRAPH = 7
"""Field of ModelProto that holds the net."""

VERSIONS = frozenset({1, 8})
"""Fields of ModelProto of which a file has at least one: the file version and the opsets."""

FIELDS = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, GRAPH: BYTES, 8: BYTES, 14: BYTES}
FIELDS |= {20: BYTES, 25: BYTES, 26: BYTES}
FIELDS |= {SEAL_FIELD: BYTES}
"""All fields of ModelProto (onnx.proto, IR version 13) with their wire types, and that of our checksum."""

MAX_FIELDS = 10_000
"""More outermost fields are not looked at."""


def is_model(path: Path) -> bool:
    """Return whether a file's outermost fields are those of an ONNX model; a cut-off graph still counts.

    Only tags and lengths are read, so that the size of the file does not matter.

    Raises:
        OSError: The file cannot be read.
    """
    seen: set[int] = set()
    with path.open("rb") as file:
        num_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        for _ in range(MAX_FIELDS):
            if file.tell() >= num_bytes:
                break
            tag = _varint(file)
            if tag is None or FIELDS.get(tag >> 3) != tag & 7:
                return False
            seen.add(tag >> 3)
            length = _varint(file)
            if length is None:
                break
            if tag & 7 == BYTES:
                file.seek(min(length, num_bytes), os.SEEK_CUR)
    return GRAPH in seen and bool(VERSIONS & seen)


def _varint(file: BinaryIO) -> int | None:
    start = file.tell()
    read = read_varint(file.read(MAX_VARINT))
    if read is None:
        return None
    file.seek(start + read[1])
    return read[0]


MAX_INFERRED_BYTES = 2**30
"""Messages from this size on keep the sizes that the file says; ONNX's inference copies the message."""


def read_structure(source: Source) -> Graph:
    """Read an ONNX net as its file has it: in its own opset, with the operators that nobody knows.

    Sizes are those that the file says, and what ONNX infers from them as far as operators are known.
    Nothing can be computed with such a net.

    Raises:
        SourceError: The file is damaged.
    """
    place = str(source.net)
    proto = parse(source.net)
    if proto.ByteSize() < MAX_INFERRED_BYTES:
        proto = _with_sizes(proto)
    model = to_model(proto, source.net)
    inline(model, place=place)
    unknown = {
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in all_nodes(model.graph)
        if not is_known_operator(node, model)
    }
    layers = make_layers(model, file=place)
    declared = {str(value.name): _sizes(value) for value in model.graph.inputs if value.shape is not None}
    parameters = make_parameters(model, layers)
    return Graph(model, layers, parameters, declared, "onnx", (place,), unknown=tuple(sorted(unknown)))


def _with_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(proto)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return proto  # its sizes contradict each other


def _sizes(value: ir.Value) -> tuple[int | None, ...]:
    shape = value.shape or ()
    return tuple(size if isinstance(size, int) else None for size in shape)
