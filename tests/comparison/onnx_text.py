"""ONNX files written as text, so that a pair of nets fits into a few lines of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import parser

import netweave

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

OPSET = 17


def read_text(text: str, folder: Path, name: str, *, opset: int = OPSET) -> Graph:
    """Write a net to a file and read it.

    Args:
        text: The graph in ONNX's textual form, ``g (float[N,8] x) => (float[N,8] y) { y = Relu(x) }``.
        folder: Where the file is written.
        name: Its name without the ending.
        opset: Version of the operators.
    """
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")
    return netweave.load(folder / f"{name}.onnx")
