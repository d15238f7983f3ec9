"""C3D's layers over time, height and width: ``convolution3d_layer.cpp``, ``pool3d_layer.cpp`` and kin.

Their settings stand in ``convolution_param`` and ``pooling_param`` (version 1.0) or in messages of their own
(1.1). A size for time is said by itself, one for height and width together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.caffe.call import Call, layer
from netweave.graph.ops.pooling import pooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message


@layer("Convolution3D")
def convolution3d(call: Call) -> Sequence[ir.Value]:
    """Cross-correlation; weights [out, in, depth, height, width]."""
    parameter = _parameter(call, "convolution")
    attributes = _window(call, parameter)
    weight = (_num_output(call, parameter), call.size(1), *attributes["kernel_shape"])
    return _applied(call, parameter, "Conv", weight, attributes)


@layer("Deconvolution3D")
def deconvolution3d(call: Call) -> Sequence[ir.Value]:
    """The transpose of a convolution; weights [in, out, depth, height, width]."""
    parameter = _parameter(call, "convolution")
    attributes = _window(call, parameter)
    weight = (call.size(1), _num_output(call, parameter), *attributes["kernel_shape"])
    return _applied(call, parameter, "ConvTranspose", weight, attributes)


@layer("Pooling3D")
def pooling3d(call: Call) -> Sequence[ir.Value]:
    """Maximum or average; sizes are rounded up, and a window that overhangs stays."""
    parameter = _parameter(call, "pooling")
    method = parameter["pool"]
    if method == "STOCHASTIC":
        raise call.unsupported("'pool' STOCHASTIC is not read; MAX and AVE are", parameter.line_of("pool"))
    window = _window(call, parameter)
    if method == "MAX" and any(window["pads"]):
        raise call.wrong("'pad' goes with 'pool' AVE", parameter.line_of("pad"))
    domain, op_type, attributes = pooling(
        method == "AVE",
        kernel=window["kernel_shape"],
        strides=window["strides"],
        pads=window["pads"],
        rounding="full",
        count_include_pad=True,
    )
    return [call.add(op_type, [call.bottoms[0]], attributes, domain=domain, top=0)]


def _parameter(call: Call, name: str) -> Message:
    """Return the settings of either version."""
    if len(call.shape()) != 5:
        raise call.wrong_shape(f"needs five axes (N, C, time, height, width), found {len(call.shape())}")
    later = f"{name}3d_param"
    found: Message = call.spec[later if later in call.spec else f"{name}_param"]
    return found


def _window(call: Call, parameter: Message) -> dict[str, Any]:
    """Return ONNX's attributes of the window."""
    kernel = _sizes(call, parameter, "kernel_depth", "kernel_size", None)
    strides = _sizes(call, parameter, "temporal_stride", "stride", 1)
    pads = _sizes(call, parameter, "temporal_pad", "pad", 0)
    if min(kernel) < 1 or min(strides) < 1:
        raise call.wrong(f"kernel is {kernel}, stride {strides}, expected 1 or more", parameter.line)
    for size, pad, extent in zip(call.shape()[2:], pads, kernel, strict=True):
        if size is not None and size + 2 * pad < extent:
            raise call.wrong_shape(f"a window of {extent} does not fit in {size} elements with padding {pad}")
    return {"kernel_shape": kernel, "strides": strides, "pads": pads + pads}


def _sizes(call: Call, parameter: Message, time: str, plane: str, default: int | None) -> list[int]:
    missing = [name for name in (time, plane) if default is None and not _has(parameter, name)]
    if missing:
        raise call.wrong(f"has no {missing[0]!r}", parameter.line)
    return [_one(call, parameter, name, default or 0) for name in (time, plane, plane)]


def _has(parameter: Message, name: str) -> bool:
    return name in parameter and parameter[name] != []


def _one(call: Call, parameter: Message, name: str, default: int) -> int:
    if not _has(parameter, name):
        return default
    found = parameter[name]
    values = list(found) if isinstance(found, list) else [found]
    if len(values) != 1:
        raise call.wrong(f"{name!r} has {len(values)} values, expected 1", parameter.line_of(name))
    return int(values[0])


def _num_output(call: Call, parameter: Message) -> int:
    if parameter["num_output"] < 1:
        raise call.wrong("has no 'num_output' of 1 or more", parameter.line)
    return int(parameter["num_output"])


def _applied(
    call: Call, parameter: Message, op_type: str, weight: tuple[int, ...], attributes: dict[str, Any]
) -> Sequence[ir.Value]:
    """Add the operator; ``filter_group`` cuts the work, not the net."""
    arrays = [call.blob(0, weight, "weight", parameter["weight_filler"])]
    if parameter["bias_term"]:
        num_output = _num_output(call, parameter)
        arrays.append(call.blob(1, (num_output,), "bias", parameter["bias_filler"]))
    return [call.add(op_type, [call.bottoms[0], *arrays], attributes, top=0)]
