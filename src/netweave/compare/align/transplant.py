"""Weights for nets that have none: copied through the alignment, so that only the structure is compared."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.compare.align.groups import build_groups
from netweave.compare.align.weights import as_dense, filters_of, stand_in
from netweave.compare.signals import constants_of
from netweave.graph import attributes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.compare.align.alignment import Alignment

FILTERED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
SCALING = frozenset({"BatchNormalization", "Mul", "Add"})


def transplant(alignment: Alignment, *, to_b: bool, orders: Mapping[str, np.ndarray] | None = None) -> int:
    """Copy stored arrays from one net to the other, group by group, in place; return how many were copied.

    Where both sides cut a group alike, arrays are copied one to one; where one side has folded a
    BatchNorm that the other has, the folded filters and bias are computed.

    Args:
        alignment: Pairs found by structure.
        to_b: Copy from A to B; otherwise from B to A.
        orders: For dense nodes that read what is flattened in another order, by the name of the node that is
            given weights: for each of its inputs the input of the other node.
    """
    count = 0
    for draft in build_groups(alignment):
        source, target = (_without_pads(draft.nodes[side]) for side in ((0, 1) if to_b else (1, 0)))
        if not source or not target:
            continue
        if are_scaled_alike(source, target):
            count += _copy(source[0], target[0], orders or {})
            count += _carry_scaling(source[1:], target[1:], bias=_lost_bias(source[0], target[0]))
        elif [n.op_type for n in source] == [n.op_type for n in target]:
            count += sum(_copy(s, t, orders or {}) for s, t in zip(source, target, strict=True))
        elif source[0].op_type in FILTERED and stand_in(source[0], target[0]):
            count += _fold_into(source, target, orders or {})
        elif {n.op_type for n in (*source, *target)} <= SCALING and source[0].op_type == target[0].op_type:
            count += _carry_scaling(source, target)
    graph = alignment.b.graph if to_b else alignment.a.graph
    graph.parameters.update({key: replace(p, loaded=True) for key, p in graph.parameters.items()})
    return count


def are_scaled_alike(source: list[ir.Node], target: list[ir.Node]) -> bool:
    """Whether both are the same filter and a BatchNorm, each with its scale and shift behind it or not."""
    heads = [[node.op_type for node in nodes[:2]] for nodes in (source, target)]
    return (
        heads[0] == heads[1]
        and source[0].op_type in FILTERED
        and heads[0][1:] == ["BatchNormalization"]
        and {node.op_type for node in (*source[2:], *target[2:])} <= SCALING
        and all(b.outputs[0] in a.inputs for nodes in (source, target) for b, a in pairwise(nodes))
    )


def _lost_bias(source: ir.Node, target: ir.Node) -> np.ndarray | float:
    """Return the bias of a filter that has no place in another."""
    bias = constants_of(source).get(2)
    if bias is None or bias.const_value is None or 2 in constants_of(target):
        return 0.0
    return bias.const_value.numpy().astype(np.float64)


def _without_pads(nodes: list[ir.Node]) -> list[ir.Node]:
    """Leave out padding, which one net writes in a layer of its own and another in its convolution."""
    return [node for node in nodes if node.op_type != "Pad"]


def _copy(source: ir.Node, target: ir.Node, orders: Mapping[str, np.ndarray]) -> int:
    given, taken = constants_of(source), constants_of(target)
    count = 0
    if source.op_type in FILTERED and 1 in given and 1 in taken:
        count += set_filters(target, _ordered(filters_of(source), target, orders))
        if 2 in taken and 2 not in given:
            count += _clear(taken[2])
    for index, value in given.items():
        if index in taken and not (index == 1 and source.op_type in FILTERED):
            count += set_values(
                taken[index], None if value.const_value is None else value.const_value.numpy()
            )
    return count


def _clear(value: ir.Value) -> int:
    return 0 if value.const_value is None else set_values(value, np.zeros(value.const_value.size))


def _ordered(
    filters: np.ndarray | None, target: ir.Node, orders: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    order = orders.get(str(target.name))
    return filters if filters is None or order is None else filters.reshape(len(filters), -1)[:, order]


def set_values(value: ir.Value, array: np.ndarray | None) -> int:
    """Give a value an array of as many elements, in place; return how many were given, 1 or 0."""
    old = value.const_value
    if array is None or old is None or array.size != old.size or old.dtype != ir.DataType.FLOAT:
        return 0
    shape = tuple(int(size) for size in old.shape.numpy())
    value.const_value = ir.Tensor(np.ascontiguousarray(array.astype(np.float32, copy=False).reshape(shape)))
    return 1


def set_filters(node: ir.Node, filters: np.ndarray | None) -> int:
    """Give a node filters as from ``filters_of``, in place; return how many were given, 1 or 0."""
    current = filters_of(node)
    if filters is None or current is None or not _fits(filters.shape, current.shape):
        return 0
    weight = node.inputs[1]
    array = filters = filters.reshape(current.shape)
    if node.op_type == "ConvTranspose":
        array = filters.swapaxes(0, 1)
    elif node.op_type == "MatMul":
        array = np.moveaxis(filters, 0, -1)
    elif node.op_type == "Gemm":
        transposed = node.attributes.get("transB")
        array = filters if transposed is not None and transposed.as_int() else filters.T
    return set_values(weight, array) if weight is not None else 0


def _fits(given: tuple[int, ...], taken: tuple[int, ...]) -> bool:
    """Whether filters are of one shape, or would be if a dense layer's were a convolution's."""
    return given == taken or (2 in {len(given), len(taken)} and as_dense(given) == as_dense(taken))


def _fold_into(source: list[ir.Node], target: list[ir.Node], orders: Mapping[str, np.ndarray]) -> int:
    """Give a chain of filters and scalings what another chain computes."""
    filters = _ordered(filters_of(source[0]), target[0], orders)
    if filters is None or not all(is_of_width(node, len(filters)) for node in source):
        return 0
    scale, shift = np.ones(len(filters)), np.zeros(len(filters))
    for node in source:
        factor, addend = _affine_of(node, len(filters))
        scale, shift = scale * factor, shift * factor + addend
    count = set_filters(target[0], filters * scale.reshape(-1, *[1] * (filters.ndim - 1)))
    if not count:
        return 0
    slots = [slot for node in target for slot in _neutralise(node, len(filters))]
    if slots:
        count += set_values(slots[-1], shift)
    return count


def is_of_width(node: ir.Node, channels: int) -> bool:
    """Whether what a node adds and multiplies has one number for each of so many channels, or one for all."""
    values = [v for i, v in constants_of(node).items() if node.op_type not in FILTERED or i != 1]
    return all(v.const_value is None or v.const_value.size in {1, channels} for v in values)


def _carry_scaling(source: list[ir.Node], target: list[ir.Node], *, bias: np.ndarray | float = 0.0) -> int:
    """Give a BatchNorm, which may have its scale and shift behind it, what another such chain computes.

    Caffe writes BatchNorm and Scale where others have one layer; the statistics are the same, but for a
    ``bias`` that is added before the one and not before the other.
    """
    given, taken = constants_of(source[0]), constants_of(target[0])
    if source[0].op_type != "BatchNormalization" or given[3].const_value is None:
        return 0
    mean, variance = (given[index].const_value.numpy().astype(np.float64) for index in (3, 4))  # type: ignore[union-attr]
    scale, shift = np.ones_like(mean), np.zeros_like(mean)
    for node in source:
        factor, addend = _affine_of(node, mean.size)
        scale, shift = scale * factor, shift * factor + addend
    epsilon = attributes_of(target[0]).get("epsilon", 1e-5)
    gamma, beta = scale * np.sqrt(variance + epsilon), shift + scale * mean
    holders = {index: taken.get(index) for index in (1, 2)}
    for node in target[1:]:
        holders[1 if node.op_type == "Mul" else 2] = next(iter(constants_of(node).values()), None)
    count = set_values(taken[3], mean - bias) + set_values(taken[4], variance)
    for index, array in ((1, gamma), (2, beta)):
        value = holders[index]
        count += 0 if value is None else set_values(value, array)
    return count


def _affine_of(node: ir.Node, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what a node does per output channel: factor and addend."""
    arrays = {
        index: value.const_value.numpy().astype(np.float64)
        for index, value in constants_of(node).items()
        if value.const_value is not None
    }
    one, zero = np.ones(channels), np.zeros(channels)
    if node.op_type in FILTERED:
        return one, arrays[2].reshape(-1) * one if 2 in arrays else zero
    if node.op_type == "BatchNormalization":
        epsilon = attributes_of(node).get("epsilon", 1e-5)
        factor = arrays[1] / np.sqrt(arrays[4] + epsilon)
        return factor, arrays[2] - arrays[3] * factor
    constant = next(iter(arrays.values()), zero).reshape(-1)
    known = {
        "Add": (one, constant * one),
        "Sub": (one, -constant * one),
        "Mul": (constant * one, zero),
        "Div": (one / constant, zero),
    }
    return known.get(node.op_type, (one, zero))


def _neutralise(node: ir.Node, channels: int) -> list[ir.Value]:
    """Make a node do nothing, and return the value that can hold a bias per channel."""
    constants = constants_of(node)
    if node.op_type == "BatchNormalization":
        epsilon = attributes_of(node).get("epsilon", 1e-5)
        for index, fill in ((1, 1.0), (2, 0.0), (3, 0.0), (4, 1.0 - epsilon)):  # Caffe's has no gamma to set
            if index in constants:
                set_values(constants[index], np.full(channels, fill))
        return [constants[2]] if 2 in constants else []
    if node.op_type in FILTERED and 2 in constants:
        set_values(constants[2], np.zeros(channels))
        return [constants[2]]
    addends = [value for value in constants.values() if value.const_value is not None]
    if node.op_type in {"Mul", "Div"}:
        for value in addends:
            set_values(value, np.ones(value.const_value.size))  # type: ignore[union-attr]
        return []
    for value in addends if node.op_type in {"Add", "Sub"} else []:
        set_values(value, np.zeros(value.const_value.size))  # type: ignore[union-attr]
    return [v for v in addends if v.const_value.size == channels] if node.op_type == "Add" else []  # type: ignore[union-attr]
