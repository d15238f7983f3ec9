"""Windows of convolutions and poolings: pads for ``auto_pad``, and padding by torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

Pads = list[tuple[int, int]]
"""Padding as (begin, end), one entry per spatial axis."""


def per_axis(values: Sequence[int], num_axes: int) -> list[int]:
    """Return one entry per axis; ones if none are given."""
    return list(values) or [1] * num_axes


def extents(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Return how many elements each window spans, dilation included."""
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


def resolve_pads(
    auto_pad: str,
    pads: Sequence[int],
    *,
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """Return the padding of each spatial axis, for SAME worked out from the sizes.

    ONNX: with SAME there are ``ceil(size / stride)`` windows, and an odd element of padding goes to the
    end (SAME_UPPER) or to the begin (SAME_LOWER).

    Args:
        auto_pad: ONNX's ``NOTSET``, ``VALID``, ``SAME_UPPER`` or ``SAME_LOWER``.
        pads: All begins, then all ends; empty for none.
        sizes: Sizes of the spatial axes.
        extents: Elements that each window spans.
        strides: Steps from one window to the next.
    """
    num_axes = len(sizes)
    if auto_pad == "NOTSET" and pads:
        return list(zip(pads[:num_axes], pads[num_axes:], strict=True))
    if auto_pad not in {"SAME_UPPER", "SAME_LOWER"}:
        return [(0, 0)] * num_axes
    found = []
    for size, extent, stride in zip(sizes, extents, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if auto_pad == "SAME_UPPER" else (more, less))
    return found


def symmetric(pads: Pads) -> list[int] | None:
    """Return one padding per axis if begins and ends are the same."""
    return [begin for begin, _ in pads] if all(begin == end for begin, end in pads) else None


def pad(x: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """Pad the last axes with a value; a negative padding cuts."""
    if not any(any(pair) for pair in pads):
        return x
    return functional.pad(x, [size for pair in reversed(pads) for size in pair], value=value)
