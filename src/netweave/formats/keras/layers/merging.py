"""Layers on several tensors (keras/layers/merging), and the functions of ``keras.ops`` that do the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.keras.layers.normalization import unit_length
from netweave.formats.lowering.channels_last import Operand, Stored, Tensor
from netweave.formats.lowering.channels_last.layer import concat, drop
from netweave.formats.lowering.elementwise import find_operator


@layer_reader("Add", "Divide", "Maximum", "Minimum", "Multiply", "Power", "Subtract", "TrueDivide")
def merge(ctx: KerasLayer) -> Tensor:
    """Combine all inputs, one after another; a function may be given numbers as well."""
    operands = _operands([*ctx.args, *ctx.kwargs.values()])
    op_type = find_operator(ctx.type)
    if len(operands) < 2:
        raise ctx.unsupported(f"has {len(operands)} tensors or numbers as inputs, expected at least 2")
    mask = _common_mask(ctx)
    return ctx.masked(ctx.tensor(reduce(lambda a, b: ctx.broadcast(op_type, [a, b]), operands)), mask)


@layer_reader("FloorDivide")
def floor_divide(ctx: KerasLayer) -> Tensor:
    """The quotient, rounded down."""
    return ctx.unary("Floor", ctx.broadcast("Div", _operands([*ctx.args, *ctx.kwargs.values()])))


@layer_reader("Average")
def average(ctx: KerasLayer) -> Tensor:
    """The mean of all inputs."""
    return ctx.masked(ctx.broadcast("Mean", ctx.inputs), _common_mask(ctx))


@layer_reader("Concatenate")
def concatenate(ctx: KerasLayer) -> Tensor:
    """Joined along an axis, the last by default."""
    mask = _common_mask(ctx)
    joined = concat(ctx, ctx.inputs, ctx.integer("axis", -1))
    return ctx.masked(joined if len(ctx.inputs) > 1 else ctx.copied(ctx.x), mask)


@layer_reader("Dot")
def dot(ctx: KerasLayer) -> Tensor:
    """Products over an axis of each of two tensors, example by example; of unit vectors if it says so."""
    pair = ctx.integer_list("axes")
    pair = pair * 2 if len(pair) == 1 else pair
    if len(pair) != 2 or len(ctx.inputs) != 2:
        raise ctx.read_error(f"axes={pair!r:.40} for {len(ctx.inputs)} tensors, expected two of each")
    rows = []
    for x, given, is_left in zip(ctx.inputs, pair, (True, False), strict=True):
        rank = ctx.rank(x)
        axis = ctx.axis(given, rank)
        if rank not in {2, 3} or not axis:
            raise ctx.unsupported(
                f"axes={pair} of {rank} axes: only those of vectors and matrices are supported"
            )
        value = ctx.source(unit_length(ctx, x, [axis]) if ctx.boolean("normalize", False) else x)
        if rank == 2:
            value = ctx.unsqueeze(value, [1 if is_left else 2])
        elif (axis == 1) == is_left:  # the axis of the products must be the last on the left, else axis 1
            value = ctx.transpose(value, [0, 2, 1])
        rows.append(value)
    product = ctx.add("MatMul", rows)
    flat = [number + 1 for number, x in enumerate(ctx.inputs) if ctx.rank(x) == 2]
    return drop(ctx, product, [2] if len(flat) == 2 else flat)


def _common_mask(ctx: KerasLayer) -> Tensor | None:
    """Return the mask of all inputs; None where one has none, whose steps all count."""
    given = [ctx.mask(x) for x in ctx.inputs]
    masks = [mask for mask in given if mask is not None]
    if len({id(mask.value) for mask in masks}) > 1:
        raise ctx.unsupported("joins tensors with different masks, which is not supported")
    return masks[0] if masks and len(masks) == len(given) else None


def _operands(values: Sequence[Any]) -> list[Operand]:
    """Return the tensors and numbers that a layer is given, which may stand in lists."""
    operands: list[Operand] = []
    for value in values:
        if isinstance(value, Tensor):
            operands.append(value)
        elif isinstance(value, (list, tuple)):
            operands += _operands(value)
        elif isinstance(value, (int, float, np.ndarray)) and not isinstance(value, bool):
            operands.append(Stored.constant(np.asarray(value, np.float32)))
    return operands
