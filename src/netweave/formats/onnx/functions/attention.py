"""Attention, which standard ONNX has from opset 23 on only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions.table import LOWEST, FunctionNode, body
from netweave.formats.onnx.functions.tape import Tensor, constant, op

if TYPE_CHECKING:
    from collections.abc import Sequence


@body("Attention")
def attention(node: FunctionNode) -> Sequence[Tensor]:
    """Heads in the last axis, or with an axis of their own."""
    if node.has(3) and node.value(3).dtype == ir.DataType.BOOL:
        raise NotWritable("its mask is of booleans")
    return [_attended(node, *node.inputs)]


@body("MultiHeadAttention")
def multi_head_attention(node: FunctionNode) -> Sequence[Tensor]:
    """Attention between dense layers."""
    arrays = node.inputs[3:]
    query, key, value = (
        op("MatMul", x, arrays[2 * part]) + arrays[2 * part + 1] for part, x in enumerate(node.inputs[:3])
    )
    return [op("MatMul", _attended(node, query, key, value), arrays[6]) + arrays[7]]


@body("RotaryEmbedding")
def rotary_embedding(node: FunctionNode) -> Sequence[Tensor]:
    """Pairs are neighbours, which are parted by an axis of their own, or halves."""
    x, cosines, sines = node.inputs
    if not node.settings["interleaved"]:
        first, second = x.split(2, axis=-1)
        return [op("Concat", first * cosines - second * sines, first * sines + second * cosines, axis=-1)]
    end = np.iinfo(np.int64).max
    first, second = (op("Slice", x, [begin], [end], [-1], [2]) for begin in (0, 1))
    turned = first * cosines - second * sines, first * sines + second * cosines
    return [op("Reshape", op("Concat", *(each.at(-1) for each in turned), axis=-1), x.sizes())]


def _attended(
    node: FunctionNode, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    num_heads = node.settings["num_heads"]
    if num_heads:
        query, key, value = (
            op("Transpose", op("Reshape", x, [0, 0, num_heads, -1]), perm=[0, 2, 1, 3])
            for x in (query, key, value)
        )
    scores = op("MatMul", query, op("Transpose", key, perm=[0, 1, 3, 2])) * node.settings["scale"]
    if node.settings["is_causal"]:
        sizes = op("Concat", query.size(2), key.size(2), axis=0)
        scores = scores + op("Trilu", op("Expand", constant(LOWEST), sizes), 1, upper=1)
    if mask is not None:
        scores = scores + mask
    heads = op("MatMul", op("Softmax", scores, axis=-1), value)
    return op("Reshape", op("Transpose", heads, perm=[0, 2, 1, 3]), [0, 0, -1]) if num_heads else heads
