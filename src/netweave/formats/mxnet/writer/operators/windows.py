"""Convolution, pooling, detection and recurrence as MXNet's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.blocks import by_batch, joined
from netweave.formats.lowering.nodes.arrays import dense_arrays, plain_settings
from netweave.formats.lowering.nodes.windows import (
    FIRST_STATES,
    RecurrentNode,
    pool_windows_of,
    spatial_sizes,
    window_of,
)
from netweave.formats.lowering.windows import Window
from netweave.formats.mxnet.symbol import Symbol, group
from netweave.formats.mxnet.writer.table import MXNetNode, padded, writes
from netweave.graph import DOMAIN, known_shape
from netweave.graph.ops.pooling import PoolWindows, is_standard


@writes("Conv")
def conv(node: MXNetNode) -> Symbol:
    """A convolution; padding that differs between both ends is put before it."""
    window = window_of(node)
    x, pad = node.symbol(0), window.pads
    if window.pads != window.end_pads:
        x, pad = padded(node, x, window.pads, window.end_pads), [0] * len(window.kernel)
    settings = {"num_filter": node.stored_shape(1)[0], **_settings(node, window, pad)}
    return node.make("Convolution", x, *_arrays(node), **settings)


@writes("ConvTranspose")
def conv_transpose(node: MXNetNode) -> Symbol:
    """A transposed convolution; padding that MXNet has not at both ends is cut off behind it."""
    window = window_of(node)
    added = node.get("output_padding") or [0] * len(window.kernel)
    end = [pad - more for pad, more in zip(window.end_pads, added, strict=True)]
    pad = [max(pair) for pair in zip(window.pads, end, strict=True)]
    adj = [first - last for first, last in zip(pad, end, strict=True)]
    if window.pads != pad or any(more >= stride for more, stride in zip(adj, window.strides, strict=True)):
        raise NotWritable(
            "its padding at the begin is less than at the end, or the end's is less by a whole stride"
        )
    num_filter = node.stored_shape(1)[1] * node.get("group")
    settings = {"num_filter": num_filter, **_settings(node, window, pad)}
    settings |= {"adj": tuple(adj)} if any(adj) else {}
    return node.make("Deconvolution", node.symbol(0), *_arrays(node), **settings)


def _settings(node: MXNetNode, window: Window, pad: Sequence[int]) -> dict[str, object]:
    settings: dict[str, object] = {"kernel": tuple(window.kernel), "no_bias": not node.has(2)}
    given = {"stride": window.strides, "dilate": window.dilations}
    settings |= {name: tuple(numbers) for name, numbers in given.items() if set(numbers) != {1}}
    settings |= {"pad": tuple(pad)} if any(pad) else {}
    return settings | ({"num_group": node.get("group")} if node.get("group") != 1 else {})


def _arrays(node: MXNetNode) -> list[Symbol]:
    return [node.array("weight", 1), *([node.array("bias", 2)] if node.has(2) else [])]


@writes("MatMul")
def matmul(node: MXNetNode) -> Symbol:
    """A product with a stored matrix as a dense layer, or of two stacks of matrices."""
    if node.is_stored(1) and node.rank(1) == 2:
        return dense(node)
    if node.rank(0) == node.rank(1) == 3:
        return node.make("batch_dot", node.symbol(0), node.symbol(1))
    if node.rank(0) == node.rank(1) == 4:
        return node.make("_linalg_gemm2", node.symbol(0), node.symbol(1))
    raise NotWritable(f"its values have {node.rank(0)} and {node.rank(1)} axes, expected 3 or 4 of both")


@writes("Gemm")
def dense(node: MXNetNode) -> Symbol:
    """A dense layer, with its factors taken into the arrays."""
    arrays = dense_arrays(node)
    # an array that is stored as it stands may be shared with another node
    weight = node.array("weight", 1) if arrays.is_verbatim else node.stored("weight", arrays.weight)
    stored = [weight, *([node.stored("bias", arrays.bias)] if arrays.bias else [])]
    settings = {"num_hidden": arrays.num_outputs, "no_bias": arrays.bias is None, "flatten": False}
    return node.make("FullyConnected", node.symbol(0), *stored, **settings)


@writes("Gather")
def gather(node: MXNetNode) -> Symbol:
    """Rows of a stored table, by whole numbers; or one part along an axis."""
    if node.is_stored(0) and node.get("axis") == 0 and node.rank(0) == 2:
        rows, columns = node.stored_shape(0)
        return node.make(
            "Embedding", node.symbol(1), node.array("weight", 0), input_dim=rows, output_dim=columns
        )
    if node.is_stored(1) and node.constant(1).ndim == 0 and int(node.constant(1)) >= 0:
        axis, at = node.axis(), int(node.constant(1))
        part = node.make("slice_axis", node.symbol(0), axis=axis, begin=at, end=at + 1)
        return node.make("squeeze", part, axis=(axis,))
    raise NotWritable("only rows of a stored table, and one part along an axis, are written")


_CONVENTIONS = {"floor": "valid", "full": "full"}


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: MXNetNode) -> Symbol:
    """The largest of each window; what MXNet cannot express is padded with the least number first."""
    return _pooling(node, "max", float(np.finfo(np.float32).min))


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: MXNetNode) -> Symbol:
    """The mean of each window, over its padding as well or not."""
    return _pooling(node, "avg", 0.0)


def _pooling(node: MXNetNode, pool_type: str, pad_value: float) -> Symbol:
    windows = pool_windows_of(node, "MXNet")
    settings: dict[str, Any] = {"kernel": tuple(windows.kernel), "pool_type": pool_type}
    if any(stride != 1 for stride in windows.strides):
        settings["stride"] = tuple(windows.strides)
    convention = _convention(node, windows)
    if convention is not None:
        settings |= {"pad": tuple(windows.begin)} if any(windows.begin) else {}
        settings |= {"pooling_convention": convention} if convention != "valid" else {}
        settings |= {"count_include_pad": False} if pool_type == "avg" and not windows.counts_padding else {}
        return node.make("Pooling", node.symbol(0), **settings)
    sizes = spatial_sizes(node)
    end = [max(pad, 0) for pad in windows.covering_end(sizes)]
    pooled = node.make("Pooling", padded(node, node.symbol(0), windows.begin, end, pad_value), **settings)
    if pool_type == "max":
        return pooled
    # MXNet divided by whole windows; the net divides by what counts of them
    factors = np.prod(windows.kernel) / windows.divisors(sizes, windows.counts(sizes))
    if np.all(factors == 1):
        return pooled
    constant = node.constant_array("factors", factors.astype(np.float32)[None, None])
    return node.make("broadcast_mul", pooled, constant)


def _convention(node: MXNetNode, windows: PoolWindows) -> str | None:
    """Return MXNet's word for the rounding that makes the same windows, or None."""
    if windows.begin != windows.end:
        return None
    if windows.rounding in _CONVENTIONS:
        return _CONVENTIONS[windows.rounding]
    pads = [*windows.begin, *windows.end]
    if is_standard(windows.kernel, strides=windows.strides, pads=pads, rounding="full"):
        return "full"  # whatever the size
    rounding = windows.equal_rounding(spatial_sizes(node), tuple(_CONVENTIONS))
    return None if rounding is None else _CONVENTIONS[rounding]


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: MXNetNode) -> Symbol:
    """One number for each channel."""
    kind = "avg" if node.op_type == "GlobalAveragePool" else "max"
    kernel = (1,) * (node.rank(0) - 2)
    return node.make("Pooling", node.symbol(0), global_pool=True, kernel=kernel, pool_type=kind)


