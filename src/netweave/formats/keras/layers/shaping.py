"""Layers of Keras that change shapes or prepare inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.lowering.channels_last import Operand, Stored, Tensor, layer
from netweave.formats.lowering.channels_last.layer import cut
from netweave.formats.lowering.channels_last.windows import resize
from netweave.formats.lowering.indexing import FAR

METHODS = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}
RANDOM = (
    "RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation", "RandomTranslation",
    "RandomZoom",
)  # fmt: skip


@layer_reader("Rescaling")
def rescaling(ctx: KerasLayer) -> Tensor:
    """``x * scale + offset``."""
    scaled = ctx.broadcast("Mul", [_as_float(ctx), _constant(ctx, "scale", 1.0)])
    offset = _constant(ctx, "offset", 0.0)
    return ctx.broadcast("Add", [scaled, offset]) if np.any(offset.array) else scaled


@layer_reader("Normalization")
def normalization(ctx: KerasLayer) -> Tensor:
    """``(x - mean) / max(sqrt(variance), 1e-7)`` over the last axis; ``invert`` is the way back."""
    axis = ctx.one_axis(-1)
    if ctx.axis(axis) != ctx.rank() - 1:
        raise ctx.unsupported(f"axis={axis}: only the last one is supported")
    if ctx.setting("mean") is not None:
        mean, variance = _constant(ctx, "mean", 0.0), _constant(ctx, "variance", 1.0)
    else:
        mean, variance = (ctx.parameter(name, (ctx.channels(),), role=name) for name in ("mean", "variance"))
    smallest = Stored.constant(np.asarray(1e-7, np.float32))
    deviation = ctx.broadcast("Max", [ctx.unary("Sqrt", variance), smallest])
    if ctx.boolean("invert", False):
        return ctx.broadcast("Add", [mean, ctx.broadcast("Mul", [_as_float(ctx), deviation])])
    return ctx.broadcast("Div", [ctx.broadcast("Sub", [_as_float(ctx), mean]), deviation])


@layer_reader("Resizing")
def resizing(ctx: KerasLayer) -> Tensor:
    """To a height and a width."""
    if ctx.boolean("crop_to_aspect_ratio", False) or ctx.boolean("pad_to_aspect_ratio", False):
        raise ctx.unsupported("keeping the aspect ratio is not supported")
    method = METHODS[ctx.string("interpolation", "bilinear", tuple(METHODS))]
    sizes = [ctx.positive("height"), ctx.positive("width")]
    return resize(ctx, ctx.x, method=method, convention="half", sizes=sizes, last=ctx.is_last())


@layer_reader("CenterCrop")
def center_crop(ctx: KerasLayer) -> Tensor:
    """The middle of an image."""
    places = (1, 2) if ctx.is_last() else (2, 3)
    sizes, wanted = ctx.sizes(places), [ctx.positive("height"), ctx.positive("width")]
    begins = [int((size - goal) / 2) for size, goal in zip(sizes, wanted, strict=True)]
    if min(begins) < 0:
        raise ctx.unsupported(f"crops {sizes} to {wanted}, which Keras does by resizing")
    rows = zip(places, begins, wanted, strict=True)
    return cut(ctx, ctx.x, {axis: (begin, begin + size, 1) for axis, begin, size in rows})


@layer_reader(*RANDOM, only_in_training=True)
def random(ctx: KerasLayer) -> Tensor:
    """Nothing is disturbed in a net that predicts; training with them is not supported."""
    if ctx.training:
        raise ctx.unsupported(f"training with {ctx.type} is not supported; change the images beforehand")
    return ctx.copied(ctx.x)


def _constant(ctx: KerasLayer, name: str, default: float) -> Stored:
    try:
        array = np.asarray(ctx.setting(name, default), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ctx.setting_error(name, "numbers") from error
    return Stored.constant(array)


def _as_float(ctx: KerasLayer) -> Tensor:
    dtype = ctx.x.value.dtype
    is_integer = dtype is not None and not dtype.is_floating_point()
    return ctx.as_type(ctx.x, ir.DataType.FLOAT) if is_integer else ctx.x


@layer_reader("Flatten")
def flatten(ctx: KerasLayer) -> Tensor:
    """All axes but the first in one; with channels first in the file they are turned last before."""
    x, rank = ctx.x, ctx.rank()
    if rank == 1:
        return layer.widen(ctx, x, [1])
    if not ctx.is_last() and rank > 2:
        x = layer.transpose(ctx, x, [0, *range(2, rank), 1])
    return ctx.copied(layer.flatten(ctx, x))


@layer_reader("Reshape")
def reshape(ctx: KerasLayer) -> Tensor:
    """Other sizes, the batch left out; the function ``ops.reshape`` is given the batch as well."""
    name = ctx.first_setting("newshape", "target_shape")
    given = ctx.setting(name)
    wanted = [-1 if size is None else size for size in given] if isinstance(given, list) else given
    if not isinstance(wanted, list) or not all(isinstance(size, int) for size in wanted):
        raise ctx.setting_error(name, "integers")
    if name == "newshape":
        return layer.reshape(ctx, ctx.x, wanted)
    before = [size for size in ctx.shape()[1:] if size is not None]
    if len(before) == ctx.rank() - 1 and wanted.count(-1) == 1:  # the batch stays open, so nothing else may
        wanted[wanted.index(-1)] = prod(before) // max(-prod(wanted), 1)
    if len(before) == ctx.rank() - 1 and -1 not in wanted and prod(wanted) != prod(before):
        raise ctx.shape_error(
            f"{name}={given} has {prod(wanted):,} elements, but its input has {prod(before):,}"
        )
    return layer.reshape(ctx, ctx.x, [None, *wanted])


@layer_reader("Permute")
def permute(ctx: KerasLayer) -> Tensor:
    """Axes in another order, counted from 1 without the batch."""
    dims = ctx.integer_list("dims")
    if sorted(dims) != list(range(1, ctx.rank())):
        raise ctx.shape_error(f"dims={dims!r:.60} of an input with {ctx.rank()} axes")
    return layer.transpose(ctx, ctx.x, [0, *dims])


@layer_reader("RepeatVector")
def repeat_vector(ctx: KerasLayer) -> Tensor:
    """The same n times along a new axis."""
    return Tensor(ctx.add("Tile", [layer.widen(ctx, ctx.x, [1]), ctx.integers([1, ctx.positive("n"), 1])]))


@layer_reader("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(ctx: KerasLayer) -> Tensor:
    """Zeros at both ends of each axis."""
    pairs = _pairs(ctx, "padding", 1)
    return layer.pad(ctx, ctx.x, [(0, 0), *pairs, (0, 0)] if ctx.is_last() else [(0, 0), (0, 0), *pairs])


@layer_reader("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(ctx: KerasLayer) -> Tensor:
    """Without elements at both ends of each axis."""
    first = 1 if ctx.is_last() else 2
    bounds = {
        axis: (begin, -end if end else FAR, 1)
        for axis, (begin, end) in enumerate(_pairs(ctx, "cropping", 0), start=first)
        if begin or end
    }
    return ctx.copied(layer.cut(ctx, ctx.x, bounds))


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


@layer_reader("ExpandDims")
def expand_dims(ctx: KerasLayer) -> Tensor:
    """With an axis of size 1 more."""
    return layer.widen(ctx, ctx.x, [ctx.axis(ctx.integer("axis"), ctx.rank() + 1)])


@layer_reader("Squeeze")
def squeeze(ctx: KerasLayer) -> Tensor:
    """Without some axes of size 1, or without all."""
    ones = [axis for axis, size in enumerate(ctx.shape()) if size == 1]
    return ctx.copied(layer.drop(ctx, ctx.x, ctx.axes(default=ones)))


@layer_reader("Transpose")
def transpose(ctx: KerasLayer) -> Tensor:
    """Axes in another order; the other way round if none is given."""
    rank = ctx.rank()
    perm = ctx.axes("axes", [*range(rank)][::-1])
    if sorted(perm) != list(range(rank)):
        raise ctx.shape_error(f"axes={perm} of an input with {rank} axes")
    return layer.transpose(ctx, ctx.x, perm)


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
    return layer.split(ctx, ctx.x, sizes, axis)


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
    return ctx.copied(layer.index(ctx, ctx.x, items))


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
    return layer.concat(ctx, [layer.widen(ctx, x, [axis]) for x in ctx.inputs], axis)


@layer_reader("Pad")
def pad(ctx: KerasLayer) -> Tensor:
    """Elements around each axis: a number, or a reflection without the last element or with it."""
    mode = ctx.string("mode", "constant", ("constant", "reflect", "symmetric"))
    rows, rank = ctx.setting("pad_width"), ctx.rank()
    rows = [[rows, rows]] * rank if isinstance(rows, int) else rows
    if not isinstance(rows, list) or len(rows) != rank or not all(map(is_pair, rows)):
        raise ctx.setting_error("pad_width", f"two integers of at least 0 for each of {rank} axes")
    if mode == "symmetric":
        if max(max(row) for row in rows) > 1:
            return _mirrored(ctx, rows)
        mode = "edge"  # the same for one element
    fill = ctx.kwargs.get("constant_values") or 0
    if not isinstance(fill, (int, float)):
        raise ctx.unsupported(f"constant_values={fill!r:.40} is not one number")
    return layer.pad(ctx, ctx.x, [(begin, end) for begin, end in rows], mode=mode, fill=float(fill))


def _mirrored(ctx: KerasLayer, rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the tensor with its first and last elements before and after it, the other way round."""
    x = ctx.x
    for axis, (begin, end) in enumerate(rows):
        if begin or end:
            size = ctx.size(axis, x)
            ends = [
                layer.cut(ctx, x, {axis: (0, begin, 1)}),
                layer.cut(ctx, x, {axis: (size - end, size, 1)}),
            ]
            before, after = (layer.flip(ctx, part, [axis]) for part in ends)
            x = layer.concat(ctx, [*([before] if begin else []), x, *([after] if end else [])], axis)
    return x


@layer_reader("Take")
def take(ctx: KerasLayer) -> Tensor:
    """Entries along an axis, by their numbers."""
    given = _argument(ctx, "indices")
    if not isinstance(given, (Tensor, int, np.ndarray)):
        raise ctx.unsupported(f"indices={given!r:.40}, expected integers")
    if ctx.setting("axis") is None:
        raise ctx.unsupported("takes elements of the flattened input, which is not supported")
    indices: Operand = given if isinstance(given, Tensor) else ctx.constant(given, dtype=np.int64)
    return layer.gather(ctx, ctx.x, indices, ctx.integer("axis"))


@layer_reader("Flip")
def flip(ctx: KerasLayer) -> Tensor:
    """The other way round along some axes, or along all."""
    return layer.flip(ctx, ctx.x, ctx.axes())


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
