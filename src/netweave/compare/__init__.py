"""Two Graphs -> one Comparison: where two nets agree, where they do not, and why."""

from netweave.compare.comparison import (
    Comparison,
    Evidence,
    Finding,
    Group,
    Status,
    TensorMapping,
    Verdict,
)
from netweave.compare.metric import LOCAL_TOLERANCE, OUTPUT_TOLERANCE
from netweave.compare.pipeline import compare

__all__ = [
    "LOCAL_TOLERANCE",
    "OUTPUT_TOLERANCE",
    "Comparison",
    "Evidence",
    "Finding",
    "Group",
    "Status",
    "TensorMapping",
    "Verdict",
    "compare",
]
