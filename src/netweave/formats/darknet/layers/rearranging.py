"""Layers that move elements (upsample_layer.c, reorg_layer.c, reorg_old_layer.c, crop_layer.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.darknet.call import Call, layer

if TYPE_CHECKING:
    import onnx_ir as ir


@layer("upsample")
def upsample(call: Call) -> ir.Value:
    """Every element ``stride`` times in both directions, times ``scale``."""
    stride = call.section.whole("stride", 2)
    if stride < 1:
        raise call.refuse(f"stride={stride}: sums over blocks are not read")
    x = call.input
    call.image(x)
    scale = call.section.number("scale", 1.0)
    made = call.add(
        "Resize",
        [x, None, call.constant([1.0, 1.0, stride, stride])],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    )
    return made if scale == 1.0 else call.add("Mul", [made, call.constant(scale)])


@layer("reorg")
def reorg(call: Call) -> ir.Value:
    """Blocks of ``stride`` by ``stride`` to channels, of the image seen with other sizes.

    The kernel takes the image of C x H x W for one of C/s² x sH x sW before it moves blocks to channels:
    an old error that the weights of YOLO v2 have learned.
    """
    call.refuse_if_set("reverse", "flatten", "extra")
    stride = call.section.whole("stride", 1, least=1)
    x = call.input
    channels, height, width = call.image(x)
    block = stride * stride
    if channels % block or height % stride or width % stride:
        raise call.wrong_shape(
            f"{channels} channels of {height}x{width} cannot be cut into blocks of {stride}x{stride}"
        )
    seen = call.add("Reshape", [x, call.wholes([0, channels // block, height * stride, width * stride])])
    moved = call.add("SpaceToDepth", [seen], {"blocksize": stride})
    return call.add("Reshape", [moved, call.wholes([0, channels * block, height // stride, width // stride])])


@layer("reorg3d")
def reorg3d(call: Call) -> ir.Value:
    """Blocks of ``stride`` by ``stride`` to channels."""
    call.refuse_if_set("reverse")
    x = call.input
    call.image(x)
    return call.add("SpaceToDepth", [x], {"blocksize": call.section.whole("stride", 1, least=1)})


@layer("crop")
def crop(call: Call) -> ir.Value:
    """The middle of the image; unless ``noadjust``, numbers from 0 to 1 become -1 to 1."""
    section = call.section
    x = call.input
    _, height, width = call.image(x)
    wanted = [section.whole(name, 1, least=1) for name in ("crop_height", "crop_width")]
    begin = [(size - part) // 2 for size, part in zip((height, width), wanted, strict=True)]
    if min(begin) < 0:
        raise call.wrong_shape(f"cuts {wanted[0]}x{wanted[1]} out of {height}x{width}")
    end = [first + part for first, part in zip(begin, wanted, strict=True)]
    part = call.add("Slice", [x, call.wholes(begin), call.wholes(end), call.wholes([2, 3])])
    if section.whole("noadjust", 0):
        return part
    return call.add("Sub", [call.add("Mul", [part, call.constant(2.0)]), call.constant(1.0)])
