"""Layers that move elements (upsample_layer.c, reorg_layer.c, reorg_old_layer.c, crop_layer.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.darknet.context import DarknetLayer, layer
from netweave.formats.lowering.resizing import repeat_elements

if TYPE_CHECKING:
    import onnx_ir as ir


@layer("upsample")
def upsample(ctx: DarknetLayer) -> ir.Value:
    """Every element ``stride`` times in both directions, times ``scale``."""
    stride = ctx.section.integer("stride", 2)
    if stride < 1:
        raise ctx.unsupported(f"stride={stride}: sums over blocks are not supported")
    ctx.image()
    scale = ctx.section.number("scale", 1.0)
    enlarged = repeat_elements(ctx, ctx.x, stride)
    return enlarged if scale == 1.0 else ctx.add("Mul", [enlarged, ctx.constant(scale)])


@layer("reorg")
def reorg(ctx: DarknetLayer) -> ir.Value:
    """Blocks of ``stride`` by ``stride`` to channels, of the image seen with other sizes.

    The kernel takes the image of C x H x W for one of C/s² x sH x sW before it moves blocks to channels:
    an old error that the weights of YOLO v2 have learned.
    """
    ctx.expect_unset("reverse", "flatten", "extra")
    stride = ctx.section.integer("stride", 1, least=1)
    x = ctx.x
    channels, height, width = ctx.image()
    block = stride * stride
    if channels % block or height % stride or width % stride:
        raise ctx.shape_error(
            f"{channels} channels of {height}x{width} cannot be cut into blocks of {stride}x{stride}"
        )
    seen = ctx.reshape(x, [0, channels // block, height * stride, width * stride])
    moved = ctx.add("SpaceToDepth", [seen], {"blocksize": stride})
    return ctx.reshape(moved, [0, channels * block, height // stride, width // stride])


@layer("reorg3d")
def reorg3d(ctx: DarknetLayer) -> ir.Value:
    """Blocks of ``stride`` by ``stride`` to channels."""
    ctx.expect_unset("reverse")
    ctx.image()
    return ctx.add("SpaceToDepth", [ctx.x], {"blocksize": ctx.section.integer("stride", 1, least=1)})


@layer("crop")
def crop(ctx: DarknetLayer) -> ir.Value:
    """The middle of the image; unless ``noadjust``, numbers from 0 to 1 become -1 to 1."""
    section = ctx.section
    x = ctx.x
    _, height, width = ctx.image()
    wanted = [section.integer(name, 1, least=1) for name in ("crop_height", "crop_width")]
    begin = [(size - part) // 2 for size, part in zip((height, width), wanted, strict=True)]
    if min(begin) < 0:
        raise ctx.shape_error(f"crops {wanted[0]}x{wanted[1]} out of {height}x{width}")
    end = [first + part for first, part in zip(begin, wanted, strict=True)]
    part = ctx.slice(x, begin, end, [2, 3])
    if section.integer("noadjust", 0):
        return part
    return ctx.add("Sub", [ctx.add("Mul", [part, ctx.constant(2.0)]), ctx.constant(1.0)])
