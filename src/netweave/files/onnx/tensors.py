"""Tensors of ONNX models."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError
from netweave.files.protobuf_fields import BYTES, Span, field_head, field_spans, read_varint, write_field
from netweave.files.source import check_file, unreadable
from netweave.graph.costs import MAX_ELEMENTS, num_elements

# Protobuf would hold each of them twice on the way: in the bytes of the file and in the message. So they
# are left out of the message, which names their place in the file as it would that of external data; in a
# message that is written, their number.

OWN_FILE = f"<the file itself {secrets.token_hex(8)}>"
"""The location of arrays in the file of the message; no file can name it."""

MIN_FILE_BYTES = 4 << 20
"""Smaller files are parsed whole."""

MIN_ARRAY_BYTES = 64 << 10
"""Smaller arrays stay in the message."""

PLAIN = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.INT32, ir.DataType.INT64}
)
"""Element types whose values lie in a file as in an array."""

_GRAPH, _INITIALIZER, _DATA_TYPE, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 2, 9, 13, 14
"""Numbers of fields of ModelProto, GraphProto and TensorProto (onnx.proto)."""


def without_large_arrays(path: Path) -> bytes | None:
    """Return the message in a file without its large arrays; None for what is better parsed whole.

    Raises:
        ReadError: The file cannot be read.
    """
    num_bytes = check_file(path)
    if num_bytes < MIN_FILE_BYTES:
        return None
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _slim_model(content, Span(0, BYTES, 0, 0, len(content)))
    except OSError as error:
        raise unreadable(str(path), error) from error
    except ValueError:
        return None  # no message: parsing it says what is wrong


def read_own(tensor: ir.ExternalTensor, path: Path) -> ir.Tensor[Any]:
    """Return an array that was left out of the message in a file.

    Raises:
        ReadError: The file has changed since.
    """
    count, dtype = tensor.size, tensor.dtype.numpy()
    try:
        array = np.fromfile(path, dtype, count, offset=tensor.offset or 0)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if array.size != count:
        raise ReadError("was changed while it was read", place=str(path))
    return ir.Tensor(array.reshape(tensor.shape.numpy()), dtype=tensor.dtype, name=tensor.name)


def leave_out_large_arrays(model: ir.Model) -> list[ir.TensorProtocol]:
    """Put marks in the place of the large stored arrays of a model, in place; return them by number."""
    arrays: list[ir.TensorProtocol] = []
    for value in model.graph.initializers.values():
        array = value.const_value
        if array is None or array.dtype not in PLAIN or array.nbytes < MIN_ARRAY_BYTES:
            continue
        value.const_value = ir.ExternalTensor(
            OWN_FILE,
            len(arrays),
            array.nbytes,
            array.dtype,
            shape=ir.Shape(array.shape.numpy()),
            name=str(value.name),
        )
        arrays.append(array)
    return arrays


def with_large_arrays(slim: bytes, arrays: Sequence[ir.TensorProtocol]) -> Iterator[bytes | memoryview]:
    """Yield the parts of a message in which numbers stand for large arrays, with the arrays' own bytes.

    Args:
        slim: The message of a model, from which they were left out.
        arrays: The arrays by number; each is looked at once.
    """
    for span in field_spans(slim, Span(0, BYTES, 0, 0, len(slim))):
        if (span.number, span.wire_type) != (_GRAPH, BYTES):
            yield slim[span.begin : span.end]
            continue
        parts = list(_parts_of_graph(slim, span, arrays))
        yield field_head(_GRAPH, sum(len(part) if isinstance(part, bytes) else part.nbytes for part in parts))
        for part in parts:
            yield part if isinstance(part, bytes) else _bytes_of(part)


def _parts_of_graph(
    slim: bytes, graph: Span, arrays: Sequence[ir.TensorProtocol]
) -> Iterator[bytes | ir.TensorProtocol]:
    begin, mark = graph.held, OWN_FILE.encode()
    for span in field_spans(slim, graph):
        if span.number != _INITIALIZER or mark not in slim[span.held : span.end]:
            continue
        yield slim[begin : span.begin]
        begin = span.end
        tensor = onnx.TensorProto.FromString(slim[span.held : span.end])
        (number,) = (int(entry.value) for entry in tensor.external_data if entry.key == "offset")
        for field in ("external_data", "data_location"):
            tensor.ClearField(field)
        rest = tensor.SerializeToString() + field_head(_RAW_DATA, arrays[number].nbytes)
        yield field_head(_INITIALIZER, len(rest) + arrays[number].nbytes) + rest
        yield arrays[number]
    yield slim[begin : graph.end]


def _bytes_of(array: ir.TensorProtocol) -> memoryview:
    """Return the values of an array as they lie in a file: little-endian, in C's order."""
    values = np.ascontiguousarray(array.numpy())
    values = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return values.reshape(-1).view(np.uint8).data


