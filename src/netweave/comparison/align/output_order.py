"""The order of a net's outputs: each under its name or in its place, with its entries in their order.

Who reads an output reads a class, a coordinate or a map by its place, so a net that gives the same values in
another order is another net to them. An order that comes with the inputs is none of the net's own: what takes
BGR may give BGR.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.layout.change import LayoutChange
    from netweave.comparison.signals import Signals


def keeps_order(alignment: Alignment, change: LayoutChange) -> bool:
    """Return whether the entries of an output are in A's order, or in that of the inputs."""
    if change.channel_order is None:
        return True  # no order, or that of an image that is flipped as the input is
    inputs = [alignment.a.pairs.get(str(value.name)) for value in alignment.a.graph.inputs]
    given = {pair.change.channel_order for pair in inputs if pair is not None and pair.change is not None}
    return change.channel_order in given - {None}


def in_order(alignment: Alignment, change: LayoutChange) -> LayoutChange:
    """Return how an output becomes B's, without an order of entries that is B's own (decision 0111)."""
    if keeps_order(alignment, change):
        return change
    return replace(change, orders=tuple(row for row in change.orders if not change.is_channel_axis(row[0])))


def counterpart(alignment: Alignment, name_a: str, free_b: Sequence[str]) -> str | None:
    """Return which output of B is taken for one of A.

    By name where both nets give their outputs the same names and somebody chose these. Otherwise by values,
    where names or places do not contradict: an output that stands in another place and has the name of
    another output of A is not the one that A has under this name.

    Args:
        alignment: Pairs of signals.
        name_a: Name of A's output.
        free_b: Names of B's outputs that are not taken yet.
    """
    by_name = name_a if name_a in free_b else None
    by_value = _by_value(alignment, name_a, free_b)
    if by_value is None or by_value == by_name or _names_decide(alignment):
        return by_name
    is_named = by_name is not None and by_value in output_names(alignment.a.signals)
    return by_name if is_named and not _stand_alike(alignment, name_a, by_value) else by_value


def is_moved(alignment: Alignment, name_a: str, name_b: str) -> bool:
    """Return whether an output stands in another place."""
    return not _stand_alike(alignment, name_a, name_b)


_GENERATED = re.compile(
    r"(output|out|identity|tensor|value|val|var|node|partitionedcall|statefulpartitionedcall|[a-z])?[\W\d_]*",
    re.IGNORECASE,
)
"""Names of outputs that an exporter makes up: a number, and perhaps a word for any value."""


def _names_decide(alignment: Alignment) -> bool:
    """Return whether the outputs of both nets have the same names, and somebody chose these."""
    names_a, names_b = (output_names(side.signals) for side in alignment.sides)
    return set(names_a) == set(names_b) and not any(map(_GENERATED.fullmatch, names_a))


def output_names(signals: Signals) -> list[str]:
    """Return the names of a net's outputs, in order."""
    return [str(value.name) for value in signals.graph.outputs]


def _stand_alike(alignment: Alignment, name_a: str, name_b: str) -> bool:
    """Return whether an output of A and one of B stand at the same place among the outputs."""
    names_a, names_b = output_names(alignment.a.signals), output_names(alignment.b.signals)
    return names_a.index(name_a) == names_b.index(name_b)


def _by_value(alignment: Alignment, name_a: str, free_b: Sequence[str]) -> str | None:
    root_a, root_b = alignment.a.signals.root, alignment.b.signals.root
    pair = alignment.a.pairs.get(root_a.get(name_a, name_a))
    equal = [name for name in free_b if pair is not None and root_b.get(name, name) == pair.b]
    return name_a if name_a in equal else next(iter(equal), None)
