"""How one stored array became another: axes in another order, channels reversed, inputs flattened anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.stored.layouts import FILTERS, axes_between, layouts_of, straightened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.comparison.stored.layouts import Layout

SAME = 1e-5
"""Largest difference of equal numbers, relative to the rms of the array."""


@dataclass(frozen=True, slots=True)
class Change:
    """How an array of A becomes one of B, step by step.

    Attributes:
        shape: Sizes in B.
        given: Letters of A's axes, once it is seen in ``split``; empty where nothing moves.
        made: The same letters in B's order.
        split: Sizes that A's array is seen in; None for its own.
        reversed_axes: Letters of the axes whose entries are reversed.
    """

    shape: tuple[int, ...]
    given: str = ""
    made: str = ""
    split: tuple[int, ...] | None = None
    reversed_axes: str = ""

    @property
    def axes(self) -> tuple[int, ...] | None:
        """Order of the axes; None where they stay."""
        return axes_between(self.given, self.made) if self.given != self.made else None

    @property
    def kind(self) -> tuple[str, str, str]:
        """What it has in common with the changes of other arrays of a net."""
        return self.given, self.made, self.reversed_axes

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return A's array as B stores it."""
        if self.split is not None:
            array = array.reshape(self.split)
        if self.axes is not None:
            array = array.transpose(self.axes)
        if self.reversed_axes:
            array = np.flip(array, tuple(map(self.made.index, self.reversed_axes)))
        return array.reshape(self.shape)

    @property
    def text(self) -> str:
        """The change in words; empty for "as it is"."""
        words = [self._order_in_words()]
        if "I" in self.reversed_axes:
            words.append("input channels reversed (RGB and BGR)")
        if "H" in self.reversed_axes:
            words.append("filters turned by 180 degrees")
        return ", ".join(word for word in words if word)

    def _order_in_words(self) -> str:
        if self.given == self.made:
            return ""
        if "C" in self.given:
            return self._flattening_in_words()
        if len(self.given) == 2:
            return "transposed"
        given, made = straightened(self.given), straightened(self.made)
        turned = ("WH" in self.given) != ("WH" in self.made)
        words = [f"{made} for {given}"] if given != made else []
        return " with ".join([*words, *(["height and width swapped"] if turned else [])])

    def _flattening_in_words(self) -> str:
        """Say in which order the axes of an image were flattened before a dense layer."""
        given, made = self.given.replace("O", ""), self.made.replace("O", "")
        turned = self.given.startswith("O") != self.made.startswith("O")
        words = ["transposed"] if turned else []
        return ", ".join([*words, *([f"inputs flattened as {made} for {given}"] if given != made else [])])


@dataclass(frozen=True, slots=True)
class Likeness:
    """What remains between an array of A, changed, and one of B.

    Attributes:
        change: How A's became B's.
        error: Largest difference, relative to the rms of A's.
        num_different: Elements that differ.
        worst: Index in B of the largest difference.
    """

    change: Change
    error: float
    num_different: int
    worst: tuple[int, ...]


def find_change(
    a: np.ndarray, b: np.ndarray, hints: Sequence[Change] = (), *, b_is_net: bool = False
) -> Likeness | None:
    """Return the change that leaves the fewest elements different; None if the arrays cannot be one another.

    Args:
        a: An array of A.
        b: An array of B.
        hints: Changes of other arrays, the likeliest first; of changes that do as well, the first of them.
        b_is_net: As in ``layouts_of``.
    """
    if a.size != b.size or not a.size:
        return None
    rms = float(np.sqrt(np.mean(a * a)))
    known = {hint.kind: rank for rank, hint in reversed(list(enumerate(hints)))}
    best: Likeness | None = None
    for change in sorted(
        _changes(a.shape, b.shape, b_is_net=b_is_net), key=lambda c: known.get(c.kind, len(hints))
    ):
        gap = np.abs(change.apply(a) - b)
        num_different = int(np.count_nonzero(~(gap <= SAME * max(rms, 1e-30))))
        if best is None or num_different < best.num_different:
            worst = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
            best = Likeness(change, float(gap.max()) / (rms or 1.0), num_different, worst)
        if best.num_different == 0:
            return best
    return best


def _changes(a: tuple[int, ...], b: tuple[int, ...], *, b_is_net: bool) -> Iterator[Change]:
    """Yield what ports do to stored arrays of these sizes, the plainest first."""
    if [n for n in a if n > 1] == [n for n in b if n > 1] or (a[:1] == b[:1] and 2 in {len(a), len(b)}):
        yield Change(b)
    seen = set()
    for given, made in layouts_of(a, b, b_is_net=b_is_net):
        axes = axes_between(given.letters, made.letters)
        if tuple(given.sizes[i] for i in axes) != made.sizes:
            continue
        for letters in ("", *_reversals(made)):
            what = given.sizes, axes, frozenset(map(made.letters.index, letters))
            if what not in seen:  # two pairs of layouts may do the same to an array
                seen.add(what)
                yield Change(b, given.letters, made.letters, given.sizes, letters)


def _reversals(made: Layout) -> Iterator[str]:
    """Yield the axes of filters that ports reverse, by their letters."""
    if made.letters in FILTERS:
        sizes = dict(zip(made.letters, made.sizes, strict=True))
        if sizes["I"] == 3:
            yield "I"
        if sizes.get("H", 1) > 1 and sizes["W"] > 1:
            yield "HW"
