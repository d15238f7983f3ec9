"""Losses and outputs in torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from netweave.runtime.backends.torch.operator_table import lowering, needs_gradient, with_gradient

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.node_memory import Memory
    from netweave.runtime.backends.torch.whole_batch import WholeBatch


# Caffe's gradients are those of the formulas but for a few places, which are named; the formulas are in
# ``netweave.graph.ops.losses``. Predictions are (outer, classes, inner) here, labels (outer, inner).

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
    if reduction != "mean":
        return total / batch.divisor(None)
    if weight is None and ignore_index is None:
        return total / batch.divisor(labels.numel())
    weights = kept if weight is None else weight[labels.clamp(min=0)] * kept
    return total / batch.divisor(weights.sum())


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


def _divisor(kept: Tensor, normalization: str, batch: WholeBatch, ignore_label: int | None) -> Tensor | float:
    """Return what a sum of losses is divided by; ``LossParameter.NormalizationMode``."""
    if normalization == "VALID" and ignore_label is not None:
        return batch.divisor(kept.sum())
    if normalization == "NONE":
        return batch.divisor(None)
    return batch.divisor(kept.shape[0] if normalization == "BATCH_SIZE" else kept.numel())


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
    min_probability: float | None = None,
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Return the cross entropy of the softmax, and the softmax, which sends no gradient back."""
    flat, numbers, kept = _positions(x, labels, axis, ignore_label)
    log_p = torch.log_softmax(flat, 1)
    picked = _at(log_p, numbers)
    if min_probability is not None:
        picked = bounded(picked, math.log(min_probability))
    losses = -picked * kept
    return losses.sum() / _divisor(kept, normalization, batch, ignore_label), log_p.detach().exp().reshape(
        x.shape
    )


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
    return (losses * kept).sum() / _divisor(kept, normalization, batch, ignore_label)


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
    return losses.sum() / _divisor(kept, normalization, batch, ignore_label), log_p.detach().exp().reshape(
        x.shape
    )


