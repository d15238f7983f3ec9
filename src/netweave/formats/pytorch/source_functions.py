"""Functions of written source as the operators that they were written for, while it is traced.

It is used by the guarded child process alone, which imports torch.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from netweave.formats.pytorch.functions import FUNCTIONS, recognized

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def stand_in(code: ModuleType) -> None:
    """Replace the functions of a file whose source is exactly what Netweave writes."""

    def source(name: str) -> str | None:
        found = vars(code).get(name)
        return inspect.getsource(found) if inspect.isfunction(found) else None

    for name in recognized(source):
        setattr(code, name, _operator(name, getattr(code, name)))


def _operator(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that leaves one node in the trace, with what it is told as attributes."""
    row = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters

    def noted(*inputs: torch.Tensor, **settings: Any) -> Any:
        given = dict(zip(parameters, inputs, strict=False)) | settings
        tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
        attributes = {name: _plain(v) for name, v in given.items() if not isinstance(v, torch.Tensor)}
        shapes = row.shapes(*tensors, **attributes)
        found = torch.onnx.ops.symbolic_multi_out(
            f"netweave::{row.op_type}",
            tensors,
            attributes,
            dtypes=[tensors[0].dtype] * len(shapes),
            shapes=shapes,
            version=1,
        )
        return found if len(shapes) > 1 else found[0]

    return noted


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value
