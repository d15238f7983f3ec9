"""Masks of bytes, as code before PyTorch 1.2 makes them: PyTorch 2 takes masks of booleans alone.

What is not 0 is true, as it was (aten/src/ATen/native/cuda/Indexing.cu at 1.2).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MASKED = ("masked_fill", "masked_fill_", "masked_scatter", "masked_scatter_", "masked_select")
"""Methods of a tensor whose first argument is a mask."""

NAMES = frozenset({"condition", "mask"})
"""What a mask is called as an argument by name."""


@contextmanager
def byte_masks() -> Iterator[None]:
    """Let masks be bytes, until the context ends."""
    with ExitStack() as stack:
        for name in MASKED:
            stack.enter_context(patch.object(torch.Tensor, name, _of_bytes(getattr(torch.Tensor, name), 1)))
            if hasattr(torch, name):
                stack.enter_context(patch.object(torch, name, _of_bytes(getattr(torch, name), 1)))
        stack.enter_context(patch.object(torch, "where", _of_bytes(torch.where, 0)))
        yield


def _of_bytes(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Return a function whose mask, an argument by place or by name, may be bytes."""

    @wraps(function)
    def masked(*args: Any, **kwargs: Any) -> Any:
        given = [_as_mask(value) if index == place else value for index, value in enumerate(args)]
        named = {
            key: _as_mask(value) if key in {"mask", "condition"} else value for key, value in kwargs.items()
        }
        return function(*given, **named)

    return masked


def _as_mask(value: Any) -> Any:
    is_bytes = isinstance(value, torch.Tensor) and value.dtype is torch.uint8
    return value.bool() if is_bytes else value
