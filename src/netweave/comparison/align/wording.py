"""How the layout of one tensor relates to that of another, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.align.turns import TURNS, Turn

if TYPE_CHECKING:
    from netweave.comparison.result.comparison import TensorMapping

MAX_LISTED = 8
"""More entries of a hidden tensor are not listed."""

MAX_LISTED_OF_INPUT = 32
"""The same for an input, which has to be fed in this order."""

OF_IMAGES = {
    "NCWH": "height and width swapped",
    "NHWC": "channels last (NHWC)",
    "NWHC": "channels last (NHWC) with height and width swapped",
}
OF_CHANNELS_LAST = {
    "NWHC": "height and width swapped",
    "NCHW": "channels first (NCHW)",
    "NCWH": "channels first (NCHW) with height and width swapped",
}
"""What permutations of the axes of images are called, by the letters of B's axes."""


def describe_axes(mapping: TensorMapping, *, is_input: bool = False) -> str:
    """Return a layout in words; empty for "as it is".

    Args:
        mapping: How A's tensor becomes B's.
        is_input: Whether it is an input, whose order is listed to its end.
    """
    parts = []
    if mapping.axes is not None:
        parts.append(_axes_in_words(mapping.axes, mapping.channel_axis))
    mirrored = _mirrored_in_words(mapping)
    if mirrored:
        parts.append(mirrored)
    for axis, order in mapping.orders:
        is_channel = mapping.is_channel_axis(axis)
        if is_channel or not mirrored:
            noun = "channels" if is_channel else f"entries of axis {axis}"
            limit = MAX_LISTED_OF_INPUT if is_input else MAX_LISTED
            parts.append(_order_in_words(noun, order, limit))
    if mapping.scale != 1.0:
        parts.append(f"values times {mapping.scale:.6g}")
    return ", ".join(parts)


def _axes_in_words(axes: tuple[int, ...], channel_axis: int) -> str:
    if len(axes) == 4 and channel_axis in {1, 3}:
        names, known = ("NCHW", OF_IMAGES) if channel_axis == 1 else ("NHWC", OF_CHANNELS_LAST)
        letters = "".join(names[i] for i in axes)
        return known.get(letters, f"axes {names} in the order {letters}")
    return f"axes in the order {axes}"


def _mirrored_in_words(mapping: TensorMapping) -> str:
    """Say which way an image is mirrored; empty if it is not, or is reordered in another way."""
    rows = [(axis, order) for axis, order in mapping.orders if not mapping.is_channel_axis(axis)]
    if not rows or any(order != tuple(reversed(range(len(order)))) for _, order in rows):
        return ""
    rank = len(mapping.axes) if mapping.axes else 4
    image = [axis for axis in range(1, rank) if not mapping.is_channel_axis(axis)]
    flipped = {axis for axis, _ in rows}
    if len(image) != 2 or not flipped <= set(image):
        return ""
    flips = image[0] in flipped, image[1] in flipped
    return next(name for name, turn in TURNS.items() if turn == Turn(flips=flips))


def _order_in_words(noun: str, order: tuple[int, ...], limit: int) -> str:
    if order == tuple(reversed(range(len(order)))):
        return f"{noun} reversed" + (" (RGB and BGR)" if noun == "channels" and len(order) == 3 else "")
    size = _slice_size(order)
    if size:
        inner = order[:size]
        how = "reversed" if inner == tuple(reversed(range(size))) else f"in the order {_listed(inner, limit)}"
        return f"{noun} {how} within each of {len(order) // size} slices of {size}"
    return f"{noun} in the order {_listed(order, limit)}"


def _slice_size(order: tuple[int, ...]) -> int:
    """Return the least size of slices that an order permutes each in the same way; 0 if there is none."""
    for size in range(2, len(order) // 2 + 1):
        if len(order) % size == 0 and all(
            order[i] == order[i % size] + i - i % size for i in range(len(order))
        ):
            return size
    return 0


def _listed(order: tuple[int, ...], limit: int) -> str:
    return ", ".join(map(str, order[:limit])) + (", ..." if len(order) > limit else "")
