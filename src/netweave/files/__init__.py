"""What readers share: sources, safe reading of bytes, text with line numbers, ONNX models."""

from netweave.files.source import Source, read_bytes

__all__ = ["Source", "read_bytes"]
