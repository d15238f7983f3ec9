"""Readers and writers of each framework's files, the table of formats, and the lowering they share.

To add a format: write a package here with ``match(source) -> bool`` (cheap, no side effects), a module
``reader`` in it with ``read(source) -> Graph``, a module ``dialect`` with its words for settings and, if it
writes nets, a module ``writer`` with ``write``; and add its row to ``FORMATS``, whose methods say what they
do. Files that say how to train are named in the row too (``jobs``), and read by a module ``job`` with
``is_job(path) -> bool``, by the first bytes, and ``read_job(path, options) -> Job``. A package is loaded
when first needed, and imports no other.
"""

from netweave.formats.registry import (
    CODE_NOT_ALLOWED,
    FORMATS,
    Format,
    find_format,
    find_job_format,
    find_written,
    format_text,
    read,
    read_job,
    read_structure,
    source_formats,
)

__all__ = [
    "CODE_NOT_ALLOWED",
    "FORMATS",
    "Format",
    "find_format",
    "find_job_format",
    "find_written",
    "format_text",
    "read",
    "read_job",
    "read_structure",
    "source_formats",
]
