"""MXNet's outputs with a loss, whose gradient is the operator's own.

A gradient that is divided by a number of samples or labels takes that of the whole batch, and one that is not
is such that parts of a batch end as the whole (``WholeBatch.divisor``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.runtime.backends.torch.gradients import needs_gradient, with_gradient
from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.whole_batch import WholeBatch


@lowering("SoftmaxOutput", since=1, domain="netweave")
def softmax_output(
    x: Tensor,
    label: Tensor | None = None,
    *,
    grad_scale: float = 1.0,
    ignore_label: float = -1.0,
    multi_output: int = 0,
    normalization: str = "null",
    out_grad: int = 0,
    preserve_shape: int = 0,
    smooth_alpha: float = 0.0,
    use_ignore: int = 0,
    batch: WholeBatch,
) -> Tensor:
    """MXNet softmax_output-inl.h: softmax, whose gradient is that of the cross entropy with the label."""
    rows = _rows(x, multi_output=bool(multi_output), preserve_shape=bool(preserve_shape))
    p = torch.softmax(rows, 1)
    y = p.reshape(x.shape)
    if label is None or not needs_gradient(x):
        return y
    if label.shape == x.shape:
        gradient = _shared(y - label, batch)
    else:
        count = p.shape[0] * p.shape[2]  # MXNet reads no more of a label that is larger
        gradient = _from_classes(
            p,
            label.reshape(-1)[:count].reshape(p.shape[0], p.shape[2]).to(torch.int64),
            ignored=int(ignore_label) if use_ignore else None,
            normalization=normalization,
            smooth_alpha=smooth_alpha,
            batch=batch,
        ).reshape(x.shape)
    return with_gradient(x, y, grad_scale * gradient, times_above=bool(out_grad))


def _rows(x: Tensor, *, multi_output: bool, preserve_shape: bool) -> Tensor:
    """Return the input as (rows, classes, positions): softmax is over axis 1."""
    if multi_output:
        return x.reshape(x.shape[0], x.shape[1], -1)
    return x.reshape(-1, x.shape[-1], 1) if preserve_shape else x.reshape(x.shape[0], -1, 1)


def _shared(gradient: Tensor, batch: WholeBatch) -> Tensor:
    """Return a gradient that is not divided by a count, for a part of the batch."""
    return gradient if batch.parts == 1 else gradient / batch.divisor(None)


def _from_classes(
    p: Tensor,
    label: Tensor,
    *,
    ignored: int | None,
    normalization: str,
    smooth_alpha: float,
    batch: WholeBatch,
) -> Tensor:
    """Return the gradient of probabilities (rows, classes, positions) for class numbers (rows, positions)."""
    num_classes = p.shape[1]
    hit = torch.arange(num_classes, device=p.device)[None, :, None] == label[:, None, :]
    other = smooth_alpha / (num_classes - 1) if num_classes > 1 else 0.0
    gradient = p - torch.where(hit, 1.0 - smooth_alpha, other).to(p.dtype)
    kept = torch.ones_like(label, dtype=torch.bool) if ignored is None else label != ignored
    gradient = gradient * kept[:, None, :]
    if normalization == "valid":
        return gradient / batch.divisor(kept.sum())
    if normalization == "batch":
        return gradient / (p.shape[2] * batch.divisor(p.shape[0]))
    return _shared(gradient / p.shape[2], batch)


def _per_label(label: Tensor) -> float:
    """Return the number of outputs of one element of the batch (``num_output``)."""
    return label.numel() / label.shape[0] if label.ndim else 1.0


def _with_difference(
    x: Tensor, y: Tensor, label: Tensor | None, grad_scale: float, batch: WholeBatch, *, sign: bool
) -> Tensor:
    """Return ``y``, whose gradient is its difference to the label, or the sign of that."""
    if label is None or not needs_gradient(x):
        return y
    difference = y.detach() - label.reshape(y.shape)
    gradient = (difference.sign() if sign else difference) * (grad_scale / _per_label(label))
    return with_gradient(x, y, _shared(gradient, batch), times_above=False)


@lowering("LinearRegressionOutput", since=1, domain="netweave")
def linear_regression_output(
    x: Tensor, label: Tensor | None = None, *, grad_scale: float = 1.0, batch: WholeBatch
) -> Tensor:
    """MXNet regression_output-inl.h: the input itself, whose gradient is that of the squared loss."""
    return _with_difference(x, x, label, grad_scale, batch, sign=False)


@lowering("LogisticRegressionOutput", since=1, domain="netweave")
def logistic_regression_output(
    x: Tensor, label: Tensor | None = None, *, grad_scale: float = 1.0, batch: WholeBatch
) -> Tensor:
    """MXNet regression_output-inl.h: the sigmoid, whose gradient is that of the cross entropy."""
    return _with_difference(x, torch.sigmoid(x), label, grad_scale, batch, sign=False)


@lowering("MAERegressionOutput", since=1, domain="netweave")
def mae_regression_output(
    x: Tensor, label: Tensor | None = None, *, grad_scale: float = 1.0, batch: WholeBatch
) -> Tensor:
    """MXNet regression_output-inl.h: the input itself, whose gradient is that of the absolute loss."""
    return _with_difference(x, x, label, grad_scale, batch, sign=True)


@lowering("SVMOutput", since=1, domain="netweave")
def svm_output(
    x: Tensor,
    label: Tensor | None = None,
    *,
    margin: float = 1.0,
    regularization_coefficient: float = 1.0,
    use_linear: int = 0,
    batch: WholeBatch,
) -> Tensor:
    """MXNet svm_output-inl.h: the input itself, whose gradient is that of one hinge per class."""
    if label is None or not needs_gradient(x):
        return x
    rows = x.detach()
    numbers = torch.arange(rows.shape[1], device=x.device)
    side = torch.where(numbers[None, :] == label.to(torch.int64)[:, None], 1.0, -1.0).to(rows.dtype)
    slack = (margin - side * rows).clamp(min=0)
    slope = (slack > 0).to(rows.dtype) if use_linear else 2 * slack
    gradient = -side * slope * regularization_coefficient
    return with_gradient(x, x, _shared(gradient, batch), times_above=False)


@lowering("MakeLoss", since=1, domain="netweave")
def make_loss(
    x: Tensor,
    *,
    grad_scale: float = 1.0,
    normalization: str = "null",
    valid_thresh: float = 0.0,
    batch: WholeBatch,
) -> Tensor:
    """MXNet make_loss-inl.h: the input itself, whose gradient is ``grad_scale`` over a count."""
    if not needs_gradient(x):
        return x
    gradient = torch.full_like(x, grad_scale)
    if normalization == "batch":
        gradient = gradient / batch.divisor(x.shape[0])
    elif normalization == "valid":
        gradient = gradient / batch.divisor((x > valid_thresh).sum())
    else:
        gradient = _shared(gradient, batch)
    return with_gradient(x, x, gradient, times_above=False)
