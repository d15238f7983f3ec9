"""Topology of a cluster: roles of processes and holders of slices, pure functions of settings and sizes.

Processes of workers come first, group after group. Separate servers have the processes behind them; else each
server stands beside one of the workers that it serves, and only those for which there is no worker have a
process of their own.

Placements:

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
from math import lcm, prod
from typing import TYPE_CHECKING

from netweave.training.optim.rule import ALIGNED_ELEMENTS, SLICE_ELEMENTS, FlatLayout, Span, flat_layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Graph
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


@dataclass(frozen=True, slots=True)
class Member:
    """A worker or a server: its group, and its number there."""

    group: int
    number: int


@dataclass(frozen=True, slots=True)
class Role:
    """Part of a process in a cluster.

    Attributes:
        rank: The process.
        worker: The worker that it is; None if it is none.
        server: The server that it is; None if it is none.
    """

    rank: int
    worker: Member | None = None
    server: Member | None = None

    def __str__(self) -> str:
        parts = [
            f"{name} {member.number} of {name} group {member.group}"
            for name, member in (("worker", self.worker), ("server", self.server))
            if member is not None
        ]
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class Topology:
    """Who does what.

    Attributes:
        cluster: What was asked for.
        roles: The role of each process, by rank.
        placement: The slices, and the server of each.
        masters: The server group that other groups synchronise a slice with, by slice.
        element_bytes: Bytes of an element.
    """

    cluster: Cluster
    roles: tuple[Role, ...]
    placement: Placement
    masters: tuple[int, ...]
    element_bytes: int

    @property
    def is_all_reduce(self) -> bool:
        """True if the only group's workers are the servers, so that a sum needs no server that waits."""
        cluster = self.cluster
        return (
            cluster.worker_groups == 1
            and not cluster.separate
            and cluster.servers_per_group <= cluster.workers_per_group
        )

    def worker_rank(self, group: int, number: int = 0) -> int:
        """Return the process of a worker."""
        return next(role.rank for role in self.roles if role.worker == Member(group, number))

    def server_rank(self, group: int, number: int) -> int:
        """Return the process of a server."""
        return next(role.rank for role in self.roles if role.server == Member(group, number))

    def server_group_of(self, worker_group: int) -> int:
        """Return the server group that a worker group talks to."""
        return worker_group * self.cluster.server_groups // self.cluster.worker_groups

    def served_by(self, server_group: int) -> tuple[int, ...]:
        """Return the worker groups that talk to a server group."""
        groups = range(self.cluster.worker_groups)
        return tuple(group for group in groups if self.server_group_of(group) == server_group)

    def slices_of(self, server: Member) -> tuple[int, ...]:
        """Return the slices that a server holds."""
        return tuple(
            number for number, holder in enumerate(self.placement.holders) if holder == server.number
        )

    def bytes_of(self, server: Member) -> int:
        """Return the bytes of the parameters that a server holds."""
        elements = self.placement.elements
        return sum(elements[number] for number in self.slices_of(server)) * self.element_bytes

    @property
    def imbalance(self) -> float:
        """Bytes of the server that holds most, divided by the mean."""
        loads = self.placement.loads(self.cluster.servers_per_group)
        return max(loads) * len(loads) / sum(loads)

    def describe(self, rank: int) -> str:
        """Return the line of a process in the log: its role, its slices and their bytes."""
        role = self.roles[rank]
        if role.server is None:
            return f"process {rank}: {role}"
        slices = self.slices_of(role.server)
        return f"process {rank}: {role}, {len(slices)} slices, {self.bytes_of(role.server):,} bytes"


def trained_sizes(graph: Graph) -> dict[str, int]:
    """Return the elements of each parameter that a solver changes, by key; those of unknown size are 0."""
    return {
        key: prod(size or 0 for size in parameter.shape)
        for key, parameter in graph.parameters.items()
        if parameter.trainable and parameter.lr_mult
    }


def plan_topology(
    cluster: Cluster,
    sizes: Mapping[str, int],
    *,
    whole_parameters: bool = False,
    element_bytes: int = 4,
) -> Topology:
    """Return the roles of processes, and the holders of slices.

    Args:
        cluster: What is asked for.
        sizes: Elements of each trained parameter by key, in order.
        whole_parameters: Let no slice cut a parameter, as the update rule needs it whole.
        element_bytes: Bytes of an element.

    Raises:
        UsageError: A server would hold nothing.
    """
    placement = place(cluster, sizes, whole_parameters=whole_parameters)
    loads = placement.loads(cluster.servers_per_group)
    if not all(loads):
        raise cluster.error(
            "servers_per_group",
            f"server {loads.index(0)} of {cluster.servers_per_group} would hold no parameter with the "
            f"placement {cluster.placement!r}; take fewer servers, or another placement",
        )
    count = cluster.server_groups
    masters = tuple(number % count for number in range(len(placement.holders)))
    return Topology(cluster, _roles(cluster), placement, masters, element_bytes)


def _roles(cluster: Cluster) -> tuple[Role, ...]:
    workers = [
        Member(group, number)
        for group in range(cluster.worker_groups)
        for number in range(cluster.workers_per_group)
    ]
    of_rank: list[tuple[Member | None, Member | None]] = [(worker, None) for worker in workers]
    beside = 0 if cluster.separate else len(workers) // cluster.server_groups
    for group in range(cluster.server_groups):
        for number in range(cluster.servers_per_group):
            server = Member(group, number)
            if number < beside:
                of_rank[group * beside + number] = (workers[group * beside + number], server)
            else:
                of_rank.append((None, server))
    return tuple(Role(rank, worker, server) for rank, (worker, server) in enumerate(of_rank))
