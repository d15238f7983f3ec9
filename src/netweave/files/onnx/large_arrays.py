"""Arrays of an ONNX file that go straight from the file into memory, and from memory into the file.

Protobuf would hold each of them twice on the way: in the bytes of the file and in the message. So they are
left out of the message, which names their place in the file as it would that of external data; in a message
that is written, their number.
"""

from __future__ import annotations

import mmap
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from netweave.errors import ReadError
from netweave.files.source import check_file, unreadable
from netweave.files.wire import BYTES, Span, field_head, field_spans, read_varint, write_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
