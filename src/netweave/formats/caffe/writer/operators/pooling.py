"""Pooling, whose windows Caffe counts by rounding up.

Where the net has fewer windows, those that Caffe adds at the end are cut off by a Slice: BVLC's Caffe, its
branches and OpenCV each have another setting for rounding down, or none, and each reads a Slice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.operators.shape import cut
from netweave.formats.caffe.writer.table import Blob, CaffeNode, per_axis, writes
from netweave.formats.lowering.nodes.windows import pool_windows_of, spatial_sizes
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.formats.caffe.writer.table import CaffeLayer
    from netweave.graph.ops.pooling import PoolWindows


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
