"""Weights of one net carried over to a port of it, which may be written for another framework.

The port is aligned with the net by structure, as for a comparison; that it then computes the same is proved
by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.compare.align.only import carry_only_ones
from netweave.compare.packed import unpacked
from netweave.compare.pipeline import compare, copy_weights
from netweave.compare.recurrent import carry_recurrent, recurrent_layers
from netweave.compare.signals import Signals, comparable, joined
from netweave.compare.trial.inputs import pair_inputs
from netweave.errors import UsageError
from netweave.graph import complete_arrays, parameter_key, with_arrays
from netweave.graph.stored import source_array, stored_values

if TYPE_CHECKING:
    import numpy as np

    from netweave.graph import Graph


def carry_weights(net: Graph, port: Graph) -> Graph:
    """Return a port with the weights of the net that it is a port of.

    Args:
        net: The net, with weights.
        port: The port; weights that it has are not looked at.

    Raises:
        UsageError: The net has no weights, or the port would compute something else with them.
    """
    if not net.loaded:
        raise UsageError(f"{net.name}: has no weights that could be carried over to {port.name}")
    arrays, left = _carried(net, port)
    filled = with_arrays(port, complete_arrays(port) | arrays)
    found = compare(net, filled)
    if left or not found.equal:
        reason = f"none were found for {', '.join(left)}" if left else found.sentence
        raise UsageError(
            f"the weights of {net.name} cannot be carried over to {port.name}: {reason}; netweave compare of "
            "the two says more"
        )
    return filled


def _carried(net: Graph, port: Graph) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the port's arrays by key, and the keys of those that nothing was found for."""
    a, b = Signals.of(comparable(net)), Signals.of(comparable(port))
    values = stored_values(b.graph)
    before = {value: value.const_value for value in b.graph.model.graph.initializers.values()}
    pairs = pair_inputs(a, b)
    if pairs is None or copy_weights(a, b, pairs, to_b=True) is None:
        raise UsageError(f"{port.name} takes other inputs than {net.name}; netweave compare says more")
    stepwise = carry_recurrent(recurrent_layers(a.graph), recurrent_layers(b.graph))
    carry_only_ones(a, b, lambda value: value.const_value is before.get(value))
    found, left = {}, []
    for key, group in values.items():
        if key in stepwise:
            found[key] = stepwise[key]
        elif all(value.const_value is before[value] for value in group):
            left += [key] * any(value.uses() for value in group)  # what nothing reads stays as it is
        else:
            found[key] = source_array(port.parameters[key], group)
    parts = joined(port)
    for value, old in before.items():
        if value.const_value is not old and parameter_key(value) not in values:
            found |= unpacked(parts, value)
    return found, left
