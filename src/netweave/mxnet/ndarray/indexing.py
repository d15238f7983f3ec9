"""Indexing of arrays by MXNet's rules, on torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def select(tensor: Tensor, key: Any) -> Tensor:
    """Return the elements of a key: a view where they lie side by side in MXNet's memory, else a copy.

    Raises:
        IndexError: An index is out of range.
    """
    if isinstance(key, int | np.integer) and not -len(tensor) <= key < len(tensor):
        # a loop over an array ends by this
        raise IndexError(f"index {key} is out of range for an array of {len(tensor)}")
    plain, turned = _converted(tensor, key)
    found = tensor[plain]
    if turned:
        return found.flip(turned)
    return found if not _is_basic(plain) or _is_run(plain) else found.clone()


def assign(tensor: Tensor, key: Any, value: Any) -> None:
    """Change the elements of a key in place; the value is broadcast."""
    plain, turned = _converted(tensor, key)
    target = tensor[plain] if _is_basic(plain) else None
    if isinstance(value, np.ndarray | list | tuple | np.generic):
        value = torch.from_numpy(np.array(value))
    if isinstance(value, Tensor):
        value = value.to(tensor.device, tensor.dtype)
        value = value.flip(turned) if turned else value
        while target is not None and value.ndim > target.ndim and value.shape[0] == 1:
            value = value[0]
    if target is None:
        tensor[plain] = value
    elif isinstance(value, Tensor):
        target.copy_(value)
    else:
        target.fill_(value)


def _is_basic(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return all(isinstance(part, int | np.integer | slice) or part is None or part is ... for part in parts)


def _is_run(key: Any) -> bool:
    """Return whether a key selects contiguous elements.

    Such a key consists of integers, then at most one slice of step 1.
    """
    parts = [part for part in (key if isinstance(key, tuple) else (key,)) if part is not None]
    if parts and parts[-1] is ...:
        parts = parts[:-1]
    while parts and parts[-1] == slice(None):
        parts = parts[:-1]
    *first, last = parts or [0]
    whole = all(isinstance(part, int) for part in first)
    return whole and (isinstance(last, int) or (isinstance(last, slice) and last.step in {None, 1}))


def _converted(tensor: Tensor, key: Any) -> tuple[Any, list[int]]:
    """Return a key as torch takes it, and the axes of the result that run backwards."""
    parts = list(key) if isinstance(key, tuple) else [key]
    turned: list[int] = []
    found: list[Any] = []
    axis = out_axis = 0
    for part in parts:
        if isinstance(part, slice) and part.step is not None and part.step < 0:
            count = tensor.shape[axis]
            numbers = range(count)[part]
            low, high = (numbers[-1], numbers[0] + 1) if numbers else (0, 0)
            # torch takes forward steps only
            found.append(slice(low, high, -part.step))
            turned.append(out_axis)
        else:
            found.append(_index(part, tensor))
        if part is ...:
            axis += tensor.ndim - (len(parts) - 1 - parts.count(None))
            out_axis = axis
            continue
        axis += part is not None
        out_axis += not isinstance(part, int | np.integer)
    return (tuple(found) if isinstance(key, tuple) else found[0]), turned


def _index(part: Any, tensor: Tensor) -> Any:
    """Return one part of a key; arrays of floating-point numbers hold indices in MXNet."""
    if isinstance(part, np.integer):
        return int(part)
    if isinstance(part, list | np.ndarray):
        part = torch.from_numpy(np.array(part))
    if isinstance(part, Tensor):
        return part.to(tensor.device, torch.bool if part.dtype is torch.bool else torch.long)
    return part
