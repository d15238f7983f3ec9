"""ONNX files: read in any opset, written with the layers of their source."""

from __future__ import annotations

from netweave.files import Source
from netweave.formats.onnx.reader import is_model

__all__ = ["match"]


def match(source: Source) -> bool:
    """Return whether the file is an ONNX model by its content; its name does not matter."""
    return source.net.is_file() and is_model(source.net)
