"""Weights that a net lacks, and their completion."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.weights import match_weights
from netweave.comparison.metric import Signals, constants_of
from netweave.comparison.result.comparison import Group, Status
from netweave.graph import Graph
from netweave.graph.parameters import source_keys
from netweave.graph.passes import to_inference
from netweave.graph.stored import stored_values, values_of

if TYPE_CHECKING:
    from netweave.comparison.prepare import Side


@dataclass(frozen=True, slots=True)
class Weights:
    """The stored arrays that a net predicts with, by whether their values can be compared.

    Attributes:
        present: Keys of those whose values are the net's own.
        missing: Keys of those that stand-ins were drawn for, by Netweave or by the model's own code.
        absent: Keys of those among the missing that neither a file nor the model's code gave.
    """

    present: frozenset[str]
    missing: frozenset[str]
    absent: frozenset[str]


def find_weights(a: Side, b: Side) -> tuple[Weights, Weights]:
    """Say which arrays of two nets can be compared, and which are stand-ins.

    Drawn values that a file or a module holds are weights like others, if any of them is the other net's too:
    one net is then made from the other, and where they differ, somebody changed a value. Two nets whose
    drawn values have nothing in common were drawn apart, and that says nothing of either.

    Args:
        a: The first net.
        b: The second net.
    """
    nets = a.source, b.source
    never_trained = [looks_untrained(net) for net in nets]
    if all(net.loaded and not net.initial for net in nets) and not any(never_trained):
        first, second = (Weights(frozenset(net.parameters), frozenset(), frozenset()) for net in nets)
        return first, second
    used = [_used_arrays(net) for net in nets]
    absent = [
        {key for key in keys if not net.parameters[key].loaded} for net, keys in zip(nets, used, strict=True)
    ]
    missing = absent
    drawn = [
        {key for key in keys if net.parameters[key].loaded} if fresh else _first_values(net, keys)
        for net, keys, fresh in zip(nets, used, never_trained, strict=True)
    ]
    if any(drawn) and not _have_common_arrays((a, b), absent):
        missing = [never | first for never, first in zip(absent, drawn, strict=True)]
    first, second = (
        Weights(frozenset(keys - lost), frozenset(lost), frozenset(never))
        for keys, lost, never in zip(used, missing, absent, strict=True)
    )
    return first, second


FIRST_VALUES = {
    "bias": frozenset({0.0, 1.0}),  # Keras and TensorFlow begin with 1 for the forget gate
    "beta": frozenset({0.0}),
    "mean": frozenset({0.0}),
    "gamma": frozenset({1.0}),
    "variance": frozenset({1.0}),
}
"""Values that frameworks give arrays before training, by role; of weights and slopes there are too many."""


def looks_untrained(net: Graph) -> bool:
    """Return whether all biases and normalisations of a net have their frameworks' initial values.

    If they do, the net of the file was never trained.

    Training leaves no bias of a net at exactly 0, and no running mean. A net that has neither says nothing.

    Args:
        net: The net.
    """
    known = {
        key: FIRST_VALUES[parameter.role]
        for key, parameter in net.parameters.items()
        if parameter.loaded and parameter.role in FIRST_VALUES
    }
    if not any(0.0 in first for first in known.values()):
        return False
    values = stored_values(net)
    return all(
        first.issuperset(np.unique(values_of(value)).tolist())
        for key, first in known.items()
        for value in values.get(key, ())
    )


def nodes_with(signals: Signals, keys: Collection[str]) -> frozenset[str]:
    """Return the names of the nodes that read what some stored arrays are, or what was computed from them.

    Args:
        signals: The signals of a net.
        keys: Keys of the stored arrays.
    """
    return frozenset(
        str(node.name)
        for node in signals.nodes
        for value in constants_of(node).values()
        if any(key in keys for key in source_keys(value))
    )


def by_structure(groups: Iterable[Group], completion: Completion) -> tuple[Group, ...]:
    """Return groups with those that agree distinguished by whether their own weights agree.

    Args:
        groups: All groups, judged.
        completion: What the nets were given.
    """
    nodes_a, nodes_b = completion.a.borrowing, completion.b.borrowing
    return tuple(
        replace(group, status=Status.STRUCTURE)
        if group.status in {Status.EQUAL, Status.MAPPED}
        and (any(n in nodes_a for n in group.nodes_a) or any(n in nodes_b for n in group.nodes_b))
        else group
        for group in groups
    )


def copied_in_words(weights: tuple[Weights, Weights], count: int) -> str:
    """Say which weights were copied, and so not compared.

    Args:
        weights: Those of both nets.
        count: How many arrays were given values.
    """
    lacking = [(name, side) for name, side in zip("AB", weights, strict=True) if side.missing]
    way = "from A to B" if weights[1].missing else "from B to A"
    way = "from each to the other" if len(lacking) == 2 and weights[1].present else way
    copied = f"{count} arrays were copied {way} through the alignment"
    if not any(side.present for _, side in lacking):
        names = " and ".join(name for name, _ in lacking)
        return f"{names} came without weights: {copied}, so the structure is compared and not the weights"
    parts = [
        f"{name} came without {len(side.missing)} of its {len(side.missing) + len(side.present)} arrays"
        for name, side in lacking
    ]
    return f"{' and '.join(parts)}: {copied}; of the weights only the others are compared"


def _used_arrays(net: Graph) -> set[str]:
    """Return the keys of the arrays that the net predicts with; what nothing reads need not be there."""
    values = to_inference(net).model.graph.initializers.values()
    return {key for value in values if value.uses() for key in source_keys(value) if key in net.parameters}


def _first_values(net: Graph, keys: set[str]) -> set[str]:
    return {key for key in keys if net.parameters[key].loaded and net.parameters[key].initial}


def _have_common_arrays(sides: tuple[Side, Side], absent: Sequence[set[str]]) -> bool:
    """Return whether two nets hold an array in common that is no coincidence, or none that could be."""
    pairs = list(zip(sides, absent, strict=True))
    if match_weights(*(_nodes_with_values(side.signals, keys) for side, keys in pairs)):
        return True
    digests = [_digests(side.source, keys) for side, keys in pairs]
    return bool(digests[0] & digests[1]) or not any(digests)


def _nodes_with_values(signals: Signals, absent: set[str]) -> list[ir.Node]:
    """Return the nodes whose constants nobody drew in place of absent ones, and that are not all alike."""
    informative = []
    for node in signals.nodes:
        constants = list(constants_of(node).values())
        is_drawn = any(not absent.isdisjoint(source_keys(value)) for value in constants)
        if not is_drawn and any(map(_varies, constants)):
            informative.append(node)
    return informative


def _varies(value: ir.Value) -> bool:
    """Return whether the elements are not all alike, as fresh biases and scales are in any net."""
    if value.const_value is None or value.const_value.size < 2:
        return False
    array = value.const_value.numpy()
    return bool((array != array.flat[0]).any())


def _digests(net: Graph, absent: set[str]) -> set[tuple[int, int, int]]:
    """Return what tells trained arrays apart, whatever the order of their elements."""
    return {
        _digest(values_of(value))
        for key, values in stored_values(net).items()
        if key not in absent and (net.parameters[key].trainable or net.parameters[key].role in STATISTICS)
        for value in values
        if _varies(value)
    }


STATISTICS = frozenset({"mean", "variance"})
"""Roles of arrays that training sets, though no gradient does."""


def _digest(array: np.ndarray) -> tuple[int, int, int]:
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return array.size, int(bits.sum(dtype=np.uint64)), int(np.bitwise_xor.reduce(bits, axis=None))


@dataclass(frozen=True, slots=True)
class SideCompletion:
    """The weights that completed one net.

    Attributes:
        unfilled: Keys of its parameters that have no values of their own and were given none of the other's.
        borrowing: Names of its nodes that ran with weights which are not its own.
    """

    unfilled: frozenset[str] = frozenset()
    borrowing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Completion:
    """The weights that completed both nets; by default none, since both came with weights.

    Attributes:
        a: What A was given.
        b: What B was given.
        weights_copied: Whether one ran with copies of the other's weights, so that agreement says something
            of the structure only (decision 0126).
        reordered: Names of the dense nodes whose weights were copied with their columns in another order.
        notes: What the reader should know, one sentence each.
    """

    a: SideCompletion = field(default_factory=SideCompletion)
    b: SideCompletion = field(default_factory=SideCompletion)
    weights_copied: bool = False
    reordered: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def of(self, side: Side) -> SideCompletion:
        """Return what one net was given."""
        return self.a if side.is_a else self.b

    @property
    def num_unfilled(self) -> int:
        """Number of arrays that have no values of their own and were given none."""
        return len(self.a.unfilled) + len(self.b.unfilled)
