"""Stand-ins for weights that two nets came without."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.comparison.side import Side


@dataclass(frozen=True, slots=True)
class SideCompletion:
    """The weights that completed one net.

    Attributes:
        unfilled: Keys of its parameters that have no values of their own and were given none of the other's.
        borrowing: Names of its nodes that ran with weights which are not its own.
    """

    unfilled: frozenset[str] = frozenset()
    borrowing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Completion:
    """The weights that completed both nets; by default none, since both came with weights.

    Attributes:
        a: What A was given.
        b: What B was given.
        weights_copied: Whether one ran with copies of the other's weights, so that agreement says something
            of the structure only (decision 0126).
        reordered: Names of the dense nodes whose weights were copied with their columns in another order.
        notes: What the reader should know, one sentence each.
    """

    a: SideCompletion = field(default_factory=SideCompletion)
    b: SideCompletion = field(default_factory=SideCompletion)
    weights_copied: bool = False
    reordered: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def of(self, side: Side) -> SideCompletion:
        """Return what one net was given."""
        return self.a if side.is_a else self.b

    @property
    def num_unfilled(self) -> int:
        """Number of arrays that have no values of their own and were given none."""
        return len(self.a.unfilled) + len(self.b.unfilled)
