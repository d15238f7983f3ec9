"""How Python files write the call that pools as a node does, for a fix that changes which pooling it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import attributes_of, known_shape
from netweave.graph.ops.pooling import PoolWindows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

POOLS = {"MaxPool": "max", "GlobalMaxPool": "max", "AveragePool": "average", "GlobalAveragePool": "average"}
"""Operators that pool, and how."""


_PYTORCH = {"max": "Max", "average": "Avg"}


def pooling_call(format: str, node: ir.Node) -> str:  # noqa: A002
    """Return what a Python file of a format calls to pool as a node does; empty if no call does.

    Args:
        format: The format.
        node: One of ``POOLS``.
    """
    kind, is_global = POOLS[node.op_type], node.op_type.startswith("Global")
    if format == "keras":
        # the class says which pooling it is, and its settings are those of the other one; Keras' padding has
        # no numbers that could be written
        return f"{'Global' if is_global else ''}{'Max' if kind == 'max' else 'Average'}Pooling2D"
    if is_global:
        shape = known_shape(node.outputs[0])
        is_known = format == "pytorch" and shape is not None
        return f"nn.Adaptive{_PYTORCH[kind]}Pool{len(shape or ()) - 2}d(1)" if is_known else ""
    if format not in _CALLS:
        return ""
    windows = PoolWindows.of(node.domain, attributes_of(node))
    if windows.begin != windows.end or any(size != 1 for size in windows.dilations):
        return ""
    return _CALLS[format](kind, windows)


def _pytorch(kind: str, windows: PoolWindows) -> str:
    if windows.rounding not in {"floor", "ceil", "caffe"}:
        return ""
    name = f"nn.{_PYTORCH[kind]}Pool{len(windows.kernel)}d"
    counts = "" if kind == "max" or windows.counts_padding else ", count_include_pad=False"
    given = _sizes(windows, "kernel_size", "stride", "padding")
    return f"{name}({given}, ceil_mode={windows.rounding != 'floor'}{counts})"


def _chainer(kind: str, windows: PoolWindows) -> str:
    if len(windows.kernel) != 2:
        return ""
    given = _sizes(windows, "ksize", "stride", "pad")
    if kind == "max":
        return f"F.max_pooling_2d({given}, cover_all={windows.rounding != 'floor'})"
    divides_by_all = windows.counts_padding or not windows.any_pad
    return f"F.average_pooling_2d({given})" if windows.rounding == "floor" and divides_by_all else ""


_CALLS = {"pytorch": _pytorch, "chainer": _chainer}


def _sizes(windows: PoolWindows, kernel: str, stride: str, pad: str) -> str:
    names = {kernel: windows.kernel, stride: windows.strides, pad: windows.begin}
    return ", ".join(f"{name}={_size(sizes)}" for name, sizes in names.items())


def _size(sizes: Sequence[int]) -> str:
    """Return a size as Python calls take it: one number where all are the same."""
    return str(sizes[0]) if len(set(sizes)) == 1 else f"({', '.join(map(str, sizes))})"
