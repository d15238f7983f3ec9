"""MXNet's outputs with a loss: the forward is a prediction, the gradient is the operator's own.

Unless said otherwise a gradient ignores the one that comes from above: these operators end a net.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph.operators import Attributes, Dim, operator

if TYPE_CHECKING:
    from collections.abc import Sequence


def _same_shape(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    return [shapes[0]]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the softmax along an axis."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def _rows(x: np.ndarray, attributes: Attributes) -> np.ndarray:
    """Return the input as (rows, classes, positions): softmax is over axis 1."""
    if attributes.get("multi_output"):
        return x.reshape(x.shape[0], x.shape[1], -1)
    if attributes.get("preserve_shape"):
        return x.reshape(-1, x.shape[-1], 1)
    return x.reshape(x.shape[0], -1, 1)


def softmax_output_gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Return ``(p - target) * grad_scale / count``, times the gradient from above with ``out_grad``."""
    label = inputs[1]
    scale = float(attributes.get("grad_scale", 1.0))
    if label.shape == outputs[0].shape:
        gradient = (outputs[0] - label) * scale
    else:
        p = _rows(outputs[0], attributes)
        gradient = _from_classes(p, label.reshape(p.shape[0], p.shape[2]), attributes) * scale
    gradient = gradient.reshape(outputs[0].shape).astype(outputs[0].dtype)
    if attributes.get("out_grad"):
        gradient = gradient * gradients[0]
    return [gradient, None]


def _from_classes(p: np.ndarray, label: np.ndarray, attributes: Attributes) -> np.ndarray:
    """Return the gradient of rows of probabilities for labels that are class numbers."""
    classes = p.shape[1]
    index = label.astype(np.int64)
    alpha = float(attributes.get("smooth_alpha", 0.0))
    hit = np.arange(classes)[None, :, None] == index[:, None, :]
    other = alpha / (classes - 1) if classes > 1 else 0.0
    gradient = p - np.where(hit, 1.0 - alpha, other)
    kept = np.ones(label.shape, bool)
    if attributes.get("use_ignore"):
        kept = index != int(attributes.get("ignore_label", -1))
        gradient = gradient * kept[:, None, :]
    normalization = attributes.get("normalization", "null")
    if normalization == "valid":
        return np.asarray(gradient / max(int(kept.sum()), 1))
    count = p.shape[0] if normalization == "batch" else 1
    return np.asarray(gradient / (count * p.shape[2]))


@operator("SoftmaxOutput", shapes=_same_shape, gradient=softmax_output_gradient)
def softmax_output(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """MXNet softmax_output-inl.h: softmax over axis 1, the last, or all but the first."""
    return [softmax(_rows(inputs[0], attributes), 1).reshape(inputs[0].shape)]
