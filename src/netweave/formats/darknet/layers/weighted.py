"""Layers with weights (convolutional_layer.c, connected_layer.c, deconvolutional_layer.c, local_layer.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.darknet.call import Call, layer
from netweave.formats.darknet.layers.activation import activate

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir

EPSILON = 1e-5
"""Added to the variance: on GPUs of both branches and on CPUs of AlexeyAB's.

On a CPU pjreddie's adds 1e-6 to the standard deviation instead (blas.c), but nets were trained on GPUs.
"""


@layer("convolutional", "conv")
def convolutional(call: Call) -> ir.Value:
    """Cross-correlation, then the stored statistics or a bias, then the activation.

    Padding counts in steps of the dilation (``im2col_cpu_ext``).
    """
    section = call.section
    call.refuse_if_set("antialiasing", "binary", "xnor", "dot", "flipped", "share_index", "coordconv")
    call.refuse_if_set("sway", "rotate", "stretch", "stretch_sway", "reverse", "assisted_excitation")
    x = call.input
    channels, height, width = call.image(x)
    filters = section.whole("filters", 1, least=1)
    groups = section.whole("groups", 1, least=1)
    size = section.whole("size", 1, least=1)
    if channels % groups or filters % groups:
        raise section.wrong(
            "groups", f"a divisor of {channels} channels that come in and {filters} that go out"
        )
    stride = section.whole("stride", 1, least=1)
    strides = [section.whole(name, stride, least=1) for name in ("stride_y", "stride_x")]
    dilation = section.whole("dilation", 1, least=1) if size > 1 else 1
    pad = dilation * _padding(call, size)
    extent = dilation * (size - 1) + 1
    if extent > min(height, width) + 2 * pad:
        raise call.wrong_shape(f"a window of {extent} does not fit in {height} by {width} with padding {pad}")
    attributes = {
        "kernel_shape": [size, size],
        "strides": strides,
        "dilations": [dilation, dilation],
        "pads": [pad] * 4,
        "group": groups,
    }
    return _weighted(call, "Conv", x, (filters, channels // groups, size, size), filters, attributes)


def _padding(call: Call, size: int) -> int:
    return size // 2 if call.section.whole("pad", 0) else call.section.whole("padding", 0, least=0)


@layer("deconvolutional", "deconv")
def deconvolutional(call: Call) -> ir.Value:
    """The transpose of a convolution, with weights [in, out, kernel]."""
    section = call.section
    x = call.input
    channels, _, _ = call.image(x)
    filters = section.whole("filters", 1, least=1)
    size = section.whole("size", 1, least=1)
    stride = section.whole("stride", 1, least=1)
    pad = _padding(call, size)
    attributes = {"kernel_shape": [size, size], "strides": [stride, stride], "pads": [pad] * 4}
    return _weighted(call, "ConvTranspose", x, (channels, filters, size, size), filters, attributes)


def _weighted(
    call: Call, op_type: str, x: ir.Value, shape: tuple[int, ...], filters: int, attributes: Mapping[str, Any]
) -> ir.Value:
    """Add a convolution; the file holds biases, scales, means, variances, weights in this order."""
    biases = call.parameter("biases", (filters,), role="bias")
    if not call.section.whole("batch_normalize", 0):
        weights = call.parameter("weights", shape, role="weight")
        return activate(call, call.add(op_type, [x, weights, biases], attributes), "logistic")
    statistics = _statistics(call, filters)
    weights = call.parameter("weights", shape, role="weight")
    made = call.add(op_type, [x, weights], attributes)
    return activate(call, _normalised(call, made, biases, statistics), "logistic")


@layer("connected", "conn")
def connected(call: Call) -> ir.Value:
    """A dense layer over rows; the file holds biases, weights [out, in], scales, means, variances."""
    x = call.rows(call.input)
    shape = x.shape
    assert shape is not None
    features = shape[1]
    if not isinstance(features, int):
        raise call.wrong_shape("the number of its inputs is not known")
    outputs = call.section.whole("output", 1, least=1)
    biases = call.parameter("biases", (outputs,), role="bias")
    if call.is_transposed:
        weights = call.parameter(
            "weights", (features, outputs), role="weight", layout=[("transpose", (1, 0))]
        )
    else:
        weights = call.parameter("weights", (outputs, features), role="weight")
    if not call.section.whole("batch_normalize", 0):
        return activate(call, call.add("Gemm", [x, weights, biases], {"transB": 1}), "logistic")
    made = call.add("Gemm", [x, weights], {"transB": 1})
    return activate(call, _normalised(call, made, biases, _statistics(call, outputs)), "logistic")


@layer("batchnorm")
def batchnorm(call: Call) -> ir.Value:
    """Stored statistics alone; the file holds biases, scales, means, variances.

    This is the order of AlexeyAB's branch; pjreddie's file has no biases there.
    """
    x = call.input
    channels = call.image(x)[0]
    biases = call.parameter("biases", (channels,), role="beta")
    return _normalised(call, x, biases, _statistics(call, channels))


@layer("local")
def local(call: Call) -> ir.Value:
    """A convolution with weights of its own at every place: each window, as a column, times its matrix."""
    section = call.section
    x = call.input
    channels, height, width = call.image(x)
    filters = section.whole("filters", 1, least=1)
    size = section.whole("size", 1, least=1)
    stride = section.whole("stride", 1, least=1)
    is_padded = section.whole("pad", 0) != 0
    pad = size // 2 if is_padded else 0
    rows, columns = ((extent - 1 if is_padded else extent - size) // stride + 1 for extent in (height, width))
    places, taps = rows * columns, channels * size * size
    if min(rows, columns) < 1:
        raise call.wrong_shape(f"a window of {size} does not fit in {height} by {width}")
    biases = call.parameter(
        "biases",
        (filters * places,),
        role="bias",
        layout=[("reshape", (1, filters, rows, columns))],
    )
    weights = call.parameter("weights", (places, filters, taps), role="weight")
    picks = np.tile(
        np.eye(size * size, dtype=np.float32).reshape(size * size, 1, size, size), (channels, 1, 1, 1)
    )
    begin = [pad, pad]
    end = [
        (count - 1) * stride + size - extent - pad
        for count, extent in zip((rows, columns), (height, width), strict=True)
    ]
    windows = call.add(
        "Conv",
        [x, call.constant(picks)],
        {
            "kernel_shape": [size, size],
            "strides": [stride, stride],
            "pads": [*begin, *(max(0, each) for each in end)],
            "group": channels,
        },
    )
    columns_last = call.add("Reshape", [windows, call.wholes([0, taps, places])])
    each_place = call.add("Transpose", [columns_last], {"perm": [2, 1, 0]})
    made = call.add("MatMul", [weights, each_place])
    image = call.add("Transpose", [made], {"perm": [2, 1, 0]})
    image = call.add("Reshape", [image, call.wholes([-1, filters, rows, columns])])
    return activate(call, call.add("Add", [image, biases]), "logistic")


def _statistics(call: Call, size: int) -> list[ir.Value]:
    names = {"scales": "gamma", "rolling_mean": "mean", "rolling_variance": "variance"}
    return [call.parameter(name, (size,), role=role) for name, role in names.items()]


def _normalised(call: Call, x: ir.Value, biases: ir.Value, statistics: list[ir.Value]) -> ir.Value:
    scales, mean, variance = statistics
    return call.add("BatchNormalization", [x, scales, biases, mean, variance], {"epsilon": EPSILON})
