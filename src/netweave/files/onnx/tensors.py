"""Checks of the tensors of an ONNX file before anything is allocated or opened for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError
from netweave.files.onnx.large_arrays import OWN_FILE
from netweave.graph.budget import MAX_ELEMENTS, num_elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

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
        found, expected, unit = len(tensor.raw_data), _num_bytes(dtype, count), "bytes"
    else:
        field = _TYPED.get(dtype, "int32_data")
        stray = next((name for name in _FIELDS if name != field and len(getattr(tensor, name))), None)
        if stray:
            raise ReadError(f"of type {dtype.name} has values in {stray}, expected {field}", place=place)
        found, expected, unit = len(getattr(tensor, field)), _num_values(dtype, count), "values"
    _check_count(tensor, dtype, found, expected, unit, place=place)


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
