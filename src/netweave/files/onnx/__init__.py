"""ONNX as readers share it: from a model of any opset to a Graph's nodes, with the batch kept free.

``formats/onnx`` reads files so, and formats whose own exporter writes ONNX read what it wrote.
"""

from netweave.files.onnx.model import Rows, read_model

__all__ = ["Rows", "read_model"]
