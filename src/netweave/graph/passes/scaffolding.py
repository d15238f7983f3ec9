"""Seeing through what exporters build around the operators that a model asked for.

Exporters ask for sizes at run time, cast to the type of another value, add biases and first states of zero,
and copy. What of it can be said without running is said here; what is left is what the model computes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import SYM_DATA_KEY

from netweave.graph import effects_of, infer_shapes, parameter_key
from netweave.graph.passes.folding import fold
from netweave.graph.passes.rewriting import Pass, Rewriter, chain, remove_unneeded
from netweave.graph.passes.windows import take_strided

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph

_WHOLE = {ir.DataType.INT32, ir.DataType.INT64}

_SCAFFOLDS = frozenset({"CastLike", "Shape", "Size"})
"""Operators that ask for a size or a type, which a model itself seldom does."""


@Pass
def see_through(graph: Graph) -> None:
    """Compute what depends on no input; drop copies, casts to the same type, biases and states of zero."""
    chain(_like, _known, fold, _kept_sizes).edit(graph)
    infer_shapes(graph)
    chain(_known, _plain, fold, _unused).edit(graph)
    infer_shapes(graph)


def has_scaffolding(graph: Graph) -> bool:
    """Return whether some node asks for a size or a type at run time."""
    return any(node.op_type in _SCAFFOLDS and not node.domain for node in graph.nodes)


def settled_sizes(node: ir.Node) -> list[int] | None:
    """Return sizes as Reshape takes them: 0 keeps an axis, one -1 is what is left; None if more are open."""
    source, made = node.inputs[0], node.outputs[0].shape
    if source is None or made is None or 0 in made.dims:
        return None
    old = source.shape.dims if source.shape is not None else ()
    sizes = []
    for axis, dim in enumerate(made.dims):
        kept = not isinstance(dim, int) and dim.value is not None and axis < len(old) and old[axis] == dim
        sizes.append(dim if isinstance(dim, int) else 0 if kept else -1)
    return sizes if sizes.count(-1) <= 1 else None


@Pass
def _like(graph: Graph) -> None:
    """Make casts to the type of another value casts to a type that is named."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) != ("", "CastLike") or node.inputs[1] is None:
            continue
        dtype = node.inputs[1].dtype
        if dtype is not None:
            rewriter.replace([node], "Cast", [node.inputs[0]], {"to": int(dtype)})


@Pass
def _kept_sizes(graph: Graph) -> None:
    """Write 1 where a size of -1 keeps an axis, which PyTorch's exporter leaves to be found out at run time.

    It writes ``x.expand(n, -1)`` as an Expand to ``Where(sizes == -1, 1, sizes)``; inference knows the sizes,
    but not what becomes of them.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) != ("", "Where"):
            continue
        equal, row = (None if value is None else value.producer() for value in node.inputs[::2])
        reshaped = row.inputs[0] if row is not None and row.op_type == "Reshape" else None
        concat = row if reshaped is None else reshaped.producer()
        if equal is None or equal.op_type != "Equal" or concat is None or concat.op_type != "Concat":
            continue
        if equal.inputs[0] is not node.inputs[2] or not _is_filled_with(equal.inputs[1], -1):
            continue
        if _is_filled_with(node.inputs[1], 1) and all(map(_is_known_or_size, concat.inputs)):
            parts = [_with_ones(rewriter, part) for part in concat.inputs]
            rewriter.replace([node], "Concat", parts, {"axis": 0})


def _is_filled_with(value: ir.Value | None, number: int) -> bool:
    array = value.const_value.numpy() if value is not None and value.const_value is not None else None
    return array is not None and bool((array == number).all())


def _is_known_or_size(value: ir.Value | None) -> bool:
    """Return whether a value is stored, or a size that inference follows, which is never negative."""
    return value is not None and (value.const_value is not None or SYM_DATA_KEY in value.metadata_props)


def _with_ones(rewriter: Rewriter, part: ir.Value | None) -> ir.Value | None:
    """Return sizes with 1 in the place of each -1."""
    if part is None or part.const_value is None:
        return part
    array = part.const_value.numpy()
    return rewriter.initializer(ir.Tensor(np.where(array == -1, 1, array)), f"{part.name}/kept")


@Pass
def _known(graph: Graph) -> None:
    """Make constants of sizes that inference knows, though the nodes compute them from open shapes."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        value = node.outputs[0]
        sizes = json.loads(value.metadata_props.get(SYM_DATA_KEY, "null"))
        if not sizes or not all(isinstance(size, int) for size in sizes) or value.is_graph_output():
            continue
        if value.dtype in _WHOLE and value.shape is not None and len(value.shape) < 2:
            array = np.array(sizes if len(value.shape) else sizes[0], value.dtype.numpy())
            rewriter.replace_constant(value, ir.Tensor(array))


