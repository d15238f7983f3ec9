"""Normalisation in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from netweave.runtime.backends.torch.operator_table import Ints, lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.whole_batch import WholeBatch


PART = 512 * 1024
"""Bytes of a batch that are normalised at a time: small enough for a second-level cache, with their input."""


def _per_channel(vector: Tensor, like: Tensor) -> Tensor:
    """Shape a vector so that it lies along axis 1."""
    return vector.reshape(-1, *[1] * (like.ndim - 2))


@lowering("InstanceNormalization", since=6)
def instance_normalization(x: Tensor, scale: Tensor, b: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Normalise each plane of each example."""
    return functional.instance_norm(x, weight=scale, bias=b, eps=epsilon)


@lowering("LayerNormalization", since=17)
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    num_outputs: int = 1,
) -> tuple[Tensor, ...]:
    """Normalise over the axes from ``axis`` on; mean and inverse deviation are the further outputs."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    sizes = x.shape[axes[0] :]
    if num_outputs == 1 and scale.shape == sizes and (b is None or b.shape == sizes):
        return (functional.layer_norm(x, sizes, scale, b, epsilon),)
    wide = x.to(torch.float32) if stash_type == 1 and x.itemsize < 4 else x
    variance, mean = torch.var_mean(wide, axes, correction=0, keepdim=True)
    inverse = torch.rsqrt(variance + epsilon)
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    return y if b is None else y + b, mean, inverse


@lowering("RMSNormalization", since=23)
@lowering("RMSNormalization", since=1, domain="netweave")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Divide by the root mean square over the axes from ``axis`` on."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.to(torch.float32) if stash_type == 1 and x.itemsize < 4 else x
    mean_square = wide.square().mean(axes, keepdim=True)
    return (wide * torch.rsqrt(mean_square + epsilon)).to(x.dtype) * scale


@lowering("GroupNormalization", since=21)
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """Normalise each group of channels of each example; one scale per channel."""
    # with channels last, torch's kernel takes the variance as E[x^2] - E[x]^2, which cancels far from zero
    return functional.group_norm(x.contiguous(), num_groups, scale, bias, epsilon)


@lowering("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: Tensor, *, axes: Ints = (0, 2, 3)) -> Tensor:
    """Return ``(x - mean) / (deviation + 1e-9)``, as the operator's function body has it."""
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (variance.sqrt() + 1e-9)


@lowering("LpNormalization", since=1)
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divide by the p-norm along an axis; where that is zero the result is too."""
    norm = torch.linalg.vector_norm(x, p, axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@lowering("ChannelLRN", since=1, domain="netweave")
def channel_lrn(x: Tensor, *, alpha: float, beta: float, size: int) -> Tensor:
    """Divide by a power of the mean square of neighbouring places of the same channel."""
    means = functional.avg_pool2d(x.square(), size, stride=1, padding=(size - 1) // 2)
    return x * (1 + alpha * means).pow(-beta)


def batch_normalization_(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    training_mode: int = 0,
    training: bool = False,
    fixed: bool = False,
    **rest: Any,
) -> tuple[Tensor, ...]:
    """Do the same in place where stored statistics are used; torch's kernel is one pass over the elements."""
    if training_mode or (training and not fixed) or not x.is_floating_point():
        settings = {"training_mode": training_mode, "training": training, "fixed": fixed, **rest}
        return batch_normalization(x, scale, b, mean, var, epsilon=epsilon, **settings)
    none = mean.new_empty(0)  # under autocast x is bfloat16, the statistics are not
    torch.ops.aten.native_batch_norm.out(
        x, scale, b, mean, var, False, 0.0, epsilon, out=x, save_mean=none, save_invstd=none.clone()
    )
    return (x,)


