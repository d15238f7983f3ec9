"""Synchronisation between server groups: the outer rules.

Each slice has a master, a server of one of the groups. ``sum`` is SINGA's: a group sends what its values have
changed by, the master adds that to its own values, and ``cur += master - prev``. With the other rules the
master keeps a centre: ``average`` and ``nesterov`` wait for all groups, whose mean, or a Nesterov step to it
(DiLoCo, arXiv 2311.08105), is what all go on from; ``elastic`` draws a group and the centre to each other
(EASGD, arXiv 1412.6651), without waiting.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import torch

from netweave.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from netweave.job import Cluster
    from netweave.training.cluster.server import Service

NESTEROV_RATE = 0.7
"""DiLoCo's learning rate of the outer rule."""

ELASTIC_RATE = 0.9
"""EASGD's moving rate, divided by the groups."""


class Center:
    """The centre of some slices, as their master keeps it.

    Args:
        cluster: The outer rule and its settings.
        timeout_s: How long a group is waited for.
    """

    def __init__(self, cluster: Cluster, *, timeout_s: float) -> None:
        self._rule, self._timeout_s = cluster.outer, timeout_s
        self._groups = set(range(cluster.server_groups))
        default = NESTEROV_RATE if cluster.outer == "nesterov" else ELASTIC_RATE / cluster.server_groups
        self._rate = default if cluster.outer_rate is None else cluster.outer_rate
        self._momentum = cluster.outer_momentum
        self._values: dict[int, Tensor] = {}
        self._velocities: dict[int, Tensor] = {}
        self._sent: dict[int, dict[int, Tensor]] = {}
        self._rounds: dict[int, int] = {}
        self._changed = threading.Condition()

    def begin(self, number: int, values: Tensor) -> None:
        """Begin with the first values of a slice."""
        with self._changed:
            self._values[number] = values.clone()
            self._velocities[number] = torch.zeros_like(values)
            self._sent[number], self._rounds[number] = {}, 0

    def exchange(self, group: int, number: int, sent: Tensor) -> Tensor:
        """Take the values of a group; return those that it goes on from.

        Raises:
            PeerError: Another group does not come within the timeout.
        """
        with self._changed:
            if self._rule == "elastic":
                moved = self._rate * (sent - self._values[number])
                self._values[number] += moved
                return sent - moved
            now = self._rounds[number]
            self._sent[number][group] = sent
            self._move_if_whole(number)
            until_s = time.monotonic() + self._timeout_s
            while self._rounds[number] == now:
                if not self._changed.wait(max(0.0, until_s - time.monotonic())):
                    missing = min(self._groups - self._sent[number].keys())
                    raise PeerError(
                        f"server group {group} has waited {self._timeout_s:.0f} s for group {missing} to be "
                        f"synchronised"
                    )
            return self._values[number].clone()

    def leave(self, group: int) -> None:
        """Do not wait for a group any more."""
        with self._changed:
            self._groups.discard(group)
            for number in self._values:
                self._move_if_whole(number)

    def _move_if_whole(self, number: int) -> None:
        sent = self._sent[number]
        if not sent or self._groups - sent.keys():
            return
        mean = torch.stack([sent[group] for group in sorted(sent)]).mean(0)
        if self._rule == "average":
            self._values[number] = mean
        else:
            gradient, velocity = self._values[number] - mean, self._velocities[number]
            velocity.mul_(self._momentum).add_(gradient)
            self._values[number] -= self._rate * (gradient + self._momentum * velocity)
        self._sent[number] = {}
        self._rounds[number] += 1
        self._changed.notify_all()


class Synchroniser:
    """What a server does to be synchronised with those of other groups.

    Args:
        cluster: The outer rule.
        group: The server's own group.
        masters: The master group of each slice.
        others: The servers of other groups that hold the same slices, by group.
        timeout_s: How long a group is waited for.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: int,
        masters: Sequence[int],
        others: Mapping[int, Service],
        *,
        timeout_s: float,
    ) -> None:
        self._rule, self._group, self._masters, self._others = cluster.outer, group, masters, others
        self._center = Center(cluster, timeout_s=timeout_s)
        self._previous: dict[int, Tensor] = {}

    def begin(self, number: int, values: Tensor) -> None:
        """Begin with the first values of a slice, which all groups have in common."""
        if self._rule == "sum":
            self._previous[number] = values.clone()
        elif self._masters[number] == self._group:
            self._center.begin(number, values)

    def exchange(self, number: int, values: Tensor) -> Tensor | None:
        """Return what becomes of the present values of a slice; None where others come to this server."""
        master = self._masters[number]
        is_own = master == self._group
        if self._rule != "sum":
            if is_own:
                return self._center.exchange(self._group, number, values)
            return self._others[master].exchange(self._group, number, values)
        if is_own:
            return None
        total = self._others[master].exchange(self._group, number, values - self._previous[number])
        self._previous[number] = total.clone()
        return total

    def leave(self) -> None:
        """Say to all masters that this server's group is synchronised no more."""
        self._center.leave(self._group)
        for other in self._others.values():
            other.withdraw(self._group)

    def withdraw(self, group: int) -> None:
        """Do not wait for another group any more, as a master."""
        self._center.leave(group)

    def take(self, group: int, number: int, sent: Tensor, add: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Take what another group sends, as the master; return what it gets back.

        Args:
            group: That group.
            number: The slice.
            sent: Its values, or with ``sum`` what they have changed by.
            add: Adds to the master's own values, and returns them.
        """
        if self._rule == "sum":
            return add(number, sent)
        return self._center.exchange(group, number, sent)
