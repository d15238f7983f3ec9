"""Two Graphs -> one Comparison: where two nets agree, where they do not, and why."""

from netweave.comparison.bisect import Parting, bisect
from netweave.comparison.carry import carry_weights
from netweave.comparison.matrix import Matrix, compare_all
from netweave.comparison.metric import LOCAL_TOLERANCE, OUTPUT_TOLERANCE
from netweave.comparison.pipeline import compare
from netweave.comparison.result.comparison import (
    Comparison,
    Evidence,
    Finding,
    Group,
    Status,
    TensorMapping,
    Verdict,
)
from netweave.comparison.result.record import NetRecord
from netweave.comparison.result.saved import open_comparison, save_comparison

__all__ = [
    "LOCAL_TOLERANCE",
    "OUTPUT_TOLERANCE",
    "Comparison",
    "Evidence",
    "Finding",
    "Group",
    "Matrix",
    "NetRecord",
    "Parting",
    "Status",
    "TensorMapping",
    "Verdict",
    "bisect",
    "carry_weights",
    "compare",
    "compare_all",
    "open_comparison",
    "save_comparison",
]
