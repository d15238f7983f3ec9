"""What a port may do to an image: the eight ways to lay a rectangle down.

A net whose filters are all turned alike, and the settings of its windows with them, computes the same on an
image that is turned so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


@dataclass(frozen=True, slots=True)
class Turn:
    """A way to lay an image down; the last two axes of an array are its height and width.

    Attributes:
        swap: Whether height and width are swapped; that comes first.
        flips: Whether rows, and whether columns, are then in reversed order.
    """

    swap: bool = False
    flips: tuple[bool, bool] = (False, False)

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Return an array turned, as a view."""
        array = array.swapaxes(-1, -2) if self.swap else array
        rows, columns = (slice(None, None, -1 if flip else None) for flip in self.flips)
        return array[..., rows, columns]

    def of_setting(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return a setting of a turned window: one number per axis, or begins and then ends."""
        axes = (1, 0) if self.swap else (0, 1)
        if len(values) == 2:
            return tuple(values[axis] for axis in axes)
        pairs = [(values[axis], values[axis + 2]) for axis in axes]
        pairs = [pair[::-1] if flip else pair for pair, flip in zip(pairs, self.flips, strict=True)]
        return tuple(pair[end] for end in (0, 1) for pair in pairs)

    @property
    def is_flipped(self) -> bool:
        """Whether rows or columns are in reversed order."""
        return any(self.flips)


SWAPPED = "height and width swapped"

TURNS: dict[str, Turn] = {
    "": Turn(),
    SWAPPED: Turn(swap=True),
    "turned by 180 degrees": Turn(flips=(True, True)),
    "mirrored left to right": Turn(flips=(False, True)),
    "mirrored top to bottom": Turn(flips=(True, False)),
    "turned by 90 degrees clockwise": Turn(swap=True, flips=(False, True)),
    "turned by 90 degrees counterclockwise": Turn(swap=True, flips=(True, False)),
    "height and width swapped and turned by 180 degrees": Turn(swap=True, flips=(True, True)),
}
"""All turns, by their names; the names say what is done to an image, and to the filters that read it."""


def inverse(name: str) -> str:
    """Return the name of the turn that undoes a turn.

    >>> inverse("turned by 90 degrees clockwise"), inverse("mirrored left to right")
    ('turned by 90 degrees counterclockwise', 'mirrored left to right')
    """
    turn = TURNS[name]
    flips = turn.flips[::-1] if turn.swap else turn.flips
    return next(key for key, other in TURNS.items() if other == Turn(turn.swap, flips))
