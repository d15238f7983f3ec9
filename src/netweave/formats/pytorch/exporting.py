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
from torch.export.graph_signature import ConstantArgument
from torch.fx import Node
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


# Its decompositions make a sequence of what ``hstack`` joins, and map a function on it, though how
# many axes each has is known.

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


def return_tensors_alone(program: torch.export.ExportedProgram) -> None:
    """Let a program return nothing in the place of a number or text, which the exporter takes for a tensor.

    A cache may come with the number of tokens that it holds.
    """
    output = program.graph.output_node()
    output.args = (tuple(each if isinstance(each, Node) else None for each in output.args[0]),)
    for spec in program.graph_signature.output_specs:
        if isinstance(spec.arg, ConstantArgument):
            spec.arg.value = None
    program.graph_module.recompile()


# A cache of keys is written at some rows, and these are read at once, as in Meta's Llama. Traced, that is a
# scatter into zeros and a slice of it, through which nobody sees that attention reads the keys themselves.

_Region = tuple[tuple[int, Any, Any], ...]
"""Axis, begin and end of each of the slices that lead to a part of a tensor."""

_SAME = {torch.ops.aten.alias.default, torch.ops.aten.to.device, torch.ops.aten.to.dtype}


def read_as_written(program: torch.export.ExportedProgram) -> None:
    """Let what was written into a part of a tensor stand where just that part is read again."""
    written: dict[Node, tuple[_Region, Node]] = {}
    changed = False
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is torch.ops.aten.slice.Tensor and not any(map(changes_in_place, node.users)):
            base, region = _part_of(node)
            if base in written and written[base][0] == region:
                node.replace_all_uses_with(written[base][1])
                changed = True
        elif changes_in_place(node):
            base, region = _part_of(node.args[0])
            memory = memory_of(node.args[0])
            written = {
                key: each
                for key, each in written.items()
                if memory not in {memory_of(key), memory_of(each[1])}
            }
            source = node.args[1] if node.target is torch.ops.aten.copy_.default else None
            if isinstance(source, Node) and _is_alike(source, node.args[0]):
                written[base] = region, source
    if changed:
        program.graph_module.recompile()


def changes_in_place(node: Node) -> bool:
    """Return whether a node changes its first argument in place."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable and bool(node.args) and isinstance(node.args[0], Node)


def _part_of(node: Node) -> tuple[Node, _Region]:
    """Return the tensor that a node is a part of, and which part."""
    region: list[tuple[int, Any, Any]] = []
    while node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        if node.target is torch.ops.aten.slice.Tensor and len(node.args) < 5:
            _, axis, begin, end = (*node.args, 0, None, None)[:4]
            region.append((axis, begin or 0, end))
        elif node.target not in _SAME or not _is_alike(node, node.args[0]):
            break
        node = node.args[0]
    return node, tuple(region)


def memory_of(node: Node) -> Node:
    """Return the tensor that a node may share memory with, through whatever views."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        returns = getattr(getattr(node.target, "_schema", None), "returns", ())
        if node.target is not operator.getitem and all(each.alias_info is None for each in returns):
            break
        node = node.args[0]
    return node


def _is_alike(a: Node, b: Node) -> bool:
    """Return whether two nodes make tensors of the same sizes and type."""
    x, y = a.meta.get("val"), b.meta.get("val")
    are_tensors = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
    return are_tensors and x.dtype == y.dtype and str(tuple(x.shape)) == str(tuple(y.shape))
