"""A change of layout in words: one wording for activations, filters and stored arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.layout.change import LayoutChange, Order, reversed_order
from netweave.comparison.layout.notation import straightened
from netweave.comparison.layout.orientation import ORIENTATIONS, SWAPPED, Orientation

if TYPE_CHECKING:
    from collections.abc import Sequence


MAX_LISTED = 8
"""More entries of an order are not listed."""

MAX_LISTED_OF_INPUT = 32
"""The same for an input, which has to be fed in this order."""

OF_IMAGES = {
    "NCWH": SWAPPED,
    "NHWC": "channels last (NHWC)",
    "NWHC": f"channels last (NHWC) with {SWAPPED}",
}
OF_CHANNELS_LAST = {
    "NWHC": SWAPPED,
    "NCHW": "channels first (NCHW)",
    "NCWH": f"channels first (NCHW) with {SWAPPED}",
}
"""What permutations of the axes of images are called, by the letters of B's axes."""


def describe(change: LayoutChange, *, is_input: bool = False) -> str:
    """Return a change of layout in words; empty for "as it is".

    Args:
        change: How A's array becomes B's; one whose axes have letters is of weights.
        is_input: Whether it is an input, whose order is listed to its end.
    """
    parts = [_weight_axes(change) if change.letters else _axes(change), _flips(change)]
    for axis, order in change.orders:
        if not parts[1] or _is_channels(change, axis):
            limit = MAX_LISTED_OF_INPUT if is_input else MAX_LISTED
            parts.append(_order(_noun(change, axis), order, limit))
    if change.scale != 1.0:
        parts.append(f"values times {change.scale:.6g}")
    return ", ".join(filter(None, parts))


def describe_output(change: LayoutChange, shape_a: Sequence[int], shape_b: Sequence[int]) -> str:
    """Return how an output of A becomes B's, in words; empty for "as it is".

    Who reads an output reads it by its axes, so other axes are stated even where the values keep their
    order, and those of size 1 that come or go.

    >>> describe_output(LayoutChange(shape=(-1, 4, 4)), (2, 16), (2, 4, 4))
    'the values of (N, 16) as (N, 4, 4)'
    >>> describe_output(LayoutChange(shape=(-1,)), (1, 3), (3,))
    'the values of (1, 3) as (3)'
    """
    if tuple(shape_a) == tuple(shape_b) or change.axes is not None:
        return describe(change)
    batch = (-1,) if shape_a[:1] == shape_b[:1] else ()
    regrouped = " as ".join(_sizes((*batch, *shape[len(batch) :])) for shape in (shape_a, shape_b))
    regrouped = f"the values of {regrouped}"
    return ", ".join(filter(None, [regrouped, describe(change)]))


def listed_order(order: Order, limit: int = MAX_LISTED) -> str:
    """Return an order as numbers, of a long one its beginning."""
    return ", ".join(map(str, order[:limit])) + (", ..." if len(order) > limit else "")


def _axes(change: LayoutChange) -> str:
    axes = change.axes
    if axes is None:
        return ""
    if change.split is not None:
        return f"reshaped to {_sizes(change.split)}, axes in the order {axes}"
    if len(axes) == 4 and change.channel_axis in {1, 3}:
        names, known = ("NCHW", OF_IMAGES) if change.channel_axis == 1 else ("NHWC", OF_CHANNELS_LAST)
        letters = "".join(names[i] for i in axes)
        return known.get(letters, f"axes {names} in the order {letters}")
    return f"axes in the order {axes}"


def _sizes(sizes: Sequence[int]) -> str:
    """Return sizes in words, the batch as N."""
    return f"({', '.join('N' if size == -1 else str(size) for size in sizes)})"


def _weight_axes(change: LayoutChange) -> str:
    given, made = change.letters, change.letters_in_b
    if given == made:
        return ""
    if "C" in given:
        return _flattening(given, made)
    if len(given) == 2:
        return "transposed"
    plain_given, plain_made = straightened(given), straightened(made)
    words = [f"{plain_made} for {plain_given}"] if plain_given != plain_made else []
    return " with ".join([*words, *([SWAPPED] if ("WH" in given) != ("WH" in made) else [])])


def _flattening(given: str, made: str) -> str:
    """Say in which order the axes of an image were flattened before a dense layer."""
    words = ["transposed"] if given.startswith("O") != made.startswith("O") else []
    image_given, image_made = given.replace("O", ""), made.replace("O", "")
    if image_given != image_made:
        words.append(f"inputs flattened as {image_made} for {image_given}")
    return ", ".join(words)


def _noun(change: LayoutChange, axis: int) -> str:
    if change.letters:
        letter = change.letters_in_b[axis]
        return {"I": "input channels", "O": "output channels"}.get(letter, f"entries of axis {letter}")
    return "channels" if change.is_channel_axis(axis) else f"entries of axis {axis}"


def _is_channels(change: LayoutChange, axis: int) -> bool:
    if change.letters:
        return change.letters_in_b[axis] in "IO"
    return change.is_channel_axis(axis)


def _flips(change: LayoutChange) -> str:
    """Say which way an image, or the filters, are flipped; empty if they are not, or otherwise reordered."""
    rows = [(axis, order) for axis, order in change.orders if not _is_channels(change, axis)]
    if not rows or any(order != reversed_order(len(order)) for _, order in rows):
        return ""
    if change.letters:
        image = [axis for axis, letter in enumerate(change.letters_in_b) if letter in "HW"]
    else:
        rank = len(change.axes) if change.axes else 4
        image = [axis for axis in range(1, rank) if not _is_channels(change, axis)]
    flipped = {axis for axis, _ in rows}
    if len(image) != 2 or not flipped <= set(image):
        return ""
    wanted = Orientation(flips=(image[0] in flipped, image[1] in flipped))
    name = next(name for name, orientation in ORIENTATIONS.items() if orientation == wanted)
    return f"filters {name}" if change.letters else name


def _order(noun: str, order: Order, limit: int) -> str:
    if order == reversed_order(len(order)):
        return f"{noun} reversed" + (" (RGB and BGR)" if "channels" in noun and len(order) == 3 else "")
    size = _slice_size(order)
    if size:
        inner = order[:size]
        how = "reversed" if inner == reversed_order(size) else f"in the order {listed_order(inner, limit)}"
        return f"{noun} {how} within each of {len(order) // size} slices of {size}"
    return f"{noun} in the order {listed_order(order, limit)}"


def _slice_size(order: Order) -> int:
    """Return the least size of slices that an order permutes each in the same way; 0 if there is none."""
    for size in range(2, len(order) // 2 + 1):
        if len(order) % size == 0 and all(
            order[i] == order[i % size] + i - i % size for i in range(len(order))
        ):
            return size
    return 0
