"""Shared by all readers: source files, safe parsing of bytes, text with line numbers, ONNX models."""

from netweave.files.output_files import OutputFiles
from netweave.files.source import Source, file_beside, is_file, read_bytes, read_head

__all__ = ["OutputFiles", "Source", "file_beside", "is_file", "read_bytes", "read_head"]
