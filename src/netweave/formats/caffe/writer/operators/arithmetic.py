"""Arithmetic of two or more values, of a value and stored numbers, and sums over axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.writing import Refused
from netweave.formats.caffe.writer.operators.activation import bounded
from netweave.formats.caffe.writer.operators.norm import epsilon_of_norm, normalized
from netweave.formats.caffe.writer.table import Call, lazily, power, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.caffe.writer.layer import CaffeLayer

_COEFFICIENTS: dict[str, list[float]] = {"Add": [], "Sub": [1.0, -1.0]}


@written("Add", "Sub")
def add(call: Call) -> list[CaffeLayer]:
    """A sum or difference."""
    sign = -1.0 if call.node.op_type == "Sub" else 1.0
    if call.is_stored(1):
        return _plus(call, 0, call.constant(1) * np.float32(sign), 1.0)
    if call.is_stored(0):
        return _plus(call, 1, call.constant(0), sign)
    if _are_alike(call, 0, 1):
        coefficients = _COEFFICIENTS[call.node.op_type]
        settings = {"eltwise_param": {"coeff": coefficients}} if coefficients else {}
        return [call.layer("Eltwise", [call.name(0), call.name(1)], settings)]
    if sign < 0:
        raise Refused("its values have other sizes; Caffe broadcasts sums and products only")
    return _broadcast(call, "Bias", "bias_param")


@written("Mul")
def mul(call: Call) -> list[CaffeLayer]:
    """A product."""
    for stored, value in ((1, 0), (0, 1)):
        if call.is_stored(stored):
            return _times(call, value, call.constant(stored))
    if _are_alike(call, 0, 1):
        return [call.layer("Eltwise", [call.name(0), call.name(1)], {"eltwise_param": {"operation": "PROD"}})]
    return _broadcast(call, "Scale", "scale_param")


@written("Div")
def div(call: Call) -> list[CaffeLayer]:
    """A quotient: a product with what is one over the second value."""
    if call.is_stored(1):
        return _times(call, 0, 1 / call.constant(1))
    if (eps := epsilon_of_norm(call.node)) is not None:
        return normalized(call, eps)
    inverse = call.inner()
    layers = call.chain(power(exponent=-1.0), bottom=call.name(1), top=inverse)
    if call.is_stored(0):
        return [*layers, *_times(call, 0, call.constant(0), bottom=inverse, rank=call.rank(1))]
    if not _are_alike(call, 0, 1):
        raise Refused("its values have other sizes; Caffe broadcasts sums and products only")
    product = {"eltwise_param": {"operation": "PROD"}}
    return [*layers, call.layer("Eltwise", [call.name(0), inverse], product)]


@written("Pow")
def pow_(call: Call) -> list[CaffeLayer]:
    """A power with a stored number as its exponent."""
    exponent = call.constant(1)
    if exponent.size != 1:
        raise Refused("its exponents are not one number")
    return call.chain(power(exponent=float(exponent.reshape(-1)[0])))


@written("Sum", "Max", "Min")
def several(call: Call) -> list[CaffeLayer]:
    """A sum, maximum or minimum of several values, or of one and a number."""
    kind, indices = call.node.op_type, list(range(call.num_inputs))
    stored = [index for index in indices if call.is_stored(index)]
    if stored:
        return _with_number(call, kind, stored, indices)
    if not all(_are_alike(call, 0, index) for index in indices[1:]):
        raise Refused("its values have other sizes; Caffe's Eltwise does not broadcast")
    names = [call.name(index) for index in indices]
    if len(names) == 1:
        return call.chain(("Split", {}))
    if kind == "Sum":
        return [call.layer("Eltwise", names)]
    settings = {"eltwise_param": {"operation": "MAX"}}
    if kind == "Max":
        return [call.layer("Eltwise", names, settings)]
    negated, layers = [call.inner() for _ in names], []
    for name, negative in zip(names, negated, strict=True):
        layers += call.chain(power(scale=-1.0), bottom=name, top=negative)
    lowest = call.inner()
    layers.append(call.layer("Eltwise", negated, settings, top=lowest))
    return [*layers, *call.chain(power(scale=-1.0), bottom=lowest)]


def _with_number(call: Call, kind: str, stored: Sequence[int], indices: Sequence[int]) -> list[CaffeLayer]:
    values = [index for index in indices if index not in stored]
    if len(stored) != 1 or len(values) != 1:
        raise Refused("one of its inputs is stored")
    number = call.constant(stored[0])
    if kind == "Sum":
        return _plus(call, values[0], number, 1.0)
    if number.size != 1:
        raise Refused("its stored input is not one number")
    bound = float(number.reshape(-1)[0])
    steps = bounded(bound, None) if kind == "Max" else bounded(None, bound)
    return call.chain(*steps, bottom=call.name(values[0]))


def _are_alike(call: Call, first: int, second: int) -> bool:
    return call.shape(first) == call.shape(second)


def _plus(call: Call, index: int, shift: np.ndarray, factor: float) -> list[CaffeLayer]:
    """Write ``factor * value + shift``."""
    if shift.size == 1:
        return call.chain(power(scale=factor, shift=float(shift.reshape(-1)[0])), bottom=call.name(index))
    axes, array = _placed(shift, call.shape(index))
    if factor == 1:
        return [call.layer("Bias", [call.name(index)], {"bias_param": axes}, blobs=[lazily(lambda: array)])]
    blobs = [lazily(lambda: np.full_like(array, factor)), lazily(lambda: array)]
    settings = {"scale_param": {**axes, "bias_term": True}}
    return [call.layer("Scale", [call.name(index)], settings, blobs=blobs)]


def _times(
    call: Call, index: int, factor: np.ndarray, *, bottom: str | None = None, rank: int | None = None
) -> list[CaffeLayer]:
    name = call.name(index) if bottom is None else bottom
    if factor.size == 1:
        return call.chain(power(scale=float(factor.reshape(-1)[0])), bottom=name)
    shape = call.shape(index if rank is None else 1)
    axes, array = _placed(factor, shape)
    return [call.layer("Scale", [name], {"scale_param": axes}, blobs=[lazily(lambda: array)])]


def _placed(array: np.ndarray, shape: Sequence[int | None]) -> tuple[dict[str, Any], np.ndarray]:
    """Return the settings ``axis`` and ``num_axes`` of a stored operand, and its array without other axes."""
    if array.ndim > len(shape):
        raise Refused("its stored array has more axes than its value")
    sizes = (1,) * (len(shape) - array.ndim) + array.shape
    wide = [axis for axis, size in enumerate(sizes) if size != 1]
    first, last = wide[0], wide[-1]
    if sizes[first : last + 1] != tuple(shape[first : last + 1]):
        raise Refused("its stored array has other sizes than its value")
    axes = {"axis": first} if first != 1 else {}
    axes |= {"num_axes": last + 1 - first} if last != first else {}
    return axes, np.ascontiguousarray(array.reshape(sizes[first : last + 1]), np.float32)


def _broadcast(call: Call, kind: str, parameter: str) -> list[CaffeLayer]:
    """Write a value with one number for each channel of another: its axes of 1 are dropped first."""
    shapes = call.shape(0), call.shape(1)
    large, small = (0, 1) if shapes[1][2:] == (1,) * (len(shapes[1]) - 2) else (1, 0)
    rank = len(shapes[large])
    if rank < 3 or shapes[small] != (*shapes[large][:2], *[1] * (rank - 2)):
        raise Refused(
            f"its values have the sizes {shapes[0]} and {shapes[1]}; Caffe broadcasts channels only"
        )
    flat = call.inner()
    return [
        *call.chain(("Flatten", {}), bottom=call.name(small), top=flat),
        call.layer(kind, [call.name(large), flat], {parameter: {"axis": 0}}),
    ]


_REDUCTIONS = {"ReduceMean": "MEAN", "ReduceSum": "SUM", "ReduceL1": "ASUM", "ReduceSumSquare": "SUMSQ"}
_GLOBAL = {"ReduceMean": "AVE", "ReduceMax": "MAX"}


@written(*_REDUCTIONS, "ReduceMax")
def reduction(call: Call) -> list[CaffeLayer]:
    """Over height and width as a pooling; over all axes from one on as a Reduction."""
    rank, kind = call.rank(0), call.node.op_type
    given = call.wholes(1) if call.has(1) else list(range(rank))
    axes, keeps = sorted(axis % rank for axis in given), call.get("keepdims", 1)
    if rank == 4 and axes == [2, 3] and kind in _GLOBAL:
        pooling = ("Pooling", {"pooling_param": {"pool": _GLOBAL[kind], "global_pooling": True}})
        return call.chain(pooling) if keeps else call.chain(pooling, ("Flatten", {}))
    if axes != list(range(axes[0], rank)) or kind not in _REDUCTIONS or (keeps and axes[0] == 0):
        raise Refused(f"Caffe reduces all axes from one on, found {axes} of {rank}")
    operation: dict[str, Any] = {} if kind == "ReduceSum" else {"operation": _REDUCTIONS[kind]}
    operation |= {"axis": axes[0]} if axes[0] else {}
    step = ("Reduction", {"reduction_param": operation})
    if not keeps:
        return call.chain(step)
    dims = [0] * axes[0] + [1] * len(axes)
    return call.chain(step, ("Reshape", {"reshape_param": {"shape": {"dim": dims}}}))
