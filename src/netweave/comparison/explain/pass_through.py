"""Nodes of one net alone that pass on just what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.metric import SignalValues
    from netweave.comparison.prepare import Side

    Run = Callable[[Sequence[ir.Node], Sequence[str]], Mapping[str, np.ndarray]]


def is_pass_through(side: Side, nodes: Sequence[ir.Node], run: Run) -> bool | None:
    """Return whether nodes make nothing but what they read; None if their values are not known.

    Args:
        side: The net that has the nodes.
        nodes: The nodes, in topological order.
        run: Runs nodes alone, on the other net's values: returns what they read and the given signals, as far
            as that is possible.
    """
    left = side.signals.leaving(nodes)
    if not left:
        return True
    read = side.signals.reads_from_outside(nodes)
    tensors: SignalValues | Mapping[str, np.ndarray] = side.tensors
    if len(read) == 1 and not all(name in tensors for name in (*read, *left)):
        tensors = run(nodes, left)
    if not all(name in tensors for name in (*read, *left)):
        return None if len(read) == 1 else False
    return all(any(_holds_same(tensors[source], tensors[name]) for source in read) for name in left)


def _holds_same(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether two tensors hold the same elements in the same order, reshaped or not."""
    return x.size == y.size and relative_error(x.reshape(y.shape), y) <= LOCAL_TOLERANCE
