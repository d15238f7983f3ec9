"""Two Graphs -> one Comparison: where two nets agree, where they do not, and why."""

from netweave.compare.bisect import Parting, bisect
from netweave.compare.carry import carry_weights
from netweave.compare.matrix import Matrix, compare_all
from netweave.compare.metric import LOCAL_TOLERANCE, OUTPUT_TOLERANCE
from netweave.compare.pipeline import compare
from netweave.compare.result.comparison import (
    Comparison,
    Evidence,
    Finding,
    Group,
    Status,
    TensorMapping,
    Verdict,
)
from netweave.compare.result.record import NetRecord
from netweave.compare.result.saved import open_comparison, save_comparison

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
