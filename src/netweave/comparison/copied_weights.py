"""Weights for nets that came without: copied from the other net through an alignment by structure alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.alignment import Alignment
from netweave.comparison.align.structure import Extension
from netweave.comparison.align.transplant import Copied, transplant
from netweave.comparison.explain.orders import dense_orders
from netweave.comparison.missing_weights import copied_in_words
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.trial.candidates import input_rules
from netweave.comparison.trial.trial import Bench, declared_sizes
from netweave.comparison.trial.unit_scale import keep_unit_scale
from netweave.errors import RunError
from netweave.graph import drawn_arrays, parameter_layout, with_arrays
from netweave.graph.parameters import apply_layout, drawn
from netweave.graph.stored import stored_values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from netweave.comparison.missing_weights import Weights
    from netweave.comparison.signals import Signals
    from netweave.comparison.trial.trial import Trial
    from netweave.graph import Graph

MAX_NAMES = 4
"""More arrays than this are not named."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What two nets were given.

    Attributes:
        copied: Whether arrays were copied; otherwise the nets take no common size.
        unfilled: Keys of A's and B's parameters that have no values of their own and were given none.
        notes: What the reader should know, one sentence each.
        reordered: Names of the dense nodes whose weights were copied with their columns in another order.
    """

    copied: bool
    unfilled: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    notes: tuple[str, ...] = ()
    reordered: frozenset[str] = frozenset()


def redrawn(net: Graph, weights: tuple[Weights, Weights]) -> Graph | None:
    """Return A with drawn weights in the place of first ones, which are zeros and ones too often.

    None if that is not needed: B has weights that can be copied, or nobody gave A first values.

    Args:
        net: A as it was read.
        weights: Those of both nets.
    """
    of_a, of_b = weights
    if not of_b.missing or not of_a.missing - of_a.absent:
        return None
    return with_arrays(net, {key: x for key, x in drawn_arrays(net).items() if key in of_a.missing})


def complete_weights(
    a: Signals, b: Signals, pairs: Sequence[tuple[str, str]], weights: tuple[Weights, Weights]
) -> Completion:
    """Give each net, in place, what it came without: from the other one; A's own are drawn if B has none.

    Args:
        a: A's signals.
        b: B's signals.
        pairs: Their inputs.
        weights: Those of both nets. What is present stays, since it is compared.
    """
    of_a, of_b = weights
    if of_a.missing and of_b.missing:
        rules = input_rules(a, b, pairs, [])[0]
        _read_once(a)
        keep_unit_scale(a, declared_sizes(a.graph, b.graph, rules), of_a.missing)
    to_a = to_b = Copied(0, frozenset())
    if of_b.missing:
        _read_once(a)
        copied = copy_weights(a, b, pairs, to_b=True, missing=of_b.missing, drawn=of_a.missing)
        if copied is None:
            return Completion(copied=False)
        to_b = copied
    if of_a.missing and (of_b.present or not of_b.missing):
        _read_once(b)
        copied = copy_weights(a, b, pairs, to_b=False, missing=of_a.missing, given=of_b.present)
        if copied is None:
            return Completion(copied=False)
        to_a = copied
    # where B lacks arrays as well, those that A draws are what it is given
    left_a = of_a.missing - to_a.filled if not of_b.missing else frozenset()
    unfilled = left_a, of_b.missing - to_b.filled
    for signals, keys in zip((a, b), unfilled, strict=True):
        _draw(signals, keys)
    notes = [copied_in_words(weights, to_a.count + to_b.count)]
    notes += [_unfilled_in_words(name, keys) for name, keys in zip("AB", unfilled, strict=True) if keys]
    reordered = to_a.reordered | to_b.reordered
    return Completion(copied=True, unfilled=unfilled, notes=tuple(notes), reordered=reordered)


def copy_weights(
    a: Signals,
    b: Signals,
    pairs: Sequence[tuple[str, str]],
    *,
    to_b: bool,
    missing: AbstractSet[str] | None = None,
    given: AbstractSet[str] | None = None,
    drawn: AbstractSet[str] = frozenset(),
) -> Copied | None:
    """Copy arrays from one net to the other, in place, through an alignment by structure alone.

    Args:
        a: One net.
        b: The other.
        pairs: Their inputs.
        to_b: Whether A's go to B; otherwise B's to A.
        missing: Keys of the parameters to fill, as in ``transplant``.
        given: Keys of the parameters that may be copied, likewise.
        drawn: Keys of those that are drawn, likewise.

    Returns:
        What was copied; None if the nets take no common size.
    """
    trial = _first_trial(a, b, pairs)
    if trial is None:
        return None
    Extension(trial.alignment, trial.tensors_a, trial.tensors_b).run()
    orders = dense_orders(trial.alignment, trial.tensors_a, trial.tensors_b, to_b=to_b)
    originals = _for_originals(trial.alignment, a, b)
    return transplant(originals, to_b=to_b, orders=orders, missing=missing, given=given, drawn=drawn)


def _first_trial(a: Signals, b: Signals, pairs: Sequence[tuple[str, str]]) -> Trial | None:
    """Run both nets under the first rule of the inputs that they take."""
    failure: RunError | None = None
    for rules in input_rules(a, b, pairs, []):
        try:
            trial = Bench(a, b, declared_sizes(a.graph, b.graph, rules)).trial(rules)
        except RunError as error:
            failure = failure or error
            continue
        if trial is not None:
            return trial
    if failure is not None:
        raise failure
    return None


def _for_originals(found: Alignment, a: Signals, b: Signals) -> Alignment:
    """Repeat an alignment of copies for the graphs that they are copies of, by the names of nodes."""
    own = Alignment(a, b)
    nodes_a, nodes_b = ({node.name: node for node in signals.nodes} for signals in (a, b))
    for pair in found.of_a.values():
        own.pair_signals(replace(pair, mapping=None))
    for node in found.a.nodes:
        partner = found.partner(node)
        if partner is not None and node.name in nodes_a and partner.name in nodes_b:
            own.pair_nodes(nodes_a[node.name], nodes_b[partner.name], Evidence.STRUCTURE)
    return own


def _read_once(signals: Signals) -> None:
    """Keep what is drawn or read when it is asked for, since it is asked for again and again."""
    for value in signals.graph.model.graph.initializers.values():
        if isinstance(value.const_value, ir.LazyTensor):
            value.const_value = ir.Tensor(value.const_value.numpy(), name=value.name)


def _draw(signals: Signals, keys: AbstractSet[str]) -> None:
    """Draw stored arrays in the place of first values, under which a BatchNorm does nothing."""
    for key, values in stored_values(signals.graph).items():
        if key in keys:
            parameter = signals.graph.parameters[key]
            array = drawn(key, parameter.shape, parameter.role).numpy()
            for value in values:
                value.const_value = ir.Tensor(
                    np.ascontiguousarray(apply_layout(array, parameter_layout(value)))
                )


def _unfilled_in_words(name: str, keys: frozenset[str]) -> str:
    listed = ", ".join(sorted(keys)[:MAX_NAMES]) + (", ..." if len(keys) > MAX_NAMES else "")
    return f"nothing was found for {len(keys)} arrays of {name} ({listed}); their layers are compared alone"
