"""The calls by which code pools, for a fix that changes the kind of a pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.dialect import dialect_of
from netweave.graph import attributes_of, known_shape
from netweave.graph.ops.pooling import PoolWindows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.dialect import Dialect, PoolCalls

POOLS = {"MaxPool": "max", "GlobalMaxPool": "max", "AveragePool": "average", "GlobalAveragePool": "average"}
"""Operators that pool, and how."""


def pooling_call(format: str, node: ir.Node) -> str:  # noqa: A002
    """Return what the code of a format calls to pool as a node does; empty if no call does.

    Args:
        format: The format.
        node: One of ``POOLS``.
    """
    words = dialect_of(format)
    calls = words.poolings
    if calls is None:
        return ""
    kind = POOLS[node.op_type]
    if node.op_type.startswith("Global"):
        shape = known_shape(node.outputs[0])
        template = calls.global_max if kind == "max" else calls.global_average
        return template.format(rank=len(shape) - 2) if shape is not None else ""
    return _of_windows(words, calls, kind, PoolWindows.of(node.domain, attributes_of(node)))


def _of_windows(words: Dialect, calls: PoolCalls, kind: str, windows: PoolWindows) -> str:
    rank = len(windows.kernel)
    template = calls.max if kind == "max" else calls.average
    if "{sizes}" not in template:  # the class alone; its settings are those of the other one
        return template.format(rank=rank)
    roundings = calls.max_roundings if kind == "max" else calls.average_roundings
    counts = kind == "max" or windows.counts_padding or not windows.any_pad
    if (
        rank not in calls.ranks
        or windows.rounding not in roundings
        or windows.begin != windows.end
        or any(size != 1 for size in windows.dilations)
        or not (counts or calls.without_padding)
    ):
        return ""
    names = {"kernel_shape": windows.kernel, "strides": windows.strides, "pads": windows.begin}
    sizes = ", ".join(f"{words.names[name]}={_size(value)}" for name, value in names.items())
    leaves_out = kind == "average" and not windows.counts_padding
    return template.format(
        rank=rank,
        sizes=sizes,
        up=windows.rounding != "floor",
        counts=calls.without_padding or "" if leaves_out else "",
    )


def _size(sizes: Sequence[int]) -> str:
    """Return a size as Python calls take it: one number where all are the same."""
    return str(sizes[0]) if len(set(sizes)) == 1 else f"({', '.join(map(str, sizes))})"
