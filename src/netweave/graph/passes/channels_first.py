"""Doing without the transposes that a net of channels last has at its ends and before its dense layers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, infer_shapes, known_shape
from netweave.graph.passes.rewrite import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from netweave.graph import Graph

_ROWS = {"Gemm": 1, "MatMul": 1}
"""Operators with a stored matrix, and which input it is."""


@Pass
def early_transposes(graph: Graph) -> None:
    """Transpose to channels first before a Pad, or before arithmetic with one number, not behind it."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if _is_transpose(node):
            _turn_before(rewriter, node)


@Pass
def channels_first(graph: Graph) -> None:
    """Give a net channels first wherever its source has them last, for frameworks that know no other order.

    - An input that is only read transposed to channels first is one with channels first, also if it is padded
      or scaled by a number before.
    - An output that is transposed to channels last is given as it is before.
    - A value that is transposed to channels last and flattened before a dense layer is flattened as it is,
      and the rows of the layer's weights change places.

    Inputs and outputs then have other axes than before; all other transposes stay.
    """
    early_transposes.edit(graph)
    rewriter = Rewriter(graph)
    for value in graph.inputs:
        _turn_input(rewriter, value)
    for node in list(graph.nodes):
        if _is_transpose(node):
            _turn_output(rewriter, node)
    for node in list(graph.nodes):
        if node.op_type in _ROWS and not node.domain:
            _turn_rows(rewriter, node)
    infer_shapes(graph)


def _is_transpose(node: ir.Node | None) -> bool:
    return node is not None and not node.domain and node.op_type == "Transpose"


def _perm(node: ir.Node) -> list[int]:
    rank = len(known_shape(node.outputs[0]) or ())
    return list(node.attributes.get_ints("perm", list(range(rank))[::-1]))


def _to_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _to_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _turn_before(rewriter: Rewriter, node: ir.Node) -> None:
    value = node.inputs[0]
    rank = len(known_shape(node.outputs[0]) or ())
    if rank < 3 or _perm(node) != _to_first(rank):
        return
    while value is not None and has_one_reader(value):
        maker = value.producer()
        if maker is None or maker.domain or maker.inputs[0] is None:
            return
        inputs = _turned_operands(rewriter, maker, _to_first(rank))
        if inputs is None:
            return
        turned = rewriter.insert(maker, "Transpose", [maker.inputs[0]], {"perm": _to_first(rank)})
        turned.outputs[0].shape = ir.Shape([(maker.inputs[0].shape or ())[axis] for axis in _to_first(rank)])
        moved = [turned.outputs[0], *inputs]
        rewriter.replace([maker, node], maker.op_type, moved, attributes_of(maker))
        node, value = turned, turned.inputs[0]


def _turned_operands(rewriter: Rewriter, node: ir.Node, perm: list[int]) -> list[ir.Value | None] | None:
    """Return the inputs behind the first that a node has over transposed axes; None if it cannot be."""
    stored = [None if value is None else value.const_value for value in node.inputs[1:]]
    if node.op_type == "Pad" and stored[0] is not None and len(node.inputs) < 4:
        begins, ends = stored[0].numpy().reshape(2, -1)
        pads = np.concatenate([begins[perm], ends[perm]])
        return [rewriter.initializer(ir.Tensor(pads), node.inputs[1].name or ""), *node.inputs[2:]]  # type: ignore[union-attr]  # the pads are stored, so they are there
    is_number = all(tensor is not None and tensor.size == 1 for tensor in stored)
    return list(node.inputs[1:]) if node.op_type in {"Add", "Div", "Mul", "Sub"} and is_number else None


def _turn_input(rewriter: Rewriter, value: ir.Value) -> None:
    readers = [use.node for use in value.uses()]
    shape = value.shape
    if shape is None or value.is_graph_output() or not readers or not all(map(_is_transpose, readers)):
        return
    perm = _to_first(len(shape))
    if len(shape) < 3 or any(_perm(node) != perm or node.outputs[0].is_graph_output() for node in readers):
        return
    value.shape = ir.Shape([shape[axis] for axis in perm])
    declared = rewriter.graph.declared.get(value.name or "")
    if declared is not None:
        rewriter.graph.declared[value.name or ""] = tuple(declared[axis] for axis in perm)
    for node in readers:
        rewriter.bypass(node, value)


def _turn_output(rewriter: Rewriter, node: ir.Node) -> None:
    output, source = node.outputs[0], node.inputs[0]
    rank = len(known_shape(output) or ())
    turned = rank > 2 and _perm(node) == _to_last(rank)
    if source is not None and turned and output.is_graph_output() and not output.uses():
        rewriter.bypass(node, source)


def _turn_rows(rewriter: Rewriter, node: ir.Node) -> None:
    """Read before the transpose, if between it and the dense layer there is nothing but a flatten."""
    flat, matrix = node.inputs[0], node.inputs[1]
    flatten = flat.producer() if flat is not None else None
    if flat is None or flatten is None or not _flattens(flatten) or not has_one_reader(flat):
        return
    transposed = flatten.inputs[0]
    transpose = transposed.producer() if transposed is not None else None
    if transposed is None or transpose is None or not _is_transpose(transpose) or matrix is None:
        return
    shape, tensor = known_shape(transpose.inputs[0]), matrix.const_value
    if shape is None or None in shape[1:] or _perm(transpose)[0] != 0 or tensor is None:
        return
    sizes, perm = [size or 0 for size in shape[1:]], [axis - 1 for axis in _perm(transpose)[1:]]
    axis = 1 if node.attributes.get_int("transB", 0) else 0
    if node.attributes.get_int("transA", 0) or tensor.shape.numpy()[axis] != prod(sizes):
        return
    order = np.argsort(np.arange(prod(sizes)).reshape(sizes).transpose(perm).reshape(-1))
    turned = ir.LazyTensor(
        lambda: ir.Tensor(np.take(tensor.numpy(), order, axis=axis)),
        dtype=tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=matrix.name,
    )
    node.replace_input_with(1, rewriter.initializer(turned, matrix.name or ""))
    new = rewriter.insert(flatten, "Flatten", [transpose.inputs[0]], {"axis": 1})
    node.replace_input_with(0, new.outputs[0])
    for unread in (flatten, transpose):
        if not unread.outputs[0].uses() and not unread.outputs[0].is_graph_output():
            rewriter.graph.model.graph.remove(unread, safe=True)


def _flattens(node: ir.Node) -> bool:
    """Return whether a node makes all axes but the first into one."""
    if node.domain or node.op_type not in {"Flatten", "Reshape"} or node.inputs[0] is None:
        return False
    old, new = known_shape(node.inputs[0]), known_shape(node.outputs[0])
    if old is None or new is None or len(new) != 2 or None in old[1:]:
        return False
    return new[1] == prod(size or 0 for size in old[1:])
