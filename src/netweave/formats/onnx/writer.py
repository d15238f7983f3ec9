"""Writing a Graph as an ONNX file, with the tables of its source as metadata."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.formats.onnx import metadata
from netweave.graph.parameters import LAYOUT_PROP, PARAMETER_PROP

if TYPE_CHECKING:
    from netweave.graph import Graph

MAX_INSIDE_BYTES = 1_800_000_000
"""Weights beyond this go to a file beside the net: protobuf ends at 2 GB, and needs room for the nodes."""

MIN_OUTSIDE_BYTES = 1024
"""Smaller arrays always stay in the net."""

_INFERRED = "pkg.onnx_shape_inference."


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> None:
    """Write a net as an ONNX file; an old file stays whole until the new one is.

    Operators of the domain ``netweave`` are written as they are: only Netweave runs such a file.
    Weights of more than ``MAX_INSIDE_BYTES`` go to ``<name>.data`` beside it.

    Args:
        graph: The net; it is not changed.
        path: The file, in a folder that is there.
        random_weights: Write a net without weights with the drawn ones that stand in for them.

    Raises:
        UsageError: The net has no weights, or the file cannot be written.
    """
    missing = [key for key, parameter in graph.parameters.items() if not parameter.loaded]
    if missing and not random_weights:
        named = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"net {graph.name!r} has no weights for {len(missing)} of {len(graph.parameters)} parameters "
            f"({named}): name its weights, or ask for random ones (--random-weights, random_weights=True)"
        )
    model = _with_metadata(graph)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            _save(model, Path(folder) / path.name)
            for written in sorted(Path(folder).iterdir(), key=lambda file: file.name == path.name):
                os.replace(written, path.parent / written.name)  # noqa: PTH105
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


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
        ir.external_data.load_to_model(model)
        ir.save(model, path)
