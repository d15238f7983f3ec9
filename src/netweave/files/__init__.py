"""What readers share: sources, safe reading of bytes, text with line numbers, ONNX models."""

from netweave.files.source import Source, file_beside, is_file, read_bytes
from netweave.files.written import Written

__all__ = ["Source", "Written", "file_beside", "is_file", "read_bytes"]
