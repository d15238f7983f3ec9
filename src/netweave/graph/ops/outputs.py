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
        count = p.shape[0] * p.shape[2]  # MXNet reads no more of a label that is larger
        classes = label.reshape(-1)[:count].reshape(p.shape[0], p.shape[2])
        gradient = _from_classes(p, classes, attributes) * scale
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


def _per_label(label: np.ndarray) -> float:
    """Return the number of outputs of one element of the batch (``num_output``)."""
    return label.size / label.shape[0] if label.ndim else 1.0


def _difference(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Return ``(output - label) * grad_scale / num_output``."""
    label = inputs[1].reshape(outputs[0].shape)
    scale = float(attributes.get("grad_scale", 1.0)) / _per_label(inputs[1])
    return [((outputs[0] - label) * scale).astype(outputs[0].dtype), None]


def _sign_of_difference(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Return ``sign(output - label) * grad_scale / num_output``."""
    label = inputs[1].reshape(outputs[0].shape)
    scale = float(attributes.get("grad_scale", 1.0)) / _per_label(inputs[1])
    return [(np.sign(outputs[0] - label) * scale).astype(outputs[0].dtype), None]


@operator("LinearRegressionOutput", shapes=_same_shape, gradient=_difference)
def linear_regression_output(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """MXNet regression_output-inl.h: the input itself, squared loss."""
    return [inputs[0].copy()]


@operator("LogisticRegressionOutput", shapes=_same_shape, gradient=_difference)
def logistic_regression_output(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """MXNet regression_output-inl.h: the sigmoid, cross-entropy."""
    return [np.asarray(1.0 / (1.0 + np.exp(-inputs[0])), inputs[0].dtype)]


@operator("MAERegressionOutput", shapes=_same_shape, gradient=_sign_of_difference)
def mae_regression_output(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """MXNet regression_output-inl.h: the input itself, absolute loss."""
    return [inputs[0].copy()]


def svm_output_gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Return the gradient of one hinge per class: of its value, or with ``use_linear=0`` of its square."""
    x, label = outputs[0], inputs[1].astype(np.int64)
    side = np.where(np.arange(x.shape[1])[None, :] == label[:, None], 1.0, -1.0)
    slack = np.maximum(float(attributes.get("margin", 1.0)) - side * x, 0.0)
    slope = (slack > 0) if attributes.get("use_linear") else 2.0 * slack
    scale = float(attributes.get("regularization_coefficient", 1.0))
    return [(-side * slope * scale).astype(x.dtype), None]


@operator("SVMOutput", shapes=_same_shape, gradient=svm_output_gradient)
def svm_output(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """MXNet svm_output-inl.h: the input itself, hinge loss."""
    return [inputs[0].copy()]


def make_loss_gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Return ``grad_scale``, over the batch size or the number of elements above ``valid_thresh``."""
    x = inputs[0]
    valid = max(int((x > float(attributes.get("valid_thresh", 0.0))).sum()), 1)
    count = {"null": 1, "batch": x.shape[0], "valid": valid}[attributes.get("normalization", "null")]
    return [np.full_like(x, float(attributes.get("grad_scale", 1.0)) / count)]


@operator("MakeLoss", shapes=_same_shape, gradient=make_loss_gradient)
def make_loss(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """MXNet make_loss-inl.h: the input itself."""
    return [inputs[0].copy()]