@writes("MultiBoxDetection", domain=DOMAIN)
def multibox_detection(node: MXNetNode) -> Symbol:
    """Rows of class, score and corners from an SSD's heads."""
    symbols = [node.symbol(index) for index in range(3)]
    return node.make("_contrib_MultiBoxDetection", *symbols, **plain_settings(node))


@writes("BoxNMS", domain=DOMAIN)
def box_nms(node: MXNetNode) -> Symbol:
    """Rows of boxes that stay, best first."""
    return node.make("_contrib_box_nms", node.symbol(0), **plain_settings(node))


@writes("Proposal", domain=DOMAIN)
def proposal(node: MXNetNode) -> Symbol:
    """Regions of interest; Proposal is for one image, MultiProposal for any number."""
    symbols = [node.symbol(index) for index in range(3)]
    settings = plain_settings(node) | {"output_score": len(node.outputs) > 1}
    op = "_contrib_Proposal" if node.shape(0)[0] == 1 else "_contrib_MultiProposal"
    return node.make(op, *symbols, **settings)


@writes("ROIPooling", domain=DOMAIN)
def roi_pooling(node: MXNetNode) -> Symbol:
    """The largest of each bin of each region."""
    settings = {"pooled_size": tuple(node.get("pooled_shape")), "spatial_scale": node.get("spatial_scale")}
    return node.make("ROIPooling", node.symbol(0), node.symbol(1), **settings)


