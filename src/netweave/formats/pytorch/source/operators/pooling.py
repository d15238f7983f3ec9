"""Pooling, whose rounding PyTorch knows as ``ceil_mode``; what it cannot say is padded first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.formats.lowering.nodes.windows import pool_windows_of, spatial_sizes
from netweave.formats.pytorch.source.operators.weighted import pad_argument
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step
    from netweave.graph.ops.pooling import PoolWindows

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