def _slim_model(content: mmap.mmap, whole: Span) -> bytes:
    return b"".join(
        write_field(_GRAPH, _slim_graph(content, span))
        if (span.number, span.wire_type) == (_GRAPH, BYTES)
        else content[span.begin : span.end]
        for span in field_spans(content, whole)
    )


def _slim_graph(content: mmap.mmap, graph: Span) -> bytes:
    return b"".join(
        write_field(_INITIALIZER, _slim_tensor(content, span))
        if span.number == _INITIALIZER and span.num_bytes >= MIN_ARRAY_BYTES
        else content[span.begin : span.end]
        for span in field_spans(content, graph)
    )


def _slim_tensor(content: mmap.mmap, tensor: Span) -> bytes:
    """Return a tensor without its raw data, if that is all it holds of values."""
    spans = list(field_spans(content, tensor))
    raw = [span for span in spans if span.number == _RAW_DATA]
    types = [read_varint(content, span.held) for span in spans if span.number == _DATA_TYPE]
    is_plain = len(raw) == 1 and raw[0].wire_type == BYTES and raw[0].num_bytes >= MIN_ARRAY_BYTES
    is_plain = is_plain and len(types) == 1 and types[0] is not None and types[0][0] in PLAIN
    if not is_plain or any(span.number in {_EXTERNAL_DATA, _DATA_LOCATION} for span in spans):
        return content[tensor.held : tensor.end]
    place = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", OWN_FILE), ("offset", raw[0].held), ("length", raw[0].num_bytes)):
        place.external_data.add(key=key, value=str(value))
    rest = b"".join(content[span.begin : span.end] for span in spans if span is not raw[0])
    return rest + place.SerializeToString()


_KNOWN_TYPES = frozenset(int(dtype) for dtype in ir.DataType) - {int(ir.DataType.UNDEFINED)}

_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")

_TYPED = {
    ir.DataType.FLOAT: "float_data",
    ir.DataType.COMPLEX64: "float_data",
    ir.DataType.DOUBLE: "double_data",
    ir.DataType.COMPLEX128: "double_data",
    ir.DataType.INT64: "int64_data",
    ir.DataType.UINT64: "uint64_data",
    ir.DataType.UINT32: "uint64_data",
    ir.DataType.STRING: "string_data",
}
"""Field of TensorProto that holds the values of a type if not the raw bytes; the rest: int32_data."""


MAX_LOCATION = 255
"""A longer name no file has."""


def check_tensors(model: onnx.ModelProto, *, folder: Path, place: str) -> None:
    """Check that every tensor has the bytes that its type and sizes ask for.

    Args:
        model: The model as parsed.
        folder: The folder of the file, outside of which no external data is read.
        place: The file, for messages.

    Raises:
        ReadError: Sizes and bytes do not fit, or external data is missing or lies elsewhere.
        UnsupportedError: A tensor is sparse.
    """
    for tensor in _tensors(model, place):
        where = f"{place}: tensor {tensor.name!r}"
        if tensor.data_type not in _KNOWN_TYPES:
            raise ReadError(f"has the unknown element type {tensor.data_type}", place=where)
        dtype = ir.DataType(tensor.data_type)
        count = num_elements(tensor.dims)
        if count is None:
            sizes = "x".join(map(str, tensor.dims))
            raise ReadError(f"has the shape {sizes}; at most {MAX_ELEMENTS:,} elements are read", place=where)
        if _is_own(tensor):
            length = next(int(entry.value) for entry in tensor.external_data if entry.key == "length")
            _check_count(tensor, dtype, length, _num_bytes(dtype, count), "bytes", place=where)
        elif tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(tensor, num_bytes=_num_bytes(dtype, count), folder=folder, place=where)
        else:
            _check_inside(tensor, dtype, count, place=where)


def _num_bytes(dtype: ir.DataType, count: int) -> int:
    return 0 if dtype == ir.DataType.STRING else (count * dtype.bitwidth + 7) // 8


def _tensors(model: onnx.ModelProto, place: str) -> Iterator[onnx.TensorProto]:
    yield from _graph_tensors(model.graph, place)
    for function in model.functions:
        yield from _node_tensors(function.node, place)
        yield from _attribute_tensors(function.attribute_proto, place)


def _graph_tensors(graph: onnx.GraphProto, place: str) -> Iterator[onnx.TensorProto]:
    if graph.sparse_initializer:
        _refuse_sparse(graph.sparse_initializer[0].values.name, place)
    yield from graph.initializer
    yield from _node_tensors(graph.node, place)


def _node_tensors(nodes: Iterable[onnx.NodeProto], place: str) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        if node.attribute:
            yield from _attribute_tensors(node.attribute, place)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto], place: str) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
            _refuse_sparse(attribute.name, place)
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from _graph_tensors(attribute.g, place)
        for graph in attribute.graphs:
            yield from _graph_tensors(graph, place)


def _refuse_sparse(name: str, place: str) -> None:
    raise UnsupportedError(f"tensor {name!r} is sparse; write the model with dense tensors", place=place)


