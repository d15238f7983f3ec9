"""An output of one net held against one of the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.metric import OUTPUT_TOLERANCE

if TYPE_CHECKING:
    from netweave.comparison.result.comparison import TensorMapping


@dataclass(frozen=True, slots=True)
class OutputPair:
    """An output of A against one of B.

    Attributes:
        a: Name of A's output; empty if only B has it.
        b: Name of B's output; empty if only A has it.
        error: Difference relative to the rms; None if they cannot be compared.
        mapping: How A's becomes B's.
        moved: Whether it stands in another place among B's outputs.
    """

    a: str
    b: str
    error: float | None = None
    mapping: TensorMapping | None = None
    moved: bool = False

    def agrees(self, tolerance: float = OUTPUT_TOLERANCE) -> bool:
        """Return whether the two are equal under the mapping."""
        return self.error is not None and self.error <= tolerance
