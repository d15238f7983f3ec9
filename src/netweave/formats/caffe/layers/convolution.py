"""Convolution, Deconvolution, Im2col: ``base_conv_layer.cpp``, ``conv_layer.cpp``, ``deconv_layer.cpp``."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.caffe.call import MANY, Call, layer
from netweave.formats.caffe.refused import refuse_fused_relu

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel moves: one number for each spatial axis."""

    kernel: list[int]
    strides: list[int]
    pads: list[int]
    dilations: list[int]

    def attributes(self) -> dict[str, Any]:
        """Return ONNX's attributes; Caffe pads both ends alike."""
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "pads": self.pads + self.pads,
            "dilations": self.dilations,
        }


def read_window(call: Call) -> Window:
    """Return the kernel of a layer with a ``convolution_param``.

    Raises:
        ReadError: A size is missing, given twice, given for too many axes, or 0.
        UnsupportedError: The channels are not on axis 1.
    """
    parameter = call.spec["convolution_param"]
    rank = len(call.shape())
    if rank < 3 or call.axis(parameter["axis"]) != 1:
        raise call.unsupported(
            f"the channels must be on axis 1 of 3 or more, found axis {parameter['axis']} of {rank}",
            parameter.line_of("axis"),
        )
    refuse_fused_relu(call, parameter)
    num_axes = rank - 2
    window = Window(
        _per_axis(call, "kernel_size", "kernel", num_axes, None),
        _per_axis(call, "stride", "stride", num_axes, 1),
        _per_axis(call, "pad", "pad", num_axes, 0),
        _per_axis(call, "dilation", "", num_axes, 1),
    )
    for name, values in (
        ("kernel", window.kernel),
        ("stride", window.strides),
        ("dilation", window.dilations),
    ):
        if min(values) < 1:
            raise call.wrong(f"{name} is {values}, expected 1 or more", parameter.line)
    return window


def _per_axis(call: Call, name: str, short: str, num_axes: int, default: int | None) -> list[int]:
    parameter = call.spec["convolution_param"]
    pair = [f"{short}_h", f"{short}_w"]
    line = parameter.line_of(name)
    if short and any(each in parameter for each in pair):
        line = parameter.line_of(next(each for each in pair if each in parameter))
        if parameter[name]:
            raise call.wrong(f"has both {name!r} and {pair[0]!r} or {pair[1]!r}, expected one form", line)
        if num_axes != 2:
            raise call.wrong(f"{pair[0]!r} and {pair[1]!r} are for two spatial axes, found {num_axes}", line)
        return [parameter[each] for each in pair]
    values = list(parameter[name])
    if not values and default is None:
        raise call.wrong(f"has no {name!r}", parameter.line)
    if len(values) > 1 and len(values) != num_axes:
        raise call.wrong(f"{name!r} has {len(values)} values, expected 1 or {num_axes}", line)
    if not values:
        values = [default or 0]
    return values if len(values) == num_axes else values * num_axes


def _num_output(call: Call) -> tuple[int, int]:
    """Return the channels that come out and the groups."""
    parameter = call.spec["convolution_param"]
    num_output, group = parameter["num_output"], parameter["group"]
    if num_output < 1:
        raise call.wrong("has no 'num_output' of 1 or more", parameter.line)
    if group < 1 or call.size(1) % group or num_output % group:
        raise call.wrong(
            f"'group' is {group}, which must divide the {call.size(1)} channels that come in and the "
            f"{num_output} that go out",
            parameter.line_of("group"),
        )
    return num_output, group


@layer("Convolution", bottoms=(1, MANY), tops=(1, MANY))
def convolution(call: Call) -> Sequence[ir.Value]:
    """Cross-correlation; several bottoms share the weights [out, in / group, kernel]."""
    window = read_window(call)
    return _correlated(call, window, *_num_output(call))


@layer("DepthwiseConvolution", bottoms=(1, MANY), tops=(1, MANY))
def depthwise_on_gpu(call: Call) -> Sequence[ir.Value]:
    """A Convolution whose kernel for GPUs takes one channel for one: ``depthwise_conv_layer.cpp``."""
    window = read_window(call)
    num_output, group = _num_output(call)
    if not group == num_output == call.size(1):
        raise call.wrong(
            f"'group' is {group} and 'num_output' {num_output}, expected the number of its channels, "
            f"{call.size(1)}",
            call.spec["convolution_param"].line,
        )
    return _correlated(call, window, num_output, group)


@layer("ConvolutionDepthwise")
def depthwise(call: Call) -> Sequence[ir.Value]:
    """A window for each channel: ``conv_dw_layer.cpp``, which reads neither 'group' nor 'num_output'."""
    return _correlated(call, read_window(call), call.size(1), call.size(1))


def _correlated(call: Call, window: Window, num_output: int, group: int) -> Sequence[ir.Value]:
    for axis, size in enumerate(call.shape()[2:]):
        extent = window.dilations[axis] * (window.kernel[axis] - 1) + 1
        if size is not None and size + 2 * window.pads[axis] < extent:
            raise call.wrong_shape(
                f"a window of {extent} does not fit in {size} elements with padding {window.pads[axis]}"
            )
    weight = (num_output, call.size(1) // group, *window.kernel)
    return _apply(call, "Conv", weight, num_output, window.attributes() | {"group": group})


@layer("Deconvolution", bottoms=(1, MANY), tops=(1, MANY))
def deconvolution(call: Call) -> Sequence[ir.Value]:
    """The transpose of a convolution; weights [in, out / group, kernel], as ONNX has them."""
    window = read_window(call)
    num_output, group = _num_output(call)
    weight = (call.size(1), num_output // group, *window.kernel)
    return _apply(call, "ConvTranspose", weight, num_output, window.attributes() | {"group": group})


def _apply(
    call: Call, op_type: str, weight: tuple[int, ...], num_output: int, attributes: dict[str, Any]
) -> list[ir.Value]:
    parameter = call.spec["convolution_param"]
    arrays = [call.blob(0, weight, "weight", parameter["weight_filler"])]
    if parameter["bias_term"]:
        arrays.append(call.blob(1, (num_output,), "bias", parameter["bias_filler"]))
    return [
        call.add(op_type, [bottom, *arrays], attributes, top=index)
        for index, bottom in enumerate(call.bottoms[: len(call.tops)])
    ]


@layer("Im2col", bottoms=(1, MANY), tops=(1, MANY))
def im2col(call: Call) -> Sequence[ir.Value]:
    """Windows as channels, in the order channel, row, column: a convolution that picks one element each."""
    window = read_window(call)
    channels, area = call.size(1), prod(window.kernel)
    picks = np.tile(
        np.eye(area, dtype=np.float32).reshape(area, 1, *window.kernel),
        (channels, *[1] * (1 + len(window.kernel))),
    )
    weight = call.constant(picks)
    attributes = window.attributes() | {"group": channels}
    return [
        call.add("Conv", [bottom, weight], attributes, top=index) for index, bottom in enumerate(call.bottoms)
    ]
