"""The table of operators of PyTorch's exporter to ONNX, built once instead of for each export."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onnxscript.values import TracedOnnxFunction
from torch.onnx._internal.exporter._registration import ONNXRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

_build = ONNXRegistry.from_torchlib


@contextmanager
def shared_registry() -> Iterator[None]:
    """Let exports use one table, which is more than half of the time that the export of a small module takes.

    Nothing is added to the table: only an export with a ``custom_translation_table`` of its own does that.
    """
    ONNXRegistry.from_torchlib = staticmethod(_registry)
    try:
        yield
    finally:
        ONNXRegistry.from_torchlib = _build


@functools.cache
def _registry(**settings: Any) -> Any:
    """Return the table for an opset version.

    To list its functions, onnxscript parses the source of each and keeps only its domain, which the
    function itself has.
    """
    kind: Any = TracedOnnxFunction
    parsed = kind.function_ir
    kind.function_ir = property(lambda function: function)
    try:
        return _build(**settings)
    finally:
        kind.function_ir = parsed
