"""Pooling: MXNet rounds the number of windows down (``valid``) or up (``full``), and pads both ends alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.lowering.nodes.windows import pool_windows_of, spatial_sizes
from netweave.formats.mxnet.writer.table import MXNetNode, padded, writes
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import is_standard

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol import Symbol
    from netweave.graph.ops.pooling import PoolWindows

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
