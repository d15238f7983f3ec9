"""Sizes and axes (keras/layers/reshaping)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from netweave.formats.keras.layers.preprocessing import METHODS
from netweave.formats.keras.registry import layer_reader
from netweave.formats.lowering.channels_last import Tensor, axes
from netweave.formats.lowering.channels_last.resizing import resize
from netweave.formats.lowering.indexing import FAR

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer


@layer_reader("Flatten")
def flatten(ctx: KerasLayer) -> Tensor:
    """All axes but the first in one; with channels first in the file they are turned last before."""
    x, rank = ctx.x, ctx.rank()
    if rank == 1:
        return axes.widen(ctx, x, [1])
    if not ctx.is_last() and rank > 2:
        x = axes.transpose(ctx, x, [0, *range(2, rank), 1])
    return ctx.copied(axes.flatten(ctx, x))


@layer_reader("Reshape")
def reshape(ctx: KerasLayer) -> Tensor:
    """Other sizes, the batch left out; the function ``ops.reshape`` is given the batch as well."""
    name = ctx.first_setting("newshape", "target_shape")
    given = ctx.setting(name)
    wanted = [-1 if size is None else size for size in given] if isinstance(given, list) else given
    if not isinstance(wanted, list) or not all(isinstance(size, int) for size in wanted):
        raise ctx.setting_error(name, "integers")
    if name == "newshape":
        return axes.reshape(ctx, ctx.x, wanted)
    before = [size for size in ctx.shape()[1:] if size is not None]
    if len(before) == ctx.rank() - 1 and wanted.count(-1) == 1:  # the batch stays open, so nothing else may
        wanted[wanted.index(-1)] = prod(before) // max(-prod(wanted), 1)
    if len(before) == ctx.rank() - 1 and -1 not in wanted and prod(wanted) != prod(before):
        raise ctx.shape_error(
            f"{name}={given} has {prod(wanted):,} elements, but its input has {prod(before):,}"
        )
    return axes.reshape(ctx, ctx.x, [None, *wanted])


@layer_reader("Permute")
def permute(ctx: KerasLayer) -> Tensor:
    """Axes in another order, counted from 1 without the batch."""
    dims = ctx.integer_list("dims")
    if sorted(dims) != list(range(1, ctx.rank())):
        raise ctx.shape_error(f"dims={dims!r:.60} of an input with {ctx.rank()} axes")
    return axes.transpose(ctx, ctx.x, [0, *dims])


@layer_reader("RepeatVector")
def repeat_vector(ctx: KerasLayer) -> Tensor:
    """The same n times along a new axis."""
    return Tensor(ctx.add("Tile", [axes.widen(ctx, ctx.x, [1]), ctx.integers([1, ctx.positive("n"), 1])]))


@layer_reader("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(ctx: KerasLayer) -> Tensor:
    """Zeros at both ends of each axis."""
    pairs = _pairs(ctx, "padding", 1)
    return axes.pad(ctx, ctx.x, [(0, 0), *pairs, (0, 0)] if ctx.is_last() else [(0, 0), (0, 0), *pairs])


@layer_reader("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(ctx: KerasLayer) -> Tensor:
    """Without elements at both ends of each axis."""
    first = 1 if ctx.is_last() else 2
    bounds = {
        axis: (begin, -end if end else FAR, 1)
        for axis, (begin, end) in enumerate(_pairs(ctx, "cropping", 0), start=first)
        if begin or end
    }
    return ctx.copied(axes.cut(ctx, ctx.x, bounds))


def _pairs(ctx: KerasLayer, name: str, default: int) -> list[tuple[int, int]]:
    """Return (begin, end) of each axis: the setting is a number, one for each axis, or two for each."""
    rank, value = ctx.spatial_rank, ctx.setting(name, default)
    rows = [value] * rank if isinstance(value, int) else value
    if rank == 1 and isinstance(rows, list) and len(rows) == 2:
        rows = [rows]
    pairs = [[row, row] if isinstance(row, int) else row for row in rows] if isinstance(rows, list) else []
    if len(pairs) != rank or not all(is_pair(pair) for pair in pairs):
        raise ctx.setting_error(name, f"one or two integers of at least 0 for each of {rank} axes")
    return [(begin, end) for begin, end in pairs]


def is_pair(row: Any) -> bool:
    """Return whether a setting is two integers, for the begin and the end of an axis."""
    return isinstance(row, list) and len(row) == 2 and all(isinstance(n, int) and n >= 0 for n in row)


@layer_reader("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(ctx: KerasLayer) -> Tensor:
    """Each element several times, or a smooth image between them."""
    method = METHODS[ctx.string("interpolation", "nearest", tuple(METHODS))]
    factors = ctx.per_axis("size", ctx.spatial_rank, 2)
    convention = "asymmetric" if method == "nearest" else "half"
    return resize(ctx, ctx.x, method=method, convention=convention, factors=factors, last=ctx.is_last())


@layer_reader("InputLayer")
def input_layer(ctx: KerasLayer) -> Tensor:
    """An input of a model inside a model: what the model is given."""
    return ctx.x
