"""The eight orientations of an image: the ways to lay a rectangle down, as EXIF counts them.

A net whose filters all have another orientation, and the settings of its windows with them, computes the same
on an image of that orientation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


@dataclass(frozen=True, slots=True)
class Orientation:
    """The orientation of an image; the last two axes of an array are its height and width.

    Attributes:
        swap: Whether height and width are swapped; that comes first.
        flips: Whether rows, and whether columns, are then in reversed order.
    """

    swap: bool = False
    flips: tuple[bool, bool] = (False, False)

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Return an array in this orientation, as a view."""
        array = array.swapaxes(-1, -2) if self.swap else array
        rows, columns = (slice(None, None, -1 if flip else None) for flip in self.flips)
        return array[..., rows, columns]

    def of_setting(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return a setting of a window in this orientation: one number per axis, or begins and then ends."""
        axes = (1, 0) if self.swap else (0, 1)
        if len(values) == 2:
            return tuple(values[axis] for axis in axes)
        pairs = [(values[axis], values[axis + 2]) for axis in axes]
        pairs = [pair[::-1] if flip else pair for pair, flip in zip(pairs, self.flips, strict=True)]
        return tuple(pair[end] for end in (0, 1) for pair in pairs)

    @property
    def is_flipped(self) -> bool:
        """True if rows or columns are in reversed order."""
        return any(self.flips)


SWAPPED = "height and width swapped"

ORIENTATIONS: dict[str, Orientation] = {
    "": Orientation(),
    SWAPPED: Orientation(swap=True),
    "rotated by 180 degrees": Orientation(flips=(True, True)),
    "flipped left to right": Orientation(flips=(False, True)),
    "flipped top to bottom": Orientation(flips=(True, False)),
    "rotated by 90 degrees clockwise": Orientation(swap=True, flips=(False, True)),
    "rotated by 90 degrees counterclockwise": Orientation(swap=True, flips=(True, False)),
    "height and width swapped and rotated by 180 degrees": Orientation(swap=True, flips=(True, True)),
}
"""All orientations by what is done to an image, and to the filters that read it."""


def inverse(name: str) -> str:
    """Return the name of the orientation that undoes another one.

    >>> inverse("rotated by 90 degrees clockwise"), inverse("flipped left to right")
    ('rotated by 90 degrees counterclockwise', 'flipped left to right')
    """
    orientation = ORIENTATIONS[name]
    flips = orientation.flips[::-1] if orientation.swap else orientation.flips
    wanted = Orientation(orientation.swap, flips)
    return next(key for key, other in ORIENTATIONS.items() if other == wanted)
