"""Topology of a cluster: roles of processes and holders of slices, a pure function.

Processes of workers come first, group after group. Separate servers have the processes behind them; else each
server stands beside one of the workers that it serves, and only those for which there is no worker have a
process of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from netweave.training.cluster.placement import Placement, place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.graph import Graph
    from netweave.job import Cluster


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
