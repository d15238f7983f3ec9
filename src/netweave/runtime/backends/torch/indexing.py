"""Taking elements from places, putting them to places, and finding places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.table import Number

_REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}


def _from_front(indices: Tensor, size: int) -> Tensor:
    """Count negative places from the end."""
    places = indices.to(torch.int64)
    return torch.where(places < 0, places + size, places)


@lowering("Gather", since=1)
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Take whole slices along an axis; the axes of ``indices`` take its place."""
    axis %= data.ndim
    places = _from_front(indices, data.shape[axis]).to(data.device)
    if places.ndim == 0:
        return (
            data.select(axis, int(places))
            if data.device.type == "cpu"
            else data.index_select(axis, places[None]).squeeze(axis)
        )
    taken = data.index_select(axis, places.flatten())
    return taken.reshape(*data.shape[:axis], *places.shape, *data.shape[axis + 1 :])


@lowering("GatherElements", since=11)
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Take single elements along an axis."""
    return torch.gather(data, axis, _from_front(indices, data.shape[axis]))


@lowering("GatherND", since=12)
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Take the slices whose leading places are the rows of ``indices``."""
    places = indices.to(torch.int64).unbind(-1)
    num_axes = indices.ndim - 1
    batch = [
        torch.arange(size, device=data.device).reshape(-1, *[1] * (num_axes - 1 - axis))
        for axis, size in enumerate(data.shape[:batch_dims])
    ]
    return data[(*batch, *places)]


@lowering("ScatterElements", since=11)
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Put single elements along an axis, in the place of those there or combined with them."""
    places = _from_front(indices, data.shape[axis])
    if reduction == "none":
        return data.scatter(axis, places, updates)
    return data.scatter_reduce(axis, places, updates, _REDUCTIONS[reduction])


@lowering("ScatterND", since=11)
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Put slices to the leading places that the rows of ``indices`` name."""
    depth = indices.shape[-1]
    rows = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=data.device)
    for size, places in zip(data.shape[:depth], indices.unbind(-1), strict=True):
        rows = rows * size + _from_front(places, size)
    flat = data.reshape(-1, *data.shape[depth:])
    new = updates.reshape(-1, *data.shape[depth:])
    if reduction == "none":
        return flat.index_put((rows.flatten(),), new).reshape(data.shape)
    rows = rows.flatten().reshape(-1, *[1] * (new.ndim - 1)).expand_as(new)
    return flat.scatter_reduce(0, rows, new, _REDUCTIONS[reduction]).reshape(data.shape)


@lowering("NonZero", since=9)
def non_zero(x: Tensor) -> Tensor:
    """Return the places of what is not zero, one column each."""
    return torch.atleast_1d(x).nonzero().t()


@lowering("OneHot", since=11)
def one_hot(indices: Tensor, depth: Number, values: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``values[1]`` at the indexed place of a new axis, ``values[0]`` elsewhere and if outside."""
    depth = int(depth)
    places = indices.to(torch.int64)
    places = torch.where(places < 0, places + depth, places)
    hit = places[..., None] == torch.arange(depth, device=indices.device)
    return torch.where(hit, values[1], values[0]).movedim(-1, axis)


@lowering("TopK", since=11)
def top_k(x: Tensor, k: Number, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, ...]:  # noqa: A002
    """Return the largest (or smallest) along an axis and their places; among equals the first comes first."""
    ordered, places = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return ordered.narrow(axis, 0, int(k)), places.narrow(axis, 0, int(k))


@lowering("Compress", since=11)
def compress(data: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """Keep the slices (or elements) where the condition holds; what it does not reach is dropped."""
    if axis is None:
        data, axis = data.flatten(), 0
    return data.index_select(axis, condition.nonzero().flatten())


@lowering("Unique", since=11)
def unique(
    x: Tensor,
    *,
    axis: int | None = None,
    sorted: int = 1,  # noqa: A002
) -> tuple[Tensor, ...]:
    """Return distinct elements (or slices), where each comes first, which each is, and how often it comes."""
    values, inverse, counts = torch.unique(x, dim=axis, return_inverse=True, return_counts=True)
    inverse = inverse.flatten()
    places = torch.arange(inverse.numel(), device=x.device)
    first = torch.full_like(counts, inverse.numel()).scatter_reduce(0, inverse, places, "amin")
    if not sorted:
        order = first.argsort()
        values = values.index_select(axis or 0, order)
        first, counts, inverse = first[order], counts[order], order.argsort()[inverse]
    return values, first, inverse, counts
