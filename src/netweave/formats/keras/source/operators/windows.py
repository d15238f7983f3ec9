"""Convolution, pooling and attention as Keras's layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.files.source_code.forward import Field, Module, Step
from netweave.formats.keras.source.table import KerasNode, around, is_same, writes
from netweave.formats.lowering.nodes.arrays import channel_slopes, dense_arrays, statistics_arrays
from netweave.formats.lowering.nodes.windows import (
    ProjectedAttention,
    pool_windows_of,
    spatial_sizes,
    window_of,
)
from netweave.formats.lowering.windows import Window
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.projections import dense_before
from netweave.graph.passes.windows import is_never_negative

State = dict[str, "Callable[[], np.ndarray]"]


@writes("Conv")
def conv(node: KerasNode) -> Step:
    """A convolution, or one for each channel; padding that Keras has no word for is put before it."""
    dimensions = node.dimensions()
    out, per_group, *kernel = node.stored_shape(1)
    group, channels = node.get("group"), per_group * node.get("group")
    window = window_of(node, keeps_same=True)
    before, padding = "{m}({0})", "same" if is_same(node, window) else "valid"
    if padding == "valid" and any(window.onnx_pads):
        before = f"{{m}}(layers.ZeroPadding{dimensions}({around(window.pads, window.end_pads)})({{0}}))"
    is_depthwise = per_group == 1 and group == channels > 1 and dimensions != "3D"
    if is_depthwise and len(set(window.strides)) > 1:
        raise NotWritable("Keras has no depthwise convolution with different strides")
    settings: tuple[Field, ...] = (
        Field("strides", int_or_tuple(window.strides), 1),
        Field("padding", padding, "valid"),
        Field("dilation_rate", int_or_tuple(window.dilations), 1),
    )
    bias = Field("use_bias", node.has(2), True)
    fields: tuple[Field, ...]
    if is_depthwise:
        fields = (
            Field("kernel_size", int_or_tuple(kernel)),
            *settings,
            Field("depth_multiplier", out // channels, 1),
            bias,
        )
        return node.weighted(
            f"DepthwiseConv{dimensions}", fields, _state(node, _depthwise(out // channels)), before
        )
    fields = (
        Field("filters", out),
        Field("kernel_size", int_or_tuple(kernel)),
        *settings,
        Field("groups", group, 1),
        bias,
    )
    return node.weighted(f"Conv{dimensions}", fields, _state(node, _kernel_weighted), before)


def _kernel_weighted(w: np.ndarray) -> np.ndarray:
    """Return weights with the spatial axes before the channels of input and output."""
    return w.transpose(*range(2, w.ndim), 1, 0)


def _depthwise(multiplier: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda w: w.reshape(-1, multiplier, *w.shape[2:]).transpose(*range(2, w.ndim), 0, 1)


def _state(node: KerasNode, turned: Callable[[np.ndarray], np.ndarray]) -> State:
    weight = node.lazy_array(1)
    state: State = {"kernel": lambda: turned(weight())}
    return state | ({"bias": node.lazy_array(2)} if node.has(2) else {})


@writes("ConvTranspose")
def conv_transpose(node: KerasNode) -> Step:
    """A transposed convolution; its padding is cut off behind it, or is Keras's ``same``.

    Groups, which Keras has not, are one convolution with zeros between them.
    """
    dimensions = node.dimensions()
    weight, group = node.stored_shape(1), node.get("group")
    window = window_of(node)
    kernel, strides = window.kernel, window.strides
    if set(window.dilations) != {1}:
        raise NotWritable("Keras has no transposed convolution with dilation")
    if group > 1 and group * prod(weight) > MOST_ZEROS:
        raise NotWritable(f"Keras has no transposed convolution by groups, and these are {group}")
    added = node.get("output_padding") or [0] * len(kernel)
    begin, end = window.pads, [pad - more for pad, more in zip(window.end_pads, added, strict=True)]
    missing = [max(-pad, 0) for pad in end]
    if any(more >= stride for more, stride in zip(missing, strides, strict=True)):
        raise NotWritable("its end is longer by a whole stride")
    total = [k - s for k, s in zip(kernel, strides, strict=True)]
    is_same = [a + b for a, b in zip(begin, end, strict=True)] == total and begin == [t // 2 for t in total]
    is_longer = any(missing) or min(total) < 0  # Keras goes on to a whole stride where kernels are smaller
    fields = (
        Field("filters", weight[1] * group),
        Field("kernel_size", int_or_tuple(kernel)),
        Field("strides", int_or_tuple(strides), 1),
        Field("padding", "same" if is_same and any(total) and not is_longer else "valid", "valid"),
        Field("output_padding", int_or_tuple(missing) if is_longer else (), ()),
        Field("use_bias", node.has(2), True),
    )
    state = _state(node, lambda w: _kernel_weighted(_with_zeros(w, group)))
    cut = [max(pad, 0) for pad in end]
    crops = (not is_same or is_longer) and (any(begin) or any(cut))
    template = f"layers.Cropping{dimensions}({around(begin, cut)})({{m}}({{0}}))" if crops else "{m}({0})"
    return node.weighted(f"Conv{dimensions}Transpose", fields, state, template)


MOST_ZEROS = 1 << 24
"""Groups of a transposed convolution are refused if their weights with zeros between are more numbers."""


def _with_zeros(weight: np.ndarray, group: int) -> np.ndarray:
    """Return the weights of one convolution for those by groups: (C, M / group, kH, kW) to (C, M, kH, kW)."""
    if group == 1:
        return weight
    channels, per_group, *kernel = weight.shape
    whole = np.zeros((group, channels // group, group, per_group, *kernel), weight.dtype)
    every = np.arange(group)
    whole[every, :, every] = weight.reshape(group, channels // group, per_group, *kernel)
    return whole.reshape(channels, group * per_group, *kernel)


@writes("MatMul")
def matmul(node: KerasNode) -> Step | list[Step]:
    """A product with a stored matrix, over the last axis, or of two stacks of matrices."""
    is_plain = not any(not node.is_stored(index) and node.has_channels_last(index) for index in (0, 1))
    if not node.is_stored(0) and not node.is_stored(1) and is_plain and node.rank(0) == node.rank(1) > 2:
        return node.step("ops.matmul({0}, {1})", inputs=[0, 1])
    if not node.is_stored(1) or node.rank(1) != 2 or not is_plain:
        raise NotWritable("only products with a stored matrix, and those of stacks of matrices, are written")
    return dense_layer(node)


def biased_dense(add: KerasNode) -> Step | None:
    """Return a dense layer for a node that adds a bias to a product over the last axis; None for others."""
    dense = dense_before(add.outputs[0])
    if dense is None or dense.nodes[-1] is not add.ir_node or add.makes_channels_last():
        return None
    return dense_layer(add.for_node(dense.nodes[0])).with_bias(
        dense.vector, add.outputs[0].name or "", add.layers, setting="use_bias"
    )


@writes("Gemm")
def dense(node: KerasNode) -> Step | list[Step]:
    """A dense layer."""
    return dense_layer(node)


def dense_layer(node: KerasNode) -> Step:
    """Return a dense layer, with the factors of its node taken into the arrays."""
    arrays = dense_arrays(node)
    state: State = {"kernel": lambda: _rows(node, arrays.weight().T)}
    state |= {"bias": arrays.bias} if arrays.bias else {}
    fields = (Field("units", arrays.num_outputs), Field("use_bias", arrays.bias is not None, True))
    return node.weighted("Dense", fields, state)


def _rows(node: KerasNode, matrix: np.ndarray) -> np.ndarray:
    """Return a matrix with its rows in the order of a flattened image of Keras's, if it reads one."""
    image = flattened_image(node, 0)
    if image is None:
        return matrix
    return np.moveaxis(matrix.reshape(*image, -1), 0, -2).reshape(matrix.shape)


