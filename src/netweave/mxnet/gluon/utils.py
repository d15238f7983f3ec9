"""``gluon.utils``: splitting batches, and the norm of gradients."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.test_utils import download

__all__ = ["clip_global_norm", "download", "split_and_load", "split_data"]


def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """Return a batch in parts.

    Raises:
        UsageError: The batch cannot be split so.
    """
    size = data.shape[batch_axis]
    if size < num_slice or (even_split and size % num_slice):
        raise UsageError(
            f"a batch of {size} cannot be split into {num_slice} equal parts; or even_split=False"
        )
    step = size // num_slice
    bounds = [number * step for number in range(num_slice)] + [size]
    return [
        data if num_slice == 1 else NDArray(data.tensor.narrow(batch_axis, start, stop - start))
        for start, stop in itertools.pairwise(bounds)
    ]


def split_and_load(data: Any, ctx_list: Any, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """Return a batch in parts, one on each device."""
    array = data if isinstance(data, NDArray) else nd.array(data, ctx=ctx_list[0])
    parts = split_data(array, len(ctx_list), batch_axis, even_split)
    return [one.as_in_context(ctx) for one, ctx in zip(parts, ctx_list, strict=True)]


def clip_global_norm(arrays: list[NDArray], max_norm: float, check_isfinite: bool = True) -> float:
    """Scale arrays down so that the norm of all together is at most ``max_norm``; return what it was."""
    tensors = [one.tensor for one in arrays]
    total = math.sqrt(float(sum(float(one.double().square().sum()) for one in tensors)))
    scale = max_norm / (total + 1e-8)
    if scale < 1.0:
        with torch.no_grad():
            for tensor in tensors:
                tensor.mul_(scale)
    return total
