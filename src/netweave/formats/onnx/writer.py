"""Writing a Graph as an ONNX file, with the tables of its source as metadata."""

from __future__ import annotations

from pathlib import Path

from netweave.files import OutputFiles
from netweave.files.onnx.model import save
from netweave.files.output_files import replacing_files, require_weights
from netweave.formats.onnx.functions import with_functions
from netweave.graph import Graph
from netweave.graph.passes import chain, fuse_gelu, fuse_layer_norm


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write a net as an ONNX file; an old file stays whole until the new one is.

    Operators of the domain ``netweave`` are written as they are, and what standard ONNX can express of them
    as functions of the model, so that other runtimes run the file as well. Layer normalisation and GELU that
    a source writes in parts are ONNX's operators for them.
    Weights of more than ``MAX_INSIDE_BYTES`` go to ``<name>.data`` beside it.
    """
    require_weights(graph, random_weights=random_weights)
    with replacing_files(path) as folder:
        save(with_functions(chain(fuse_layer_norm, fuse_gelu)(graph)), folder / path.name)
    return OutputFiles(path, inputs=None)
