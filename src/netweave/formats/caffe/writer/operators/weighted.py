"""Convolutions and dense layers.

Caffe pads both ends alike. Where an end has more padding, the kernel is made larger by zeros on the other
one: the windows are the same, and so is what they give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.layer import Blob, CaffeLayer
from netweave.formats.caffe.writer.table import CaffeNode, per_axis, writes

if TYPE_CHECKING:
    from collections.abc import Sequence


@writes("Conv")
def conv(node: CaffeNode) -> list[CaffeLayer]:
    """A convolution over any number of axes."""
    weight = _weight_shape(node)
    begin, end = _pads(node, len(weight) - 2)
    num_output, group = weight[0], node.get("group", 1)
    return _windowed(node, "Convolution", num_output, group, begin, end, weight[2:])


@writes("ConvTranspose")
def conv_transpose(node: CaffeNode) -> list[CaffeLayer]:
    """Its transpose; what ONNX adds at the end is less padding there."""
    weight = _weight_shape(node)
    begin, end = _pads(node, len(weight) - 2)
    if "output_shape" in node.attributes:
        raise NotWritable("its size is a rule (output_shape) that depends on sizes that are not known")
    added = node.get("output_padding") or [0] * len(begin)
    end = [pad - more for pad, more in zip(end, added, strict=True)]
    group = node.get("group", 1)
    # less padding at one end is as many zeros more at that end of the kernel
    return _windowed(node, "Deconvolution", weight[1] * group, group, begin, end, weight[2:])


def _windowed(
    node: CaffeNode,
    kind: str,
    num_output: int,
    group: int,
    begin: Sequence[int],
    end: Sequence[int],
    kernel: Sequence[int],
) -> list[CaffeLayer]:
    ones = [1] * len(kernel)
    dilations = list(node.get("dilations") or ones)
    pads = [max(pair) for pair in zip(begin, end, strict=True)]
    zeros = [
        _zeros(node, (pad - first, pad - last), dilation)
        for pad, first, last, dilation in zip(pads, begin, end, dilations, strict=True)
    ]
    if min(pads) < 0:
        raise NotWritable("its padding is less than 0")
    sizes = [size + sum(more) for size, more in zip(kernel, zeros, strict=True)]
    settings: dict[str, Any] = {"num_output": num_output}
    settings |= {} if node.has(2) else {"bias_term": False}
    settings |= per_axis("pad", pads, default=0) | per_axis("kernel_size", sizes, default=None)
    settings |= {"group": group} if group != 1 else {}
    settings |= per_axis("stride", list(node.get("strides") or ones), default=1)
    settings |= per_axis("dilation", dilations, default=1)
    blobs = [_widened(node, zeros), *([node.blob(2)] if node.has(2) else [])]
    return [node.layer(kind, [node.name(0)], {"convolution_param": settings}, blobs=blobs)]


def _zeros(node: CaffeNode, missing: tuple[int, int], dilation: int) -> tuple[int, int]:
    """Return the elements that a kernel gets at its begin and end."""
    if any(pad % dilation for pad in missing):
        raise NotWritable("its padding differs between both ends by no whole step of its dilation")
    return missing[0] // dilation, missing[1] // dilation


def _widened(node: CaffeNode, zeros: Sequence[tuple[int, int]]) -> Blob:
    weight = node.lazy_array(1)
    if not any(map(any, zeros)):
        return node.blob(1)
    return Blob(lambda: np.pad(weight(), [(0, 0), (0, 0), *zeros]))


def _weight_shape(node: CaffeNode) -> tuple[int, ...]:
    return tuple(node.lazy_array(1)().shape) if None in node.shape(1) else tuple(map(int, node.shape(1)))  # type: ignore[arg-type]


def _pads(node: CaffeNode, rank: int) -> tuple[list[int], list[int]]:
    if node.get("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        raise NotWritable("its padding is a rule (auto_pad) that depends on sizes that are not known")
    pads = list(node.get("pads") or [0] * (2 * rank))
    return pads[:rank], pads[rank:]


@writes("Gemm")
def gemm(node: CaffeNode) -> list[CaffeLayer]:
    """A dense layer, with its factors taken into the arrays."""
    if node.get("transA", 0):
        raise NotWritable("its first matrix is transposed")
    weight, alpha, beta = (
        node.lazy_array(1),
        np.float32(node.get("alpha", 1.0)),
        np.float32(node.get("beta", 1.0)),
    )
    is_plain = node.get("transB", 0) == 1 and alpha == 1
    rows = node.blob(1) if is_plain else Blob(lambda: _rows(weight(), node.get("transB", 0)) * alpha)
    num_output = node.shape(1)[0 if node.get("transB", 0) else 1] or 0
    blobs = [rows]
    if node.has(2):
        bias = node.lazy_array(2)
        blobs.append(Blob(lambda: np.broadcast_to(bias().reshape(-1) * beta, (num_output,))))
    return [_inner_product(node, _before_flatten(node), num_output, blobs, axis=1)]


@writes("MatMul")
def matmul(node: CaffeNode) -> list[CaffeLayer]:
    """A product with a stored matrix, over the last axis."""
    if node.rank(1) != 2 or not node.is_stored(1):
        raise NotWritable("Caffe multiplies with a stored matrix only")
    weight, axis = node.lazy_array(1), node.rank(0) - 1
    blobs = [Blob(lambda: _rows(weight(), 0))]
    bottom = _before_flatten(node) if axis == 1 else node.name(0)
    return [_inner_product(node, bottom, node.shape(1)[1] or 0, blobs, axis=axis)]


def _rows(weight: np.ndarray, transposed: int) -> np.ndarray:
    return weight if transposed else weight.T


def _inner_product(
    node: CaffeNode, bottom: str, num_output: int, blobs: Sequence[Blob], *, axis: int
) -> CaffeLayer:
    settings = {"num_output": num_output} | ({} if len(blobs) > 1 else {"bias_term": False})
    settings |= {} if axis == 1 else {"axis": axis}
    return node.layer("InnerProduct", [bottom], {"inner_product_param": settings}, blobs=blobs)


def _before_flatten(node: CaffeNode) -> str:
    """Return the input, or what is flattened into it by no layer of its own: InnerProduct flattens itself."""
    flatten = node.value(0).producer()
    if flatten is None or flatten.domain or flatten.op_type != "Flatten" or flatten.inputs[0] is None:
        return node.name(0)
    own = set(node.layers_of(flatten)) - set(node.layers)
    return node.name(0) if own or flatten.attributes.get_int("axis", 1) != 1 else flatten.inputs[0].name or ""
