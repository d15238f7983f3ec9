"""Tensors from nothing: constants, ranges and diagonals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netweave.runtime.backends.torch.dtypes import torch_dtype
from netweave.runtime.backends.torch.table import lowering

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.table import Ints


@lowering("ConstantOfShape", since=9)
def constant_of_shape(shape: Ints, *, value: Tensor | None = None) -> Tensor:
    """Return a tensor filled with one value, zero by default."""
    return torch.zeros(shape) if value is None else value.reshape(()).expand(shape).clone()


@lowering("Range", since=11)
def range_(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Return the numbers from ``start`` to before ``limit`` in steps of ``delta``."""
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype, device=start.device)


@lowering("EyeLike", since=9)
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Return ones on the ``k``-th diagonal of a matrix as large as ``x``."""
    kind = x.dtype if dtype is None else torch_dtype(dtype)
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape)
    return (columns[None, :] - rows[:, None] == k).to(kind)
