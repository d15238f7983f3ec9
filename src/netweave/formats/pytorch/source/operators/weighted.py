"""Layers with weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.files.source_code.steps import Field, Module, Step
from netweave.formats.pytorch.source.table import PyTorchNode, writes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@writes("Conv")
def conv(node: PyTorchNode) -> Step:
    """A convolution; padding that differs between both ends is put before it."""
    out, per_group, *kernel = _weight_shape(node)
    groups = node.get("group", 1)
    before, padding = _padding(node, len(kernel))
    fields = (
        Field("in_channels", per_group * groups),
        Field("out_channels", out),
        Field("kernel_size", int_or_tuple(kernel)),
        Field("stride", int_or_tuple(node.get("strides", [1] * len(kernel))), 1),
        Field("padding", padding, 0),
        Field("dilation", int_or_tuple(node.get("dilations", [1] * len(kernel))), 1),
        Field("groups", groups, 1),
        Field("bias", node.has(2), True),
    )
    return node.step(before, module=Module(f"nn.Conv{len(kernel)}d", fields, _state(node)))


@writes("ConvTranspose")
def conv_transpose(node: PyTorchNode) -> Step:
    """A transposed convolution; an end padding larger than the begin's cannot be written."""
    channels, per_group, *kernel = _weight_shape(node)
    rank = len(kernel)
    groups = node.get("group", 1)
    begin, end = _pads(node, rank)
    extra = [a - b for a, b in zip(begin, end, strict=True)]
    output_padding = node.get("output_padding", [0] * rank)
    added = [a + b for a, b in zip(extra, output_padding, strict=True)]
    if min(added) < 0 or node.get("output_shape") or node.get("auto_pad", "NOTSET") != "NOTSET":
        raise NotWritable("its padding differs between both ends")
    fields = (
        Field("in_channels", channels),
        Field("out_channels", per_group * groups),
        Field("kernel_size", int_or_tuple(kernel)),
        Field("stride", int_or_tuple(node.get("strides", [1] * rank)), 1),
        Field("padding", int_or_tuple(begin), 0),
        Field("output_padding", int_or_tuple(added), 0),
        Field("groups", groups, 1),
        Field("bias", node.has(2), True),
        Field("dilation", int_or_tuple(node.get("dilations", [1] * rank)), 1),
    )
    return node.step("{m}({0})", module=Module(f"nn.ConvTranspose{rank}d", fields, _state(node)))


@writes("Gemm")
def gemm(node: PyTorchNode) -> Step:
    """A dense layer, with its factors taken into the arrays."""
    if node.get("transA", 0) or not node.is_stored(1):
        raise NotWritable("its matrix is not a stored one")
    is_transposed = node.get("transB", 0) == 1
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    weight, rows = node.lazy_array(1), node.shape(1)
    outputs, inputs = rows if is_transposed else rows[::-1]
    state: dict[str, Callable[[], np.ndarray]] = {
        "weight": lambda: np.ascontiguousarray(weight() if is_transposed else weight().T) * _factor(alpha)
    }
    if node.has(2):
        bias = node.lazy_array(2)
        state["bias"] = lambda: np.broadcast_to(bias() * _factor(beta), (outputs or 0,))
    return _linear(node, inputs, outputs, state)


@writes("MatMul")
def matmul(node: PyTorchNode) -> Step:
    """A product with a stored matrix as a dense layer, or of two values."""
    if node.is_stored(1) and node.rank(1) == 2:
        weight = node.lazy_array(1)
        inputs, outputs = node.shape(1)
        return _linear(node, inputs, outputs, {"weight": lambda: np.ascontiguousarray(weight().T)})
    if node.is_stored(0) or node.is_stored(1):
        raise NotWritable("it multiplies with a stored array that is no matrix")
    return node.step("{0} @ {1}", inputs=(0, 1), binds=False)


def _linear(
    node: PyTorchNode, inputs: int | None, outputs: int | None, state: dict[str, Callable[[], np.ndarray]]
) -> Step:
    fields = (
        Field("in_features", inputs),
        Field("out_features", outputs),
        Field("bias", "bias" in state, True),
    )
    return node.step("{m}({0})", module=Module("nn.Linear", fields, state))


def _factor(number: float) -> np.float32:
    return np.float32(number)


def _weight_shape(node: PyTorchNode) -> Sequence[int]:
    shape = node.lazy_array(1)().shape if not node.shape(1) else node.shape(1)
    sizes = [size for size in shape if size is not None]
    if len(sizes) not in {3, 4, 5}:
        raise NotWritable(f"its weights have {len(sizes)} axes")
    return sizes


def _state(node: PyTorchNode) -> dict[str, Callable[[], np.ndarray]]:
    return {"weight": node.lazy_array(1)} | ({"bias": node.lazy_array(2)} if node.has(2) else {})


def _pads(node: PyTorchNode, rank: int) -> tuple[list[int], list[int]]:
    pads = list(node.get("pads") or [0] * (2 * rank))
    return pads[:rank], pads[rank:]


def _padding(node: PyTorchNode, rank: int) -> tuple[str, int | tuple[int, ...]]:
    """Return the call of the module, padded first if need be, and the module's own padding."""
    begin, end = same_pads(node, rank) or _pads(node, rank)
    if begin == end:
        return "{m}({0})", int_or_tuple(begin)
    return f"{{m}}(F.pad({{0}}, {pad_argument(begin, end)}))", 0


def same_pads(node: PyTorchNode, rank: int) -> tuple[list[int], list[int]] | None:
    """Return the padding that ``auto_pad`` asks for; None where it asks for none.

    Raises:
        NotWritable: It depends on sizes that are not known.
    """
    rule = node.get("auto_pad", "NOTSET")
    if rule in {"NOTSET", "VALID"}:
        return None
    kernel = node.get("kernel_shape") or node.shape(1)[2:]
    strides = node.get("strides") or [1] * rank
    dilations = node.get("dilations") or [1] * rank
    begin, end = [], []
    for size, taps, stride, dilation in zip(node.shape(0)[2:], kernel, strides, dilations, strict=True):
        if size is None and stride > 1:
            raise NotWritable(
                "its padding is a rule (auto_pad) and sizes are not known; give the input's sizes"
            )
        before = 0 if size is None else (size - 1) % stride
        total = max(0, dilation * (taps - 1) - before)
        begin.append(total // 2 if rule == "SAME_UPPER" else total - total // 2)
        end.append(total - begin[-1])
    return begin, end


def pad_argument(begin: Sequence[int], end: Sequence[int]) -> str:
    """Return the padding as ``F.pad`` takes it: from the last axis to the first, begin and end."""
    pairs = zip(reversed(begin), reversed(end), strict=True)
    return repr(tuple(number for pair in pairs for number in pair))
