"""Pooling, whose rounding PyTorch knows as ``ceil_mode``; what it cannot say is padded first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.formats.pytorch.source.operators.weighted import pad_argument, same_pads
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import num_windows

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step

_AXES = {1: "1d", 2: "2d", 3: "3d"}


@dataclass(frozen=True, slots=True)
class _Windows:
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begin: list[int]
    end: list[int]
    rounding: str

    def counts(self, sizes: list[int], rounding: str, begin: list[int], end: list[int]) -> list[int]:
        any_pad = any(begin) or any(end)
        return [
            num_windows(
                size,
                dilation * (kernel - 1) + 1,
                stride=stride,
                pads=(first, last),
                rounding=rounding,
                any_pad=any_pad,
            )
            for size, kernel, stride, dilation, first, last in zip(
                sizes, self.kernel, self.strides, self.dilations, begin, end, strict=True
            )
        ]


def _read(node: PyTorchNode) -> _Windows:
    kernel = list(node.get("kernel_shape"))
    rank = len(kernel)
    begin, end = same_pads(node, rank) or ([], [])
    pads = [*begin, *end] or list(node.get("pads") or [0] * (2 * rank))
    rounding = node.get("rounding") or ("ceil" if node.get("ceil_mode", 0) else "floor")
    return _Windows(
        kernel,
        list(node.get("strides") or [1] * rank),
        list(node.get("dilations") or [1] * rank),
        pads[:rank],
        pads[rank:],
        rounding,
    )


def _ceil_mode(node: PyTorchNode, windows: _Windows) -> bool | None:
    """Return PyTorch's ``ceil_mode`` that makes the same windows, or None."""
    if windows.begin != windows.end or any(
        2 * pad > kernel for pad, kernel in zip(windows.begin, windows.kernel, strict=True)
    ):
        return None
    if windows.rounding in {"floor", "ceil"}:
        return windows.rounding == "ceil"
    sizes = _sizes(node)
    wanted = windows.counts(sizes, windows.rounding, windows.begin, windows.end)
    for mode, rounding in ((False, "floor"), (True, "ceil")):
        if wanted == windows.counts(sizes, rounding, windows.begin, windows.end):
            return mode
    return None


def _sizes(node: PyTorchNode) -> list[int]:
    sizes = [size for size in node.shape(0)[2:] if size is not None]
    if len(sizes) != node.rank(0) - 2:
        raise NotWritable("its windows depend on sizes that are not known; give the input's sizes")
    return sizes


def _settings(windows: _Windows, *, padding: list[int]) -> str:
    text = f"{int_or_tuple(windows.kernel)}, {int_or_tuple(windows.strides)}"
    return text + (f", {int_or_tuple(padding)}" if any(padding) else "")


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: PyTorchNode) -> Step:
    """The largest of each window."""
    windows = _read(node)
    function = f"F.max_pool{_AXES[len(windows.kernel)]}"
    dilation = f", dilation={int_or_tuple(windows.dilations)}" if set(windows.dilations) != {1} else ""
    mode = _ceil_mode(node, windows)
    if mode is not None:
        ceil = ", ceil_mode=True" if mode else ""
        return node.step(f"{function}({{0}}, {_settings(windows, padding=windows.begin)}{dilation}{ceil})")
    padded = f'F.pad({{0}}, {pad_argument(windows.begin, _covering(node, windows))}, value=float("-inf"))'
    return node.step(f"{function}({padded}, {_settings(windows, padding=[])}{dilation})")


def _covering(node: PyTorchNode, windows: _Windows) -> list[int]:
    """Return the end padding with which rounding down gives the wanted windows."""
    if windows.rounding == "floor":
        return windows.end
    sizes = _sizes(node)
    counts = windows.counts(sizes, windows.rounding, windows.begin, windows.end)
    return [
        max(0, (count - 1) * stride + dilation * (kernel - 1) + 1 - size - begin)
        for count, stride, dilation, kernel, size, begin in zip(
            counts, windows.strides, windows.dilations, windows.kernel, sizes, windows.begin, strict=True
        )
    ]


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: PyTorchNode) -> Step:
    """The mean of each window, over its padding as well or not."""
    windows = _read(node)
    if set(windows.dilations) != {1}:
        raise NotWritable("a dilated mean cannot be written")
    function = f"F.avg_pool{_AXES[len(windows.kernel)]}"
    includes = node.get("count_include_pad", 0) != 0
    mode = _ceil_mode(node, windows)
    if mode is None and includes and windows.rounding == "floor":
        padded = f"F.pad({{0}}, {pad_argument(windows.begin, windows.end)})"
        return node.step(f"{function}({padded}, {_settings(windows, padding=[])})")
    if mode is None:
        raise NotWritable("its windows over the padding cannot be written")
    text = _settings(windows, padding=windows.begin) + (", ceil_mode=True" if mode else "")
    if any(windows.begin) and not includes:
        text += ", count_include_pad=False"
    return node.step(f"{function}({{0}}, {text})")


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: PyTorchNode) -> Step:
    """One number for each channel."""
    kind = "avg" if node.op_type == "GlobalAveragePool" else "max"
    return node.step(f"F.adaptive_{kind}_pool{_AXES[node.rank(0) - 2]}({{0}}, 1)")