def flattened_image(node: KerasNode, index: int) -> tuple[int, ...] | None:
    """Return channels and spatial sizes of what an input is, flattened for dense layers alone."""
    from netweave.formats.keras.source.operators.shape import flattened_for_dense

    maker = node.value(index).producer()
    return flattened_for_dense(node.for_node(maker)) if maker is not None else None


@writes("BatchNormalization")
def batch_normalization(node: KerasNode) -> Step:
    """By stored statistics."""
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    state: State = dict(zip(names, statistics_arrays(node), strict=True))
    fields = (
        Field("axis", -1 if node.place(1) == node.rank(0) - 1 else 1, -1),
        Field("epsilon", node.decimal("epsilon"), 1e-3),
        Field("momentum", round(node.get("momentum"), 7), 0.99),
    )
    return node.weighted("BatchNormalization", fields, state)


@writes("PRelu")
def prelu(node: KerasNode) -> Step:
    """A stored slope below 0, one for each channel or one for all."""
    _, slopes = channel_slopes(node)
    channels = node.shape(0)[1]
    if channels is None:
        raise NotWritable("the number of its channels is not known")
    shared = [axis for axis in range(1, node.rank(0)) if axis != node.place(1)]
    shape = [1 if axis in shared else channels for axis in range(1, node.rank(0))]
    fields = (Field("shared_axes", shared, False),) if shared else ()
    state: State = {"alpha": lambda: np.broadcast_to(slopes(), shape)}
    return node.weighted("PReLU", fields, state)


def per_channel(node: KerasNode, index: int, scale: np.ndarray, shift: np.ndarray | None) -> Step:
    """Return a scale and a shift of an image for each channel: a convolution of one element for each."""
    channels = node.shape(index)[1]
    if not node.is_image(index) or channels is None:
        raise NotWritable("its stored array is no number, nor one for each channel of an image")
    state: State = {"kernel": lambda: np.broadcast_to(scale, (channels,)).reshape(1, 1, channels, 1)}
    if shift is not None:
        state["bias"] = lambda: np.broadcast_to(shift, (channels,))
    fields = (Field("kernel_size", 1), Field("use_bias", shift is not None, True))
    return node.step("{m}({0})", inputs=[index], module=Module("layers.DepthwiseConv2D", fields, state))


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: KerasNode) -> Step | list[Step]:
    """The largest of each window; zeros around take no part where nothing is negative, -inf never does."""
    return _pooled(node, "Max", zeros_count=is_never_negative(node.value(0)), same_counts=True)


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: KerasNode) -> Step | list[Step]:
    """The mean of each window; Keras's ``same`` leaves the padding out, zeros around count."""
    includes = pool_windows_of(node, "Keras").counts_padding
    return _pooled(node, "Average", zeros_count=includes, same_counts=not includes)


