"""Losses and outputs that carry a loss."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from netweave.errors import RunError
from netweave.graph.operators import Attributes, Dim, Effect, operator

# Inputs are predictions and labels; class numbers come as floats. ``normalization`` is ``FULL`` (all
# labels), ``VALID`` (those that are not ``ignore_label``), ``BATCH_SIZE`` (the axes before the classes) or
# ``NONE``. The weight of a loss comes as the gradient of its output.

Arrays = Sequence[np.ndarray]
Gradients = Sequence[np.ndarray | None]
Shapes = Sequence[tuple[Dim, ...]]

SMALLEST = float(np.finfo(np.float32).tiny)
"""FLT_MIN, below which Caffe and SINGA take no probability; Chainer has no such bound."""
_LOG_THRESHOLD = 1e-20


def _count(shape: Sequence[Dim]) -> tuple[int, list[str]]:
    """Return a comparable number of elements: that of the known sizes, and the open ones by name."""
    known = prod(size for size in shape if isinstance(size, int))
    return known, sorted(str(size) for size in shape if not isinstance(size, int))


def _class_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    """A number, and something of the size of the predictions; one label for each position."""
    x, labels = shapes[0], shapes[1]
    axis = attributes.get("axis", 1)
    if axis >= len(x):
        raise ValueError(f"no axis {axis} of classes in predictions of shape {tuple(map(str, x))}")
    positions = (*x[:axis], *x[axis + 1 :])
    if _count(positions) != _count(labels):
        raise ValueError(
            f"labels of shape ({', '.join(map(str, labels))}), expected one for each of "
            f"({', '.join(map(str, positions))})"
        )
    return [(), x]


def _equal_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    if _count(shapes[0]) != _count(shapes[1]):
        first, second = (f"({', '.join(map(str, shape))})" for shape in shapes[:2])
        raise ValueError(f"inputs of shapes {first} and {second}, expected the same number of elements")
    return [()]


def _row_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    return [()]


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _positions(inputs: Arrays, attributes: Attributes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return predictions as (outer, classes, inner), labels as (outer, inner), and which labels count."""
    x, axis = inputs[0], attributes.get("axis", 1)
    flat = x.reshape(prod(x.shape[:axis]), x.shape[axis], -1)
    labels = inputs[1].reshape(flat.shape[0], flat.shape[2]).astype(np.int64)
    kept = np.ones(labels.shape, bool)
    if attributes.get("ignore_label") is not None:
        kept = labels != attributes["ignore_label"]
    used = labels[kept]
    if used.size and not (used.min() >= 0 and used.max() < flat.shape[1]):
        raise RunError(
            f"labels from {used.min()} to {used.max()} for {flat.shape[1]} classes, numbered from 0"
        )
    return flat, np.where(kept, labels, 0), kept


def _rows_losses(x: np.ndarray) -> np.ndarray:
    return x.reshape(x.shape[0], -1)


def _divisor(kept: np.ndarray, attributes: Attributes) -> float:
    counts = {"FULL": kept.size, "VALID": int(kept.sum()), "BATCH_SIZE": kept.shape[0], "NONE": 1}
    return float(max(1, counts[attributes.get("normalization", "VALID")]))


