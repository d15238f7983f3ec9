"""Layers that read others by number (route_layer.c, shortcut_layer.c, scale_channels_layer.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.darknet.call import Call, layer
from netweave.formats.darknet.layers.activation import activate

if TYPE_CHECKING:
    import onnx_ir as ir


@layer("route")
def route(call: Call) -> ir.Value:
    """Channels of other layers after one another; with ``groups``, part ``group_id`` of each."""
    section = call.section
    numbers = section.wholes("layers")
    if not numbers:
        raise section.wrong("layers", "numbers of layers")
    groups = section.whole("groups", 1, least=1)
    group = section.whole("group_id", 0, least=0)
    if group >= groups:
        raise section.wrong("group_id", f"0 to {groups - 1}")
    values = [_part(call, call.other(number, "layers"), groups, group) for number in numbers]
    sizes = {call.image(value)[1:] for value in values}
    if len(sizes) > 1:
        shown = ", ".join(f"{height}x{width}" for height, width in sorted(sizes))
        raise call.wrong_shape(f"joins images of different sizes: {shown}")
    return values[0] if len(values) == 1 else call.add("Concat", values, {"axis": 1})


def _part(call: Call, value: ir.Value, groups: int, group: int) -> ir.Value:
    if groups == 1:
        return value
    channels = call.image(value)[0]
    if channels % groups:
        raise call.section.wrong("groups", f"a divisor of the {channels} channels")
    size = channels // groups
    bounds = [call.wholes([each]) for each in (group * size, (group + 1) * size, 1)]
    return call.add("Slice", [value, *bounds])


@layer("shortcut")
def shortcut(call: Call) -> ir.Value:
    """Sum with other layers; where sizes differ, of what they have in common."""
    section = call.section
    numbers = section.wholes("from")
    if not numbers:
        raise section.wrong("from", "numbers of layers")
    if section.text("weights_type", "none") != "none":
        raise call.refuse("weights_type: a sum with learned weights is not read")
    alpha, beta = section.number("alpha", 1.0), section.number("beta", 1.0)
    if (alpha, beta) != (1.0, 1.0):
        raise call.refuse("alpha and beta: a sum with factors is not read")
    total = call.input
    for number in numbers:
        total = _sum(call, total, call.other(number, "from"))
    return activate(call, total, "linear")


def _sum(call: Call, total: ir.Value, other: ir.Value) -> ir.Value:
    """Add what the two have in common; of a larger image, every n-th element (``shortcut_cpu``, blas.c)."""
    channels, *size = call.image(total)
    more, *larger = call.image(other)
    stride = max(1, larger[0] // size[0])
    if [extent // stride for extent in larger] != size or any(extent % stride for extent in larger):
        raise call.wrong_shape(
            f"adds an image of {larger[0]}x{larger[1]} to one of {size[0]}x{size[1]}, which is no whole "
            f"fraction of it"
        )
    if stride > 1 or more > channels:
        bounds = [[0, 0, 0], [min(more, channels), *larger], [1, 2, 3], [1, stride, stride]]
        other = call.add("Slice", [other, *map(call.wholes, bounds)])
    if more < channels:
        other = call.add("Pad", [other, call.wholes([0, 0, 0, 0, 0, channels - more, 0, 0])])
    return call.add("Add", [total, other])


@layer("scale_channels", "sam")
def scale_channels(call: Call) -> ir.Value:
    """Another layer times this one, which has one number for each channel, each place, or all of them."""
    section = call.section
    numbers = section.wholes("from")
    if len(numbers) != 1:
        raise section.wrong("from", "the number of one layer")
    other = call.other(numbers[0], "from")
    return activate(call, call.add("Mul", [call.input, other]), "linear")
