"""Pooling: MXNet rounds the number of windows down (``valid``) or up (``full``), and pads both ends alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.mxnet.writer.table import MXNetNode, padded, windows_pads, writes
from netweave.graph import DOMAIN
from netweave.graph.ops.pooling import is_standard, num_windows, window_sizes

if TYPE_CHECKING:
    from netweave.symbol import Symbol

_CONVENTIONS = {"floor": "valid", "full": "full"}


@writes("MaxPool")
@writes("MaxPool", domain=DOMAIN)
def max_pool(node: MXNetNode) -> Symbol:
    """The largest of each window; what MXNet cannot say is padded with the least number first."""
    if any(value.uses() for value in node.outputs[1:]):
        raise NotWritable("the places of its maxima are used")
    return _Pooling(node).written("max")


@writes("AveragePool")
@writes("AveragePool", domain=DOMAIN)
def average_pool(node: MXNetNode) -> Symbol:
    """The mean of each window, over its padding as well or not."""
    return _Pooling(node).written("avg")


class _Pooling:
    def __init__(self, node: MXNetNode) -> None:
        self._node = node
        self._kernel = list(node.get("kernel_shape"))
        rank = len(self._kernel)
        if set(node.get("dilations") or [1]) != {1}:
            raise NotWritable("MXNet's windows have no dilation")
        self._strides = list(node.get("strides") or [1] * rank)
        self._begin, self._end = windows_pads(node, rank)
        self._rounding = node.get("rounding") or ("ceil" if node.get("ceil_mode", 0) else "floor")
        self._includes = node.get("count_include_pad", int(node.domain == DOMAIN)) != 0

    def written(self, kind: str) -> Symbol:
        """Return the pooling of a kind, ``max`` or ``avg``."""
        node = self._node
        convention = self._convention()
        settings: dict[str, Any] = {"kernel": tuple(self._kernel), "pool_type": kind}
        if any(stride != 1 for stride in self._strides):
            settings["stride"] = tuple(self._strides)
        if convention is not None:
            settings |= {"pad": tuple(self._begin)} if any(self._begin) else {}
            settings |= {"pooling_convention": convention} if convention != "valid" else {}
            settings |= {"count_include_pad": False} if kind == "avg" and not self._includes else {}
            return node.make("Pooling", node.symbol(0), **settings)
        counts = self._counts(self._rounding)
        end = [
            max((count - 1) * stride + kernel - size - begin, 0)
            for count, stride, kernel, size, begin in zip(
                counts, self._strides, self._kernel, self._sizes(), self._begin, strict=True
            )
        ]
        low = float(np.finfo(np.float32).min) if kind == "max" else 0.0
        found = node.make("Pooling", padded(node, node.symbol(0), self._begin, end, low), **settings)
        return found if kind == "max" else self._corrected(found, counts)

    def _convention(self) -> str | None:
        """Return MXNet's word for the rounding that makes the same windows, or None."""
        if self._begin != self._end:
            return None
        if self._rounding in _CONVENTIONS:
            return _CONVENTIONS[self._rounding]
        if is_standard(self._kernel, strides=self._strides, pads=[*self._begin, *self._end], rounding="full"):
            return "full"  # whatever the size
        wanted = self._counts(self._rounding)
        return next((word for each, word in _CONVENTIONS.items() if self._counts(each) == wanted), None)

    def _corrected(self, mean: Symbol, counts: list[int]) -> Symbol:
        """Return means over whole windows divided by what the net divides by."""
        wanted = window_sizes(
            self._sizes(),
            counts,
            kernel=self._kernel,
            strides=self._strides,
            begin=self._begin,
            end=self._end,
            includes=self._includes,
        )
        factors = (np.prod(self._kernel) / wanted).astype(np.float32)
        if np.all(factors == 1):
            return mean
        return self._node.make(
            "broadcast_mul", mean, self._node.constant_array("factors", factors[None, None])
        )

    def _sizes(self) -> list[int]:
        sizes = [size for size in self._node.shape(0)[2:] if size is not None]
        if len(sizes) != len(self._kernel):
            raise NotWritable("its windows depend on sizes that are not known; give the input's sizes")
        return sizes

    def _counts(self, rounding: str) -> list[int]:
        axes = zip(self._sizes(), self._kernel, self._strides, self._begin, self._end, strict=True)
        any_pad = any(self._begin) or any(self._end)
        return [
            num_windows(size, kernel, stride=stride, pads=(first, last), rounding=rounding, any_pad=any_pad)
            for size, kernel, stride, first, last in axes
        ]


@writes("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: MXNetNode) -> Symbol:
    """One number for each channel."""
    kind = "avg" if node.op_type == "GlobalAveragePool" else "max"
    kernel = (1,) * (node.rank(0) - 2)
    return node.make("Pooling", node.symbol(0), global_pool=True, kernel=kernel, pool_type=kind)
