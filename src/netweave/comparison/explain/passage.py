"""Whether nodes that only one net has give on just what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.signals import Signals

    Run = Callable[[Sequence[ir.Node], Sequence[str]], Mapping[str, np.ndarray]]


def is_passage(
    signals: Signals, nodes: Sequence[ir.Node], tensors: Mapping[str, np.ndarray], run: Run
) -> bool | None:
    """Whether nodes make nothing but what they read; None if their values are not known.

    Args:
        signals: The net that has the nodes.
        nodes: The nodes, in topological order.
        tensors: Its tapped tensors, none but the inputs if it could not be run.
        run: Runs nodes alone, on the other net's values: returns what they read and the given signals, as far
            as that is possible.
    """
    inside = {name for node in nodes for name in signals.outputs_of(node)}
    read = {name for node in nodes for name in signals.inputs_of(node)} - inside
    left = [name for name in inside if _leaves(signals, name, nodes)]
    if not left:
        return True
    if len(read) != 1:
        return False
    (source,) = read
    if not {source, *left} <= tensors.keys():
        tensors = run(nodes, left)
    if not {source, *left} <= tensors.keys():
        return None
    x = tensors[source]
    return all(
        tensors[name].shape == x.shape and relative_error(x, tensors[name]) <= LOCAL_TOLERANCE
        for name in left
    )


def _leaves(signals: Signals, name: str, nodes: Sequence[ir.Node]) -> bool:
    """Whether a signal is an output of the net, or read by other nodes than these."""
    return name in signals.outputs or any(reader not in nodes for reader in signals.consumers.get(name, ()))
