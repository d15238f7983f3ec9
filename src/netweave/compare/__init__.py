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
from netweave.compare.pipeline import compare

__all__ = [
    "Comparison",
    "Evidence",
    "Finding",
    "Group",
    "Status",
    "TensorMapping",
    "Verdict",
    "compare",
]
