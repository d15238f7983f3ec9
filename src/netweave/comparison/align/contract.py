"""What a net promises of its outputs: each under its name or in its place, with its entries in their order.

Who reads an output reads a class, a coordinate or a map by its place, so a net that gives the same values in
another order is another net to them. An order that comes with the inputs is none of the net's own: what takes
BGR may give BGR.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.result.comparison import TensorMapping
    from netweave.comparison.signals import Signals


def keeps_order(alignment: Alignment, mapping: TensorMapping) -> bool:
    """Whether the entries of an output stand in A's order, or in the one that the inputs were given in."""
    if mapping.channel_order is None:
        return True  # no order, or that of an image that is mirrored as the input is
    inputs = [alignment.of_a.get(str(value.name)) for value in alignment.a.graph.inputs]
    given = {pair.mapping.channel_order for pair in inputs if pair is not None and pair.mapping is not None}
    return mapping.channel_order in given - {None}


def in_order(alignment: Alignment, mapping: TensorMapping) -> TensorMapping:
    """Return a mapping of an output without an order of entries that breaks the promise."""
    if keeps_order(alignment, mapping):
        return mapping
    return replace(
        mapping, orders=tuple(row for row in mapping.orders if not mapping.is_channel_axis(row[0]))
    )


def counterpart(alignment: Alignment, name_a: str, free_b: Sequence[str]) -> str | None:
    """Return which output of B is taken for one of A.

    By values, where names or places do not contradict: an output that stands in another place and has the
    name of another output of A is not the one that A promises under this name.

    Args:
        alignment: Pairs of signals.
        name_a: Name of A's output.
        free_b: Names of B's outputs that are not taken yet.
    """
    by_name = name_a if name_a in free_b else None
    by_value = _by_value(alignment, name_a, free_b)
    if by_value is None or by_value == by_name:
        return by_name
    is_named = by_name is not None and by_value in output_names(alignment.a)
    return (
        by_name if is_named and place_of(alignment.a, name_a) != place_of(alignment.b, by_value) else by_value
    )


def is_moved(alignment: Alignment, name_a: str, name_b: str) -> bool:
    """Whether an output stands in another place and under another name."""
    return name_a != name_b and place_of(alignment.a, name_a) != place_of(alignment.b, name_b)


def output_names(signals: Signals) -> list[str]:
    """Return the names of a net's outputs, in order."""
    return [str(value.name) for value in signals.graph.outputs]


def place_of(signals: Signals, name: str) -> int:
    """Return the place of an output among a net's outputs, from 0."""
    return output_names(signals).index(name)


def _by_value(alignment: Alignment, name_a: str, free_b: Sequence[str]) -> str | None:
    a, b = alignment.a, alignment.b
    pair = alignment.of_a.get(a.root.get(name_a, name_a))
    found = [name for name in free_b if pair is not None and b.root.get(name, name) == pair.b]
    return name_a if name_a in found else next(iter(found), None)