def _pooled(node: KerasNode, kind: str, *, zeros_count: bool, same_counts: bool) -> Step | list[Step]:
    dimensions = node.dimensions()
    windows = pool_windows_of(node, "Keras", keeps_same=same_counts)
    text = f"layers.{kind}Pooling{dimensions}({int_or_tuple(windows.kernel)}"
    text += f", strides={int_or_tuple(windows.strides)}" if windows.strides != windows.kernel else ""
    if windows.rounding == "ceil" and not windows.any_pad and windows.is_halving:
        return node.step(f'{text}, padding="same")({{0}})')  # the same at any size
    end = _whole_end(node, windows)
    if same_counts and is_same(node, Window(windows.kernel, windows.strides, windows.begin, end)):
        return node.step(f'{text}, padding="same")({{0}})')
    if not any(windows.begin) and not any(end):
        return node.step(f"{text})({{0}})")
    if not zeros_count and kind == "Max":
        return _padded_below_all(node, f"{text})", windows.begin, end)
    if not zeros_count:
        raise NotWritable("its padding is not Keras's 'same', and zeros in its place would count")
    return node.step(f"{text})(layers.ZeroPadding{dimensions}({around(windows.begin, end)})({{0}}))")


def _whole_end(node: KerasNode, windows: PoolWindows) -> list[int]:
    """Return the end padding with which rounding down gives the windows of the net."""
    if windows.rounding == "floor":
        return windows.end
    end = [max(pad, 0) for pad in windows.covering_end(spatial_sizes(node))]
    if node.op_type == "AveragePool" and any(a > b for a, b in zip(end, windows.end, strict=True)):
        raise NotWritable("its last windows are cut, and Keras's are whole")
    return end


def _padded_below_all(node: KerasNode, layer: str, begin: list[int], end: list[int]) -> list[Step]:
    """Return a maximum of what is padded with a number below all others."""
    widths = ((0, 0), *zip(begin, end, strict=True), (0, 0))
    padded = node.step(f"ops.pad({{0}}, {widths}, constant_values=-np.inf)")
    pooled = node.step(f"{layer}({{0}})")
    name = f"{pooled.outputs[0]}/padded"
    return [replace(padded, outputs=(name,), layers=()), replace(pooled, inputs=(name,))]


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: KerasNode) -> Step:
    """One number for each channel."""
    dimensions = node.dimensions()
    kind = "Average" if node.op_type == "GlobalAveragePool" else "Max"
    return node.step(f"layers.Global{kind}Pooling{dimensions}(keepdims=True)({{0}})")


_PARTS = ("query", "key", "value", "attention_output")
"""What Keras calls the four dense layers, in the order of their arrays."""


@writes("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: KerasNode) -> Step:
    """Attention with its dense layers."""
    projected = ProjectedAttention.of(node)
    heads, width, depth = projected.num_heads, projected.width, projected.value_width
    fields = (
        Field("num_heads", heads),
        Field("key_dim", width),
        Field("value_dim", depth, width),
        Field("use_bias", projected.has_bias, True),
        Field("output_shape", projected.num_outputs, projected.features),
    )
    state: State = {}
    for part, name in enumerate(_PARTS):
        sizes = (-1, heads, depth if part == 2 else width) if part < 3 else (heads, depth, -1)
        state[f"{name}/kernel"] = partial(_kernel_attention, projected, part, sizes)
        if projected.has_bias:
            bias_sizes = sizes[1:] if part < 3 else (-1,)
            state[f"{name}/bias"] = partial(_bias, projected, part, bias_sizes)
    query, key, value = (node.value(index) for index in range(3))
    inputs = [0, 2, *([] if key is value else [1])]
    places = ", ".join(f"{{{place}}}" for place in range(len(inputs)))
    causal = ", use_causal_mask=True" if node.get("is_causal", 0) else ""
    module = Module("layers.MultiHeadAttention", fields, state)
    if query is key is value:
        return node.step(f"{{m}}({{0}}, {{0}}{causal})", module=module)
    return node.step(f"{{m}}({places}{causal})", inputs=inputs, module=module)


def _kernel_attention(projected: ProjectedAttention, part: int, sizes: tuple[int, ...]) -> np.ndarray:
    """Load the weight of a part with axes for the heads and the features of each."""
    return projected.weight(part).reshape(sizes)


def _bias(projected: ProjectedAttention, part: int, sizes: tuple[int, ...]) -> np.ndarray:
    return projected.bias(part).reshape(sizes)