@writes("Expand")
def expand(node: MXNetNode) -> Symbol:
    """Sizes of 1 made larger; the batch stays as it is."""
    old, new = node.shape(0), known_shape(node.outputs[0])
    if new is None or len(old) != len(new):
        raise NotWritable("its sizes are computed, or have another number of axes")
    sizes = [0 if size == before else size for before, size in zip(old, new, strict=True)]
    if None in sizes:
        raise NotWritable("its sizes are not known; give the input's sizes")
    return node.make("broadcast_to", node.symbol(0), shape=tuple(sizes))


# T steps, N examples, H hidden units, D directions. Packed are, for each direction, the weights of the
# input and those of the state, and after all weights the two biases of each.


@writes("LSTM", "GRU", "RNN")
def recurrent(node: MXNetNode) -> Symbol:
    """One layer, of one direction or of both; backwards alone is a sequence that is turned, and back."""
    rnn = RecurrentNode(node, "cudnn", target="MXNet", resets_after=True)
    x, num_outputs = node.symbol(0), len(node.outputs)
    if rnn.direction == "reverse":
        x = node.make_beside("turned", "SequenceReverse", x)
    outputs = node.make(
        "RNN",
        x,
        _packed(node, rnn),
        *_first_states(node, (rnn.num_directions, node.shape(0)[1] or 0, rnn.hidden_size)),
        mode=rnn.cudnn_mode(),
        state_size=rnn.hidden_size,
        num_layers=1,
        **({"bidirectional": True} if rnn.num_directions == 2 else {}),
        **({"state_outputs": True} if num_outputs > 1 else {}),
    )
    steps, states = outputs[0], [outputs[number] for number in range(1, num_outputs)]
    if rnn.direction == "reverse":
        steps = node.make("SequenceReverse", steps)
    sequence = _sequence(node, steps, rnn)
    return group([sequence, *states]) if states else sequence


def _packed(node: MXNetNode, rnn: RecurrentNode) -> Symbol:
    """Return the variable of all weights, then all biases (cuDNN's packed array of one layer)."""
    directions = range(rnn.num_directions)
    arrays = [rnn.matrix(index, direction) for direction in directions for index in (1, 2)]
    if node.has(3):
        arrays += [rnn.bias(direction, half=half) for direction in directions for half in (0, 1)]
    else:
        num_rows = node.stored_shape(1)[1]
        arrays += [lambda: np.zeros(2 * rnn.num_directions * num_rows, np.float32)]
    return node.stored("parameters", lambda: np.concatenate([load().reshape(-1) for load in arrays]))


def _first_states(node: MXNetNode, shape: tuple[int, ...]) -> list[Symbol]:
    """Return the first states; those that are left out are zeros, of a size that MXNet finds."""
    wanted = FIRST_STATES if node.op_type == "LSTM" else FIRST_STATES[:1]
    return [
        node.symbol(index) if node.has(index) else node.make_beside("state", "_zeros", shape=shape)
        for index in wanted
    ]


def _sequence(node: MXNetNode, steps: Symbol, rnn: RecurrentNode) -> Symbol:
    """Return ONNX's (T, D, N, H) from (T, N, D * H); what the net makes of it may be what MXNet gives."""
    output = node.outputs[0]
    if (plain := joined(output, rnn.columns)) is not None:
        node.give(plain, steps)
    elif (by_batch_value := by_batch(output, rnn.columns)) is not None:
        node.give(by_batch_value, node.make("transpose", steps, axes=(1, 0, 2)))
    if rnn.num_directions == 1:
        return node.make("expand_dims", steps, axis=1)
    apart = node.make("Reshape", steps, shape=(0, 0, rnn.num_directions, rnn.hidden_size))
    return node.make("transpose", apart, axes=(0, 2, 1, 3))
