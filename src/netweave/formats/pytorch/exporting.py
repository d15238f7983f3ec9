"""Patches of PyTorch's exporter."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
import torch._export.utils as export_utils
from onnxscript import opset18
from onnxscript.values import TracedOnnxFunction
from torch.onnx._internal.exporter._registration import ONNXRegistry

from netweave.formats.pytorch.functions import FUNCTIONS, recognized

if TYPE_CHECKING:
    from types import ModuleType


# PyTorch's exporter writes a region of ``torch.autocast`` out as casts without the modules and lines that
# the calls in it belong to. The switch is made for speed; without it the layers keep their names, and a
# comparison measures what the layers compute.


@contextmanager
def without_autocast(notes: list[str]) -> Iterator[None]:
    """Let ``torch.autocast`` change nothing, until the context ends.

    Args:
        notes: What to tell the user is added here.
    """

    def enter(region: Any) -> Any:
        note = "its code switches precision with torch.autocast, which is left out: all is in full precision"
        if region._enabled and note not in notes:
            notes.append(note)
        return region

    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.autocast, "__enter__", enter))
        stack.enter_context(patch.object(torch.autocast, "__exit__", lambda *told: None))
        yield


# What is not 0 is true, as it was (aten/src/ATen/native/cuda/Indexing.cu at 1.2).

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


_build = ONNXRegistry.from_torchlib


@contextmanager
def shared_tables() -> Iterator[None]:
    """Let exports use one registry, and list PyTorch's composite operators once, until the context ends.

    Together that is more than half of the time that the export of a small module takes. An export adds
    nothing to the registry: only one with a ``custom_translation_table`` of its own does that. PyTorch's
    exporter lists the operators of all namespaces once more for each namespace, twice; an export registers
    none.
    """
    listed = getattr(export_utils, "_materialize_cpp_cia_ops", None)  # PyTorch 2.9 to 2.13 have it
    with ExitStack() as stack:
        stack.enter_context(patch.object(ONNXRegistry, "from_torchlib", staticmethod(_registry)))
        if listed is not None:
            once = functools.cache(listed)
            stack.enter_context(patch.object(export_utils, "_materialize_cpp_cia_ops", once))
        yield


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
        table = _build(**settings)
    finally:
        kind.function_ir = parsed
    table.register_op(operator.floordiv, _floor_division)
    return table


def _floor_division(self: Any, other: Any) -> Any:
    """Return ``self // other`` of sizes: PyTorch's own translation is ``Div``, which rounds to 0.

    Sizes are negative where code rounds up by ``-(-size // stride)``, as for TensorFlow's padding.
    """
    return opset18.Div(opset18.Sub(self, opset18.Mod(self, other)), other)


# It is used by the guarded child process alone, which imports torch.


def stand_in(code: ModuleType) -> None:
    """Replace the functions of a file whose source is exactly what Netweave writes."""

    def source(name: str) -> str | None:
        function = vars(code).get(name)
        return inspect.getsource(function) if inspect.isfunction(function) else None

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
        outputs = torch.onnx.ops.symbolic_multi_out(
            f"netweave::{row.op_type}",
            tensors,
            attributes,
            dtypes=[tensors[0].dtype] * len(shapes),
            shapes=shapes,
            version=1,
        )
        return outputs if len(shapes) > 1 else outputs[0]

    return noted


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


# Its decompositions take ``hstack`` apart into a sequence of tensors on which a function is mapped, though the
# tracer knows how many axes each has.

_JOINED_ALONG: dict[Any, tuple[int, int]] = {
    torch.ops.aten.column_stack.default: (2, 1),
    torch.ops.aten.dstack.default: (3, 2),
    torch.ops.aten.hstack.default: (2, 1),
    torch.ops.aten.vstack.default: (2, 0),
}
"""Operators that join tensors of at least so many axes along an axis."""


def join_along_axes(program: torch.export.ExportedProgram) -> None:
    """Let ``cat`` stand for ``hstack`` and its kin in a program, where all tensors have the axes."""
    for node in program.graph.nodes:
        num_axes, axis = _JOINED_ALONG.get(node.target, (0, 0))
        tensors = node.all_input_nodes
        if num_axes and all(tensor.meta["val"].ndim >= num_axes for tensor in tensors):
            node.target, node.args = torch.ops.aten.cat.default, (node.args[0], axis)
    program.graph_module.recompile()