@lowering("Accuracy", since=1, domain="netweave")
def accuracy(
    x: Tensor,
    labels: Tensor,
    *,
    axis: int = 1,
    ignore_label: int | None = None,
    top_k: int = 1,
    ties: str = "against",
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Return the share of labels that fewer than ``top_k`` other classes beat, over all and by class."""
    flat, numbers, kept = _positions(x.detach(), labels, axis, ignore_label)
    reached = _at(flat, numbers)[:, None, :]
    if ties == "against":
        rivals = (flat >= reached).sum(1) - 1
    else:
        classes = torch.arange(flat.shape[1], device=flat.device)[None, :, None]
        wins = classes < numbers[:, None, :] if ties == "lowest" else classes > numbers[:, None, :]
        rivals = ((flat > reached) | (flat == reached) & wins).sum(1)
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


# A gradient that is divided by a number of samples or labels takes that of the whole batch, and one that is
# not is such that parts of a batch end as the whole (``WholeBatch.divisor``).


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


@lowering("CallCount", since=1, domain="netweave")
def call_count(x: Tensor, *, first: int = 0, memory: Memory, training: bool) -> Tensor:
    """Return how many batches were trained before, plus ``first``."""
    (count,) = memory.recall(torch.zeros(1, dtype=torch.float64, device=x.device), 1)
    if training:
        memory.state = (count + 1,)
    return (count + first).to(torch.float32)


@lowering("UnitRows", since=1, domain="netweave")
def unit_rows(weight: Tensor, *, epsilon: float = 0.0, training: bool) -> Tensor:
    """Return rows of length 1; in training they take the place of the weights, as in the source."""
    with torch.no_grad():
        unit = weight / (weight.square().sum(1, keepdim=True) + epsilon).sqrt()
        if training:
            weight.copy_(unit)
    return with_gradient(weight, unit, torch.ones_like(unit), times_above=True)


def _margin_of_angle(cosine: Tensor, margin: int) -> tuple[Tensor, Tensor]:
    """Return what ``graph.ops.losses.margin_of_angle`` does, for 2 to 4."""
    sign = cosine.sign()
    if margin == 2:
        return 2 * sign * cosine**2 - 1, 4 * sign * cosine
    if margin == 3:
        steep = (cosine.abs() - 0.5).sign()
        return steep * (4 * cosine**3 - 3 * cosine) + sign * (1 + steep) - 2, steep * (12 * cosine**2 - 3)
    steep = sign * (2 * cosine**2 - 1).sign()
    psi = steep * (8 * cosine**4 - 8 * cosine**2 + 1) + 2 * sign + steep - 3
    return psi, steep * (32 * cosine**3 - 16 * cosine)


class _MarginInnerProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, index: Tensor, share: Tensor, margin: int) -> Tensor:
        plain = rows @ weight.T
        length = rows.square().sum(1, keepdim=True).sqrt()
        cosine = plain.gather(1, index) / length
        psi, slope = _margin_of_angle(cosine, margin)
        ctx.save_for_backward(rows, weight, index, share, length, slope, (psi - cosine * slope) / length)
        return (plain.scatter(1, index, length * psi) + share * plain) / (1 + share)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch says no types
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, index, share, _, along_weight, along_row = ctx.saved_tensors
        own = above.gather(1, index) / (along_weight.square() + along_row.square()).sqrt()
        bent = above.scatter(1, index, own * along_weight) + share * above
        by_row = (bent @ weight + own * along_row * rows) / (1 + share)
        return by_row, above.T @ rows, None, None, None


@lowering("MarginInnerProduct", since=1, domain="netweave")
def margin_inner_product(x: Tensor, weight: Tensor, labels: Tensor, share: Tensor, *, margin: int) -> Tensor:
    """Return products with rows of length 1, that of the label with a margin; the source's gradients."""
    rows = wide(x).flatten(1)
    if margin == 1:
        return rows @ weight.T
    index = labels.reshape(-1, 1).to(torch.int64)
    made: Tensor = _MarginInnerProduct.apply(rows, weight, index, share.to(rows.dtype), margin)
    return made


@lowering("LabelSpecificMargin", since=1, domain="netweave")
def label_specific_margin(x: Tensor, labels: Tensor, margin: Tensor, *, kind: str = "HARD") -> Tensor:
    """Return cosines, that of the label by a larger angle; its slope is bounded to 0 to 2."""
    index = labels.reshape(-1, 1).to(torch.int64)
    own = x.gather(1, index)
    with torch.no_grad():
        margin = margin.to(x.dtype)
        inner = own.clamp(-1 + 1e-4, 1 - 1e-4)
        sine = (1 - inner.square()).sqrt()
        if kind == "HARD":
            angle = margin / 180 * math.pi
            bent, slope = inner * angle.cos() - sine * angle.sin(), angle.cos() + inner / sine * angle.sin()
        else:
            angle = own.acos()
            angle = torch.where(margin * angle > math.pi - 1e-4, math.pi - 1e-4, angle)
            bent, slope = (margin * angle).cos(), margin * (margin * angle).sin() / sine
        bent = torch.where(margin == 0, own, bent)
        slope = torch.where(margin == 0, 1.0, slope.clamp(0, 2))
    return x.scatter(1, index, with_gradient(own, bent, slope, times_above=True))


class _CenterLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, labels: Tensor, centers: Tensor, absolute: bool, batch: WholeBatch
    ) -> Tensor:
        difference = rows - centers[labels]
        ctx.size = batch.divisor(len(rows))
        counts = batch.total(torch.bincount(labels, minlength=len(centers)))
        ctx.absolute = absolute
        ctx.save_for_backward(difference, labels, counts.to(rows.dtype)[:, None])
        return difference.abs().sum() / ctx.size if absolute else difference.square().sum() / (2 * ctx.size)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch says no types
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        difference, labels, counts = ctx.saved_tensors
        if ctx.absolute:
            difference = difference.sign()
        moved = torch.zeros(
            len(counts), difference.shape[1], dtype=difference.dtype, device=difference.device
        )
        moved.index_add_(0, labels, difference)
        return difference * (above / ctx.size), None, -moved / (counts + 1), None, None


@lowering("CenterLoss", since=1, domain="netweave")
def center_loss(
    x: Tensor, labels: Tensor, centers: Tensor, *, distance_type: str = "L2", batch: WholeBatch
) -> Tensor:
    """Return distances to the centers of the labels; what moves a center knows no weight of the loss."""
    index = labels.reshape(-1).to(torch.int64)
    made: Tensor = _CenterLoss.apply(wide(x).flatten(1), index, centers, distance_type == "L1", batch)
    return made
