"""Weights compared as weights: nets that are known by their stored arrays alone.

Every array of A is looked for among those of B by what it holds, whatever its layout and name; how the one
became the other is then found and said in words.
"""

from netweave.comparison.stored.comparison import compare_stored

__all__ = ["compare_stored"]