@Pass
def _plain(graph: Graph) -> None:
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        rule = _RULES.get(node.op_type) if node.domain == "" else None
        if rule is not None:
            rule(rewriter, node)


@Pass
def _unused(graph: Graph) -> None:
    remove_unneeded(graph, keep=lambda node: bool(effects_of(node)))


def _copy(rewriter: Rewriter, node: ir.Node) -> None:
    if node.inputs[0] is not None:
        rewriter.bypass(node, node.inputs[0])


def _cast(rewriter: Rewriter, node: ir.Node) -> None:
    source = node.inputs[0]
    if source is not None and source.dtype is not None and source.dtype == node.outputs[0].dtype:
        rewriter.bypass(node, source)


def _expand(rewriter: Rewriter, node: ir.Node) -> None:
    """Remove an Expand of a value that is as large already, or that its readers broadcast by themselves.

    Sizes that are computed become numbers: an axis that keeps an open size is expanded to 1.
    """
    source, expanded = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or expanded.shape is None:
        return
    sizes = node.inputs[1]
    if sizes is not None and sizes.const_value is None:
        kept = [None] * (len(expanded.shape) - len(source.shape)) + list(source.shape)
        settled = [
            dim if isinstance(dim, int) else 1 if dim == own else None
            for dim, own in zip(expanded.shape, kept, strict=True)
        ]
        known = [size for size in settled if size is not None]
        if len(known) == len(settled):
            tensor = ir.Tensor(np.array(known, np.int64))
            node.replace_input_with(1, rewriter.initializer(tensor, f"{expanded.name}/sizes"))
    readers = [use.node for use in expanded.uses()]
    is_broadcast = len(source.shape) == len(expanded.shape) and not expanded.is_graph_output()
    if source.shape == expanded.shape or (
        is_broadcast and readers and all(_broadcasts(reader, expanded) for reader in readers)
    ):
        rewriter.bypass(node, source)


def _broadcasts(node: ir.Node, value: ir.Value) -> bool:
    """Return whether a node broadcasts a value to the shape of its other operand."""
    if node.domain or node.op_type not in {"Add", "Sub", "Mul", "Div", "Max", "Min"} or len(node.inputs) != 2:
        return False
    other = node.inputs[1] if node.inputs[0] is value else node.inputs[0]
    return other is not value and other is not None and other.shape == value.shape


