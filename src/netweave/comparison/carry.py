"""Weights of one net carried over to a port of it, which may be written for another framework.

The port is aligned with the net by structure, as for a comparison; that it then computes the same is proved
by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.align.only import carry_only_ones
from netweave.comparison.copied_weights import copy_weights
from netweave.comparison.packed import unpacked
from netweave.comparison.pipeline import compare
from netweave.comparison.recurrent import carry_recurrent, recurrent_layers
from netweave.comparison.result.comparison import Status
from netweave.comparison.result.verdict import place_in_words
from netweave.comparison.signals import Signals, comparable, joined
from netweave.comparison.trial.inputs import pair_inputs
from netweave.errors import UsageError
from netweave.graph import as_loaded, complete_arrays, parameter_key, with_arrays
from netweave.graph.stored import source_array, stored_values
from netweave.graph.summary import value_summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from netweave.comparison.result.comparison import Comparison, Group
    from netweave.graph import Graph


MAX_NAMES = 3
"""More stored arrays than this are not named."""


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
    found = compare(as_loaded(net), as_loaded(filled))  # every value counts, also first ones
    if left or not found.equal:
        reasons = [first_difference(found), _without_partner(left, len(arrays) + len(left))]
        raise UsageError(
            f"the weights of {_file(net)} cannot be carried over to {_file(port)}: "
            f"{'; '.join(filter(None, reasons))}; netweave compare of the two says more"
        )
    return filled


def first_difference(found: Comparison) -> str:
    """Say where two nets first differ in more than their weights, which may not have been carried.

    Empty if they do not.
    """
    if found.equal:
        return ""
    structural = [group.finding for group in found.groups if _is_structural(group) and group.finding]
    if not structural:
        return found.sentence
    more = f", and at {len(structural) - 1} more" if len(structural) > 1 else ""
    return f"they differ first at {place_in_words(structural[0])}: {structural[0].cause}{more}"


def _is_structural(group: Group) -> bool:
    apart = group.status in {Status.DIFFERENT, Status.ONLY_A, Status.ONLY_B, Status.UNKNOWN}
    return apart and group.finding is not None and group.finding.trap != "weights"


def _without_partner(left: Sequence[str], count: int) -> str:
    """Say how many arrays nothing was found for, and the first of them."""
    if not left:
        return ""
    named = ", ".join(left[:MAX_NAMES]) + (", ..." if len(left) > MAX_NAMES else "")
    return f"nothing was found for {len(left)} of {count} stored arrays ({named})"


def _file(graph: Graph) -> str:
    """Return what tells a net from another of its name."""
    return graph.files[0] if graph.files else graph.name


def _carried(net: Graph, port: Graph) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the port's arrays by key, and the keys of those that nothing was found for."""
    a, b = Signals.of(comparable(net)), Signals.of(comparable(port))
    values = stored_values(b.graph)
    before = {value: value.const_value for value in b.graph.model.graph.initializers.values()}
    pairs = pair_inputs(a, b)
    if pairs is None or copy_weights(a, b, pairs, to_b=True) is None:
        inputs = [", ".join(f"{v.name} {value_summary(v)}" for v in graph.inputs) for graph in (net, port)]
        raise UsageError(
            f"the weights of {_file(net)} cannot be carried over to {_file(port)}: the one "
            f"takes {inputs[0]}, the other {inputs[1]}, and no size fits both; netweave compare says more"
        )
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
