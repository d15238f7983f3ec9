"""The comparing wing: where two Graphs agree, where they differ and why, and fixes for what differs."""

from __future__ import annotations

from netweave.comparison.assessment import Matrix
from netweave.comparison.bisect import Divergence, bisect
from netweave.comparison.metric import LOCAL_TOLERANCE, OUTPUT_TOLERANCE
from netweave.comparison.pipeline import CompareOptions, compare
from netweave.comparison.result.comparison import (
    INPUT_ORDER,
    OPERATOR,
    OUTPUT,
    READING,
    Comparison,
    Edit,
    Evidence,
    Finding,
    Group,
    Status,
    TensorMapping,
)
from netweave.comparison.result.report import NetRecord
from netweave.comparison.result.saved import open_comparison, save_comparison
from netweave.comparison.result.verdicts import Verdict
from netweave.comparison.weight_transfer import transfer_weights

__all__ = [
    "INPUT_ORDER",
    "LOCAL_TOLERANCE",
    "OPERATOR",
    "OUTPUT",
    "OUTPUT_TOLERANCE",
    "READING",
    "CompareOptions",
    "Comparison",
    "Divergence",
    "Edit",
    "Evidence",
    "Finding",
    "Group",
    "Matrix",
    "NetRecord",
    "Status",
    "TensorMapping",
    "Verdict",
    "bisect",
    "compare",
    "open_comparison",
    "save_comparison",
    "transfer_weights",
]
