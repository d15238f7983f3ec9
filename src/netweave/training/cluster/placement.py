"""Placements of parameters on servers: pure functions of sizes.

``slices``: slices of equal size, as many as balance the bytes; large arrays are cut, small ones are together.
``round-robin``: whole arrays in turn, as ``tf.train.replica_device_setter`` places variables.
``split``: arrays of a million elements or more are cut into one part for each server, others go to the server
that their number says (``kvstore_dist.h``, EncodeDefaultKey, at 1.9.1).
``boxes``: arrays fill one box after another, and are cut where a box is full by more than a tenth
(``stub.cc``, Slice and PartitionSlices, at 0.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import lcm
from typing import TYPE_CHECKING

from netweave.training.optim.rule import ALIGNED_ELEMENTS, SLICE_ELEMENTS, FlatLayout, Span, flat_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.job import Cluster

BIG_ELEMENTS = 1_000_000
"""MXNet cuts an array from this size on (``MXNET_KVSTORE_BIGARRAY_BOUND``)."""

HASH_FACTOR = 9973
"""The number of an array, times this, modulo the servers, is the server of a small one in MXNet."""

SLICES_PER_SERVER, FEWEST_PER_SERVER = 64, 8
"""So many slices a server has: with many the largest difference between two servers is small."""

SMALLEST_SLICE = 1 << 14
"""Elements of a slice, where a server has more than the fewest: a message of a few bytes may take 4 ms."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The slices of parameters, and the server of each.

    Attributes:
        layout: The slices.
        holders: The server of each slice, by its number in its group.
    """

    layout: FlatLayout
    holders: tuple[int, ...]

    @property
    def elements(self) -> tuple[int, ...]:
        """Elements of each slice."""
        return tuple(sum(span.stop - span.start for span in spans) for spans in self.layout.slices)

    def loads(self, num_servers: int) -> list[int]:
        """Return the elements that each server holds."""
        loads = [0] * num_servers
        for holder, size in zip(self.holders, self.elements, strict=True):
            loads[holder] += size
        return loads


def place(cluster: Cluster, sizes: Mapping[str, int], *, whole_parameters: bool = False) -> Placement:
    """Return where parameters are held.

    Args:
        cluster: Its servers and its placement.
        sizes: Elements of each trained parameter by key, in order.
        whole_parameters: Let no slice cut a parameter, as the update rule needs it whole.

    Raises:
        UsageError: The placement cuts parameters that the rule needs whole.
    """
    count, rule = cluster.servers_per_group, cluster.placement
    if rule == "slices":
        return _by_size(sizes, count, whole_parameters=whole_parameters)
    if rule == "round-robin":
        return Placement(_cut(sizes, {}), tuple(number % count for number in range(len(sizes))))
    pieces = _split(sizes, count) if rule == "split" else _boxes(sizes, lcm(cluster.server_groups, count))
    if whole_parameters and any(len(cuts) > 1 for cuts in pieces.values()):
        raise cluster.error(
            "placement",
            f"the placement {rule!r} cuts parameters, and the update rule needs each of them whole; take "
            "slices or round-robin",
        )
    layout = _cut(sizes, pieces)
    if rule == "split":
        return Placement(layout, _split_holders(sizes, count))
    return Placement(layout, _fill([cut for cuts in pieces.values() for cut in cuts], count))


def _by_size(sizes: Mapping[str, int], count: int, *, whole_parameters: bool) -> Placement:
    """Return slices of equal size; each goes to the server that has least, the largest first."""
    each = sum(sizes.values()) // count
    fair = min(max(each // SLICES_PER_SERVER, SMALLEST_SLICE), each // FEWEST_PER_SERVER, SLICE_ELEMENTS)
    elements = max(ALIGNED_ELEMENTS, fair // ALIGNED_ELEMENTS * ALIGNED_ELEMENTS)
    layout = flat_layout(sizes, slice_elements=elements, whole_parameters=whole_parameters)
    held = Placement(layout, ()).elements
    loads, holders = [0] * count, [0] * len(held)
    for number in sorted(range(len(held)), key=lambda one: (-held[one], one)):
        holders[number] = loads.index(min(loads))
        loads[holders[number]] += held[number]
    return Placement(layout, tuple(holders))


def _cut(sizes: Mapping[str, int], pieces: Mapping[str, Sequence[int]]) -> FlatLayout:
    """Return a layout with a slice for each piece of each parameter; whole ones by default."""
    whole = flat_layout(sizes, whole_parameters=True)
    slices = [
        (Span(key, start, stop),)
        for key, size in sizes.items()
        for start, stop in pairwise([0, *accumulate(pieces.get(key) or (size,))])
        if stop > start
    ]
    return FlatLayout(whole.offsets, tuple(slices), 0)


def _split(sizes: Mapping[str, int], count: int) -> dict[str, list[int]]:
    """Return the parts of each array by MXNet's rule, which rounds the ends of parts."""
    ends = {key: [round(size / count * part) for part in range(count + 1)] for key, size in sizes.items()}
    return {
        key: [stop - start for start, stop in pairwise(ends[key])] if size >= BIG_ELEMENTS else [size]
        for key, size in sizes.items()
    }


def _split_holders(sizes: Mapping[str, int], count: int) -> tuple[int, ...]:
    holders: list[int] = []
    for number, size in enumerate(sizes.values()):
        holders += range(count) if size >= BIG_ELEMENTS else [number * HASH_FACTOR % count]
    return tuple(holders)


def _boxes(sizes: Mapping[str, int], count: int) -> dict[str, list[int]]:
    """Return the parts of each array by SINGA's rule: boxes are filled, and a tenth may stand over."""
    box, tolerance = _box(list(sizes.values()), count)
    room = box
    pieces: dict[str, list[int]] = {}
    for key, size in sizes.items():
        left, cuts = size, pieces.setdefault(key, [])
        while left:
            if room + tolerance >= left:
                cuts.append(left)
                room, left = max(0, room - left), 0
            else:
                if room >= tolerance and room:
                    cuts.append(room)
                    left -= room
                room = box
    return pieces


def _fill(elements: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the box that each piece goes to by the same rule, without cutting any."""
    box, tolerance = _box(elements, count)
    room, number = box, 0
    boxes = []
    for size in elements:
        if room + tolerance < size and room < box:
            room, number = box, number + 1
        boxes.append(min(number, count - 1))
        room = max(0, room - size)
    return tuple(boxes)


def _box(elements: Sequence[int], count: int) -> tuple[int, int]:
    """Return the elements of a box, and how many may stand over: SINGA adds the remainder as a whole."""
    total = sum(elements)
    box = total // count + total % count
    return box, box // 10
