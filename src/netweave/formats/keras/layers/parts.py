"""Functions of ``keras.ops`` that take parts, join, and move elements, as they stand between layers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.channels_last import Tensor, axes
from netweave.files.channels_last.elementwise import unary
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.keras.call import Call


@layer_reader("ExpandDims")
def expand_dims(call: Call) -> Tensor:
    """With an axis of size 1 more."""
    rank = len(call.shape(call.x)) + 1
    return axes.widen(call.writer, call.x, [call.writer.axis(call.whole("axis"), rank)])


@layer_reader("Squeeze")
def squeeze(call: Call) -> Tensor:
    """Without some axes of size 1, or without all."""
    axis = call.setting("axis")
    sizes = call.shape(call.x)
    gone = [at for at, size in enumerate(sizes) if size == 1] if axis is None else _wholes(call, "axis")
    made = axes.drop(call.writer, call.x, gone)
    return unary(call.writer, "Identity", call.x) if made is call.x else made


@layer_reader("Transpose")
def transpose(call: Call) -> Tensor:
    """Axes in another order; the other way round if none is given."""
    rank = len(call.shape(call.x))
    perm = list(range(rank))[::-1] if call.setting("axes") is None else _wholes(call, "axes")
    perm = [call.writer.axis(axis, rank) for axis in perm]
    if sorted(perm) != list(range(rank)):
        raise call.wrong(f"axes={perm} of an input with {rank} axes")
    return axes.transpose(call.writer, call.x, perm)


@layer_reader("Split")
def split(call: Call) -> list[Tensor]:
    """Cut along an axis: into a number of equal parts, or before each of some places."""
    axis = call.whole("axis", 0)
    (size,) = call.writer.known(call.x, [axis])
    places = call.setting("indices_or_sections")
    if isinstance(places, int) and places > 0 and size % places == 0:
        sizes = [size // places] * places
    else:
        bounds = [0, *_wholes(call, "indices_or_sections"), size]
        sizes = [end - begin for begin, end in pairwise(bounds)]
    if min(sizes) < 1:
        raise call.wrong(f"indices_or_sections={places!r:.40} of an axis of size {size}")
    return axes.split(call.writer, call.x, sizes, axis)


@layer_reader("GetItem")
def get_item(call: Call) -> Tensor:
    """A part, as Python writes it: ``x[:, 1:3, 0, None]``."""
    key = call.args[1] if len(call.args) > 1 else call.kwargs.get("key")
    items = list(key) if isinstance(key, (list, tuple)) else [key]
    if not all(_is_part(item) for item in items):
        raise call.refuse(f"its part {key!r:.60} is not made of whole numbers and slices")
    rank = len(call.shape(call.x))
    items = _spelled_out(items, rank)
    if sum(item is not None for item in items) > rank:
        raise call.wrong(f"takes a part of {len(items)} axes of an input with {rank}")
    return _part(call, items)


def _is_part(item: Any) -> bool:
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return all(bound is None or isinstance(bound, int) for bound in bounds) and item.step != 0
    return item is None or item is ... or isinstance(item, int)


def _spelled_out(items: Sequence[Any], rank: int) -> list[Any]:
    """Return a part with a slice for each axis that it does not name."""
    named = sum(item is not None and item is not ... for item in items)
    whole = [slice(None)] * max(rank - named, 0)
    at = next((number for number, item in enumerate(items) if item is ...), len(items))
    return [*items[:at], *whole, *items[at + 1 :]]


def _part(call: Call, items: Sequence[Any]) -> Tensor:
    cuts: dict[int, tuple[int, int, int]] = {}
    gone: list[int] = []
    for axis, item in enumerate(item for item in items if item is not None):
        if isinstance(item, int):
            gone.append(axis)
            cuts[axis] = (item, item + 1 if item != -1 else axes.FAR, 1)
        elif item != slice(None):
            step = item.step or 1
            begin, end = (0, axes.FAR) if step > 0 else (axes.FAR, -axes.FAR)
            cuts[axis] = (
                begin if item.start is None else item.start,
                end if item.stop is None else item.stop,
                step,
            )
    made = axes.drop(call.writer, axes.cut(call.writer, call.x, cuts), gone)
    left = [item for item in items if not isinstance(item, int)]
    new = [at for at, item in enumerate(left) if item is None]
    made = axes.widen(call.writer, made, new) if new else made
    return unary(call.writer, "Identity", call.x) if made is call.x else made


@layer_reader("Stack")
def stack(call: Call) -> Tensor:
    """Along a new axis."""
    rank = len(call.shape(call.x)) + 1
    axis = call.writer.axis(call.whole("axis", 0), rank)
    return axes.concat(call.writer, [axes.widen(call.writer, x, [axis]) for x in call.inputs], axis)


@layer_reader("Pad")
def pad(call: Call) -> Tensor:
    """Elements around each axis: a number, the edge, or a reflection."""
    mode = call.word("mode", "constant", ("constant", "reflect"))
    rows, rank = call.setting("pad_width"), len(call.shape(call.x))
    if isinstance(rows, int):
        rows = [[rows, rows]] * rank
    if not isinstance(rows, list) or len(rows) != rank or not all(_is_pair(row) for row in rows):
        raise call.wrong(f"pad_width={rows!r:.60}, expected two whole numbers for each of {rank} axes")
    fill = call.kwargs.get("constant_values") or 0
    if not isinstance(fill, (int, float)):
        raise call.refuse(f"constant_values={fill!r:.40} is not one number")
    return axes.pad(call.writer, call.x, [(row[0], row[1]) for row in rows], mode=mode, fill=float(fill))


def _is_pair(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and all(isinstance(n, int) and n >= 0 for n in row)


@layer_reader("Take")
def take(call: Call) -> Tensor:
    """Entries along an axis, by their numbers."""
    given = call.args[1] if len(call.args) > 1 else call.kwargs.get("indices")
    if isinstance(given, Tensor):
        indices = call.writer.source(given)
    elif isinstance(given, (int, np.ndarray)):
        indices = call.writer.builder.constant(given, dtype=np.int64)
    else:
        raise call.refuse(f"indices={given!r:.40} are no whole numbers")
    if call.setting("axis") is None:
        raise call.refuse("takes entries of all axes at once, which is not read")
    return axes.gather(call.writer, call.x, indices, call.whole("axis"))


@layer_reader("Flip")
def flip(call: Call) -> Tensor:
    """The other way round along some axes, or along all."""
    rank = len(call.shape(call.x))
    turned = list(range(rank)) if call.setting("axis") is None else _wholes(call, "axis")
    return axes.cut(
        call.writer, call.x, {call.writer.axis(axis, rank): (-1, -axes.FAR, -1) for axis in turned}
    )


@layer_reader("Matmul")
def matmul(call: Call) -> Tensor:
    """A product of two tensors over the last axis and the one before."""
    if len(call.inputs) != 2:
        raise call.refuse(f"is given {len(call.inputs)} tensors, expected 2")
    return Tensor(call.writer.add("MatMul", [call.writer.source(x) for x in call.inputs]))


@layer_reader("Tile")
def tile(call: Call) -> Tensor:
    """Several times after one another along each axis."""
    counts = _wholes(call, "repeats")
    rank = len(call.shape(call.x))
    if len(counts) > rank or min(counts, default=1) < 1:
        raise call.wrong(f"repeats={counts} of an input with {rank} axes")
    counts = [1] * (rank - len(counts)) + counts
    return Tensor(call.writer.add("Tile", [call.writer.source(call.x), call.writer.integers(counts)]))


def _wholes(call: Call, name: str) -> list[int]:
    """Return a setting that is a whole number or a list of them, as a list."""
    value = call.setting(name)
    numbers = [value] if isinstance(value, int) else value
    if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
        raise call.wrong(f"{name}={value!r:.40}, expected whole numbers")
    return numbers
