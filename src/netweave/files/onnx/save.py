"""Saving a Graph as an ONNX model with the tables of its source as metadata, and reading it back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import ReadError
from netweave.files.onnx import metadata
from netweave.files.onnx.large_arrays import OWN_FILE, leave_out_large_arrays, with_large_arrays
from netweave.files.onnx.model import parse
from netweave.files.onnx.read import Rows, read_model
from netweave.files.onnx.seal import write_sealed
from netweave.graph.parameters import LAYOUT_PROP, PARAMETER_PROP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import onnx

    from netweave.graph import Graph

MAX_INSIDE_BYTES = 1_800_000_000
"""Weights beyond this go to a file beside the net: protobuf ends at 2 GB, and needs room for the nodes."""

MIN_OUTSIDE_BYTES = 1024
"""Smaller arrays always stay in the net."""

_INFERRED = "pkg.onnx_shape_inference."


def save(graph: Graph, path: Path) -> None:
    """Write a model, with the tables of the graph; large weights go to ``<name>.data`` beside it.

    Raises:
        OSError: It cannot be written.
    """
    _save(_with_metadata(graph), path)


def read_saved(path: Path, *, place: str, files: Sequence[str]) -> Graph:
    """Read a graph that ``save`` wrote, in another process that ran code, say.

    Args:
        path: The file.
        place: The file that it was made from, for messages.
        files: The files of the net.

    Raises:
        ReadError: ``save`` did not write it.
    """
    saved: metadata.Saved | None = None

    def rows(model: ir.Model) -> Rows:
        nonlocal saved
        saved = metadata.load(model, place=place)
        if saved is None:
            raise ReadError("the process that read it wrote no tables", place=place)
        return Rows(saved.layers, batch_is_named=True)

    found = read_model(parse(path), path, rows, input_shapes={})
    assert saved is not None
    saved.tag(found.model, place=place)
    return replace(saved.graph(found.model), files=tuple(files))


def _with_metadata(graph: Graph) -> ir.Model:
    """Return a copy with the tables as metadata, without what belongs to the running program only."""
    model = graph.model.clone()
    model.metadata_props.update(metadata.dump(graph))
    for inner in model.graphs():
        for value in (*inner.inputs, *inner.initializers.values(), *(v for n in inner for v in n.outputs)):
            for key in list(value.metadata_props):
                if key.startswith(_INFERRED) or key in {PARAMETER_PROP, LAYOUT_PROP}:
                    del value.metadata_props[key]
    return model


def _save(model: ir.Model, path: Path) -> None:
    num_bytes = sum(
        value.const_value.nbytes
        for graph in model.graphs()
        for value in graph.initializers.values()
        if value.const_value is not None
    )
    if num_bytes > MAX_INSIDE_BYTES:
        ir.save(model, path, external_data=f"{path.name}.data", size_threshold_bytes=MIN_OUTSIDE_BYTES)
    else:
        large = leave_out_large_arrays(model)
        slim = _inside(model).SerializeToString()
        write_sealed(path, with_large_arrays(slim, large))


def _inside(model: ir.Model) -> onnx.ModelProto:
    """Return a model as a message that holds what other files hold, but for the arrays that are left out."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.location != OWN_FILE:
                (value.const_value,) = ir.external_data.convert_tensors_from_external([tensor])
    return ir.to_proto(model)
