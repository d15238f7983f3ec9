"""Weights of one net transferred to a port of it, which may be written for another framework.

The port is aligned with the net by structure, as for a comparison; that it then computes the same is checked
by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netweave.comparison.align.weights import copy_unique_arrays
from netweave.comparison.assembled_weights import unpacked
from netweave.comparison.copied_weights import copy_weights
from netweave.comparison.execution.inputs import pair_inputs
from netweave.comparison.execution.memory_budget import MemoryBudget
from netweave.comparison.execution.tapped_values import ValueStore
from netweave.comparison.metric import comparable, joined
from netweave.comparison.pipeline import compare
from netweave.comparison.prepare import Side
from netweave.comparison.recurrent import copy_recurrent, recurrent_layers
from netweave.comparison.result.comparison import Comparison, Group, Status
from netweave.comparison.result.verdict import place_in_words
from netweave.errors import UsageError
from netweave.graph import Graph, as_loaded, complete_arrays, parameter_key, with_arrays
from netweave.graph.stored import source_array, stored_values
from netweave.graph.summary import list_names, value_summary


def transfer_weights(net: Graph, port: Graph) -> Graph:
    """Return a port with the weights of the net that it is a port of.

    Args:
        net: The net, with weights.
        port: The port; weights that it has are not looked at.

    Raises:
        UsageError: The net has no weights, or the port would compute something else with them.
    """
    if not net.loaded:
        raise UsageError(f"{net.name}: has no weights that could be transferred to {port.name}")
    arrays, left = _transferred(net, port)
    filled = with_arrays(port, complete_arrays(port) | arrays)
    comparison = compare(as_loaded(net), as_loaded(filled))  # every value counts, also first ones
    if left or not comparison.equal:
        reasons = [first_difference(comparison), _without_partner(left, len(arrays) + len(left))]
        raise UsageError(
            f"the weights of {_file(net)} cannot be transferred to {_file(port)}: "
            f"{'; '.join(filter(None, reasons))}; see netweave compare for details"
        )
    return filled


def first_difference(comparison: Comparison) -> str:
    """Say where two nets first differ in more than their weights, which may not have been transferred.

    Empty if they do not.
    """
    if comparison.equal:
        return ""
    structural = [group.finding for group in comparison.groups if _is_structural(group) and group.finding]
    if not structural:
        return comparison.sentence
    more = f", and at {len(structural) - 1} more" if len(structural) > 1 else ""
    return f"they differ first at {place_in_words(structural[0])}: {structural[0].cause}{more}"


def _is_structural(group: Group) -> bool:
    apart = group.status in {Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B, Status.UNKNOWN}
    return apart and group.finding is not None and group.finding.mismatch != "weights"


def _without_partner(left: Sequence[str], count: int) -> str:
    """Say how many arrays nothing was found for, and the first of them."""
    if not left:
        return ""
    return f"no counterpart was found for {len(left)} of {count} stored arrays ({list_names(left)})"


def _file(graph: Graph) -> str:
    """Return what tells a net from another of its name."""
    return graph.files[0] if graph.files else graph.name


def _transferred(net: Graph, port: Graph) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the port's arrays by key, and the keys of those that nothing was found for."""
    a, b = Side.of("A", net, comparable), Side.of("B", port, comparable)
    values = stored_values(b.graph)
    before = {value: value.const_value for value in b.graph.model.graph.initializers.values()}
    pairs = pair_inputs(a.signals, b.signals)
    store = ValueStore(MemoryBudget.of(None, net, port))
    if pairs is None or copy_weights(a, b, pairs, store) is None:
        inputs = [", ".join(f"{v.name} {value_summary(v)}" for v in graph.inputs) for graph in (net, port)]
        raise UsageError(
            f"the weights of {_file(net)} cannot be transferred to {_file(port)}: the "
            f"inputs are {inputs[0]} and {inputs[1]}, and no size fits both; see netweave compare for details"
        )
    stepwise = copy_recurrent(recurrent_layers(a.graph), recurrent_layers(b.graph))
    copy_unique_arrays(a.signals, b.signals, is_open=lambda value: value.const_value is before.get(value))
    arrays, left = {}, []
    for key, group in values.items():
        if key in stepwise:
            arrays[key] = stepwise[key]
        elif all(value.const_value is before[value] for value in group):
            left += [key] * any(value.uses() for value in group)  # what nothing reads stays as it is
        else:
            arrays[key] = source_array(port.parameters[key], group)
    parts = joined(port)
    for value, old in before.items():
        if value.const_value is not old and parameter_key(value) not in values:
            arrays |= unpacked(parts, value)
    return arrays, left
