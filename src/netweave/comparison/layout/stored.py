"""Changes of layout between stored arrays: axes permuted, channels reversed, inputs flattened anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.layout.change import LayoutChange, LayoutMatch, reversed_order
from netweave.comparison.layout.letters import FILTERS, axes_between, layouts_of
from netweave.comparison.metric import differing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.comparison.layout.letters import Layout


def match_stored(
    a: np.ndarray, b: np.ndarray, hints: Sequence[LayoutChange] = (), *, b_is_net: bool = False
) -> LayoutMatch | None:
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
    known = {_kind(hint): rank for rank, hint in reversed(list(enumerate(hints)))}
    changes = sorted(
        _changes(a.shape, b.shape, b_is_net=b_is_net), key=lambda change: known.get(_kind(change), len(hints))
    )
    best: LayoutMatch | None = None
    for change in changes:
        changed = change.apply(a)
        num_different = int(np.count_nonzero(differing(changed, b)))
        if best is None or num_different < best.num_different:
            gap = np.abs(changed - b)
            worst = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
            best = LayoutMatch(change, num_different, b.size, worst, float(gap.max()) / (rms or 1.0))
        if best.is_equal:
            return best
    return best


def _kind(change: LayoutChange) -> tuple[str, str, str]:
    """Return what a change has in common with those of other arrays of a net, whatever their sizes."""
    letters = change.letters_in_b
    return change.letters, letters, "".join(letters[axis] for axis, _ in change.orders)


def _changes(a: tuple[int, ...], b: tuple[int, ...], *, b_is_net: bool) -> Iterator[LayoutChange]:
    """Yield what ports do to stored arrays of these sizes, the plainest first."""
    if [n for n in a if n > 1] == [n for n in b if n > 1] or (a[:1] == b[:1] and 2 in {len(a), len(b)}):
        yield LayoutChange(shape=b)
    seen = set()
    for given, made in layouts_of(a, b, b_is_net=b_is_net):
        axes = axes_between(given.letters, made.letters)
        if tuple(given.sizes[i] for i in axes) != made.sizes:
            continue
        for letters in ("", *_reversals(made)):
            places = tuple(map(made.letters.index, letters))
            effect = given.sizes, axes, places
            if effect not in seen:  # two pairs of layouts may do the same to an array
                seen.add(effect)
                yield LayoutChange(
                    split=given.sizes,
                    axes=None if given.letters == made.letters else axes,
                    orders=tuple((axis, reversed_order(made.sizes[axis])) for axis in places),
                    shape=b,
                    letters=given.letters,
                )


def _reversals(made: Layout) -> Iterator[str]:
    """Yield the axes of filters that ports reverse, by their letters."""
    if made.letters in FILTERS:
        sizes = dict(zip(made.letters, made.sizes, strict=True))
        if sizes["I"] == 3:
            yield "I"
        if sizes.get("H", 1) > 1 and sizes["W"] > 1:
            yield "HW"
