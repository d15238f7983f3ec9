"""Normalisations that ONNX cannot express: Caffe's LRN within each channel.

ONNX's LRN sums squares over neighbouring channels. Caffe's ``norm_region: WITHIN_CHANNEL`` sums them over a
square of neighbouring places of the same channel, zeros around the plane, and always starts from 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netweave.graph.operators import Attributes, Dim, operator

# ONNX ``ceil_mode=1`` (opset >= 22) drops a last window that would start in the end padding, per axis.
# Caffe drops it on both axes when either has padding and on none otherwise; MXNet's ``full`` never does.
# Where a rule gives ONNX's windows for every input size, ``pooling`` writes the standard operator.


def _lrn_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    if len(shapes[0]) != 4:
        raise ValueError(f"an input with {len(shapes[0])} axes, expected 4: batch, channels, height, width")
    size = attributes["size"]
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a window of {size}, expected an odd number")
    return [shapes[0]]


def _window_means(x: np.ndarray, size: int) -> np.ndarray:
    """Return the mean over the square around each place of each channel, zeros around the plane."""
    half, (height, width) = (size - 1) // 2, x.shape[2:]
    padded = np.pad(x, [(0, 0), (0, 0), (half, half), (half, half)])
    rows = np.sum([padded[:, :, i : i + height] for i in range(size)], axis=0)
    return np.asarray(sum(rows[:, :, :, j : j + width] for j in range(size)) / size**2)


def _base(x: np.ndarray, attributes: Attributes) -> np.ndarray:
    return np.asarray(1 + attributes["alpha"] * _window_means(x * x, attributes["size"]))


def _lrn_gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray]:
    """A place counts in the squares of all places whose window it is in, which is the same window."""
    (x,), (above,), beta = inputs, gradients, attributes["beta"]
    base = _base(x, attributes)
    shared = _window_means(above * x * base ** (-beta - 1), attributes["size"])
    return [(above * base**-beta - 2 * attributes["alpha"] * beta * x * shared).astype(x.dtype)]


@operator("ChannelLRN", shapes=_lrn_shapes, gradient=_lrn_gradient)
def channel_lrn(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Caffe lrn_layer.cpp, WithinChannelForward: ``x * (1 + alpha * mean of squares) ** -beta``.

    Attributes: ``size`` (odd), ``alpha``, ``beta``.
    """
    (x,) = inputs
    return [(x * _base(x, attributes) ** -attributes["beta"]).astype(x.dtype)]


def _rms_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    return shapes[:1]


@operator("RMSNormalization", shapes=_rms_shapes, defaults={"axis": -1, "epsilon": 1e-5})
def rms_normalization(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """ONNX RMSNormalization-23: divided by the root of the mean square over the last axes.

    Inputs: values, and a scale with the sizes of the last axes.
    Attributes: ``axis``, negative: the first of the last axes. ``epsilon``: what is added to the mean square.
    """
    x, scale = inputs
    axes = tuple(range(attributes["axis"], 0))
    mean_square = np.mean(x * x, axis=axes, keepdims=True)
    return [(x / np.sqrt(mean_square + np.float32(attributes["epsilon"])) * scale).astype(x.dtype)]
