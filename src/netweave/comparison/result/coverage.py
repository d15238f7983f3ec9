"""Coverage: settings whose change would have shown on the inputs of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Unexercised:
    """Something that the inputs did not exercise.

    Attributes:
        setting: What it is: an operator and its setting (``Clip max``), or a property of the inputs.
        layer: Name of A's layer; empty for the inputs.
        reason: Why it did not show, in words (``no value is above 6``).
        differs: The nets differ in it, so that it stands in the way of *identical*.
    """

    setting: str
    layer: str
    reason: str
    differs: bool = False

    def __str__(self) -> str:
        where = f" of {self.layer}" if self.layer else ""
        return f"{self.setting}{where} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The settings of A that the inputs exercised: changing one would have changed the output of its layer.

    Attributes:
        num_settings: Number of settings, the constants that layers decide by among them.
        not_exercised: Those that the inputs did not exercise.
    """

    num_settings: int
    not_exercised: tuple[Unexercised, ...] = ()

    @property
    def num_exercised(self) -> int:
        """Number of settings that were exercised."""
        return self.num_settings - sum(bool(each.layer) for each in self.not_exercised)

    @property
    def is_complete(self) -> bool:
        """True if all was exercised."""
        return not self.not_exercised

    @property
    def differing(self) -> tuple[Unexercised, ...]:
        """Settings that differ between the nets and were not exercised."""
        return tuple(each for each in self.not_exercised if each.differs)

    def missing(self, *missed: Unexercised) -> Coverage:
        """Return the coverage with more that was not exercised, before the rest."""
        return replace(self, not_exercised=(*missed, *self.not_exercised))

    def __str__(self) -> str:
        counts = f"{self.num_exercised:,} of {self.num_settings:,} settings exercised"
        if self.is_complete:
            return counts
        shown = [str(each) for each in self.not_exercised[:MAX_SHOWN]]
        if (more := len(self.not_exercised) - len(shown)) > 0:
            shown.append(f"{more:,} more")
        return f"{counts}; not exercised: {'; '.join(shown)}"


MAX_SHOWN = 4
"""So many are named in a line; JSON has all."""