@lowering("BatchNormalization", since=15, in_place=batch_normalization_)
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    training: bool = False,
    unbiased: bool = False,
    fixed: bool = False,
    count: Tensor | None = None,
    batch: WholeBatch,
) -> tuple[Tensor, ...]:
    """Normalise each channel with the stored statistics or, in training, with those of the batch.

    In training the stored statistics follow, in place, by the source's rule (``graph.Statistics``: the last
    three keywords). In ONNX's own training mode the new ones are outputs, whatever the net's mode is.
    """
    if not training_mode and (fixed or not training):
        return (functional.batch_norm(x, mean, var, scale, b, False, 0.0, epsilon),)
    y, batch_mean, batch_var, size = _by_batch(x, scale, b, epsilon, batch)
    with torch.no_grad():
        if unbiased:
            batch_var *= size / max(size - 1, 1)
        old, new = (momentum, 1 - momentum) if count is None else _shares(count, momentum)
        statistics = mean * old + batch_mean * new, var * old + batch_var * new
        if training and not fixed:
            mean.copy_(statistics[0])
            var.copy_(statistics[1])
            if count is not None:
                count.mul_(momentum).add_(1)
    return y, *statistics


def _by_batch(
    x: Tensor, scale: Tensor, b: Tensor, epsilon: float, batch: WholeBatch
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Normalise by the whole batch; return the result, mean and biased variance, and what they are over."""
    if batch.normalises_parts:
        y, mean, inverse = torch.native_batch_norm(x, scale, b, None, None, True, 0.0, epsilon)
        with torch.no_grad():
            return y, mean, inverse.pow(-2) - epsilon, x.numel() // x.shape[1]
    mean, variance, count = batch.mean_and_variance(x)
    factor = scale * torch.rsqrt(variance + epsilon)
    y = (x - _per_channel(mean, x)) * _per_channel(factor, x) + _per_channel(b, x)
    return y.to(x.dtype), mean.detach(), variance.detach().clone(), int(count)


def kept_statistics(y: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the mean and the inverse deviation that a batch was normalised by, as its backward keeps them.

    None where another kernel than torch's own computed ``y``, or where they are rounded to 16 bits.
    """
    node: Any = y.grad_fn
    if node is None or node.name() != "NativeBatchNormBackward0":
        return None
    mean, inverse = node._saved_result1.detach(), node._saved_result2.detach()
    return (mean, inverse) if mean.itemsize >= 4 else None


def normalised_again(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    statistics: tuple[Tensor, Tensor],
    behind: Callable[[Tensor, slice], None] | None = None,
) -> Tensor:
    """Normalise a batch a second time by its known statistics: the same bits in half the time.

    The kernel that takes stored statistics multiplies with ``scale / sqrt(variance + epsilon)``. Given a
    variance of one and no epsilon, that is the scale itself, and all else is the code that training runs.

    Args:
        x: The batch.
        scale: One factor for each channel.
        b: One summand for each channel.
        statistics: Its mean and inverse deviation, as ``kept_statistics`` returns them.
        behind: What is done in place to each part of the result, while it lies in the cache; it is given the
            part, and where in the batch that is.
    """
    mean, inverse = statistics
    factor, one = (scale * inverse).detach(), torch.ones_like(inverse)
    unused = {"save_mean": mean.new_empty(0), "save_invstd": mean.new_empty(0)}
    y = torch.empty_like(x)
    rows = max(1, PART // (x.nbytes // len(x) or 1)) if behind else len(x)
    for where in (slice(begin, begin + rows) for begin in range(0, len(x), rows)):
        part = y[where]
        with torch.no_grad():
            settings = (factor, b, mean, one, False, 0.0, 0.0)
            torch.ops.aten.native_batch_norm.out(x[where], *settings, out=part, **unused)
            if behind:
                behind(part, where)
    return y


def _shares(count: Tensor, momentum: float) -> tuple[Tensor, Tensor]:
    """Return what the stored and the batch's statistics count, where sums of both are kept (Caffe)."""
    total = momentum * count + 1
    return momentum * count / total, 1 / total


# With x the input, s = bias + alpha / size sum of x^2 over the window of a channel, and y = x s^-beta: dx =
# dy s^-beta - 2 alpha beta / size x sum of (dy y / s) over the channels whose windows hold the channel.

CHUNK_ELEMENTS = 1 << 17
"""So many elements are taken at a time on a CPU."""


@dataclass(frozen=True, slots=True)
class Window:
    """The settings; the window of channel c runs from c - ``before`` to c + ``after``."""

    before: int
    after: int
    alpha: float
    beta: float
    bias: float

    @property
    def size(self) -> int:
        """Number of channels."""
        return self.before + 1 + self.after

    def bases(self, x: Tensor) -> Tensor:
        """Return s of rows (positions, channels)."""
        sums = window_sums(x.square(), self.before, self.after)
        return sums.mul_(self.alpha / self.size).add_(self.bias)

    def powers(self, bases: Tensor) -> Tensor:
        """Return s^-beta; two roots take a fifth of the time of a power."""
        if self.beta == 0.75:
            root = bases.rsqrt()
            return root.mul_(root.sqrt())
        return bases.pow(-self.beta)


def window_sums(rows: Tensor, before: int, after: int) -> Tensor:
    """Return for each channel the sum over the channels around it, outside of which there is nothing."""
    num_channels = rows.shape[1]
    sums = rows.clone()
    for shift in range(1, min(before, num_channels - 1) + 1):
        sums[:, shift:] += rows[:, :-shift]
    for shift in range(1, min(after, num_channels - 1) + 1):
        sums[:, :-shift] += rows[:, shift:]
    return sums


def _as_rows(x: Tensor) -> Tensor:
    """Return (positions, channels); a view where channels lie side by side."""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def _from_rows(rows: Tensor, like: Tensor) -> Tensor:
    return rows.reshape(like.movedim(1, -1).shape).movedim(-1, 1)


def _chunks(*tensors: Tensor) -> zip[tuple[Tensor, ...]]:
    count = len(tensors[0]) or 1
    if tensors[0].device.type == "cpu":
        count = max(1, CHUNK_ELEMENTS // tensors[0].shape[1])
    return zip(*(tensor.split(count) for tensor in tensors), strict=True)


class _LocalResponse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Window) -> Tensor:
        rows = _as_rows(x)
        y = torch.empty_like(rows)
        bases = torch.empty_like(rows, dtype=torch.promote_types(x.dtype, torch.float32))
        for part, out, base in _chunks(rows, y, bases):
            base.copy_(window.bases(part.to(base.dtype)))
            out.copy_(window.powers(base).mul_(part))
        ctx.save_for_backward(x, bases)
        ctx.window = window
        return _from_rows(y, x)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch says no types
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        x, bases = ctx.saved_tensors
        window: Window = ctx.window
        factor = -2.0 * window.alpha * window.beta / window.size
        rows = _as_rows(x)
        dx = torch.empty_like(rows)
        for part, base, dy, out in _chunks(rows, bases, _as_rows(above), dx):
            straight = window.powers(base).mul_(dy)
            inner = window_sums((straight * part).div_(base), window.after, window.before)
            out.copy_(straight.add_(inner.mul_(part), alpha=factor))
        return _from_rows(dx, x), None


def _forward_only(rows: Tensor, y: Tensor, window: Window) -> None:
    """Compute without noting what backward needs; the result may be the input's memory."""
    for part, out in _chunks(rows, y):
        wide = part.to(torch.promote_types(part.dtype, torch.float32))
        out.copy_(window.powers(window.bases(wide)).mul_(part))


def _window(size: int, *, alpha: float, beta: float, bias: float) -> Window:
    """ONNX: around channel c from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)."""
    before = (size - 1) // 2
    return Window(before, size - 1 - before, alpha, beta, bias)


def local_response_normalization_(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """Do the same in place; only without gradients."""
    rows = _as_rows(x)  # a copy where the channels do not lie side by side
    _forward_only(rows, rows, _window(size, alpha=alpha, beta=beta, bias=bias))
    return _from_rows(rows, x)


@lowering("LRN", since=1, in_place=local_response_normalization_)
def local_response_normalization(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """Divide by a power of the mean square of neighbouring channels."""
    window = _window(size, alpha=alpha, beta=beta, bias=bias)
    if torch.is_grad_enabled() and x.requires_grad:
        made: Tensor = _LocalResponse.apply(x, window)
        return made
    rows = _as_rows(x)
    y = torch.empty_like(rows)
    _forward_only(rows, y, window)
    return _from_rows(y, x)
