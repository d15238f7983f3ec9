"""Pooling by the rules of Caffe, MXNet and Darknet, which ONNX lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.graph.operators import Attributes, Dim, operator
from netweave.graph.opset import DOMAIN

# ONNX ``ceil_mode=1`` (opset >= 22) drops a last window that would start in the end padding, per axis.
# Caffe drops it on both axes when either has padding and on none otherwise; MXNet's ``full`` never does.
# Where a rule gives ONNX's windows for every input size, ``pooling`` writes the standard operator.


ROUNDED_IN_WORDS = {
    "floor": "down (floor)",
    "ceil": "up (ceil)",
    "caffe": "up (by Caffe's rule)",
    "full": "up (by MXNet's 'full')",
}

ROUNDINGS = tuple(ROUNDED_IN_WORDS)
"""``floor`` and ``ceil`` as in ONNX; ``caffe`` and ``full`` as said above."""


def num_windows(
    size: int, kernel: int, *, stride: int, pads: tuple[int, int], rounding: str, any_pad: bool
) -> int:
    """Return how many windows a pooling has along one axis, >= 1.

    Args:
        size: Elements along the axis, without padding.
        kernel: Elements of the window, dilation included.
        stride: Steps from one window to the next, >= 1.
        pads: Padding as (begin, end).
        rounding: One of ``ROUNDINGS``.
        any_pad: Whether any axis of the same pooling is padded (matters to ``caffe``).

    Raises:
        ValueError: The window does not fit in the padded input.

    >>> [num_windows(6, 3, stride=2, pads=(0, 0), rounding=r, any_pad=False) for r in ROUNDINGS]
    [2, 3, 3, 3]
    >>> [num_windows(5, 1, stride=3, pads=(0, 0), rounding=r, any_pad=False) for r in ROUNDINGS]
    [2, 2, 3, 3]
    """
    free = size + sum(pads) - kernel
    if free < 0:
        raise ValueError(
            f"a window of {kernel} does not fit in {size} elements with padding {pads[0]} and {pads[1]}"
        )
    count = (free if rounding == "floor" else free + stride - 1) // stride + 1
    clip = rounding == "ceil" or (rounding == "caffe" and any_pad)
    if clip and (count - 1) * stride >= size + pads[0]:
        count -= 1
    return count


def is_standard(kernel: Sequence[int], *, strides: Sequence[int], pads: Sequence[int], rounding: str) -> bool:
    """Return whether a rule gives the windows of ONNX (``ceil_mode`` 0 or 1) for every input size.

    Args:
        kernel: Window sizes, one per spatial axis.
        strides: Steps, one per spatial axis.
        pads: All begins, then all ends.
        rounding: One of ``ROUNDINGS``.
    """
    if rounding in {"floor", "ceil"}:
        return True
    if rounding == "caffe" and any(pads):
        return True
    ends = pads[len(kernel) :]
    return all(s <= k - end for k, s, end in zip(kernel, strides, ends, strict=True))


def standard_ceil_mode(rounding: str) -> int:
    """Return ONNX's ``ceil_mode`` for a rule for which ``is_standard`` holds."""
    return int(rounding != "floor")


@dataclass(frozen=True, slots=True)
class PoolWindows:
    """The windows of a MaxPool or AveragePool of ONNX or of ``netweave``; one entry per spatial axis.

    Attributes:
        kernel: Window sizes before dilation.
        strides: Steps from one window to the next.
        dilations: Steps between neighbouring elements of a window.
        begin: Padding before.
        end: Padding behind.
        rounding: One of ``ROUNDINGS``.
        counts_padding: Whether the mean divides by the padding of a window too.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begin: list[int]
    end: list[int]
    rounding: str
    counts_padding: bool

    @classmethod
    def of(cls, domain: str, attributes: Attributes) -> PoolWindows:
        """Return the windows that a node's attributes describe; ``auto_pad`` is not looked at.

        ``count_include_pad`` is off by default in ONNX, and on in the domain ``netweave``: Caffe has no such
        setting and always counts, and MXNet's is on by default.
        """
        kernel = list(attributes["kernel_shape"])
        rank = len(kernel)
        pads = list(attributes.get("pads") or [0] * (2 * rank))
        return cls(
            kernel=kernel,
            strides=list(attributes.get("strides") or [1] * rank),
            dilations=list(attributes.get("dilations") or [1] * rank),
            begin=pads[:rank],
            end=pads[rank:],
            rounding=attributes.get("rounding") or ("ceil" if attributes.get("ceil_mode", 0) else "floor"),
            counts_padding=bool(attributes.get("count_include_pad", domain == DOMAIN)),
        )

    @property
    def spans(self) -> list[int]:
        """Number of elements that each window spans, dilation included."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def any_pad(self) -> bool:
        """True if any axis is padded."""
        return any(self.begin) or any(self.end)

    @property
    def is_halving(self) -> bool:
        """True if windows of two elements stand side by side."""
        return set(self.kernel) == set(self.strides) == {2} and set(self.dilations) == {1}

    def counts(self, sizes: Sequence[int], rounding: str = "") -> list[int]:
        """Return the number of windows along each axis.

        Args:
            sizes: Spatial sizes of the input.
            rounding: Another rule than the node's.
        """
        return [
            num_windows(
                size,
                self.spans[axis],
                stride=self.strides[axis],
                pads=(self.begin[axis], self.end[axis]),
                rounding=rounding or self.rounding,
                any_pad=self.any_pad,
            )
            for axis, size in enumerate(sizes)
        ]

    def equal_rounding(self, sizes: Sequence[int], roundings: Sequence[str]) -> str | None:
        """Return the first of some rules that makes the same windows of an input of these sizes."""
        counts = self.counts(sizes)
        return next((rule for rule in roundings if self.counts(sizes, rule) == counts), None)

    def covering_end(self, sizes: Sequence[int]) -> list[int]:
        """Return the end padding with which the last windows end where the input does; it may be negative."""
        return [
            (count - 1) * stride + span - size - begin
            for count, stride, span, size, begin in zip(
                self.counts(sizes), self.strides, self.spans, sizes, self.begin, strict=True
            )
        ]

    def divisors(self, sizes: Sequence[int], counts: Sequence[int]) -> np.ndarray:
        """Return what the sum of each window of a mean is divided by: float64, one axis for each spatial one.

        A window that goes on beyond the end padding is cut there.

        Args:
            sizes: Spatial sizes of the input.
            counts: Windows along each axis.
        """
        divisors = np.ones((), np.float64)
        for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
            first = np.arange(count) * self.strides[axis] - self.begin[axis]
            padding = self.end[axis] if self.counts_padding else 0
            last = np.minimum(first + self.kernel[axis], size + padding)
            divisors = np.multiply.outer(
                divisors, last - (first if self.counts_padding else np.maximum(first, 0))
            )
        return divisors


