"""``chainer.functions.array``: elements in another order, and lists of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.array import concat, flip, pad, split_axis, stack
from netweave.formats.chainer.shim.functions.table import function, integers, node
from netweave.formats.chainer.shim.recorder import Variable, current


@function()
def moveaxis(x: Any, source: Any, destination: Any) -> Variable:
    """Axes moved to other places."""
    perm = np.moveaxis(np.empty(range(x.ndim)), source, destination).shape
    return node("Transpose", [x], {"perm": [int(axis) for axis in perm]})


@function()
def fliplr(a: Any) -> Variable:
    """The second axis the other way round."""
    return flip(a, 1)


@function()
def flipud(a: Any) -> Variable:
    """The first axis the other way round."""
    return flip(a, 0)


@function()
def permutate(x: Any, indices: Any, axis: int = 0, inv: bool = False) -> Variable:
    """Entries along an axis in another order, or back from it."""
    if isinstance(indices, Variable):
        raise CodeError(
            "permutes by the values of a variable, which are unknown when Netweave traces the model"
        )
    order = np.asarray(indices).reshape(-1)
    if sorted(order.tolist()) != list(range(int(x.shape[axis]))):
        raise CodeError(f"permutes {int(x.shape[axis])} entries by {order.tolist()[:8]}")
    places = np.argsort(order) if inv else order
    return node("Gather", [x, integers(places)], {"axis": int(axis)})


@function()
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Variable:
    """Every entry along an axis several times."""
    times = [int(repeats)] if isinstance(repeats, int | np.integer) else [int(each) for each in repeats]
    if axis is None:
        raise CodeError("repeat without an axis is not supported")
    count = int(x.shape[axis])
    places = np.repeat(np.arange(count), times * count if len(times) == 1 else times)
    return node("Gather", [x, integers(places)], {"axis": int(axis) % x.ndim})


@function()
def select_item(x: Any, t: Any) -> Variable:
    """One entry of each row, by its number."""
    record = current()
    column = record.add("Unsqueeze", [t, integers([1])])
    picked = record.add("GatherElements", [x, column], {"axis": 1})
    return node("Squeeze", [picked, integers([1])])


@function()
def transpose_sequence(xs: Any) -> tuple[Variable, ...]:
    """Sequences of examples as steps over the examples; the longest come first."""
    lengths = _lengths(xs)
    if lengths != sorted(lengths, reverse=True):
        raise CodeError(f"transposes sequences of {lengths[:8]} steps, expected descending lengths")
    columns = [
        split_axis(x, length, 0) if length > 1 else (x,) for x, length in zip(xs, lengths, strict=True)
    ]
    return tuple(
        concat([column[step] for column in columns if step < len(column)], axis=0)
        for step in range(max(lengths, default=0))
    )


@function()
def pad_sequence(xs: Any, length: int | None = None, padding: float = 0) -> Variable:
    """Sequences of different lengths as one variable, their ends filled up."""
    lengths = _lengths(xs)
    whole = max(lengths) if length is None else int(length)
    if whole < max(lengths):
        raise CodeError(f"pads sequences of {max(lengths)} steps to {whole}")
    rows = [
        pad(x, [(0, whole - own), *[(0, 0)] * (x.ndim - 1)], "constant", constant_values=padding)
        if own < whole
        else x
        for x, own in zip(xs, lengths, strict=True)
    ]
    return stack(rows, axis=0)


def concat_examples(batch: Any, device: Any = None, padding: float | None = None) -> Variable:
    """A batch of examples as one variable (``chainer.dataset.concat_examples``)."""
    if isinstance(batch[0], tuple | list | dict):
        raise CodeError("joins examples of several arrays, which is not supported")
    return stack(batch, axis=0) if padding is None else pad_sequence(batch, padding=padding)


def _lengths(xs: Sequence[Any]) -> list[int]:
    if isinstance(xs, Variable) or not xs:
        raise CodeError("expected a list of sequences, one variable for each example")
    return [int(x.shape[0]) for x in xs]
