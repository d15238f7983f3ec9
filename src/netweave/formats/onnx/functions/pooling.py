"""Pooling with the rounding of Caffe and MXNet, and Caffe's LRN within each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions.table import LOWEST, FunctionNode, body
from netweave.formats.onnx.functions.tape import Tensor, op

if TYPE_CHECKING:
    from collections.abc import Sequence


@body("MaxPool")
def max_pool(node: FunctionNode) -> Sequence[Tensor]:
    """Padded by hand up to the end of the last window; an empty window gives the lowest number."""
    (x,) = node.inputs
    apart = op("Max", _padded(node, x, _pads(node), LOWEST), float("-inf"))  # as in _mean
    return [op("MaxPool", apart, **_windows(node))]


@body("AveragePool")
def average_pool(node: FunctionNode) -> Sequence[Tensor]:
    """The mean over what counts: of the padded input, by that of ones where places count."""
    (x,) = node.inputs
    pads, rank = _pads(node), node.rank(0) - 2
    ones = op("Expand", 1.0, op("Concat", [1, 1], x.sizes(2), axis=0))
    if node.settings.get("count_include_pad", 1) and any(pads):
        ones = op("Pad", ones, [0, 0, *pads[:rank], 0, 0, *pads[rank:]], 1.0)
        counted = _padded(node, ones, [0] * len(pads), 0.0, like=x)
    else:
        counted = _padded(node, ones, pads, 0.0)
    share, mean = _mean(node, counted), _mean(node, _padded(node, x, pads, 0.0))
    return [mean / op("Where", share > 0.0, share, 1.0)]


def _mean(node: FunctionNode, padded: Tensor) -> Tensor:
    """Return the mean of each window.

    The maximum changes nothing: it keeps ONNX Runtime from joining a padding into the pooling, which it
    then refuses where the padding is as large as the window (1.31, its fusion of Pad).
    """
    apart = op("Max", padded, float("-inf"))
    return op("AveragePool", apart, count_include_pad=1, **_windows(node))


def _pads(node: FunctionNode) -> list[int]:
    return list(node.settings.get("pads", [0] * (2 * len(node.settings["kernel_shape"]))))


def _windows(node: FunctionNode) -> dict[str, list[int]]:
    kernel = list(node.settings["kernel_shape"])
    return {"kernel_shape": kernel, "strides": list(node.settings.get("strides", [1] * len(kernel)))}


def _padded(
    node: FunctionNode, x: Tensor, pads: list[int], value: float, like: Tensor | None = None
) -> Tensor:
    """Return the input padded, at the end up to where the last window ends (less than nothing: cut off).

    Args:
        node: The pooling.
        x: What is padded.
        pads: All begins, then all ends.
        value: What with.
        like: The input of the pooling, if ``x`` has its padding already.
    """
    if node.settings["rounding"] == "caffe" and any(_pads(node)):
        raise NotWritable("its windows are those of the standard operator")
    if node.settings["rounding"] not in {"caffe", "full"}:
        raise NotWritable(f"its rounding is {node.settings['rounding']!r}")
    kernel, strides = _windows(node).values()
    rank, own = len(kernel), _pads(node)
    around = [begin + end - k for begin, end, k in zip(own[:rank], own[rank:], kernel, strict=True)]
    steps = op(
        "Div",
        (x if like is None else like).sizes(2) + [a + s - 1 for a, s in zip(around, strides, strict=True)],
        strides,
    )
    last = steps * strides + [k - begin for k, begin in zip(kernel, pads[:rank], strict=True)]
    end = last - x.sizes(2)
    return op("Pad", x, op("Concat", [0, 0, *pads[:rank], 0, 0], end, axis=0), value)


@body("ChannelLRN")
def channel_lrn(node: FunctionNode) -> Sequence[Tensor]:
    """The mean of squares is a pooling."""
    (x,) = node.inputs
    size, alpha, beta = (node.settings[name] for name in ("size", "alpha", "beta"))
    mean = op("AveragePool", x * x, kernel_shape=[size] * 2, pads=[(size - 1) // 2] * 4, count_include_pad=1)
    return [x * op("Pow", mean * float(alpha) + 1.0, float(-beta))]
