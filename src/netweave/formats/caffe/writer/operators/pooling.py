"""Pooling, whose windows Caffe counts by rounding up.

Where the net has fewer windows, those that Caffe adds at the end are cut off by a Slice: BVLC's Caffe, its
branches and OpenCV each have another setting for rounding down, or none, and each reads a Slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.layer import Blob, CaffeLayer
from netweave.formats.caffe.writer.operators.shape import cut
from netweave.formats.caffe.writer.table import CaffeNode, per_axis, writes
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import num_windows, window_sizes


@dataclass(frozen=True, slots=True)
class _Windows:
    kernel: list[int]
    strides: list[int]
    begin: list[int]
    end: list[int]
    rounding: str

    def counts(self, sizes: list[int]) -> list[int]:
        """Return the windows of the net along each axis."""
        return self._counts(sizes, self.end, self.rounding)

    def caffe_counts(self, sizes: list[int]) -> list[int]:
        """Return the windows that Caffe makes with the padding of the begin at both ends."""
        return self._counts(sizes, self.begin, "caffe")

    def _counts(self, sizes: list[int], end: list[int], rounding: str) -> list[int]:
        axes = zip(sizes, self.kernel, self.strides, self.begin, end, strict=True)
        any_pad = any(self.begin) or any(end)
        return [
            num_windows(size, kernel, stride=stride, pads=(first, last), rounding=rounding, any_pad=any_pad)
            for size, kernel, stride, first, last in axes
        ]


def _read(node: CaffeNode) -> _Windows:
    kernel = list(node.get("kernel_shape"))
    if len(kernel) != 2 or set(node.get("dilations") or [1]) != {1}:
        raise NotWritable("Caffe pools over two axes, without dilation")
    if node.get("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        raise NotWritable("its padding is a rule (auto_pad) that depends on sizes that are not known")
    pads = list(node.get("pads") or [0] * 4)
    rounding = node.get("rounding") or ("ceil" if node.get("ceil_mode", 0) else "floor")
    return _Windows(kernel, list(node.get("strides") or [1, 1]), pads[:2], pads[2:], rounding)


def _sizes(node: CaffeNode) -> list[int]:
    sizes = [size for size in node.shape(0)[2:] if size is not None]
    if len(sizes) != 2:
        raise NotWritable("its windows depend on sizes that are not known; give the input's sizes")
    return sizes


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: CaffeNode) -> list[CaffeLayer]:
    """The largest of each window; padding at the end takes no part, so only the number of windows matters."""
    if any(value.uses() for value in node.outputs[1:]):
        raise NotWritable("the places of its maxima are used")
    return _pooled(node, "MAX", _read(node))


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: CaffeNode) -> list[CaffeLayer]:
    """The mean of each window, over its padding as well; where it is not, a Scale by place puts it right."""
    windows = _read(node)
    includes = node.get("count_include_pad", int(node.domain == DOMAIN)) != 0
    sizes = _sizes(node) if any(windows.begin) or any(windows.end) or windows.rounding != "floor" else []
    if not sizes:
        return _pooled(node, "AVE", windows)
    counts = windows.counts(sizes)
    wanted = _divisors(windows, sizes, counts, windows.end, includes=includes)
    found = _divisors(windows, sizes, counts, windows.begin, includes=True)
    if np.array_equal(wanted, found):
        return _pooled(node, "AVE", windows)
    mean = node.inner()
    scale = {"axis": 2, "num_axes": 2}
    factors = Blob(lambda: (found / wanted).astype(np.float32))
    return [
        *_pooled(node, "AVE", windows, top=mean),
        node.layer("Scale", [mean], {"scale_param": scale}, blobs=[factors]),
    ]


def _divisors(
    windows: _Windows, sizes: list[int], counts: list[int], end: list[int], *, includes: bool
) -> np.ndarray:
    return window_sizes(
        sizes,
        counts,
        kernel=windows.kernel,
        strides=windows.strides,
        begin=windows.begin,
        end=end,
        includes=includes,
    )


def _pooled(node: CaffeNode, method: str, windows: _Windows, *, top: str | None = None) -> list[CaffeLayer]:
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


def _surplus(node: CaffeNode, windows: _Windows) -> list[tuple[int, int]]:
    """Return the axes along which Caffe makes more windows, each with the number of those to keep."""
    steps_through = all(stride == 1 for stride in windows.strides) and windows.begin == windows.end
    if steps_through or (windows.rounding == "caffe" and windows.begin == windows.end):
        return []
    sizes = _sizes(node)
    counts, made = windows.counts(sizes), windows.caffe_counts(sizes)
    if any(count > more for count, more in zip(counts, made, strict=True)):
        raise NotWritable("some of its windows lie in the padding of the end, where Caffe makes none")
    return [
        (axis + 2, count) for axis, (count, more) in enumerate(zip(counts, made, strict=True)) if count < more
    ]


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: CaffeNode) -> list[CaffeLayer]:
    """One number for each channel."""
    if node.rank(0) != 4:
        raise NotWritable("Caffe pools over two axes")
    method = "AVE" if node.op_type == "GlobalAveragePool" else "MAX"
    return node.chain(("Pooling", {"pooling_param": {"pool": method, "global_pooling": True}}))
