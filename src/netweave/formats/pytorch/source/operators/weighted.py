"""Layers with weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.files.source_code.steps import Field, Module, Step
from netweave.formats.lowering.nodes.arrays import dense_arrays
from netweave.formats.lowering.nodes.windows import window_of
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph.passes.projections import dense_before

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from netweave.formats.lowering.windows import Window


@writes("Conv")
def conv(node: PyTorchNode) -> Step:
    """A convolution; padding that differs between both ends is put before it."""
    out, per_group, *_ = node.stored_shape(1)
    groups, window = node.get("group"), window_of(node)
    rank = _rank(window)
    before, padding = "{m}({0})", int_or_tuple(window.pads)
    if window.pads != window.end_pads:
        before, padding = f"{{m}}(F.pad({{0}}, {pad_argument(window.pads, window.end_pads)}))", 0
    fields = (
        Field("in_channels", per_group * groups),
        Field("out_channels", out),
        Field("kernel_size", int_or_tuple(window.kernel)),
        Field("stride", int_or_tuple(window.strides), 1),
        Field("padding", padding, 0),
        Field("dilation", int_or_tuple(window.dilations), 1),
        Field("groups", groups, 1),
        Field("bias", node.has(2), True),
    )
    return node.step(before, module=Module(f"nn.Conv{rank}d", fields, _state(node)))


@writes("ConvTranspose")
def conv_transpose(node: PyTorchNode) -> Step:
    """A transposed convolution; an end padding larger than the begin's cannot be written."""
    channels, per_group, *_ = node.stored_shape(1)
    groups, window = node.get("group"), window_of(node)
    rank = _rank(window)
    ends = zip(window.pads, window.end_pads, node.get("output_padding", [0] * rank), strict=True)
    added = [begin - end + more for begin, end, more in ends]
    if min(added) < 0:
        raise NotWritable("its padding differs between both ends")
    fields = (
        Field("in_channels", channels),
        Field("out_channels", per_group * groups),
        Field("kernel_size", int_or_tuple(window.kernel)),
        Field("stride", int_or_tuple(window.strides), 1),
        Field("padding", int_or_tuple(window.pads), 0),
        Field("output_padding", int_or_tuple(added), 0),
        Field("groups", groups, 1),
        Field("bias", node.has(2), True),
        Field("dilation", int_or_tuple(window.dilations), 1),
    )
    return node.step("{m}({0})", module=Module(f"nn.ConvTranspose{rank}d", fields, _state(node)))


def _rank(window: Window) -> int:
    if len(window.kernel) not in {1, 2, 3}:
        raise NotWritable(f"its weights have {len(window.kernel)} spatial axes")
    return len(window.kernel)


@writes("MatMul")
def matmul(node: PyTorchNode) -> Step | list[Step]:
    """A product with a stored matrix as a dense layer, or of two values."""
    if node.is_stored(1) and node.rank(1) == 2:
        return linear_layer(node)
    if node.is_stored(0) or node.is_stored(1):
        raise NotWritable("it multiplies with a stored array that is no matrix")
    return node.step("{0} @ {1}", inputs=(0, 1), binds=False)


@writes("Gemm")
def linear(node: PyTorchNode) -> Step | list[Step]:
    """A dense layer."""
    return linear_layer(node)


def linear_layer(node: PyTorchNode) -> Step:
    """Return a dense layer, with the factors of its node taken into the arrays."""
    arrays = dense_arrays(node)
    state = {"weight": arrays.weight} | ({"bias": arrays.bias} if arrays.bias else {})
    fields = (
        Field("in_features", arrays.num_inputs),
        Field("out_features", arrays.num_outputs),
        Field("bias", arrays.bias is not None, True),
    )
    return node.step("{m}({0})", module=Module("nn.Linear", fields, state))


def biased_linear(add: PyTorchNode) -> Step | None:
    """Return a dense layer for a node that adds a bias to a product over the last axis; None for others."""
    found = dense_before(add.outputs[0])
    if found is None or found.nodes[-1] is not add.ir_node:
        return None
    return linear_layer(add.for_node(found.nodes[0])).with_bias(
        found.vector, add.outputs[0].name or "", add.layers, setting="bias"
    )


def _state(node: PyTorchNode) -> dict[str, Callable[[], np.ndarray]]:
    return {"weight": node.lazy_array(1)} | ({"bias": node.lazy_array(2)} if node.has(2) else {})


def pad_argument(begin: Sequence[int], end: Sequence[int]) -> str:
    """Return the padding as ``F.pad`` takes it: from the last axis to the first, begin and end."""
    pairs = zip(reversed(begin), reversed(end), strict=True)
    return repr(tuple(number for pair in pairs for number in pair))