def _check_inside(tensor: onnx.TensorProto, dtype: ir.DataType, count: int, *, place: str) -> None:
    if tensor.HasField("raw_data"):
        stored, expected, unit = len(tensor.raw_data), _num_bytes(dtype, count), "bytes"
    else:
        field = _TYPED.get(dtype, "int32_data")
        stray = next((name for name in _FIELDS if name != field and len(getattr(tensor, name))), None)
        if stray:
            raise ReadError(f"of type {dtype.name} has values in {stray}, expected {field}", place=place)
        stored, expected, unit = len(getattr(tensor, field)), _num_values(dtype, count), "values"
    _check_count(tensor, dtype, stored, expected, unit, place=place)


def _is_own(tensor: onnx.TensorProto) -> bool:
    """Return whether the values are read from the file of the message itself."""
    return any(entry.key == "location" and entry.value == OWN_FILE for entry in tensor.external_data)


def _check_count(
    tensor: onnx.TensorProto, dtype: ir.DataType, found: int, expected: int, unit: str, *, place: str
) -> None:
    if found != expected:
        sizes = "x".join(map(str, tensor.dims)) or "a single value"
        raise ReadError(
            f"has {found:,} {unit}, expected {expected:,} for {sizes} of {dtype.name}; "
            "was the file copied or downloaded whole?",
            place=place,
        )


def _num_values(dtype: ir.DataType, count: int) -> int:
    if dtype in {ir.DataType.COMPLEX64, ir.DataType.COMPLEX128}:
        return 2 * count
    packed = 1 if dtype == ir.DataType.STRING or dtype.bitwidth >= 6 else 8 // dtype.bitwidth
    return -(-count // packed)


def _check_external(tensor: onnx.TensorProto, *, num_bytes: int, folder: Path, place: str) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", num_bytes))
    except ValueError:
        raise ReadError(f"has external data at {entries}, expected integers", place=place) from None
    size = _external_size(folder, location, place)
    if length != num_bytes or offset < 0 or offset + length > size:
        raise ReadError(
            f"needs {num_bytes:,} bytes; external data file {location!r} has {size:,} bytes, "
            f"of which {length:,} from byte {offset:,} are named; was it copied whole?",
            place=place,
        )


def _external_size(folder: Path, location: str, place: str) -> int:
    """Return the size of an external data file, in bytes; it must lie in the folder of the net."""
    if not location or "\0" in location or "\\" in location or os.path.isabs(location):  # noqa: PTH117
        raise ReadError(f"names the external data file {location!r}, expected a relative path", place=place)
    base = folder.resolve()
    if len(location) > MAX_LOCATION or not (path := (base / location).resolve()).is_relative_to(base):
        raise ReadError(
            f"names the external data file {location!r:.200}, which is outside the folder of the net and is "
            "therefore not opened: copy it beside the net",
            place=place,
        )
    if not path.is_file():
        raise ReadError(f"external data file {location!r} is missing from the folder of the net", place=place)
    stat = path.stat()
    if stat.st_nlink > 1:
        raise ReadError(
            f"external data file {location!r} is a hard link, which may lead anywhere; copy it", place=place
        )
    return stat.st_size


def check_texts(model: onnx.ModelProto, *, place: str) -> None:
    """Check that every name in a model is a text.

    Raises:
        ReadError: One is not.
    """
    for text in _model_texts(model):
        if not isinstance(text, str):
            raise ReadError(
                f"holds the name {text!r:.60}, which is not UTF-8; the file is damaged", place=place
            )


def _model_texts(model: onnx.ModelProto) -> Iterator[object]:
    for opset in model.opset_import:
        yield opset.domain
    for entry in model.metadata_props:
        yield from (entry.key, entry.value)
    yield from _graph_texts(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload)
        yield from (*function.input, *function.output, *function.attribute)
        yield from _node_texts(function.node)
        yield from _attribute_texts(function.attribute_proto)


def _graph_texts(graph: onnx.GraphProto) -> Iterator[object]:
    yield graph.name
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        yield from (text for entry in value.metadata_props for text in (entry.key, entry.value))
    for tensor in graph.initializer:
        yield from _tensor_texts(tensor)
    for sparse in graph.sparse_initializer:
        yield from (*_tensor_texts(sparse.values), *_tensor_texts(sparse.indices))
    yield from _node_texts(graph.node)


def _node_texts(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        yield from (text for entry in node.metadata_props for text in (entry.key, entry.value))
        yield from _attribute_texts(node.attribute)


def _tensor_texts(tensor: onnx.TensorProto) -> Iterator[object]:
    yield tensor.name
    yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


def _attribute_texts(attributes: Iterable[onnx.AttributeProto]) -> Iterator[object]:
    for attribute in attributes:
        yield from (attribute.name, attribute.ref_attr_name)
        if attribute.HasField("t"):
            yield from _tensor_texts(attribute.t)
        for tensor in attribute.tensors:
            yield from _tensor_texts(tensor)
        if attribute.HasField("g"):
            yield from _graph_texts(attribute.g)
        for graph in attribute.graphs:
            yield from _graph_texts(graph)
