"""Losses and metrics: ONNX's, and Caffe's with their divisors.

Caffe's gradients are those of the formulas but for a few places, which are named; the formulas are in
``netweave.graph.ops.losses``. Predictions are (outer, classes, inner) here, labels (outer, inner).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.gradients import with_gradient
from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.whole_batch import WholeBatch

_NOTHING_IGNORED = -(2**31)
LOG_TINY = math.log(torch.finfo(torch.float32).tiny)
_LOG_THRESHOLD = 1e-20


@lowering("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    batch: WholeBatch,
) -> Tensor:
    """Return the negative logarithms of the targets' probabilities; a mean is over the weights."""
    ignored = _NOTHING_IGNORED if ignore_index is None else ignore_index
    labels = target.to(torch.int64)
    if batch.parts == 1 or reduction == "none":
        return functional.nll_loss(x, labels, weight, ignore_index=ignored, reduction=reduction)
    total = functional.nll_loss(x, labels, weight, ignore_index=ignored, reduction="sum")
    kept = labels != ignored
    weights = kept if weight is None else weight[labels.clamp(min=0)] * kept
    return total / batch.divisor(weights.sum() if reduction == "mean" else None)


@lowering("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Return the cross entropy of the softmax over axis 1, and the logarithms of the probabilities."""
    log_prob = torch.log_softmax(scores, 1)
    loss = negative_log_likelihood(
        log_prob, labels, weights, ignore_index=ignore_index, reduction=reduction, batch=batch
    )
    return loss, log_prob


def wide(x: Tensor) -> Tensor:
    """Return scores with the digits that a loss needs: bfloat16 has not three."""
    return x.float() if x.itemsize < 4 else x


def _positions(
    x: Tensor, labels: Tensor, axis: int, ignore_label: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return predictions, at least in float32, labels (0 where ignored) and which labels count."""
    x = wide(x)
    flat = x.flatten(axis + 1) if x.ndim > axis + 1 else x.unsqueeze(-1)
    flat = flat.reshape(-1, *flat.shape[-2:])
    numbers = labels.reshape(flat.shape[0], flat.shape[2]).to(torch.int64)
    if ignore_label is None:
        return flat, numbers, torch.ones_like(numbers, dtype=torch.bool)
    kept = numbers != ignore_label
    return flat, numbers * kept, kept


def _divisor(kept: Tensor, normalization: str, batch: WholeBatch) -> Tensor | float:
    """Return what a sum of losses is divided by; ``LossParameter.NormalizationMode``."""
    if normalization == "VALID":
        return batch.divisor(kept.sum())
    if normalization == "NONE":
        return batch.divisor(None)
    return batch.divisor({"FULL": kept.numel(), "BATCH_SIZE": kept.shape[0]}[normalization])


def _at(flat: Tensor, labels: Tensor) -> Tensor:
    """Return what stands at each label."""
    return flat.gather(1, labels[:, None, :])[:, 0, :]


def bounded(value: Tensor, low: float) -> Tensor:
    """Bound a value from below without bounding its gradient."""
    return with_gradient(value, value.clamp(min=low), torch.ones_like(value), times_above=True)


@lowering("SoftmaxWithLoss", since=1, domain="netweave")
def softmax_with_loss(
    x: Tensor,
    labels: Tensor,
    *,
    axis: int = 1,
    ignore_label: int | None = None,
    normalization: str = "VALID",
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Return the cross entropy of the softmax, and the softmax, which sends no gradient back."""
    flat, numbers, kept = _positions(x, labels, axis, ignore_label)
    log_p = torch.log_softmax(flat, 1)
    losses = -bounded(_at(log_p, numbers), LOG_TINY) * kept
    return losses.sum() / _divisor(kept, normalization, batch), log_p.detach().exp().reshape(x.shape)


@lowering("SigmoidCrossEntropyLoss", since=1, domain="netweave")
def sigmoid_cross_entropy(
    x: Tensor,
    target: Tensor,
    *,
    ignore_label: int | None = None,
    normalization: str = "VALID",
    batch: WholeBatch,
) -> Tensor:
    """Return the cross entropy with targets between 0 and 1, to which no gradient flows."""
    rows, goals = wide(x).flatten(1), target.detach().reshape(x.shape[0], -1)
    losses = functional.binary_cross_entropy_with_logits(rows, goals, reduction="none")
    kept = torch.ones_like(goals, dtype=torch.bool)
    if ignore_label is not None:
        kept = goals.to(torch.int64) != ignore_label
    return (losses * kept).sum() / _divisor(kept, normalization, batch)


@lowering("EuclideanLoss", since=1, domain="netweave")
def euclidean(a: Tensor, b: Tensor, *, batch: WholeBatch) -> Tensor:
    """Return the sum of squared differences over twice the batch size."""
    return (wide(a) - b.reshape(a.shape)).square().sum() / (2 * batch.divisor(a.shape[0]))


@lowering("HingeLoss", since=1, domain="netweave")
def hinge(x: Tensor, labels: Tensor, *, norm: str = "L1", batch: WholeBatch) -> Tensor:
    """Return how far each class is on the wrong side of its margin, one class against all others."""
    rows = wide(x).reshape(x.shape[0], -1)
    hit = functional.one_hot(labels.reshape(-1).to(torch.int64), rows.shape[1]).to(rows.dtype)
    margins = torch.relu(1 - (2 * hit - 1) * rows)
    return (margins if norm == "L1" else margins.square()).sum() / batch.divisor(rows.shape[0])


@lowering("ContrastiveLoss", since=1, domain="netweave")
def contrastive(
    a: Tensor,
    b: Tensor,
    alike: Tensor,
    *,
    legacy_version: int = 0,
    margin: float = 1.0,
    batch: WholeBatch,
) -> Tensor:
    """Return squared distances of pairs that are alike, squared closeness of others.

    Caffe's gradient of a distance divides by the distance plus 1e-4.
    """
    difference = (wide(a) - b.reshape(a.shape)).reshape(a.shape[0], -1)
    same = (alike.reshape(-1).to(torch.int64) != 0)[:, None]
    with torch.no_grad():
        squared = difference.square().sum(1, keepdim=True)
        if legacy_version:
            apart = (margin - squared).clamp(min=0)
            slope = -(apart > 0).to(squared.dtype)
        else:
            distance = squared.sqrt()
            gap = (margin - distance).clamp(min=0)
            apart, slope = gap.square(), -gap / (distance + 1e-4)
        size = batch.divisor(a.shape[0])
        loss = torch.where(same, squared, apart).sum() / (2 * size)
        gradient = torch.where(same, torch.ones_like(slope), slope) * difference / size
    return with_gradient(difference, loss, gradient, times_above=True)


@lowering("MultinomialLogisticLoss", since=1, domain="netweave")
def multinomial_logistic(x: Tensor, labels: Tensor, *, batch: WholeBatch) -> Tensor:
    """Return minus the logarithm of the label's probability, both bounded by 1e-20 (Caffe)."""
    flat, numbers, _ = _positions(x.reshape(x.shape[0], -1), labels, 1, None)
    p = _at(flat, numbers)
    bounded = p.detach().clamp(min=_LOG_THRESHOLD)
    size = batch.divisor(p.shape[0])
    loss = -bounded.log().sum() / size
    return with_gradient(p, loss, -1 / (bounded * size), times_above=True)


@lowering("InfogainLoss", since=1, domain="netweave")
def infogain(
    x: Tensor,
    labels: Tensor,
    gains: Tensor,
    *,
    axis: int = 1,
    ignore_label: int | None = None,
    normalization: str = "VALID",
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Return the logarithms of all classes weighted by the label's row of gains, and the softmax."""
    flat, numbers, kept = _positions(x, labels, axis, ignore_label)
    log_p = torch.log_softmax(flat, 1)
    rows = gains.detach().reshape(flat.shape[1], flat.shape[1])[numbers].movedim(2, 1)
    losses = -(rows * bounded(log_p, math.log(_LOG_THRESHOLD))).sum(1) * kept
    return losses.sum() / _divisor(kept, normalization, batch), log_p.detach().exp().reshape(x.shape)


@lowering("Accuracy", since=1, domain="netweave")
def accuracy(
    x: Tensor,
    labels: Tensor,
    *,
    axis: int = 1,
    ignore_label: int | None = None,
    top_k: int = 1,
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Return the share of labels that fewer than ``top_k`` other classes reach, over all and by class."""
    flat, numbers, kept = _positions(x.detach(), labels, axis, ignore_label)
    rivals = (flat >= _at(flat, numbers)[:, None, :]).sum(1) - 1
    right = (rivals < top_k) & kept
    of_class = batch.total(torch.bincount(numbers[kept], minlength=flat.shape[1])).clamp(min=1)
    right_of_class = batch.total(torch.bincount(numbers[right], minlength=flat.shape[1]))
    share = batch.total(right.sum()).to(flat.dtype) / batch.total(kept.sum()).clamp(min=1)
    return share, right_of_class.to(flat.dtype) / of_class


@lowering("SmoothL1Loss", since=1, domain="netweave")
def smooth_l1(
    x: Tensor,
    target: Tensor,
    inside: Tensor | None = None,
    outside: Tensor | None = None,
    *,
    sigma: float = 1.0,
    batch: WholeBatch,
) -> Tensor:
    """Return the sum over the batch size: squares near 0, absolute values beyond 1 / sigma²."""
    difference, square = wide(x) - target.reshape(x.shape), sigma**2
    if inside is not None:
        difference = difference * inside.detach().reshape(x.shape)
    size = difference.abs()
    losses = torch.where(size < 1 / square, 0.5 * square * difference.square(), size - 0.5 / square)
    if outside is not None:
        losses = losses * outside.detach().reshape(x.shape)
    return losses.sum() / batch.divisor(x.shape[0])