def _conv(rewriter: Rewriter, node: ir.Node) -> None:
    """A convolution without bias is written with one of zeros."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None or parameter_key(bias) is not None or bias.const_value is None:
        return
    if not bias.const_value.numpy().any():
        node.replace_input_with(2, None)


def _reshape(rewriter: Rewriter, node: ir.Node) -> None:
    """Sizes of which only the batch is open need not be computed."""
    sizes = node.inputs[1]
    if sizes is not None and sizes.const_value is None and (settled := settled_sizes(node)) is not None:
        tensor = ir.Tensor(np.array(settled, np.int64))
        node.replace_input_with(1, rewriter.initializer(tensor, f"{node.outputs[0].name}/sizes"))
        node.attributes.pop("allowzero", None)


def _resize(rewriter: Rewriter, node: ir.Node) -> None:
    """The size of an image that another one has is a number as soon as sizes are known."""
    sizes = node.inputs[3] if len(node.inputs) > 3 else None
    source, resized = node.inputs[0], node.outputs[0].shape
    if sizes is None or sizes.const_value is not None or source is None:
        return
    if source.shape is None or resized is None or list(source.shape)[:2] != list(resized)[:2]:
        return
    image = [size for size in list(resized)[2:] if isinstance(size, int)]
    if len(image) == len(resized) - 2:
        tensor = ir.Tensor(np.array(image, np.int64))
        node.replace_input_with(3, rewriter.initializer(tensor, f"{node.outputs[0].name}/sizes"))
        node.attributes["axes"] = ir.AttrInt64s("axes", range(2, len(resized)))


def _slice(rewriter: Rewriter, node: ir.Node) -> None:
    """A slice of everything, as ``x[:, :, None]`` leaves one."""
    source, sliced = node.inputs[0], node.outputs[0]
    numbers = [value.const_value for value in node.inputs[1:] if value is not None]
    known = [tensor.numpy() for tensor in numbers if tensor is not None]
    if source is None or source.shape is None or source.shape != sliced.shape or len(known) < len(numbers):
        return
    is_forward = len(known) < 4 or bool((known[3] == 1).all())
    if is_forward and not known[0].any():
        rewriter.bypass(node, source)


def _times_one(rewriter: Rewriter, node: ir.Node) -> None:
    """An activation is written with the factors that it may have, or divided by them, and they are 1."""
    orders = (node.inputs, reversed(node.inputs)) if node.op_type == "Mul" else (node.inputs,)
    for source, factor in orders:
        plain = source is not None and source.shape is not None and source.shape == node.outputs[0].shape
        if plain and source is not None and _is_one(factor):
            rewriter.bypass(node, source)
            return


def _is_one(value: ir.Value | None) -> bool:
    if value is None or value.const_value is None or parameter_key(value) is not None:
        return False
    return value.const_value.size == 1 and bool(value.const_value.numpy() == 1)


def _where(rewriter: Rewriter, node: ir.Node) -> None:
    """Attention guards rows of which every key is masked, though the mask leaves a key to each."""
    condition, *values = node.inputs
    tensor = condition.const_value if condition is not None else None
    chosen = set() if tensor is None else set(tensor.numpy().reshape(-1).tolist())
    if len(chosen) == 1:
        source = values[0 if chosen.pop() else 1]
        if source is not None and source.shape is not None and source.shape == node.outputs[0].shape:
            rewriter.bypass(node, source)


def _recurrent(rewriter: Rewriter, node: ir.Node) -> None:
    """First states of zero are what is taken where none are given."""
    for index in range(5, min(len(node.inputs), 7)):
        if _is_zero(node.inputs[index]):
            node.replace_input_with(index, None)


def _is_zero(value: ir.Value | None) -> bool:
    """Return whether a value is zeros, cut out of or spread from a constant."""
    while value is not None and value.const_value is None:
        maker = value.producer()
        if maker is None or maker.op_type not in {"Expand", "Identity", "Slice"}:
            return False
        value = maker.inputs[0]
    return value is not None and value.const_value is not None and not value.const_value.numpy().any()


_RULES: dict[str, Callable[[Rewriter, ir.Node], None]] = {
    "Cast": _cast,
    "Conv": _conv,
    "ConvTranspose": _conv,
    "Div": _times_one,
    "Expand": _expand,
    "GRU": _recurrent,
    "Gather": take_strided,
    "Identity": _copy,
    "LSTM": _recurrent,
    "Mul": _times_one,
    "RNN": _recurrent,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Where": _where,
}
