"""Convolution and pooling as Caffe's layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.operators.shape import cut
from netweave.formats.caffe.writer.table import Blob, CaffeLayer, CaffeNode, per_axis, writes
from netweave.formats.lowering.nodes.arrays import dense_arrays
from netweave.formats.lowering.nodes.windows import pool_windows_of, spatial_sizes, window_of
from netweave.formats.lowering.windows import Window
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import PoolWindows

# Caffe pads both ends alike. Where an end has more padding, the kernel is made larger by zeros on the other
# one: the windows are the same, and so is what they give.


@writes("Conv")
def conv(node: CaffeNode) -> list[CaffeLayer]:
    """A convolution over any number of axes."""
    window = window_of(node)
    return _windowed(node, "Convolution", node.stored_shape(1)[0], window, window.end_pads)


@writes("ConvTranspose")
def conv_transpose(node: CaffeNode) -> list[CaffeLayer]:
    """Its transpose; what ONNX adds at the end is less padding there."""
    window = window_of(node)
    added = node.get("output_padding") or [0] * len(window.kernel)
    end = [pad - more for pad, more in zip(window.end_pads, added, strict=True)]
    # less padding at one end is as many zeros more at that end of the kernel
    num_output = node.stored_shape(1)[1] * node.get("group")
    return _windowed(node, "Deconvolution", num_output, window, end)


def _windowed(
    node: CaffeNode, kind: str, num_output: int, window: Window, end: Sequence[int]
) -> list[CaffeLayer]:
    pads = [max(pair) for pair in zip(window.pads, end, strict=True)]
    zeros = [
        _zeros((pad - first, pad - last), dilation)
        for pad, first, last, dilation in zip(pads, window.pads, end, window.dilations, strict=True)
    ]
    if min(pads) < 0:
        raise NotWritable("its padding is less than 0")
    sizes = [size + sum(more) for size, more in zip(window.kernel, zeros, strict=True)]
    group = node.get("group")
    settings: dict[str, Any] = {"num_output": num_output}
    settings |= {} if node.has(2) else {"bias_term": False}
    settings |= per_axis("pad", pads, default=0) | per_axis("kernel_size", sizes, default=None)
    settings |= {"group": group} if group != 1 else {}
    settings |= per_axis("stride", window.strides, default=1)
    settings |= per_axis("dilation", window.dilations, default=1)
    blobs = [_widened(node, zeros), *([node.blob(2)] if node.has(2) else [])]
    return [node.layer(kind, [node.name(0)], {"convolution_param": settings}, blobs=blobs)]


def _zeros(missing: tuple[int, int], dilation: int) -> tuple[int, int]:
    """Return the elements that a kernel gets at its begin and end."""
    if any(pad % dilation for pad in missing):
        raise NotWritable("its padding differs between both ends by no whole step of its dilation")
    return missing[0] // dilation, missing[1] // dilation


def _widened(node: CaffeNode, zeros: Sequence[tuple[int, int]]) -> Blob:
    weight = node.lazy_array(1)
    if not any(map(any, zeros)):
        return node.blob(1)
    return Blob(lambda: np.pad(weight(), [(0, 0), (0, 0), *zeros]))


@writes("Gemm")
def gemm(node: CaffeNode) -> list[CaffeLayer]:
    """A dense layer, with its factors taken into the arrays."""
    return [_inner_product(node, _before_flatten(node), axis=1)]


@writes("MatMul")
def matmul(node: CaffeNode) -> list[CaffeLayer]:
    """A product with a stored matrix, over the last axis."""
    if node.rank(1) != 2 or not node.is_stored(1):
        raise NotWritable("Caffe multiplies with a stored matrix only")
    axis = node.rank(0) - 1
    return [_inner_product(node, _before_flatten(node) if axis == 1 else node.name(0), axis=axis)]


def _inner_product(node: CaffeNode, bottom: str, *, axis: int) -> CaffeLayer:
    arrays = dense_arrays(node)
    blobs = [node.blob(1) if arrays.is_verbatim else Blob(arrays.weight)]
    blobs += [Blob(arrays.bias)] if arrays.bias else []
    settings = {"num_output": arrays.num_outputs} | ({} if arrays.bias else {"bias_term": False})
    settings |= {} if axis == 1 else {"axis": axis}
    return node.layer("InnerProduct", [bottom], {"inner_product_param": settings}, blobs=blobs)


def _before_flatten(node: CaffeNode) -> str:
    """Return the input, or what is flattened into it by no layer of its own: InnerProduct flattens itself."""
    flatten = node.value(0).producer()
    if flatten is None or flatten.domain or flatten.op_type != "Flatten" or flatten.inputs[0] is None:
        return node.name(0)
    own = set(node.layers_of(flatten)) - set(node.layers)
    return node.name(0) if own or flatten.attributes.get_int("axis", 1) != 1 else flatten.inputs[0].name or ""


@writes("LSTM", "GRU", "RNN")
def recurrent(node: CaffeNode) -> list[CaffeLayer]:
    """Caffe's LSTM is told at each step whether the sequence goes on; there is no GRU."""
    raise NotWritable(
        "Caffe's LSTM reads beside its sequence where each one goes on (cont), which this net has not"
        if node.op_type == "LSTM"
        else "Caffe has no such layer, or one with an activation behind its output"
    )