def _pool_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    windows, sizes = PoolWindows.of(DOMAIN, attributes), shapes[0][2:]
    # an open axis is counted as if it were one window long, and what comes of it is dropped
    known = [size if isinstance(size, int) else k for size, k in zip(sizes, windows.kernel, strict=True)]
    spatial = [
        count if isinstance(size, int) else ir.SymbolicDim(None)
        for size, count in zip(sizes, windows.counts(known), strict=True)
    ]
    return [(*shapes[0][:2], *spatial)]


def _ranges(windows: PoolWindows, sizes: Sequence[int]) -> list[list[tuple[int, int, int]]]:
    """Return per axis and window (begin, end, padded size)."""
    axes: list[list[tuple[int, int, int]]] = []
    for axis, count in enumerate(windows.counts(sizes)):
        limit = sizes[axis] + windows.end[axis]
        starts = [index * windows.strides[axis] - windows.begin[axis] for index in range(count)]
        stops = [min(start + windows.kernel[axis], limit) for start in starts]
        axes.append(
            [
                (max(start, 0), max(min(stop, sizes[axis]), 0), stop - start)
                for start, stop in zip(starts, stops, strict=True)
            ]
        )
    return axes


@operator("MaxPool", shapes=_pool_shapes)
def max_pool(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Caffe pooling_layer.cpp; MXNet pooling-inl.h. An empty window gives the lowest float."""
    return [_reduce(inputs[0], attributes, average=False)]


@operator("AveragePool", shapes=_pool_shapes)
def average_pool(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Caffe pooling_layer.cpp; MXNet pooling-inl.h. The divisor is the window cut at the end padding."""
    return [_reduce(inputs[0], attributes, average=True)]


def _reduce(x: np.ndarray, attributes: Attributes, *, average: bool) -> np.ndarray:
    windows = PoolWindows.of(DOMAIN, attributes)
    axes = _ranges(windows, x.shape[2:])
    out = tuple(map(len, axes))
    y = np.full((*x.shape[:2], *out), 0 if average else np.finfo(x.dtype).min, x.dtype)
    spatial = tuple(range(2, x.ndim))
    for place in np.ndindex(*out):
        spans = [rows[index] for rows, index in zip(axes, place, strict=True)]
        if any(end <= begin for begin, end, _ in spans):
            continue
        window = x[:, :, *(slice(begin, end) for begin, end, _ in spans)]
        if average:
            area = prod(padded if windows.counts_padding else end - begin for begin, end, padded in spans)
            y[:, :, *place] = window.sum(axis=spatial) / area
        else:
            y[:, :, *place] = window.max(axis=spatial)
    return y


def pooling(
    average: bool,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    rounding: str,
    count_include_pad: bool,
) -> tuple[str, str, dict[str, Any]]:
    """Return (domain, op_type, attributes) of the operator for a pooling rule.

    Args:
        average: Average instead of maximum.
        kernel: Window sizes, one per spatial axis.
        strides: Steps, one per spatial axis.
        pads: All begins, then all ends.
        rounding: One of ``ROUNDINGS``.
        count_include_pad: Whether padding counts in the divisor of an average.
    """
    op_type = "AveragePool" if average else "MaxPool"
    attributes: dict[str, Any] = {
        "kernel_shape": list(kernel),
        "strides": list(strides),
        "pads": list(pads),
    }
    if average:
        attributes["count_include_pad"] = int(count_include_pad)
    if is_standard(kernel, strides=strides, pads=pads, rounding=rounding):
        return "", op_type, attributes | {"ceil_mode": standard_ceil_mode(rounding)}
    return "netweave", op_type, attributes | {"rounding": rounding}
