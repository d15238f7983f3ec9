"""Convolution and pooling: ``convolution.cc``, ``pooling.cc``, their cuDNN twins, ``common.cc``.

``kConvolution`` and ``kPooling`` are mshadow's, which knows square windows alone and pools without padding;
what SINGA would compute wrongly there is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.formats.singa.call import Call, Made, layer

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.protobuf import Message


@dataclass(frozen=True, slots=True)
class _Window:
    """Size, steps and padding of a window: (height, width) each."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]

    def attributes(self) -> dict[str, list[int]]:
        return {"kernel_shape": [*self.kernel], "strides": [*self.strides], "pads": [*self.pads] * 2}


def _pair(settings: Message, name: str) -> tuple[int, int]:
    """Return (y, x): the square form where it is set, else the two others."""
    if name in settings:
        return (settings[name],) * 2
    return settings[f"{name}_y"], settings[f"{name}_x"]


def _read_window(call: Call, settings: Message, x: ir.Value, *, square: bool) -> _Window:
    window = _Window(*(_pair(settings, name) for name in ("kernel", "stride", "pad")))
    if min(window.kernel) < 1 or min(window.strides) < 1 or min(window.pads) < 0:
        raise call.wrong(
            f"kernel is {window.kernel}, stride {window.strides} and padding {window.pads}, expected 1 or "
            "more for the first two and 0 or more for the last",
            settings.line,
        )
    if square and any(y != x for y, x in (window.kernel, window.strides, window.pads)):
        raise call.wrong(
            f"SINGA's {call.spec['type']} has square windows alone, found kernel {window.kernel}, stride "
            f"{window.strides} and padding {window.pads} (y, x)",
            settings.line,
        )
    for axis, size in enumerate(call.shape(x)[2:]):
        if size is not None and size + 2 * window.pads[axis] < window.kernel[axis]:
            raise call.wrong_shape(
                f"a window of {window.kernel[axis]} does not fit in {size} elements with padding "
                f"{window.pads[axis]}",
                settings.line,
            )
    return window


@layer("kConvolution", "kCConvolution", "kCudnnConv")
def convolution(call: Call) -> Made:
    """Cross-correlation; weights [out, in * height * width], with a bias if there is a second parameter."""
    settings = call.spec["convolution_conf"]
    x = call.images()
    window = _read_window(call, settings, x, square=call.spec["type"] == "kConvolution")
    filters, channels = settings["num_filters"], call.size(x, 1)
    if filters < 1:
        raise call.wrong(f"'num_filters' is {filters}, expected 1 or more", settings.line)
    count = call.expect_parameters([1, 2], "the weights and the bias")
    height, width = window.kernel
    layout = [("reshape", (filters, channels, height, width))]
    arrays = [call.parameter(0, (filters, channels * height * width), "weight", layout=layout)]
    if count == 2:
        arrays.append(call.parameter(1, (filters,), "bias"))
    return Made([call.add("Conv", [x, *arrays], window.attributes())])


@layer("kPooling", "kCPooling", "kCudnnPool")
def pooling(call: Call) -> Made:
    """Maximum or average; sizes are rounded down. Averages count padding, with cuDNN they do not."""
    settings = call.spec["pooling_conf"]
    if "stride" not in settings and "stride_x" not in settings:
        raise call.wrong(
            "has no 'stride', which is 1 in SINGA 0.1 and 2 in later ones; write the one that is meant",
            settings.line,
        )
    kind = call.spec["type"]
    x = call.images()
    window = _read_window(call, settings, x, square=kind == "kPooling")
    if kind == "kPooling" and any(window.pads):
        raise call.wrong(
            "SINGA's kPooling has no padding, though it reckons with it for sizes; take kCPooling",
            settings.line_of("pad"),
        )
    if any(pad >= size for pad, size in zip(window.pads, window.kernel, strict=True)):
        raise call.wrong(f"padding {window.pads} must be less than the kernel {window.kernel}", settings.line)
    if settings["pool"] == "MAX":
        return Made([call.add("MaxPool", [x], window.attributes())])
    attributes = window.attributes() | {"count_include_pad": int(kind != "kCudnnPool")}
    return Made([call.add("AveragePool", [x], attributes)])
