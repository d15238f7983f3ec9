"""Pooling, whose padding Keras knows as ``same`` or ``valid``; other padding stands in front."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable, int_or_tuple
from netweave.formats.keras.source.table import KerasNode, around, is_same, writes
from netweave.formats.lowering.nodes.windows import pool_windows_of, spatial_sizes
from netweave.formats.lowering.windows import Window
from netweave.graph import DOMAIN
from netweave.graph.passes.pads import is_never_negative

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step
    from netweave.graph.ops.pooling import PoolWindows


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
