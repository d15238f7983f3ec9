"""ONNX files: read in any opset, written with the layers of their source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files import OutputFiles
from netweave.formats.onnx.wire import is_model

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files import Source
    from netweave.graph import Graph

__all__ = ["match", "read", "write"]


def match(source: Source) -> bool:
    """Whether the file is an ONNX model by its content; its name does not matter."""
    return source.net.is_file() and is_model(source.net)


def read(source: Source) -> Graph:
    """Read an ONNX net; see ``netweave.formats.onnx.reader``."""
    from netweave.formats.onnx import reader

    return reader.read(source)


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write a net as an ONNX file; see ``netweave.formats.onnx.writer``."""
    from netweave.formats.onnx import writer

    writer.write(graph, path, random_weights=random_weights)
    return OutputFiles(path, inputs=None)
