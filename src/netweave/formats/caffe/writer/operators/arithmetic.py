"""Arithmetic of two or more values, of a value and stored numbers, and sums over axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.operators.activation import bounded
from netweave.formats.caffe.writer.operators.normalisation import epsilon_of_norm, normalized
from netweave.formats.caffe.writer.table import Blob, CaffeLayer, CaffeNode, power, writes

if TYPE_CHECKING:
    from collections.abc import Sequence


_COEFFICIENTS: dict[str, list[float]] = {"Add": [], "Sub": [1.0, -1.0]}


@writes("Add", "Sub")
def add(node: CaffeNode) -> list[CaffeLayer]:
    """A sum or difference."""
    sign = -1.0 if node.op_type == "Sub" else 1.0
    if node.is_stored(1):
        return _plus(node, 0, node.constant(1) * np.float32(sign), 1.0)
    if node.is_stored(0):
        return _plus(node, 1, node.constant(0), sign)
    if _are_alike(node, 0, 1):
        coefficients = _COEFFICIENTS[node.op_type]
        settings = {"eltwise_param": {"coeff": coefficients}} if coefficients else {}
        return [node.layer("Eltwise", [node.name(0), node.name(1)], settings)]
    if sign < 0:
        raise NotWritable("its values have other sizes; Caffe broadcasts sums and products only")
    return _broadcast(node, "Bias", "bias_param")


@writes("Mul")
def mul(node: CaffeNode) -> list[CaffeLayer]:
    """A product."""
    for stored, value in ((1, 0), (0, 1)):
        if node.is_stored(stored):
            return _times(node, value, node.constant(stored))
    if _are_alike(node, 0, 1):
        return [node.layer("Eltwise", [node.name(0), node.name(1)], {"eltwise_param": {"operation": "PROD"}})]
    return _broadcast(node, "Scale", "scale_param")


@writes("Div")
def div(node: CaffeNode) -> list[CaffeLayer]:
    """A quotient: a product with what is one over the second value."""
    if node.is_stored(1):
        return _times(node, 0, 1 / node.constant(1))
    if (eps := epsilon_of_norm(node.ir_node)) is not None:
        return normalized(node, eps)
    inverse = node.inner()
    layers = node.chain(power(exponent=-1.0), bottom=node.name(1), top=inverse)
    if node.is_stored(0):
        return [*layers, *_times(node, 0, node.constant(0), bottom=inverse, rank=node.rank(1))]
    if not _are_alike(node, 0, 1):
        raise NotWritable("its values have other sizes; Caffe broadcasts sums and products only")
    product = {"eltwise_param": {"operation": "PROD"}}
    return [*layers, node.layer("Eltwise", [node.name(0), inverse], product)]


@writes("Pow")
def pow_(node: CaffeNode) -> list[CaffeLayer]:
    """A power with a stored number as its exponent."""
    exponent = node.constant(1)
    if exponent.size != 1:
        raise NotWritable("its exponents are not one number")
    return node.chain(power(exponent=float(exponent.reshape(-1)[0])))


@writes("Sum", "Max", "Min")
def several(node: CaffeNode) -> list[CaffeLayer]:
    """A sum, maximum or minimum of several values, or of one and a number."""
    kind, indices = node.op_type, list(range(node.num_inputs))
    stored = [index for index in indices if node.is_stored(index)]
    if stored:
        return _with_number(node, kind, stored, indices)
    if not all(_are_alike(node, 0, index) for index in indices[1:]):
        raise NotWritable("its values have other sizes; Caffe's Eltwise does not broadcast")
    names = [node.name(index) for index in indices]
    if len(names) == 1:
        return node.chain(("Split", {}))
    if kind == "Sum":
        return [node.layer("Eltwise", names)]
    settings = {"eltwise_param": {"operation": "MAX"}}
    if kind == "Max":
        return [node.layer("Eltwise", names, settings)]
    negated, layers = [node.inner() for _ in names], []
    for name, negative in zip(names, negated, strict=True):
        layers += node.chain(power(scale=-1.0), bottom=name, top=negative)
    lowest = node.inner()
    layers.append(node.layer("Eltwise", negated, settings, top=lowest))
    return [*layers, *node.chain(power(scale=-1.0), bottom=lowest)]


def _with_number(
    node: CaffeNode, kind: str, stored: Sequence[int], indices: Sequence[int]
) -> list[CaffeLayer]:
    values = [index for index in indices if index not in stored]
    if len(stored) != 1 or len(values) != 1:
        raise NotWritable("one of its inputs is stored")
    number = node.constant(stored[0])
    if kind == "Sum":
        return _plus(node, values[0], number, 1.0)
    if number.size != 1:
        raise NotWritable("its stored input is not one number")
    bound = float(number.reshape(-1)[0])
    steps = bounded(bound, None) if kind == "Max" else bounded(None, bound)
    return node.chain(*steps, bottom=node.name(values[0]))


def _are_alike(node: CaffeNode, first: int, second: int) -> bool:
    return node.shape(first) == node.shape(second)


def _plus(node: CaffeNode, index: int, shift: np.ndarray, factor: float) -> list[CaffeLayer]:
    """Write ``factor * value + shift``."""
    if shift.size == 1:
        return node.chain(power(scale=factor, shift=float(shift.reshape(-1)[0])), bottom=node.name(index))
    axes, array = _placed(shift, node.shape(index))
    if factor == 1:
        return [node.layer("Bias", [node.name(index)], {"bias_param": axes}, blobs=[Blob(lambda: array)])]
    blobs = [Blob(lambda: np.full_like(array, factor)), Blob(lambda: array)]
    settings = {"scale_param": {**axes, "bias_term": True}}
    return [node.layer("Scale", [node.name(index)], settings, blobs=blobs)]


def _times(
    node: CaffeNode, index: int, factor: np.ndarray, *, bottom: str | None = None, rank: int | None = None
) -> list[CaffeLayer]:
    name = node.name(index) if bottom is None else bottom
    if factor.size == 1:
        return node.chain(power(scale=float(factor.reshape(-1)[0])), bottom=name)
    shape = node.shape(index if rank is None else 1)
    axes, array = _placed(factor, shape)
    return [node.layer("Scale", [name], {"scale_param": axes}, blobs=[Blob(lambda: array)])]


def _placed(array: np.ndarray, shape: Sequence[int | None]) -> tuple[dict[str, Any], np.ndarray]:
    """Return the settings ``axis`` and ``num_axes`` of a stored operand, and its array without other axes."""
    if array.ndim > len(shape):
        raise NotWritable("its stored array has more axes than its value")
    sizes = (1,) * (len(shape) - array.ndim) + array.shape
    wide = [axis for axis, size in enumerate(sizes) if size != 1]
    first, last = wide[0], wide[-1]
    if sizes[first : last + 1] != tuple(shape[first : last + 1]):
        raise NotWritable("its stored array has other sizes than its value")
    axes = {"axis": first} if first != 1 else {}
    axes |= {"num_axes": last + 1 - first} if last != first else {}
    return axes, np.ascontiguousarray(array.reshape(sizes[first : last + 1]), np.float32)


def _broadcast(node: CaffeNode, kind: str, parameter: str) -> list[CaffeLayer]:
    """Write a value with one number for each channel of another: its axes of 1 are dropped first."""
    shapes = node.shape(0), node.shape(1)
    large, small = (0, 1) if shapes[1][2:] == (1,) * (len(shapes[1]) - 2) else (1, 0)
    rank = len(shapes[large])
    if rank < 3 or shapes[small] != (*shapes[large][:2], *[1] * (rank - 2)):
        raise NotWritable(
            f"its values have the sizes {shapes[0]} and {shapes[1]}; Caffe broadcasts channels only"
        )
    flat = node.inner()
    return [
        *node.chain(("Flatten", {}), bottom=node.name(small), top=flat),
        node.layer(kind, [node.name(large), flat], {parameter: {"axis": 0}}),
    ]


_REDUCTIONS = {"ReduceMean": "MEAN", "ReduceSum": "SUM", "ReduceL1": "ASUM", "ReduceSumSquare": "SUMSQ"}
_GLOBAL = {"ReduceMean": "AVE", "ReduceMax": "MAX"}


@writes(*_REDUCTIONS, "ReduceMax")
def reduction(node: CaffeNode) -> list[CaffeLayer]:
    """Over height and width as a pooling; over all axes from one on as a Reduction."""
    rank, kind = node.rank(0), node.op_type
    given = node.ints(1) if node.has(1) else list(range(rank))
    axes, keeps = sorted(axis % rank for axis in given), node.get("keepdims")
    if rank == 4 and axes == [2, 3] and kind in _GLOBAL:
        pooling = ("Pooling", {"pooling_param": {"pool": _GLOBAL[kind], "global_pooling": True}})
        return node.chain(pooling) if keeps else node.chain(pooling, ("Flatten", {}))
    if axes != list(range(axes[0], rank)) or kind not in _REDUCTIONS or (keeps and axes[0] == 0):
        raise NotWritable(f"Caffe reduces all axes from one on, found {axes} of {rank}")
    operation: dict[str, Any] = {} if kind == "ReduceSum" else {"operation": _REDUCTIONS[kind]}
    operation |= {"axis": axes[0]} if axes[0] else {}
    step = ("Reduction", {"reduction_param": operation})
    if not keeps:
        return node.chain(step)
    dims = [0] * axes[0] + [1] * len(axes)
    return node.chain(step, ("Reshape", {"reshape_param": {"shape": {"dim": dims}}}))
