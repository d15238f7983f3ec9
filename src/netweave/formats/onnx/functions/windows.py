"""Pooling, recurrence and attention as functions of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions.tape import LOWEST, FunctionNode, Tensor, body, constant, loop, op
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import PoolWindows


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


@body("CaffeLSTM")
def lstm(node: FunctionNode) -> Sequence[Tensor]:
    """Gates i, f, o, g; ``cont`` cuts both states off where a sequence begins."""
    outside, cont, weight, *states = node.inputs
    columns = op("Transpose", weight, perm=[1, 0])

    def step(number: Tensor, h: Tensor, c: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        goes_on = op("Gather", cont, number).at(1)
        gates = op("Gather", outside, number) + op("MatMul", goes_on * h, columns)
        i, f, o, g = gates.split(4, axis=1)
        c = goes_on * op("Sigmoid", f) * c + op("Sigmoid", i) * op("Tanh", g)
        h = op("Sigmoid", o) * op("Tanh", c)
        return None, [h, c], [h]

    h, c, hidden = loop(op("Squeeze", outside.size(0)), None, _first(node, states, 2), step)
    return [hidden, h.at(0), c.at(0)]


@body("CaffeRNN")
def rnn(node: FunctionNode) -> Sequence[Tensor]:
    """The hidden states, and the last one."""
    outside, cont, weight, *states = node.inputs
    columns = op("Transpose", weight, perm=[1, 0])

    def step(number: Tensor, h: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        goes_on = op("Gather", cont, number).at(1)
        h = op("Tanh", op("Gather", outside, number) + op("MatMul", goes_on * h, columns))
        return None, [h], [h]

    h, hidden = loop(op("Squeeze", outside.size(0)), None, _first(node, states, 1), step)
    return [hidden, h.at(0)]


def _first(node: FunctionNode, states: Sequence[Tensor], count: int) -> list[Tensor]:
    """Return the states before the first step, (N, H); zeros where none are given."""
    if states:
        return [op("Squeeze", state, [0]) for state in states]
    outside, _, weight = node.inputs
    zeros = op("Expand", 0.0, op("Concat", outside.size(1), weight.size(1), axis=0))
    return [zeros] * count


@body("Attention")
def attention(node: FunctionNode) -> Sequence[Tensor]:
    """Heads in the last axis, or with an axis of their own."""
    if node.has(3) and node.value(3).dtype == ir.DataType.BOOL:
        raise NotWritable("its mask is of booleans")
    return [_attended(node, *node.inputs)]


@body("MultiHeadAttention")
def multi_head_attention(node: FunctionNode) -> Sequence[Tensor]:
    """Attention between dense layers."""
    arrays = node.inputs[3:]
    query, key, value = (
        op("MatMul", x, arrays[2 * part]) + arrays[2 * part + 1] for part, x in enumerate(node.inputs[:3])
    )
    return [op("MatMul", _attended(node, query, key, value), arrays[6]) + arrays[7]]


@body("RMSNormalization")
def rms_normalization(node: FunctionNode) -> Sequence[Tensor]:
    """Divided by the root of the mean square."""
    x, scale = node.inputs
    axes = list(range(node.settings["axis"], 0))
    mean_square = op("ReduceMean", x * x, axes, keepdims=1)
    return [x / op("Sqrt", mean_square + node.settings["epsilon"]) * scale]


@body("RotaryEmbedding")
def rotary_embedding(node: FunctionNode) -> Sequence[Tensor]:
    """Pairs are neighbours, which are parted by an axis of their own, or halves."""
    x, cosines, sines = node.inputs
    end, width = np.iinfo(np.int64).max, node.settings["rotary_dim"]
    if width:
        whole, x = x, op("Slice", x, [0], [width], [-1])
        return [
            op("Concat", _turned(node, x, cosines, sines), op("Slice", whole, [width], [end], [-1]), axis=-1)
        ]
    return [_turned(node, x, cosines, sines)]


def _turned(node: FunctionNode, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    end = np.iinfo(np.int64).max
    if not node.settings["interleaved"]:
        first, second = x.split(2, axis=-1)
        return op("Concat", first * cosines - second * sines, first * sines + second * cosines, axis=-1)
    first, second = (op("Slice", x, [begin], [end], [-1], [2]) for begin in (0, 1))
    turned = first * cosines - second * sines, first * sines + second * cosines
    return op("Reshape", op("Concat", *(each.at(-1) for each in turned), axis=-1), x.sizes())


def _attended(
    node: FunctionNode, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    num_heads = node.settings["num_heads"]
    if num_heads:
        query, key, value = (
            op("Transpose", op("Reshape", x, [0, 0, num_heads, -1]), perm=[0, 2, 1, 3])
            for x in (query, key, value)
        )
    scores = op("MatMul", query, op("Transpose", key, perm=[0, 1, 3, 2])) * node.settings["scale"]
    if cap := node.settings.get("softcap", 0.0):
        scores = op("Tanh", scores / cap) * cap
    if node.settings["is_causal"]:
        sizes = op("Concat", query.size(2), key.size(2), axis=0)
        scores = scores + op("Trilu", op("Expand", constant(LOWEST), sizes), 1, upper=1)
    if mask is not None:
        scores = scores + mask
    heads = op("MatMul", op("Softmax", scores, axis=-1), value)
    return op("Reshape", op("Transpose", heads, perm=[0, 2, 1, 3]), [0, 0, -1]) if num_heads else heads
