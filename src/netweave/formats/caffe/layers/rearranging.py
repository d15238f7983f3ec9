"""Layers of other branches that move elements: channels shuffled, blocks to channels, axes turned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.caffe.call import Call, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

_BEFORE_THE_FIRST = -(2**63)
"""Where a slice that runs backwards ends, to take in element 0."""


@layer("ShuffleChannel")
def shuffle_channel(call: Call) -> Sequence[ir.Value]:
    """Channels read by columns as a table with ``group`` rows: ShuffleNet's ``shuffle_channel_layer.cpp``."""
    parameter = call.spec["shuffle_channel_param"]
    group, (channels, *plane) = parameter["group"], call.shape()[1:]
    if group < 1 or call.size(1) % group:
        raise call.wrong(
            f"'group' is {group}, which must divide the {channels} channels", parameter.line_of("group")
        )
    if any(size is None for size in plane):
        raise call.wrong_shape("needs fixed sizes behind the channels")
    parts = [group, call.size(1) // group]
    table = _reshaped(call, call.bottoms[0], [0, *parts, -1])
    turned = call.add("Transpose", [table], {"perm": [0, 2, 1, 3]})
    return [_reshaped(call, turned, [0, channels, *plane], top=0)]


@layer("Reorg")
def reorg(call: Call) -> Sequence[ir.Value]:
    """Blocks of ``stride`` by ``stride`` to channels, or back (``reverse``): ``reorg_layer.cpp``.

    As Darknet's ``[reorg]``, it takes the image of C x H x W for one of C/s² x sH x sW; weights of YOLO v2
    have learned that.
    """
    parameter = call.spec["reorg_param"]
    stride = parameter.get("stride", 0)
    if stride < 1:
        raise call.wrong(f"'stride' is {stride}, expected a number above 0", parameter.line)
    channels, height, width = (call.size(axis) for axis in (1, 2, 3))
    block = stride * stride
    if channels % block or (not parameter["reverse"] and (height % stride or width % stride)):
        raise call.wrong_shape(
            f"{channels} channels of {height}x{width} cannot be cut into blocks of {stride}x{stride}"
        )
    x = call.bottoms[0]
    if parameter["reverse"]:
        return [call.add("DepthToSpace", [x], {"blocksize": stride}, top=0)]
    seen = _reshaped(call, x, [0, channels // block, height * stride, width * stride])
    moved = call.add("SpaceToDepth", [seen], {"blocksize": stride})
    return [_reshaped(call, moved, [0, channels * block, height // stride, width // stride], top=0)]


@layer("Transpose")
def transpose(call: Call) -> Sequence[ir.Value]:
    """The axes in the order ``dim``, all of them listed: CTPN's ``transpose_layer.cpp``."""
    parameter = call.spec["transpose_param"]
    order, rank = list(parameter["dim"]), len(call.shape())
    if sorted(order) != list(range(rank)):
        raise call.wrong(
            f"'dim' is {order}, expected the axes 0 to {rank - 1}, each once", parameter.line_of("dim")
        )
    return [call.add("Transpose", [call.bottoms[0]], {"perm": order}, top=0)]


@layer("Reverse")
def reverse(call: Call) -> Sequence[ir.Value]:
    """The elements along an axis from the last to the first: CTPN's ``reverse_layer.cpp``."""
    parameter = call.spec["reverse_param"]
    axis, rank = parameter["axis"], len(call.shape())
    if not 0 <= axis < rank:
        raise call.wrong(f"'axis' is {axis}, expected 0 to {rank - 1}", parameter.line_of("axis"))
    return [_reversed(call, [axis])]


@layer("Flip")
def flip(call: Call) -> Sequence[ir.Value]:
    """The image mirrored, along its width unless told otherwise: ``flip_layer.cpp`` of H. Wang's branch."""
    parameter = call.spec["flip_param"]
    if len(call.shape()) != 4:
        raise call.wrong_shape(f"mirrors the last two of four axes, found {len(call.shape())} axes")
    axes = [axis for axis, name in ((2, "flip_height"), (3, "flip_width")) if parameter[name]]
    return [_reversed(call, axes)] if axes else [call.add("Identity", [call.bottoms[0]], top=0)]


def _reversed(call: Call, axes: Sequence[int]) -> ir.Value:
    numbers = ([-1] * len(axes), [_BEFORE_THE_FIRST] * len(axes), axes, [-1] * len(axes))
    starts, ends, along, steps = (call.constant(list(row), dtype="int64") for row in numbers)
    return call.add("Slice", [call.bottoms[0], starts, ends, along, steps], top=0)


def _reshaped(
    call: Call, value: ir.Value, shape: Sequence[int | None], *, top: int | None = None
) -> ir.Value:
    return call.add("Reshape", [value, call.constant(list(shape), dtype="int64")], top=top)
