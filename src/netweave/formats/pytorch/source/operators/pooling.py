"""Pooling, whose rounding PyTorch knows as ``ceil_mode``; what it cannot say is padded first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.files.writing import Refused, same
from netweave.formats.pytorch.source.operators.weighted import pad_argument, same_pads
from netweave.formats.pytorch.source.table import Call, written
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


def _read(call: Call) -> _Windows:
    kernel = list(call.get("kernel_shape"))
    rank = len(kernel)
    begin, end = same_pads(call, rank) or ([], [])
    pads = [*begin, *end] or list(call.get("pads") or [0] * (2 * rank))
    rounding = call.get("rounding") or ("ceil" if call.get("ceil_mode", 0) else "floor")
    return _Windows(
        kernel,
        list(call.get("strides") or [1] * rank),
        list(call.get("dilations") or [1] * rank),
        pads[:rank],
        pads[rank:],
        rounding,
    )


def _ceil_mode(call: Call, windows: _Windows) -> bool | None:
    """Return PyTorch's ``ceil_mode`` that makes the same windows, or None."""
    if windows.begin != windows.end or any(
        2 * pad > kernel for pad, kernel in zip(windows.begin, windows.kernel, strict=True)
    ):
        return None
    if windows.rounding in {"floor", "ceil"}:
        return windows.rounding == "ceil"
    sizes = _sizes(call)
    wanted = windows.counts(sizes, windows.rounding, windows.begin, windows.end)
    for mode, rounding in ((False, "floor"), (True, "ceil")):
        if wanted == windows.counts(sizes, rounding, windows.begin, windows.end):
            return mode
    return None


def _sizes(call: Call) -> list[int]:
    sizes = [size for size in call.shape(0)[2:] if size is not None]
    if len(sizes) != call.rank(0) - 2:
        raise Refused("its windows depend on sizes that are not known; give the input's sizes")
    return sizes


def _settings(windows: _Windows, *, padding: list[int]) -> str:
    text = f"{same(windows.kernel)}, {same(windows.strides)}"
    return text + (f", {same(padding)}" if any(padding) else "")


@written("MaxPool")
@written("MaxPool", domain=DOMAIN)
def max_pool(call: Call) -> Step:
    """The largest of each window."""
    windows = _read(call)
    function = f"F.max_pool{_AXES[len(windows.kernel)]}"
    dilation = f", dilation={same(windows.dilations)}" if set(windows.dilations) != {1} else ""
    mode = _ceil_mode(call, windows)
    if mode is not None:
        ceil = ", ceil_mode=True" if mode else ""
        return call.step(f"{function}({{0}}, {_settings(windows, padding=windows.begin)}{dilation}{ceil})")
    padded = f'F.pad({{0}}, {pad_argument(windows.begin, _covering(call, windows))}, value=float("-inf"))'
    return call.step(f"{function}({padded}, {_settings(windows, padding=[])}{dilation})")


def _covering(call: Call, windows: _Windows) -> list[int]:
    """Return the end padding with which rounding down gives the wanted windows."""
    if windows.rounding == "floor":
        return windows.end
    sizes = _sizes(call)
    counts = windows.counts(sizes, windows.rounding, windows.begin, windows.end)
    return [
        max(0, (count - 1) * stride + dilation * (kernel - 1) + 1 - size - begin)
        for count, stride, dilation, kernel, size, begin in zip(
            counts, windows.strides, windows.dilations, windows.kernel, sizes, windows.begin, strict=True
        )
    ]


@written("AveragePool")
@written("AveragePool", domain=DOMAIN)
def average_pool(call: Call) -> Step:
    """The mean of each window, over its padding as well or not."""
    windows = _read(call)
    if set(windows.dilations) != {1}:
        raise Refused("a dilated mean cannot be written")
    function = f"F.avg_pool{_AXES[len(windows.kernel)]}"
    includes = call.get("count_include_pad", 0) != 0
    mode = _ceil_mode(call, windows)
    if mode is None and includes and windows.rounding == "floor":
        padded = f"F.pad({{0}}, {pad_argument(windows.begin, windows.end)})"
        return call.step(f"{function}({padded}, {_settings(windows, padding=[])})")
    if mode is None:
        raise Refused("its windows over the padding cannot be written")
    text = _settings(windows, padding=windows.begin) + (", ceil_mode=True" if mode else "")
    if any(windows.begin) and not includes:
        text += ", count_include_pad=False"
    return call.step(f"{function}({{0}}, {text})")


@written("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call: Call) -> Step:
    """One number for each channel."""
    kind = "avg" if call.node.op_type == "GlobalAveragePool" else "max"
    return call.step(f"F.adaptive_{kind}_pool{_AXES[call.rank(0) - 2]}({{0}}, 1)")
