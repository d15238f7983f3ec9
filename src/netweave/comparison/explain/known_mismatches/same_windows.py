"""Max poolings that take the same windows of every image, by other settings.

Padding behind the image and rounding up are two ways to the same last window: Darknet pads by the window's
size less one, TensorFlow's SAME rule by what is left, Caffe and PyTorch round up. Nothing is added to a
maximum by padding, so only where the windows lie counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.windows import same_pads

if TYPE_CHECKING:
    from collections.abc import Mapping

NUM_SIZES = 40
"""Sizes of an image that are tried, from the window's up: the rules repeat with the stride."""


def take_same_windows(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether two max poolings take the same windows of an image of any size.

    Args:
        a: Settings of the one, every default filled in: see ``canonical``.
        b: Those of the other.
    """
    windows_a, windows_b = _windows(a), _windows(b)
    if windows_a is None or windows_b is None:
        return False
    if any(getattr(windows_a, n) != getattr(windows_b, n) for n in ("kernel", "strides", "dilations")):
        return False
    least = max(windows_a.spans)
    sizes = ([size] * len(windows_a.kernel) for size in range(least, least + NUM_SIZES))
    return all(_places(a, windows_a, size) == _places(b, windows_b, size) for size in sizes)


def rounding_with_same_windows(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """Return the rounding with which B would take A's windows, its padding as it is; empty if none does.

    Args:
        a: Settings of A's max pooling, as above.
        b: Those of B's.
    """
    if a.get("pads") == b.get("pads") or not any(a.get("pads") or ()) or take_same_windows(a, b):
        return ""  # the rounding that B needs is A's, or B's own
    for rounding in ("ceil", "floor"):
        if rounding != b.get("rounding") and take_same_windows(a, {**b, "rounding": rounding}):
            return rounding
    return ""


def _windows(values: Mapping[str, Any]) -> PoolWindows | None:
    return PoolWindows.of("", dict(values)) if values.get("kernel_shape") else None


def _places(values: Mapping[str, Any], windows: PoolWindows, sizes: list[int]) -> tuple[list[int], list[int]]:
    """Return the padding before an image of some size, and how many windows there are along each axis."""
    rule = values.get("auto_pad", "NOTSET")
    if rule == "NOTSET":
        return windows.begin, windows.counts(sizes)
    if rule == "VALID":
        windows = replace(windows, begin=[0] * len(sizes), end=[0] * len(sizes))
        return windows.begin, windows.counts(sizes, "floor")
    pads = same_pads(
        sizes,
        windows.kernel,
        strides=windows.strides,
        dilations=windows.dilations,
        upper=rule == "SAME_UPPER",
    )
    counts = [-(-size // stride) for size, stride in zip(sizes, windows.strides, strict=True)]
    return pads[: len(sizes)], counts
