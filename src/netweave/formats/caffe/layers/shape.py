"""Layers of Caffe that change shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.lowering import MANY
from netweave.formats.lowering.indexing import LARGEST, SMALLEST
from netweave.graph.summary import dims_text

if TYPE_CHECKING:
    from netweave.files.protobuf import Message


def _old_axis(ctx: CaffeLayer, parameter: Message, old: str) -> int:
    """Return the axis, which older files give under another name."""
    if old in parameter and "axis" in parameter:
        raise ctx.read_error(f"has both 'axis' and {old!r}, expected one of them", parameter.line_of(old))
    return ctx.axis(parameter[old] if old in parameter else parameter["axis"])


@layer("Concat", bottoms=(1, MANY))
def concat(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The bottoms one after the other along an axis."""
    parameter = ctx.spec["concat_param"]
    if parameter["per_fla_fuse"]:
        raise ctx.unsupported(
            "'per_fla_fuse: true' of the Intel branch is not supported; write the Permute and Flatten layers "
            "that it stands for in front",
            parameter.line_of("per_fla_fuse"),
        )
    axis = _old_axis(ctx, parameter, "concat_dim")
    shapes = [ctx.shape(bottom) for bottom in ctx.bottoms]
    if len({(*shape[:axis], 0, *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise ctx.shape_error(
            f"its bottoms must have the same shape except on axis {axis}, found "
            f"{', '.join(map(dims_text, shapes))}"
        )
    return [ctx.add("Concat", ctx.bottoms, {"axis": axis}, top=0)]


@layer("Slice", tops=(1, MANY))
def slice_(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Equal parts along an axis, or parts that end at the given points."""
    parameter = ctx.spec["slice_param"]
    axis = _old_axis(ctx, parameter, "slice_dim")
    points, num_parts, size = parameter["slice_point"], len(ctx.tops), ctx.shape()[axis]
    if not points:
        if size is not None and size % num_parts:
            raise ctx.shape_error(f"cannot cut {size} elements of axis {axis} into {num_parts} equal slices")
        attributes = {"axis": axis, "num_outputs": num_parts}
        return ctx.add_many("Split", [ctx.x], attributes, outputs=ctx.tops)
    starts, ends = [0, *points], [*points, size or LARGEST]
    if len(starts) != num_parts or any(a >= b for a, b in zip(starts, ends, strict=True)):
        raise ctx.read_error(
            f"'slice_point' is {points}, expected {num_parts - 1} increasing numbers within axis {axis} "
            f"({size} elements)",
            parameter.line_of("slice_point"),
        )
    if size is None:
        bounds = enumerate(zip(starts, ends, strict=True))
        return [ctx.as_top(ctx.slice(ctx.x, [a], [b], [axis]), top) for top, (a, b) in bounds]
    lengths = ctx.integers([b - a for a, b in zip(starts, ends, strict=True)])
    return ctx.add_many("Split", [ctx.x, lengths], {"axis": axis}, outputs=ctx.tops)


@layer("Split", tops=(1, MANY))
def split(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The same value under several names."""
    return [ctx.add("Identity", [ctx.x], top=top) for top in range(len(ctx.tops))]


@layer("Silence", bottoms=(1, MANY), tops=0)
@layer("HDF5Output", bottoms=(1, MANY), tops=0)
def nothing(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Reads its bottoms, so that they are no outputs of the net."""
    return []


@layer("Flatten")
def flatten(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Axes from ``axis`` to ``end_axis`` as one."""
    parameter = ctx.spec["flatten_param"]
    start, end = ctx.axis(parameter["axis"]), ctx.axis(parameter["end_axis"])
    if start > end:
        raise ctx.read_error(f"'axis' {start} is after 'end_axis' {end}", parameter.line)
    rank = ctx.rank()
    if start == 1 and end == rank - 1:
        return [ctx.add("Flatten", [ctx.x], {"axis": 1}, top=0)]
    shape = [0] * start + [-1] + [ctx.size(axis) for axis in range(end + 1, rank)]
    return [ctx.add("Reshape", [ctx.x, ctx.integers(shape)], top=0)]


@layer("Permute")
def permute(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The axes in another order; those that are not listed follow in their own. A layer of the SSD branch."""
    parameter = ctx.spec["permute_param"]
    order, rank = list(parameter["order"]), ctx.rank()
    if len(set(order)) != len(order) or any(axis >= rank for axis in order):
        raise ctx.read_error(
            f"'order' is {order}, expected axes from 0 to {rank - 1}, each once", parameter.line_of("order")
        )
    order += [axis for axis in range(rank) if axis not in order]
    return [ctx.add("Transpose", [ctx.x], {"perm": order}, top=0)]


@layer("Reshape")
def reshape(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """New sizes for some axes: 0 keeps one, -1 is worked out. An open batch size stays open."""
    parameter = ctx.spec["reshape_param"]
    old, dims = ctx.shape(), list(parameter["shape"]["dim"])
    start = parameter["axis"] + (len(old) + 1 if parameter["axis"] < 0 else 0)
    end = len(old) if parameter["num_axes"] == -1 else start + parameter["num_axes"]
    line = parameter.line_of("shape")
    if not 0 <= start <= end <= len(old):
        raise ctx.read_error(f"axes {start} to {end} are out of range for {len(old)} axes", parameter.line)
    if dims.count(-1) > 1 or any(dim < -1 for dim in dims):
        raise ctx.read_error(f"the sizes {dims} may contain one -1 and no lower number", line)
    for index, dim in enumerate(dims):
        if dim == 0 and start + index >= len(old):
            raise ctx.read_error(
                f"size {index} is 0, which keeps an axis, but the input has no such axis", line
            )
    tail = [0] * (len(old) - end) if start + len(dims) == end else [ctx.size(a) for a in range(end, len(old))]
    target = _with_open_batch(ctx, [*[0] * start, *dims, *tail])
    return [ctx.add("Reshape", [ctx.x, ctx.integers(target)], top=0)]


def _with_open_batch(ctx: CaffeLayer, target: list[int]) -> list[int]:
    """Return a target of ONNX's Reshape in which the batch stays open even if the file writes its size.

    Raises:
        ShapeError: The sizes do not fit.
    """
    old = ctx.shape()
    if ctx.has_batch() and target:
        inner = [old[axis] if dim == 0 else dim for axis, dim in enumerate(target)][1:]
        keeps = target[0] == -1 and -1 not in inner and _count(inner) == _count(old[1:])
        if keeps or target[0] == ctx.batch:
            target = [0, *target[1:]]
    new = [old[axis] if dim == 0 else dim for axis, dim in enumerate(target)]
    if new[:1] == [None]:
        _check_counts(ctx, old[1:], new[1:])
    elif None not in old:
        _check_counts(ctx, old, new)
    elif target[:1] == [ctx.batch] and -1 not in target:
        return [-1, *target[1:]]  # the batch was one with another axis, and comes apart again
    return target


def _check_counts(ctx: CaffeLayer, old: Sequence[int | None], new: Sequence[int | None]) -> None:
    size, rest = _count(old), _count([dim for dim in new if dim != -1])
    fits = rest > 0 and size % rest == 0 if -1 in new else size == rest
    if not fits:
        raise ctx.shape_error(f"cannot reshape {dims_text(old)} to {dims_text(new)} (-1: inferred)")


def _count(shape: Sequence[int | None]) -> int:
    """Return the number of elements, 0 if a size is open."""
    return prod(size or 0 for size in shape)


@layer("Crop", bottoms=2)
def crop(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The first bottom cut to the sizes of the second, whatever they are, on all axes from ``axis`` on."""
    parameter = ctx.spec["crop_param"]
    whole, part = ctx.shape(), ctx.shape(ctx.bottoms[1])
    axis = ctx.axis(parameter["axis"])
    axes = list(range(axis, len(whole)))
    offsets = list(parameter["offset"]) or [0]
    if len(part) != len(whole) or len(offsets) not in {1, len(axes)}:
        raise ctx.read_error(
            f"needs bottoms with as many axes (they have {len(whole)} and {len(part)}), and one 'offset' or "
            f"{len(axes)} (it has {len(offsets)})",
            parameter.line,
        )
    offsets = offsets * len(axes) if len(offsets) == 1 else offsets
    for each, offset in zip(axes, offsets, strict=True):
        size, wanted = whole[each], part[each]
        if size is not None and wanted is not None and offset + wanted > size:
            raise ctx.shape_error(f"axis {each}: {wanted} elements from {offset} on are not in {size}")
    starts = ctx.integers(offsets)
    lengths = ctx.add("Shape", [ctx.bottoms[1]], {"start": axis, "end": len(part)})
    ends = ctx.add("Add", [lengths, starts]) if any(offsets) else lengths
    return [ctx.add("Slice", [ctx.x, starts, ends, ctx.integers(axes)], top=0)]


@layer("Tile")
def tile(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The whole value ``tiles`` times along an axis."""
    parameter = ctx.spec["tile_param"]
    axis, tiles = ctx.axis(parameter["axis"]), ctx.positive_field(parameter, "tiles")
    repeats = [tiles if each == axis else 1 for each in range(ctx.rank())]
    return [ctx.add("Tile", [ctx.x, ctx.integers(repeats)], top=0)]


@layer("Parameter", bottoms=0)
def parameter(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A stored array as a value."""
    shape = tuple(ctx.spec["parameter_param"]["shape"]["dim"])
    if any(dim < 1 for dim in shape):
        raise ctx.read_error(
            f"its sizes are {dims_text(shape)}, expected 1 or more", ctx.spec.line_of("parameter_param")
        )
    return [ctx.add("Identity", [ctx.blob(0, shape, "weight")], top=0)]


@layer("Filter", bottoms=(2, MANY), tops=(1, MANY))
def filter_(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The items of each bottom for which the last bottom is not 0."""
    selector = ctx.add("Reshape", [ctx.bottoms[-1], ctx.integers([-1])])
    chosen = ctx.cast(selector, ir.DataType.BOOL)
    return [
        ctx.add("Compress", [bottom, chosen], {"axis": 0}, top=top)
        for top, bottom in enumerate(ctx.bottoms[:-1])
    ]


@layer("BatchReindex", bottoms=2)
def batch_reindex(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The items of the first bottom in the order that the second gives, as whole numbers in floats."""
    index = ctx.cast(ctx.bottoms[1], ir.DataType.INT64)
    return [ctx.add("Gather", [ctx.x, index], {"axis": 0}, top=0)]


@layer("ShuffleChannel")
def shuffle_channel(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Channels read by columns as a table with ``group`` rows: ShuffleNet's ``shuffle_channel_layer.cpp``."""
    parameter = ctx.spec["shuffle_channel_param"]
    group, channels, *plane = parameter["group"], *ctx.sizes(range(1, ctx.rank()))
    if group < 1 or channels % group:
        raise ctx.read_error(
            f"'group' is {group}, which must divide the {channels} channels", parameter.line_of("group")
        )
    table = ctx.reshape(ctx.x, [0, group, channels // group, -1])
    turned = ctx.transpose(table, [0, 2, 1, 3])
    return [ctx.as_top(ctx.reshape(turned, [0, channels, *plane]))]


@layer("Reorg")
def reorg(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Blocks of ``stride`` by ``stride`` to channels, or back (``reverse``): ``reorg_layer.cpp``.

    As Darknet's ``[reorg]``, it takes the image of C x H x W for one of C/s² x sH x sW; weights of YOLO v2
    have learned that.
    """
    parameter = ctx.spec["reorg_param"]
    stride = parameter.get("stride", 0)
    if stride < 1:
        raise ctx.read_error(f"'stride' is {stride}, expected a number above 0", parameter.line)
    channels, height, width = (ctx.size(axis) for axis in (1, 2, 3))
    block = stride * stride
    if channels % block or (not parameter["reverse"] and (height % stride or width % stride)):
        raise ctx.shape_error(
            f"{channels} channels of {height}x{width} cannot be divided into blocks of {stride}x{stride}"
        )
    x = ctx.x
    if parameter["reverse"]:
        return [ctx.add("DepthToSpace", [x], {"blocksize": stride}, top=0)]
    seen = ctx.reshape(x, [0, channels // block, height * stride, width * stride])
    moved = ctx.add("SpaceToDepth", [seen], {"blocksize": stride})
    return [ctx.as_top(ctx.reshape(moved, [0, channels * block, height // stride, width // stride]))]


@layer("Transpose")
def transpose(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The axes in the order ``dim``, all of them listed: CTPN's ``transpose_layer.cpp``."""
    parameter = ctx.spec["transpose_param"]
    order, rank = list(parameter["dim"]), ctx.rank()
    if sorted(order) != list(range(rank)):
        raise ctx.read_error(
            f"'dim' is {order}, expected the axes 0 to {rank - 1}, each once", parameter.line_of("dim")
        )
    return [ctx.add("Transpose", [ctx.x], {"perm": order}, top=0)]


@layer("Reverse")
def reverse(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The elements along an axis from the last to the first: CTPN's ``reverse_layer.cpp``."""
    parameter = ctx.spec["reverse_param"]
    axis, rank = parameter["axis"], ctx.rank()
    if not 0 <= axis < rank:
        raise ctx.read_error(f"'axis' is {axis}, expected 0 to {rank - 1}", parameter.line_of("axis"))
    return [_reversed(ctx, [axis])]


@layer("Flip")
def flip(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The image mirrored, along its width unless told otherwise: ``flip_layer.cpp`` of H. Wang's branch."""
    parameter = ctx.spec["flip_param"]
    if ctx.rank() != 4:
        raise ctx.shape_error(f"mirrors the last two of four axes, found {ctx.rank()} axes")
    axes = [axis for axis, name in ((2, "flip_height"), (3, "flip_width")) if parameter[name]]
    return [_reversed(ctx, axes)] if axes else [ctx.add("Identity", [ctx.x], top=0)]


def _reversed(ctx: CaffeLayer, axes: Sequence[int]) -> ir.Value:
    backwards = [-1] * len(axes)
    return ctx.as_top(ctx.slice(ctx.x, backwards, [SMALLEST] * len(axes), axes, backwards))
