"""Applying the fixes that a comparison proposes to the text of the net's own files.

``mend`` changes texts in memory and never a file. ``TEXT_EDITORS`` has one editor for each kind of file that
nets are written in; a format whose files are binary, or whose layers do not know their line, has none.
"""

from netweave.comparison.fixes.mending import Mended, Refusal, mend, unified_diff

__all__ = ["Mended", "Refusal", "mend", "unified_diff"]
