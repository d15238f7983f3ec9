"""Pooling with the rounding of Caffe and MXNet, and Caffe's LRN within each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions.table import LOWEST, FunctionNode, body
from netweave.formats.onnx.functions.tape import Tensor, op
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import PoolWindows

if TYPE_CHECKING:
    from collections.abc import Sequence


@body("MaxPool")
def max_pool(node: FunctionNode) -> Sequence[Tensor]:
    """Padded by hand up to the end of the last window; an empty window gives the lowest number."""
    (x,) = node.inputs
    windows = PoolWindows.of(DOMAIN, node.attributes)
    padded = _padded(windows, x, [*windows.begin, *windows.end], LOWEST)
    apart = op("Max", padded, float("-inf"))  # as in _mean
    return [op("MaxPool", apart, kernel_shape=windows.kernel, strides=windows.strides)]


@body("AveragePool")
def average_pool(node: FunctionNode) -> Sequence[Tensor]:
    """The mean over what counts: of the padded input, by that of ones where places count."""
    (x,) = node.inputs
    windows = PoolWindows.of(DOMAIN, node.attributes)
    pads = [*windows.begin, *windows.end]
    ones = op("Expand", 1.0, op("Concat", [1, 1], x.sizes(2), axis=0))
    if windows.counts_padding and windows.any_pad:
        ones = op("Pad", ones, [0, 0, *windows.begin, 0, 0, *windows.end], 1.0)
        counted = _padded(windows, ones, [0] * len(pads), 0.0, like=x)
    else:
        counted = _padded(windows, ones, pads, 0.0)
    share, mean = _mean(windows, counted), _mean(windows, _padded(windows, x, pads, 0.0))
    return [mean / op("Where", share > 0.0, share, 1.0)]


def _mean(windows: PoolWindows, padded: Tensor) -> Tensor:
    """Return the mean of each window.

    The maximum changes nothing: it keeps ONNX Runtime from joining a padding into the pooling, which it
    then refuses where the padding is as large as the window (1.31, its fusion of Pad).
    """
    apart = op("Max", padded, float("-inf"))
    settings = {"kernel_shape": windows.kernel, "strides": windows.strides}
    return op("AveragePool", apart, count_include_pad=1, **settings)


def _padded(
    windows: PoolWindows, x: Tensor, pads: list[int], value: float, like: Tensor | None = None
) -> Tensor:
    """Return the input padded, at the end up to where the last window ends (less than nothing: cut off).

    Args:
        windows: The windows.
        x: What is padded.
        pads: All begins, then all ends.
        value: What with.
        like: The input of the pooling, if ``x`` has its padding already.
    """
    if windows.rounding == "caffe" and windows.any_pad:
        raise NotWritable("its windows are those of the standard operator")
    if windows.rounding not in {"caffe", "full"}:
        raise NotWritable(f"its rounding is {windows.rounding!r}")
    own = zip(windows.begin, windows.end, windows.kernel, windows.strides, strict=True)
    around = [begin + end - k + s - 1 for begin, end, k, s in own]
    steps = op("Div", (x if like is None else like).sizes(2) + around, windows.strides)
    begins = pads[: len(windows.kernel)]
    last = steps * windows.strides + [k - begin for k, begin in zip(windows.kernel, begins, strict=True)]
    end = last - x.sizes(2)
    return op("Pad", x, op("Concat", [0, 0, *begins, 0, 0], end, axis=0), value)


@body("ChannelLRN")
def channel_lrn(node: FunctionNode) -> Sequence[Tensor]:
    """The mean of squares is a pooling."""
    (x,) = node.inputs
    size, alpha, beta = (node.settings[name] for name in ("size", "alpha", "beta"))
    mean = op("AveragePool", x * x, kernel_shape=[size] * 2, pads=[(size - 1) // 2] * 4, count_include_pad=1)
    return [x * op("Pow", mean * float(alpha) + 1.0, float(-beta))]
