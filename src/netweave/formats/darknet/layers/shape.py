"""Layers of Darknet that join and rearrange."""

from __future__ import annotations

import onnx_ir as ir

from netweave.formats.darknet.context import DarknetLayer, layer
from netweave.formats.darknet.layers.windows import activate
from netweave.formats.lowering.windows import repeat_elements


@layer("route")
def route(ctx: DarknetLayer) -> ir.Value:
    """Channels of other layers after one another; with ``groups``, part ``group_id`` of each."""
    section = ctx.section
    numbers = section.integers("layers")
    if not numbers:
        raise section.read_error("layers", "numbers of layers")
    groups = section.integer("groups", 1, least=1)
    group = section.integer("group_id", 0, least=0)
    if group >= groups:
        raise section.read_error("group_id", f"0 to {groups - 1}")
    values = [_part(ctx, ctx.other(number, "layers"), groups, group) for number in numbers]
    sizes = {ctx.image(value)[1:] for value in values}
    if len(sizes) > 1:
        shown = ", ".join(f"{height}x{width}" for height, width in sorted(sizes))
        raise ctx.shape_error(f"joins images of different sizes: {shown}")
    return ctx.concat(values, 1)


def _part(ctx: DarknetLayer, value: ir.Value, groups: int, group: int) -> ir.Value:
    if groups == 1:
        return value
    channels = ctx.image(value)[0]
    ctx.check_groups(groups, [channels], setting="groups", line=ctx.section.lines.get("groups"))
    size = channels // groups
    return ctx.slice(value, [group * size], [(group + 1) * size], [1])


@layer("shortcut")
def shortcut(ctx: DarknetLayer) -> ir.Value:
    """Sum with other layers; where sizes differ, of what they have in common."""
    section = ctx.section
    numbers = section.integers("from")
    if not numbers:
        raise section.read_error("from", "numbers of layers")
    if section.string("weights_type", "none") != "none":
        raise ctx.unsupported("weights_type: a sum with learned weights is not supported")
    alpha, beta = section.number("alpha", 1.0), section.number("beta", 1.0)
    if (alpha, beta) != (1.0, 1.0):
        raise ctx.unsupported("alpha and beta: a sum with factors is not supported")
    total = ctx.x
    for number in numbers:
        total = _sum(ctx, total, ctx.other(number, "from"))
    return activate(ctx, total, "linear")


def _sum(ctx: DarknetLayer, total: ir.Value, other: ir.Value) -> ir.Value:
    """Add what the two have in common; of a larger image, every n-th element (``shortcut_cpu``, blas.c)."""
    channels, *size = ctx.image(total)
    more, *larger = ctx.image(other)
    stride = max(1, larger[0] // size[0])
    if [extent // stride for extent in larger] != size or any(extent % stride for extent in larger):
        raise ctx.shape_error(
            f"adds an image of {larger[0]}x{larger[1]} to one of {size[0]}x{size[1]}, which is no whole "
            f"fraction of it"
        )
    if stride > 1 or more > channels:
        ends = [min(more, channels), *larger]
        other = ctx.slice(other, [0, 0, 0], ends, [1, 2, 3], [1, stride, stride])
    if more < channels:
        other = ctx.add("Pad", [other, ctx.integers([0, 0, 0, 0, 0, channels - more, 0, 0])])
    return ctx.add("Add", [total, other])


@layer("scale_channels", "sam")
def scale_channels(ctx: DarknetLayer) -> ir.Value:
    """Another layer times this one, which has one number for each channel, each place, or all of them."""
    section = ctx.section
    numbers = section.integers("from")
    if len(numbers) != 1:
        raise section.read_error("from", "the number of one layer")
    other = ctx.other(numbers[0], "from")
    return activate(ctx, ctx.add("Mul", [ctx.x, other]), "linear")


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
