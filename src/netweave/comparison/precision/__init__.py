"""Nets of different precision: what rounding explains, and what is wrong with how a net was rounded."""

from netweave.comparison.precision.comparing import compare_precisions

__all__ = ["compare_precisions"]
