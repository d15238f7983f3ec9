"""Convolutions and dense layers.

Caffe pads both ends alike. Where an end has more padding, the kernel is made larger by zeros on the other
one: the windows are the same, and so is what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.writing import Refused
from netweave.formats.caffe.writer.table import Call, lazily, per_axis, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.caffe.writer.layer import Blob, CaffeLayer


@written("Conv")
def conv(call: Call) -> list[CaffeLayer]:
    """A convolution over any number of axes."""
    weight = _weight_shape(call)
    begin, end = _pads(call, len(weight) - 2)
    num_output, group = weight[0], call.get("group", 1)
    return _windowed(call, "Convolution", num_output, group, begin, end, weight[2:])


@written("ConvTranspose")
def conv_transpose(call: Call) -> list[CaffeLayer]:
    """Its transpose; what ONNX adds at the end is less padding there."""
    weight = _weight_shape(call)
    begin, end = _pads(call, len(weight) - 2)
    if "output_shape" in call.attributes:
        raise Refused("its size is a rule (output_shape) that depends on sizes that are not known")
    added = call.get("output_padding") or [0] * len(begin)
    end = [pad - more for pad, more in zip(end, added, strict=True)]
    group = call.get("group", 1)
    # less padding at one end is as many zeros more at that end of the kernel
    return _windowed(call, "Deconvolution", weight[1] * group, group, begin, end, weight[2:])


def _windowed(
    call: Call,
    kind: str,
    num_output: int,
    group: int,
    begin: Sequence[int],
    end: Sequence[int],
    kernel: Sequence[int],
) -> list[CaffeLayer]:
    ones = [1] * len(kernel)
    dilations = list(call.get("dilations") or ones)
    pads = [max(pair) for pair in zip(begin, end, strict=True)]
    zeros = [
        _zeros(call, (pad - first, pad - last), dilation)
        for pad, first, last, dilation in zip(pads, begin, end, dilations, strict=True)
    ]
    if min(pads) < 0:
        raise Refused("its padding is less than 0")
    sizes = [size + sum(more) for size, more in zip(kernel, zeros, strict=True)]
    settings: dict[str, Any] = {"num_output": num_output}
    settings |= {} if call.has(2) else {"bias_term": False}
    settings |= per_axis("pad", pads, default=0) | per_axis("kernel_size", sizes, default=None)
    settings |= {"group": group} if group != 1 else {}
    settings |= per_axis("stride", list(call.get("strides") or ones), default=1)
    settings |= per_axis("dilation", dilations, default=1)
    blobs = [_widened(call, zeros), *([call.blob(2)] if call.has(2) else [])]
    return [call.layer(kind, [call.name(0)], {"convolution_param": settings}, blobs=blobs)]


def _zeros(call: Call, missing: tuple[int, int], dilation: int) -> tuple[int, int]:
    """Return the elements that a kernel gets at its begin and end."""
    if any(pad % dilation for pad in missing):
        raise Refused("its padding differs between both ends by no whole step of its dilation")
    return missing[0] // dilation, missing[1] // dilation


def _widened(call: Call, zeros: Sequence[tuple[int, int]]) -> Blob:
    weight = call.lazily(1)
    if not any(map(any, zeros)):
        return call.blob(1)
    return lazily(lambda: np.pad(weight(), [(0, 0), (0, 0), *zeros]))


def _weight_shape(call: Call) -> tuple[int, ...]:
    return tuple(call.lazily(1)().shape) if None in call.shape(1) else tuple(map(int, call.shape(1)))  # type: ignore[arg-type]


def _pads(call: Call, rank: int) -> tuple[list[int], list[int]]:
    if call.get("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        raise Refused("its padding is a rule (auto_pad) that depends on sizes that are not known")
    pads = list(call.get("pads") or [0] * (2 * rank))
    return pads[:rank], pads[rank:]


@written("Gemm")
def gemm(call: Call) -> list[CaffeLayer]:
    """A dense layer, with its factors taken into the arrays."""
    if call.get("transA", 0):
        raise Refused("its first matrix is transposed")
    weight, alpha, beta = (
        call.lazily(1),
        np.float32(call.get("alpha", 1.0)),
        np.float32(call.get("beta", 1.0)),
    )
    is_plain = call.get("transB", 0) == 1 and alpha == 1
    rows = call.blob(1) if is_plain else lazily(lambda: _rows(weight(), call.get("transB", 0)) * alpha)
    num_output = call.shape(1)[0 if call.get("transB", 0) else 1] or 0
    blobs = [rows]
    if call.has(2):
        bias = call.lazily(2)
        blobs.append(lazily(lambda: np.broadcast_to(bias().reshape(-1) * beta, (num_output,))))
    return [_inner_product(call, _before_flatten(call), num_output, blobs, axis=1)]


@written("MatMul")
def matmul(call: Call) -> list[CaffeLayer]:
    """A product with a stored matrix, over the last axis."""
    if call.rank(1) != 2 or not call.is_stored(1):
        raise Refused("Caffe multiplies with a stored matrix only")
    weight, axis = call.lazily(1), call.rank(0) - 1
    blobs = [lazily(lambda: _rows(weight(), 0))]
    bottom = _before_flatten(call) if axis == 1 else call.name(0)
    return [_inner_product(call, bottom, call.shape(1)[1] or 0, blobs, axis=axis)]


def _rows(weight: np.ndarray, transposed: int) -> np.ndarray:
    return weight if transposed else weight.T


def _inner_product(
    call: Call, bottom: str, num_output: int, blobs: Sequence[Blob], *, axis: int
) -> CaffeLayer:
    settings = {"num_output": num_output} | ({} if len(blobs) > 1 else {"bias_term": False})
    settings |= {} if axis == 1 else {"axis": axis}
    return call.layer("InnerProduct", [bottom], {"inner_product_param": settings}, blobs=blobs)


def _before_flatten(call: Call) -> str:
    """Return the input, or what is flattened into it by no layer of its own: InnerProduct flattens itself."""
    flatten = call.value(0).producer()
    if flatten is None or flatten.domain or flatten.op_type != "Flatten" or flatten.inputs[0] is None:
        return call.name(0)
    own = set(call.layers_of(flatten)) - set(call.layers)
    return call.name(0) if own or flatten.attributes.get_int("axis", 1) != 1 else flatten.inputs[0].name or ""
