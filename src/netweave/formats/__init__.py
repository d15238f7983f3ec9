"""The table of formats: which reader handles which file.

To add a format: write a package here with ``match(source) -> bool`` (cheap, no side effects), a module
``reader`` in it with ``read(source) -> Graph`` and, if it writes nets, a module ``writer`` with ``write``,
and add its row to ``FORMATS``; the methods of the row say what they do. A package is loaded when first
needed, and imports no other.
"""

from netweave.formats.table import FORMATS, Format, find_format, find_written, read

__all__ = ["FORMATS", "Format", "find_format", "find_written", "read"]