# Where the net has fewer windows, those that Caffe adds at the end are cut off by a Slice: BVLC's Caffe,
# its branches and OpenCV each have another setting for rounding down, or none, and each reads a Slice.


def _windows(node: CaffeNode) -> PoolWindows:
    windows = pool_windows_of(node, "Caffe")
    if len(windows.kernel) != 2:
        raise NotWritable("Caffe pools over two axes")
    return windows


def _as_in_caffe(windows: PoolWindows) -> PoolWindows:
    """Return the windows that Caffe makes of the padding of the begin, which it puts at both ends."""
    return replace(windows, end=windows.begin, rounding="caffe", counts_padding=True)


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: CaffeNode) -> list[CaffeLayer]:
    """The largest of each window; padding at the end takes no part, so only the number of windows matters."""
    return _pooled(node, "MAX", _windows(node))


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: CaffeNode) -> list[CaffeLayer]:
    """The mean of each window over its padding too; a Scale by place corrects it where it must not count."""
    windows = _windows(node)
    if not windows.any_pad and windows.rounding == "floor":
        return _pooled(node, "AVE", windows)
    sizes = spatial_sizes(node)
    counts = windows.counts(sizes)
    wanted = windows.divisors(sizes, counts)
    given = _as_in_caffe(windows).divisors(sizes, counts)
    if np.array_equal(wanted, given):
        return _pooled(node, "AVE", windows)
    mean = node.inner()
    scale = {"axis": 2, "num_axes": 2}
    factors = Blob(lambda: (given / wanted).astype(np.float32))
    return [
        *_pooled(node, "AVE", windows, top=mean),
        node.layer("Scale", [mean], {"scale_param": scale}, blobs=[factors]),
    ]


def _pooled(
    node: CaffeNode, method: str, windows: PoolWindows, *, top: str | None = None
) -> list[CaffeLayer]:
    if any(pad >= size for pad, size in zip(windows.begin, windows.kernel, strict=True)):
        raise NotWritable(f"its padding {windows.begin} is not less than its windows {windows.kernel}")
    settings: dict[str, Any] = {"pool": method}
    settings |= per_axis("pad", windows.begin, default=0, repeated=False)
    settings |= per_axis("kernel_size", windows.kernel, default=None, repeated=False)
    settings |= per_axis("stride", windows.strides, default=1, repeated=False)
    end = node.output if top is None else top
    surplus = _surplus(node, windows)
    pooled = node.inner() if surplus else end
    layers = [node.layer("Pooling", [node.name(0)], {"pooling_param": settings}, top=pooled)]
    for number, (axis, count) in enumerate(surplus, start=1):
        kept = end if number == len(surplus) else node.inner()
        layers.append(cut(node, pooled, kept, axis=axis, start=0, end=count, size=None))
        pooled = kept
    return layers


def _surplus(node: CaffeNode, windows: PoolWindows) -> list[tuple[int, int]]:
    """Return the axes along which Caffe makes more windows, each with the number of those to keep."""
    steps_through = all(stride == 1 for stride in windows.strides)
    if windows.begin == windows.end and (steps_through or windows.rounding == "caffe"):
        return []
    sizes = spatial_sizes(node)
    counts, in_caffe = windows.counts(sizes), _as_in_caffe(windows).counts(sizes)
    if any(count > more for count, more in zip(counts, in_caffe, strict=True)):
        raise NotWritable("some of its windows lie in the padding of the end, where Caffe makes none")
    return [
        (axis, count)
        for axis, (count, more) in enumerate(zip(counts, in_caffe, strict=True), start=2)
        if count < more
    ]


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: CaffeNode) -> list[CaffeLayer]:
    """One number for each channel."""
    if node.rank(0) != 4:
        raise NotWritable("Caffe pools over two axes")
    method = "AVE" if node.op_type == "GlobalAveragePool" else "MAX"
    return node.chain(("Pooling", {"pooling_param": {"pool": method, "global_pooling": True}}))