def _picked(flat: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return what stands at the label of each position, as (outer, inner)."""
    return np.asarray(np.take_along_axis(flat, labels[:, None, :], axis=1)[:, 0, :])


def _hits(flat: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return 1 at the label of each position and 0 elsewhere."""
    hits = np.arange(flat.shape[1])[None, :, None] == labels[:, None, :]
    return np.asarray(hits, flat.dtype)


def _number(value: float, like: np.ndarray) -> np.ndarray:
    return np.asarray(value, like.dtype)


def _softmax_gradient(
    inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes
) -> Gradients:
    flat, labels, kept = _positions(inputs, attributes)
    slope = (_softmax(flat) - _hits(flat, labels)) * kept[:, None, :]
    slope *= gradients[0] / _divisor(kept, attributes)
    return [slope.reshape(inputs[0].shape), None]


@operator("SoftmaxWithLoss", shapes=_class_shapes, gradient=_softmax_gradient)
def softmax_with_loss(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe softmax_loss_layer.cpp: minus the logarithm of the label's softmax; the softmax itself.

    A probability counts as ``min_probability`` if it is smaller, except in the gradient.
    """
    flat, labels, kept = _positions(inputs, attributes)
    p = _softmax(flat)
    shifted = flat - flat.max(axis=1, keepdims=True)
    log_p = _picked(shifted, labels) - np.log(np.exp(shifted).sum(axis=1))
    if attributes.get("min_probability") is not None:
        log_p = np.maximum(log_p, np.log(attributes["min_probability"]))
    losses = -log_p * kept
    loss = _number(losses.sum() / _divisor(kept, attributes), flat)
    return [loss, p.reshape(inputs[0].shape)]


def _kept_targets(target: np.ndarray, attributes: Attributes) -> np.ndarray:
    rows = _rows_losses(target)
    ignored = attributes.get("ignore_label")
    return np.ones(rows.shape, bool) if ignored is None else rows.astype(np.int64) != ignored


def _sigmoid_gradient(
    inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes
) -> Gradients:
    kept = _kept_targets(inputs[1], attributes)
    sigmoid = 0.5 * np.tanh(0.5 * _rows_losses(inputs[0])) + 0.5
    slope = (sigmoid - _rows_losses(inputs[1])) * kept * (gradients[0] / _divisor(kept, attributes))
    return [slope.reshape(inputs[0].shape), None]


@operator("SigmoidCrossEntropyLoss", shapes=_equal_shapes, gradient=_sigmoid_gradient)
def sigmoid_cross_entropy(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe sigmoid_cross_entropy_loss_layer.cpp: cross entropy of targets between 0 and 1."""
    x, target = _rows_losses(inputs[0]), _rows_losses(inputs[1])
    kept = _kept_targets(inputs[1], attributes)
    losses = np.maximum(x, 0) - x * target + np.log1p(np.exp(-np.abs(x)))
    return [_number((losses * kept).sum() / _divisor(kept, attributes), x)]


def _euclidean_gradient(
    inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes
) -> Gradients:
    slope = (inputs[0] - inputs[1].reshape(inputs[0].shape)) * (gradients[0] / inputs[0].shape[0])
    return [slope, -slope.reshape(inputs[1].shape)]


@operator("EuclideanLoss", shapes=_equal_shapes, gradient=_euclidean_gradient)
def euclidean(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe euclidean_loss_layer.cpp: the sum of squared differences over twice the batch size."""
    difference = (inputs[0] - inputs[1].reshape(inputs[0].shape)).astype(np.float64)
    return [_number((difference**2).sum() / (2 * inputs[0].shape[0]), inputs[0])]


def _margins(inputs: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each class is on the wrong side of its margin, and the sign of each class."""
    rows = _rows_losses(inputs[0])[:, :, None]
    flat, labels, _ = _positions([rows, inputs[1]], {})
    signs = 2 * _hits(flat, labels)[:, :, 0] - 1
    return np.maximum(0, 1 - signs * flat[:, :, 0]), signs


def _hinge_gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    margins, signs = _margins(inputs)
    slope = np.sign(margins) if attributes.get("norm", "L1") == "L1" else 2 * margins
    return [(-signs * slope * (gradients[0] / margins.shape[0])).reshape(inputs[0].shape), None]


@operator("HingeLoss", shapes=_row_shapes, gradient=_hinge_gradient)
def hinge(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe hinge_loss_layer.cpp: one class against all others, with a margin of 1."""
    margins, _ = _margins(inputs)
    total = margins.sum() if attributes.get("norm", "L1") == "L1" else (margins**2).sum()
    return [_number(total / margins.shape[0], inputs[0])]


def _pair_distance(inputs: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the difference of each pair, its squared length, and whether the pair is alike."""
    difference = _rows_losses(inputs[0]) - _rows_losses(inputs[1])
    return difference, (difference**2).sum(axis=1), inputs[2].reshape(-1).astype(np.int64) != 0


def _contrastive_gradient(
    inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes
) -> Gradients:
    difference, squared, alike = _pair_distance(inputs)
    margin = attributes.get("margin", 1.0)
    if attributes.get("legacy_version"):
        factor = np.where(margin - squared > 0, -1.0, 0.0)
    else:
        distance = np.sqrt(squared)
        factor = -np.maximum(margin - distance, 0) / (distance + 1e-4)
    slope = np.where(alike, 1.0, factor)[:, None] * difference * (gradients[0] / len(squared))
    slope = slope.astype(inputs[0].dtype)
    return [slope.reshape(inputs[0].shape), -slope.reshape(inputs[1].shape), None]


@operator("ContrastiveLoss", shapes=_equal_shapes, gradient=_contrastive_gradient)
def contrastive(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe contrastive_loss_layer.cpp: pairs that are alike together, others apart by a margin."""
    _, squared, alike = _pair_distance(inputs)
    margin = attributes.get("margin", 1.0)
    if attributes.get("legacy_version"):
        apart = np.maximum(margin - squared, 0)
    else:
        apart = np.maximum(margin - np.sqrt(squared), 0) ** 2
    return [_number(np.where(alike, squared, apart).sum() / (2 * len(squared)), inputs[0])]


def _multinomial_gradient(
    inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes
) -> Gradients:
    flat, labels, _ = _positions([_rows_losses(inputs[0]), inputs[1]], {})
    slope = -_hits(flat, labels) / np.maximum(flat, _LOG_THRESHOLD) * (gradients[0] / flat.shape[0])
    return [slope.reshape(inputs[0].shape), None]


@operator("MultinomialLogisticLoss", shapes=_row_shapes, gradient=_multinomial_gradient)
def multinomial_logistic(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe multinomial_logistic_loss_layer.cpp: minus the logarithm of the label's probability."""
    flat, labels, _ = _positions([_rows_losses(inputs[0]), inputs[1]], {})
    losses = -np.log(np.maximum(_picked(flat, labels), _LOG_THRESHOLD))
    return [_number(losses.sum() / flat.shape[0], flat)]


def _infogain_gradient(
    inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes
) -> Gradients:
    flat, labels, kept = _positions(inputs, attributes)
    gains = np.moveaxis(_gain_matrix(inputs[2], flat)[labels], 2, 1)
    slope = (gains.sum(axis=1, keepdims=True) * _softmax(flat) - gains) * kept[:, None, :]
    slope *= gradients[0] / _divisor(kept, attributes)
    return [slope.reshape(inputs[0].shape), None, None]


@operator("InfogainLoss", shapes=_class_shapes, gradient=_infogain_gradient)
def infogain(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe infogain_loss_layer.cpp (1.0): logarithms of all classes, weighted by the label's row."""
    flat, labels, kept = _positions(inputs, attributes)
    p = _softmax(flat)
    gains = np.moveaxis(_gain_matrix(inputs[2], flat)[labels], 2, 1)
    losses = -(gains * np.log(np.maximum(p, _LOG_THRESHOLD))).sum(axis=1) * kept
    return [_number(losses.sum() / _divisor(kept, attributes), flat), p.reshape(inputs[0].shape)]


def _gain_matrix(gains: np.ndarray, flat: np.ndarray) -> np.ndarray:
    classes = flat.shape[1]
    if gains.size != classes**2:
        raise RunError(f"an information gain matrix with {gains.size} elements for {classes} classes")
    return gains.reshape(classes, classes)


def _accuracy_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    _, x = _class_shapes(shapes, attributes)
    return [(), (x[attributes.get("axis", 1)],)]


@operator("Accuracy", shapes=_accuracy_shapes)
def accuracy(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe accuracy_layer.cpp: the share of labels among the best ``top_k``; by class.

    ``ties`` says which of equal classes comes first: none of them, as in Caffe (``against``), or the one of
    the ``lowest`` or ``highest`` number.
    """
    flat, labels, kept = _positions(inputs, attributes)
    reached = _picked(flat, labels)[:, None, :]
    numbers = np.arange(flat.shape[1])[None, :, None]
    wins = {
        "against": numbers != labels[:, None, :],
        "lowest": numbers < labels[:, None, :],
        "highest": numbers > labels[:, None, :],
    }[attributes.get("ties", "against")]
    rivals = ((flat > reached) | (flat == reached) & wins).sum(axis=1)
    right = (rivals < attributes.get("top_k", 1)) & kept
    classes = flat.shape[1]
    of_class = np.bincount(labels[kept], minlength=classes)
    right_of_class = np.bincount(labels[right], minlength=classes)
    total = right.sum() / max(1, kept.sum())
    return [_number(total, flat), (right_of_class / np.maximum(1, of_class)).astype(flat.dtype)]


def _smooth_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    if len(shapes) not in {2, 3, 4}:
        raise ValueError(f"{len(shapes)} inputs, expected 2 to 4")
    for other in shapes[1:]:
        _equal_shapes([shapes[0], other], attributes)
    return [()]


def _smooth_parts(inputs: Arrays, attributes: Attributes) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return weighted differences, inside and outside weights, and the square of sigma."""
    x = inputs[0]
    inside, outside = (
        inputs[index].reshape(x.shape) if len(inputs) > index else np.ones_like(x) for index in (2, 3)
    )
    return (x - inputs[1].reshape(x.shape)) * inside, inside, outside, attributes.get("sigma", 1.0) ** 2


def _smooth_gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    difference, inside, outside, square = _smooth_parts(inputs, attributes)
    slope = np.where(abs(difference) < 1 / square, square * difference, np.sign(difference))
    slope = slope * inside * outside * (gradients[0] / inputs[0].shape[0])
    return [slope, -slope.reshape(inputs[1].shape), *[None] * (len(inputs) - 2)]


@operator("SmoothL1Loss", shapes=_smooth_shapes, gradient=_smooth_gradient)
def smooth_l1(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Fast R-CNN smooth_L1_loss_layer.cu: squares near 0, absolute values beyond 1 / sigma², for each image.

    Inputs: predictions, targets, and weights of the differences (third) and of their losses (fourth).
    """
    difference, _, outside, square = _smooth_parts(inputs, attributes)
    size = abs(difference)
    losses = np.where(size < 1 / square, 0.5 * square * difference**2, size - 0.5 / square) * outside
    return [_number(losses.sum() / inputs[0].shape[0], inputs[0])]


# Unless said otherwise a gradient ignores the one that comes from above: these operators end a net.


def _same_shape(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    return [shapes[0]]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the softmax along an axis."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def _rows_outputs(x: np.ndarray, attributes: Attributes) -> np.ndarray:
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
        p = _rows_outputs(outputs[0], attributes)
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
    return [softmax(_rows_outputs(inputs[0], attributes), 1).reshape(inputs[0].shape)]


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


# Margins of nets that recognise faces: margin_inner_product_layer.cpp (SphereFace), center_loss_layer.cpp
# (CenterFace), label_specific_margin.cu and inner_product_layer.cu (AMSoftmax's caffe-windows). Several of
# their gradients are not those of their forwards; here are the sources'.


def _count_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    return [(1,)]


@operator("CallCount", shapes=_count_shapes, effects=[Effect.STATEFUL])
def call_count(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe's own counters (``iteration``): ``first``, plus one for each batch that has been trained."""
    return [np.full(1, attributes.get("first", 0), np.float32)]


def _passed_back(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    return [gradients[0]]


@operator("UnitRows", shapes=_same_shape, gradient=_passed_back)
def unit_rows(inputs: Arrays, attributes: Attributes) -> Arrays:
    """inner_product_layer.cu (``normalize``): rows of length 1, which take the place of the stored ones.

    The gradient is that of the new rows; training then changes these.
    """
    squares = (inputs[0] ** 2).sum(axis=1, keepdims=True)
    return [inputs[0] / np.sqrt(squares + attributes.get("epsilon", 0.0))]


def margin_of_angle(cosine: np.ndarray, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """Return SphereFace's psi, which continues cos(margin * angle) downwards, and its slope by the cosine.

    Args:
        cosine: Of the angles.
        margin: By how much the angle is multiplied, 1 to 4.
    """
    sign = np.sign(cosine)
    if margin == 1:
        return cosine, np.ones_like(cosine)
    if margin == 2:
        return 2 * sign * cosine**2 - 1, 4 * sign * cosine
    if margin == 3:
        steep = np.sign(abs(cosine) - 0.5)
        return steep * (4 * cosine**3 - 3 * cosine) + sign * (1 + steep) - 2, steep * (12 * cosine**2 - 3)
    steep = sign * np.sign(2 * cosine**2 - 1)
    psi = steep * (8 * cosine**4 - 8 * cosine**2 + 1) + 2 * sign + steep - 3
    return psi, steep * (32 * cosine**3 - 16 * cosine)


def _rows_and_labels(inputs: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features as rows, class numbers, and 1 at the class of each row."""
    rows = _rows_losses(inputs[0])
    flat, labels, _ = _positions([np.zeros((len(rows), len(inputs[1]), 1)), inputs[2]], {})
    return rows, labels[:, 0], _hits(flat, labels)[:, :, 0]


def _margin_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    return [(shapes[0][0], shapes[1][0])]


def _margin_gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    rows, _, hits = _rows_and_labels(inputs)
    weight, share, above = inputs[1], inputs[3].reshape(-1)[0], gradients[0]
    by_weight = above.T @ rows  # as if there were no margin
    if attributes["margin"] == 1:
        return [(above @ weight).reshape(inputs[0].shape), by_weight, None, None]
    length = np.sqrt((rows**2).sum(axis=1))
    cosine = ((rows @ weight.T) * hits).sum(axis=1) / length
    psi, along_weight = margin_of_angle(cosine, attributes["margin"])
    along_row = (psi - cosine * along_weight) / length
    size = np.sqrt(along_weight**2 + along_row**2)
    own = (above * hits).sum(axis=1) / size
    by_row = (above * (1 - hits) + (own * along_weight)[:, None] * hits) @ weight
    by_row += (own * along_row)[:, None] * rows + share * (above @ weight)
    return [(by_row / (1 + share)).reshape(inputs[0].shape), by_weight, None, None]


@operator("MarginInnerProduct", shapes=_margin_shapes, gradient=_margin_gradient)
def margin_inner_product(inputs: Arrays, attributes: Attributes) -> Arrays:
    """margin_inner_product_layer.cpp: products with rows of length 1, that of the label by a larger angle.

    Inputs: features, rows, labels, and how much the products without a margin count (lambda), one number.
    The gradient of the rows knows no margin, and that of the label's feature is scaled to coefficients whose
    squares add up to 1.
    """
    rows, _, hits = _rows_and_labels(inputs)
    plain, share = rows @ inputs[1].T, inputs[3].reshape(-1)[0]
    if attributes["margin"] == 1:
        return [plain]
    length = np.sqrt((rows**2).sum(axis=1))
    psi, _ = margin_of_angle((plain * hits).sum(axis=1) / length, attributes["margin"])
    bent = np.where(hits > 0, (length * psi)[:, None], plain)
    return [(bent + share * plain) / (1 + share)]


def _specific_margin(inputs: Arrays, attributes: Attributes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cosines with the margin, their slopes, and where a label is."""
    cosine, margin = inputs[0], inputs[2].reshape(-1)[0]
    flat, labels, _ = _positions([cosine[:, :, None], inputs[1]], {})
    hits = _hits(flat, labels)[:, :, 0] > 0
    inner = np.clip(cosine, -1 + 1e-4, 1 - 1e-4)
    sine = np.sqrt(1 - inner**2)
    if margin == 0:
        return cosine, np.ones_like(cosine), hits
    if attributes.get("kind", "HARD") == "HARD":
        angle = margin / 180 * np.pi
        bent, slope = (
            inner * np.cos(angle) - sine * np.sin(angle),
            np.cos(angle) + inner / sine * np.sin(angle),
        )
    else:
        angle = np.arccos(cosine)
        angle = np.where(margin * angle > np.pi - 1e-4, np.pi - 1e-4, angle)
        bent, slope = np.cos(margin * angle), margin * np.sin(margin * angle) / sine
    return np.where(hits, bent, cosine), np.where(hits, np.clip(slope, 0, 2), 1), hits


def _specific_gradient(
    inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes
) -> Gradients:
    return [gradients[0] * _specific_margin(inputs, attributes)[1], None, None]


@operator("LabelSpecificMargin", shapes=_same_shape, gradient=_specific_gradient)
def label_specific_margin(inputs: Arrays, attributes: Attributes) -> Arrays:
    """label_specific_margin.cu: the label's cosine by an angle that is larger, by degrees or by a factor.

    Inputs: cosines, labels, and the margin, one number: degrees that are added (``kind`` HARD), or a factor
    (SOFT). The slope is bounded to 0 to 2.
    """
    return [_specific_margin(inputs, attributes)[0].astype(inputs[0].dtype)]


def _center_gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    difference, hits = _to_centers(inputs)
    if attributes.get("distance_type", "L2") == "L1":
        difference = np.sign(difference)
    counts = hits.sum(axis=0)[:, None]
    by_row = difference * (gradients[0] / len(difference))
    return [by_row.reshape(inputs[0].shape), None, -(hits.T @ difference) / (counts + 1)]


def _to_centers(inputs: Arrays) -> tuple[np.ndarray, np.ndarray]:
    rows, labels, hits = _rows_and_labels([inputs[0], inputs[2], inputs[1]])
    return rows - inputs[2][labels], hits


@operator("CenterLoss", shapes=_row_shapes, gradient=_center_gradient)
def center_loss(inputs: Arrays, attributes: Attributes) -> Arrays:
    """center_loss_layer.cpp: squared distances to the centers of the labels, over twice the batch size.

    Inputs: features, labels, centers. A center moves by the sum of its differences over one more than their
    number, whatever the weight of the loss is. ``distance_type`` L1 takes absolute values, not halved.
    """
    difference, _ = _to_centers(inputs)
    if attributes.get("distance_type", "L2") == "L1":
        return [_number(abs(difference).sum() / len(difference), inputs[0])]
    return [_number((difference**2).sum() / (2 * len(difference)), inputs[0])]
