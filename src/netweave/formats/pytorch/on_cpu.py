"""Code that asks for a GPU where there is none: ``x.cuda()``, ``torch.zeros(2, device="cuda")``.

Where a tensor lies does not change the net, so all of them lie in main memory.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TENSOR_TYPES = (
    "FloatTensor",
    "DoubleTensor",
    "HalfTensor",
    "LongTensor",
    "IntTensor",
    "ByteTensor",
    "BoolTensor",
)
"""Old constructors of tensors, as ``torch.cuda`` has them."""


class OnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch is not looked into
    """Replaces a GPU by the CPU in each call."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Make a call, with the CPU for a GPU."""
        named = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = tuple("cpu" if _is_gpu(argument) else argument for argument in args)
        if _is_gpu(named.get("device")):
            named["device"] = "cpu"
        return func(*args, **named)


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return str(value.type) == "cuda"
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and value.startswith("cuda"))


@contextmanager
def on_cpu() -> Iterator[None]:
    """Let code that asks for a GPU have the CPU, until the context ends, unless there is one."""
    if torch.cuda.is_available():
        yield
        return
    with ExitStack() as stack:
        for name in TENSOR_TYPES:
            stack.enter_context(patch.object(torch.cuda, name, getattr(torch, name), create=True))
        stack.enter_context(patch.object(torch.cuda, "current_device", lambda: 0))
        stack.enter_context(OnCpu())
        yield
