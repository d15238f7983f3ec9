"""Reductions in torch, and positions of extremes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from netweave.runtime.backends.torch.operator_table import Ints, lowering, needs_gradient, with_gradient

Reduce = Callable[[Tensor, tuple[int, ...], bool], Tensor]
"""(data, axes, keep the axes) -> reduced."""


def _sum(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    return torch.sum(x, axes, keepdim=keep, dtype=x.dtype)


def _mean(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    if x.is_floating_point():
        return torch.mean(x, axes, keepdim=keep)
    return torch.mean(x.to(torch.float64), axes, keepdim=keep).to(x.dtype)


def _product(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _extreme(x: Tensor, axes: Ints, keep: bool, *, largest: bool) -> Tensor:
    if x.numel():
        return (torch.amax if largest else torch.amin)(x, axes, keepdim=keep)
    return torch.full_like(_sum(x, axes, keep), _bound(x.dtype, lowest=largest))


def _bound(dtype: torch.dtype, *, lowest: bool) -> float | int:
    """Return the extreme of no elements."""
    if dtype is torch.bool:
        return not lowest
    if dtype.is_floating_point:
        return float("-inf") if lowest else float("inf")
    return int(torch.iinfo(dtype).min if lowest else torch.iinfo(dtype).max)


def _max(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    return _extreme(x, axes, keep, largest=True)


def _min(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    return _extreme(x, axes, keep, largest=False)


def _to_all(x: Tensor, y: Tensor) -> Tensor:
    """Return an extreme whose whole gradient goes to each element that is equal to it."""
    return with_gradient(x, y, (x == y).to(x.dtype), times_above=True)


def _l1(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    return _sum(torch.abs(x), axes, keep)


def _l2(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    if x.is_floating_point():
        return torch.linalg.vector_norm(x, dim=axes, keepdim=keep)
    return torch.sqrt(_sum(x.to(torch.float64).square(), axes, keep)).to(x.dtype)


def _sum_square(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    return _sum(torch.square(x), axes, keep)


def _log_sum(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    return torch.log(_sum(x, axes, keep))


def _log_sum_exp(x: Tensor, axes: Ints, keep: bool) -> Tensor:
    return torch.logsumexp(x, axes, keepdim=keep)


def _lower(op_type: str, since: int, function: Reduce) -> None:
    @lowering(op_type, since=since)
    def reduction(
        data: Tensor,
        axes: Ints | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
        ties: str = "",
    ) -> Tensor:
        if not axes:
            if noop_with_empty_axes:
                return data
            axes = tuple(range(data.ndim))
        if ties and needs_gradient(data):
            y = _to_all(data, function(data, axes, True))
            return y if keepdims else y.squeeze(axes)
        return function(data, axes, bool(keepdims)) if axes else function(data[None], (0,), False)

    reduction.__name__ = reduction.__qualname__ = op_type
    reduction.__doc__ = f"{op_type} of ONNX: without axes over all of them."


for _op_type_reduction, _since_reduction, _function_reduction in (
    ("ReduceL1", 18, _l1),
    ("ReduceL2", 18, _l2),
    ("ReduceLogSum", 18, _log_sum),
    ("ReduceLogSumExp", 18, _log_sum_exp),
    ("ReduceMax", 18, _max),
    ("ReduceMean", 18, _mean),
    ("ReduceMin", 18, _min),
    ("ReduceProd", 18, _product),
    ("ReduceSum", 13, _sum),
    ("ReduceSumSquare", 18, _sum_square),
):
    _lower(_op_type_reduction, _since_reduction, _function_reduction)


def _position(x: Tensor, axis: int, keepdims: int, select_last_index: int, *, largest: bool) -> Tensor:
    find = torch.argmax if largest else torch.argmin
    if not select_last_index:
        return find(x, axis, keepdim=bool(keepdims))
    return x.shape[axis] - 1 - find(x.flip(axis), axis, keepdim=bool(keepdims))


@lowering("ArgMax", since=12)
def arg_max(data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Return the position of the first (or last) largest element along an axis."""
    return _position(data, axis, keepdims, select_last_index, largest=True)


@lowering("ArgMin", since=12)
def arg_min(data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Return the position of the first (or last) smallest element along an axis."""
    return _position(data, axis, keepdims, select_last_index, largest=False)
