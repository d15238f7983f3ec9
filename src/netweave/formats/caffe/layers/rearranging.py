"""Layers of other branches that move elements: channels shuffled, blocks to channels, axes turned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.lowering.indexing import SMALLEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


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
