"""The table of formats: which reader handles which file.

To add a format: write a package here with ``match(source) -> bool`` (cheap, no side effects) and
``read(source) -> Graph``, and add its row to ``FORMATS``. A format's package is loaded when first needed,
and imports no other format.
"""

from netweave.formats.table import FORMATS, Format, find_format, find_written, read

__all__ = ["FORMATS", "Format", "find_format", "find_written", "read"]
