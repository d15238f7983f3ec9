"""Pooling whose rounding ONNX cannot express: the rules of Caffe and MXNet.

ONNX ``ceil_mode=1`` (opset >= 22) drops a last window that would start in the end padding, per axis.
Caffe drops it on both axes when either has padding and on none otherwise; MXNet's ``full`` never does.
Where a rule gives ONNX's windows for every input size, ``pooling`` writes the standard operator.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph.operators import Attributes, Dim, operator

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDINGS = ("floor", "ceil", "caffe", "full")
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


def window_sizes(
    sizes: Sequence[int],
    counts: Sequence[int],
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    includes: bool,
) -> np.ndarray:
    """Return what the sum of each window of a mean is divided by: float64, one axis for each spatial one.

    Args:
        sizes: Elements along each axis.
        counts: Windows along each axis.
        kernel: Elements of the window along each axis.
        strides: Steps from one window to the next.
        begin: Padding before.
        end: Padding behind; a window that goes on beyond it is cut there.
        includes: Whether padding counts.
    """
    found = np.ones((), np.float64)
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        first = np.arange(count) * strides[axis] - begin[axis]
        last = np.minimum(first + kernel[axis], size + (end[axis] if includes else 0))
        found = np.multiply.outer(found, last - (first if includes else np.maximum(first, 0)))
    return found


def is_standard(kernel: Sequence[int], *, strides: Sequence[int], pads: Sequence[int], rounding: str) -> bool:
    """Whether a rule gives the windows of ONNX (``ceil_mode`` 0 or 1) for every input size.

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


def _geometry(attributes: Attributes) -> tuple[list[int], list[int], list[int], str]:
    kernel = list(attributes["kernel_shape"])
    strides = list(attributes.get("strides", [1] * len(kernel)))
    pads = list(attributes.get("pads", [0] * (2 * len(kernel))))
    return kernel, strides, pads, attributes["rounding"]


def _pool_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    kernel, strides, pads, rounding = _geometry(attributes)
    spatial: list[Dim] = []
    for axis, size in enumerate(shapes[0][2:]):
        if not isinstance(size, int):
            spatial.append(ir.SymbolicDim(None))
            continue
        spatial.append(
            num_windows(
                size,
                kernel[axis],
                stride=strides[axis],
                pads=(pads[axis], pads[axis + len(kernel)]),
                rounding=rounding,
                any_pad=any(pads),
            )
        )
    return [(*shapes[0][:2], *spatial)]


def _windows(
    x: np.ndarray, attributes: Attributes
) -> tuple[tuple[int, ...], list[list[tuple[int, int, int]]]]:
    """Return the spatial output sizes and, per axis and window, (begin, end, padded size)."""
    kernel, strides, pads, _ = _geometry(attributes)
    out = tuple(int(s) for s in _pool_shapes([x.shape], attributes)[0][2:])  # type: ignore[arg-type]
    axes: list[list[tuple[int, int, int]]] = []
    for axis, count in enumerate(out):
        size, begin = x.shape[2 + axis], pads[axis]
        limit = size + pads[axis + len(kernel)]
        rows = []
        for index in range(count):
            start = index * strides[axis] - begin
            stop = min(start + kernel[axis], limit)
            rows.append((max(start, 0), max(min(stop, size), 0), stop - start))
        axes.append(rows)
    return out, axes


@operator("MaxPool", shapes=_pool_shapes)
def max_pool(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Caffe pooling_layer.cpp; MXNet pooling-inl.h. An empty window gives the lowest float."""
    return [_reduce(inputs[0], attributes, average=False)]


@operator("AveragePool", shapes=_pool_shapes)
def average_pool(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Caffe pooling_layer.cpp; MXNet pooling-inl.h. The divisor is the window cut at the end padding."""
    return [_reduce(inputs[0], attributes, average=True)]


def _reduce(x: np.ndarray, attributes: Attributes, *, average: bool) -> np.ndarray:
    out, axes = _windows(x, attributes)
    include_pad = bool(attributes.get("count_include_pad", 1))
    y = np.full((*x.shape[:2], *out), 0 if average else np.finfo(x.dtype).min, x.dtype)
    spatial = tuple(range(2, x.ndim))
    for place in np.ndindex(*out):
        spans = [rows[index] for rows, index in zip(axes, place, strict=True)]
        if any(end <= begin for begin, end, _ in spans):
            continue
        window = x[:, :, *(slice(begin, end) for begin, end, _ in spans)]
        if average:
            area = prod(padded if include_pad else end - begin for begin, end, padded in spans)
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
