"""Convolution, pooling and detection as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.files.source_code.forward import Field, Module, Step
from netweave.files.source_code.text import literal
from netweave.formats.lowering.nodes.arrays import dense_arrays, plain_settings
from netweave.formats.lowering.nodes.windows import pool_windows_of, spatial_sizes, window_of
from netweave.formats.lowering.windows import Window
from netweave.formats.pytorch.functions import FUNCTIONS
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN, find_operator
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.projections import dense_before


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
    linear = dense_before(add.outputs[0])
    if linear is None or linear.nodes[-1] is not add.ir_node:
        return None
    return linear_layer(add.for_node(linear.nodes[0])).with_bias(
        linear.vector, add.outputs[0].name or "", add.layers, setting="bias"
    )


def _state(node: PyTorchNode) -> dict[str, Callable[[], np.ndarray]]:
    return {"weight": node.lazy_array(1)} | ({"bias": node.lazy_array(2)} if node.has(2) else {})


def pad_argument(begin: Sequence[int], end: Sequence[int]) -> str:
    """Return the padding as ``F.pad`` takes it: from the last axis to the first, begin and end."""
    pairs = zip(reversed(begin), reversed(end), strict=True)
    return repr(tuple(number for pair in pairs for number in pair))


_AXES = {1: "1d", 2: "2d", 3: "3d"}


def _ceil_mode(node: PyTorchNode, windows: PoolWindows) -> bool | None:
    """Return PyTorch's ``ceil_mode`` that makes the same windows, or None."""
    pairs = zip(windows.begin, windows.kernel, strict=True)
    if windows.begin != windows.end or any(2 * pad > kernel for pad, kernel in pairs):
        return None
    if windows.rounding in {"floor", "ceil"}:
        return windows.rounding == "ceil"
    rounding = windows.equal_rounding(spatial_sizes(node), ("floor", "ceil"))
    return None if rounding is None else rounding == "ceil"


def _settings(windows: PoolWindows, *, padding: list[int]) -> str:
    text = f"{int_or_tuple(windows.kernel)}, {int_or_tuple(windows.strides)}"
    return text + (f", {int_or_tuple(padding)}" if any(padding) else "")


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: PyTorchNode) -> Step:
    """The largest of each window."""
    windows = pool_windows_of(node)
    function = f"F.max_pool{_AXES[len(windows.kernel)]}"
    dilation = f", dilation={int_or_tuple(windows.dilations)}" if set(windows.dilations) != {1} else ""
    mode = _ceil_mode(node, windows)
    if mode is not None:
        ceil = ", ceil_mode=True" if mode else ""
        return node.step(f"{function}({{0}}, {_settings(windows, padding=windows.begin)}{dilation}{ceil})")
    end = windows.end
    if windows.rounding != "floor":
        end = [max(pad, 0) for pad in windows.covering_end(spatial_sizes(node))]
    padded = f'F.pad({{0}}, {pad_argument(windows.begin, end)}, value=float("-inf"))'
    return node.step(f"{function}({padded}, {_settings(windows, padding=[])}{dilation})")


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: PyTorchNode) -> Step:
    """The mean of each window, over its padding as well or not."""
    windows = pool_windows_of(node, "PyTorch's mean")
    function = f"F.avg_pool{_AXES[len(windows.kernel)]}"
    mode = _ceil_mode(node, windows)
    if mode is None and windows.counts_padding and windows.rounding == "floor":
        padded = f"F.pad({{0}}, {pad_argument(windows.begin, windows.end)})"
        return node.step(f"{function}({padded}, {_settings(windows, padding=[])})")
    if mode is None:
        raise NotWritable("its windows over the padding cannot be written")
    text = _settings(windows, padding=windows.begin) + (", ceil_mode=True" if mode else "")
    if any(windows.begin) and not windows.counts_padding:
        text += ", count_include_pad=False"
    return node.step(f"{function}({{0}}, {text})")


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: PyTorchNode) -> Step:
    """One number for each channel."""
    kind = "avg" if node.op_type == "GlobalAveragePool" else "max"
    return node.step(f"F.adaptive_{kind}_pool{_AXES[node.rank(0) - 2]}({{0}}, 1)")


_NAMES = {function.op_type: name for name, function in FUNCTIONS.items()}


@writes(*_NAMES, domain=DOMAIN)
def function(node: PyTorchNode) -> Step:
    """A call of the function, with the settings that are not its defaults."""
    numbers: list[int] = []
    parts: list[str] = []
    modules: list[Module] = []
    for index in range(node.num_inputs):
        text, read, module = node.operand(index, len(numbers))
        numbers += read
        parts.append(text)
        modules += [module] if module else []
    if len(modules) > 1:
        raise NotWritable("two of its inputs are stored")
    defaults = find_operator(node.op_type).defaults
    settings = plain_settings(node).items()
    parts += [f"{name}={_shown(value)}" for name, value in settings if value != defaults.get(name)]
    count = len(node.outputs)
    is_first = count == 1 and node.op_type in {"Proposal", "RegionProposal"}
    return node.step(
        f"{_NAMES[node.op_type]}({', '.join(parts)}){'[0]' if is_first else ''}",
        inputs=numbers,
        module=modules[0] if modules else None,
        num_outputs=count,
    )


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if not isinstance(value, tuple):
        return literal(value)
    return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
