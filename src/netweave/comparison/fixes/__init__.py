"""Applying the fixes that a comparison proposes to the text of the net's own files.

``Mender`` changes texts in memory and never a file. ``mending.EDITORS`` has one editor for each kind of
text that nets are written in, and the dialect of a format names it; a format whose files are binary, or
whose layers do not know their line, has none. ONNX models are edited as protobufs (``onnx_model``).
"""

from netweave.comparison.fixes.mending import Mended, Mender, Refusal, mend, unified_diff

__all__ = ["Mended", "Mender", "Refusal", "mend", "unified_diff"]
