"""Functions of ``keras.ops`` that take parts, join, and move elements, as they stand between layers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.keras.layers.shaping import is_pair
from netweave.formats.keras.registry import layer_reader
from netweave.formats.lowering.channels_last import Tensor, axes

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.formats.lowering.channels_last import Operand


@layer_reader("ExpandDims")
def expand_dims(ctx: KerasLayer) -> Tensor:
    """With an axis of size 1 more."""
    return axes.widen(ctx, ctx.x, [ctx.axis(ctx.integer("axis"), ctx.rank() + 1)])


@layer_reader("Squeeze")
def squeeze(ctx: KerasLayer) -> Tensor:
    """Without some axes of size 1, or without all."""
    ones = [axis for axis, size in enumerate(ctx.shape()) if size == 1]
    return ctx.copied(axes.drop(ctx, ctx.x, ctx.axes(default=ones)))


@layer_reader("Transpose")
def transpose(ctx: KerasLayer) -> Tensor:
    """Axes in another order; the other way round if none is given."""
    rank = ctx.rank()
    perm = ctx.axes("axes", [*range(rank)][::-1])
    if sorted(perm) != list(range(rank)):
        raise ctx.shape_error(f"axes={perm} of an input with {rank} axes")
    return axes.transpose(ctx, ctx.x, perm)


@layer_reader("Split")
def split(ctx: KerasLayer) -> list[Tensor]:
    """Cut along an axis: into a number of equal parts, or before each of some places."""
    axis = ctx.integer("axis", 0)
    size = ctx.size(axis)
    places = ctx.setting("indices_or_sections")
    if isinstance(places, int) and places > 0 and size % places == 0:
        sizes = [size // places] * places
    else:
        bounds = [0, *ctx.integer_list("indices_or_sections"), size]
        sizes = [end - begin for begin, end in pairwise(bounds)]
    if min(sizes) < 1:
        raise ctx.shape_error(f"indices_or_sections={places!r:.40} does not fit an axis of size {size}")
    return axes.split(ctx, ctx.x, sizes, axis)


@layer_reader("GetItem")
def get_item(ctx: KerasLayer) -> Tensor:
    """A part, as Python writes it: ``x[:, 1:3, 0, None]``."""
    key = _argument(ctx, "key")
    items = list(key) if isinstance(key, (list, tuple)) else [key]
    if not all(_is_part(item) for item in items):
        raise ctx.unsupported(f"its index {key!r:.60} has entries other than integers and slices")
    named = sum(item is not None and item is not ... for item in items)
    if named > ctx.rank():
        raise ctx.shape_error(f"indexes {named} axes of an input with {ctx.rank()}")
    return ctx.copied(axes.index(ctx, ctx.x, items))


def _is_part(item: Any) -> bool:
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return all(bound is None or isinstance(bound, int) for bound in bounds) and item.step != 0
    return item is None or item is ... or isinstance(item, int)


def _argument(ctx: KerasLayer, name: str) -> Any:
    """Return what a function is given besides its tensor."""
    return ctx.args[1] if len(ctx.args) > 1 else ctx.kwargs.get(name)


@layer_reader("Stack")
def stack(ctx: KerasLayer) -> Tensor:
    """Along a new axis."""
    axis = ctx.axis(ctx.integer("axis", 0), ctx.rank() + 1)
    return axes.concat(ctx, [axes.widen(ctx, x, [axis]) for x in ctx.inputs], axis)


@layer_reader("Pad")
def pad(ctx: KerasLayer) -> Tensor:
    """Elements around each axis: a number, or a reflection."""
    mode = ctx.string("mode", "constant", ("constant", "reflect"))
    rows, rank = ctx.setting("pad_width"), ctx.rank()
    rows = [[rows, rows]] * rank if isinstance(rows, int) else rows
    if not isinstance(rows, list) or len(rows) != rank or not all(map(is_pair, rows)):
        raise ctx.setting_error("pad_width", f"two integers of at least 0 for each of {rank} axes")
    fill = ctx.kwargs.get("constant_values") or 0
    if not isinstance(fill, (int, float)):
        raise ctx.unsupported(f"constant_values={fill!r:.40} is not one number")
    return axes.pad(ctx, ctx.x, [(begin, end) for begin, end in rows], mode=mode, fill=float(fill))


@layer_reader("Take")
def take(ctx: KerasLayer) -> Tensor:
    """Entries along an axis, by their numbers."""
    given = _argument(ctx, "indices")
    if not isinstance(given, (Tensor, int, np.ndarray)):
        raise ctx.unsupported(f"indices={given!r:.40}, expected integers")
    if ctx.setting("axis") is None:
        raise ctx.unsupported("takes elements of the flattened input, which is not supported")
    indices: Operand = given if isinstance(given, Tensor) else ctx.constant(given, dtype=np.int64)
    return axes.gather(ctx, ctx.x, indices, ctx.integer("axis"))


@layer_reader("Flip")
def flip(ctx: KerasLayer) -> Tensor:
    """The other way round along some axes, or along all."""
    return axes.flip(ctx, ctx.x, ctx.axes())


@layer_reader("Matmul")
def matmul(ctx: KerasLayer) -> Tensor:
    """A product of two tensors over the last axis and the one before."""
    if len(ctx.inputs) != 2:
        raise ctx.unsupported(f"has {len(ctx.inputs)} tensors as inputs, expected 2")
    return Tensor(ctx.add("MatMul", ctx.inputs))


@layer_reader("Tile")
def tile(ctx: KerasLayer) -> Tensor:
    """Several times after one another along each axis."""
    counts, rank = ctx.integer_list("repeats"), ctx.rank()
    if len(counts) > rank or min(counts, default=1) < 1:
        raise ctx.shape_error(f"repeats={counts} of an input with {rank} axes")
    return Tensor(ctx.add("Tile", [ctx.x, ctx.integers([1] * (rank - len(counts)) + counts)]))
