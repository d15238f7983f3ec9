"""The parameter server: slices, the updates that were applied to them, and who waits for whom.

A worker group pushes the gradient of a slice with its sequence number and gets the new values back; a push
that was applied before is not applied again. A server that is started again goes on from its checkpoint, and
the workers push again what it does not hold: each keeps what no checkpoint holds yet.

With a bound K on staleness, the answer to a group's n-th push
is held back until every other group has pushed n - K times, so that nobody computes further ahead.

The class knows no transport: the same methods are called in its own process, and for what arrives from others
(``wire``). What a slice is and how it changes is for ``Held`` to say: the slices of a Job here, keys of a
key-value store elsewhere.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from netweave.errors import PeerError, RunError, UsageError
from netweave.training.checkpoint_file import Checkpoint, read_checkpoint, write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from netweave.training.cluster.outer import Synchroniser

WAKE_S = 1.0
"""So often does one that waits look at the clock."""


@dataclass(frozen=True, slots=True)
class Push:
    """A gradient for a slice.

    Attributes:
        group: The worker group that computed it.
        number: The slice.
        sequence: How many times the group has pushed the slice, with this time: 1, 2, ...
        version: The version of the slice from which it was computed.
        gradient: Its elements in a row.
        rate: Learning rate, before multipliers.
        scale: Factor on the gradient.
        factors: Of the update rule, by parameter.
    """

    group: int
    number: int
    sequence: int
    version: int
    gradient: Tensor
    rate: float
    scale: float = 1.0
    factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Values of a slice.

    Attributes:
        version: Number of updates that they hold.
        values: The elements in a row; of ``pull`` with ``whole``, further rows of the rule's state below.
    """

    version: int
    values: Tensor


class Held(Protocol):
    """What a server holds: slices by number. Only one thread at a time calls it."""

    def values(self, number: int) -> Tensor:
        """Return a copy of a slice's elements in a row."""

    def set_values(self, number: int, values: Tensor) -> None:
        """Replace them."""

    def rows(self, number: int) -> Tensor:
        """Return a copy of the elements, and below them of what the rule keeps for each: (rows, elements)."""

    def set_rows(self, number: int, rows: Tensor) -> None:
        """Replace them."""

    def apply(self, push: Push, version: int) -> None:
        """Change a slice by a gradient.

        Args:
            push: The gradient.
            version: Updates that the slice has seen before.
        """


class Service(Protocol):
    """A server, in this process or behind a connection."""

    def put(self, number: int, rows: Tensor, *, sequence: int, version: int) -> None:
        """Give a slice its first values; see ``Server``."""

    def push(self, *pushes: Push) -> list[Answer]:
        """Apply gradients of one group, and return the new values of their slices."""

    def pull(self, number: int, *, whole: bool = False) -> Answer:
        """Return the values of a slice."""

    def synchronise(self, number: int) -> Answer:
        """Bring a slice together with the other server groups."""

    def exchange(self, group: int, number: int, sent: Tensor) -> Tensor:
        """Take what another server group sends of a slice, and return what becomes of it."""

    def resume(self, group: int) -> dict[int, int]:
        """Return, by slice, how often a worker group has pushed it; a checkpoint holds all of that."""

    def leave(self, group: int) -> None:
        """Say that a worker group has ended."""

    def withdraw(self, group: int) -> None:
        """Say that a server group is synchronised no more."""

    def report(self) -> dict[str, Any]:
        """Return what was counted, when all worker groups have ended."""


class Server:
    """One server.

    Args:
        held: Its slices.
        groups: The worker groups that it serves.
        staleness: Pushes by which a group may be ahead of the slowest; None for any number.
        timeout_s: How long a group is waited for.
        synchroniser: Brings slices together with other server groups; None where there is one group.

    Attributes:
        leads: How often a group that pushed was so many pushes ahead of the slowest.
        ages: How often a gradient was computed from values so many versions old.
        applied: Pushes applied.
        repeated: Pushes that had been applied before.
        checkpoint: Where the server is to save what it must not forget; None for nowhere.
    """

    def __init__(
        self,
        held: Held,
        groups: Iterable[int],
        *,
        staleness: int | None = None,
        timeout_s: float = 60.0,
        synchroniser: Synchroniser | None = None,
    ) -> None:
        self.checkpoint: Path | None = None
        self._saving = threading.Lock()
        self._saved: dict[tuple[int, int], int] = {}
        self._held, self._staleness, self._timeout_s = held, staleness, timeout_s
        self._synchroniser = synchroniser
        self._changed = threading.Condition()
        self._versions: dict[int, int] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._clocks = dict.fromkeys(groups, 0)
        self._present = set(self._clocks)
        self._error: BaseException | None = None
        self.leads: Counter[int] = Counter()
        self.ages: Counter[int] = Counter()
        self.applied = self.repeated = 0

    def put(self, number: int, rows: Tensor, *, sequence: int, version: int) -> None:
        """Give a slice its first values, or those of a checkpoint of the run.

        Args:
            number: The slice.
            rows: Its elements, and below them what the rule keeps: (rows, elements).
            sequence: How many times each group has pushed it before.
            version: Updates that it has seen.
        """
        with self._changed:
            if number in self._versions:
                return  # put again after a lost answer
            self._held.set_rows(number, rows)
            if self._synchroniser is not None:
                self._synchroniser.begin(number, self._held.values(number))
            for group in self._clocks:
                self._last[group, number] = sequence
                self._clocks[group] = max(self._clocks[group], sequence)
            self._versions[number] = version
            self._changed.notify_all()

    def push(self, *pushes: Push) -> list[Answer]:
        """Apply gradients of one group, each once however often it comes; return the new values.

        Args:
            pushes: One gradient for each of some slices, all of one update of the group.

        Raises:
            RunError: A push of the group is missing before one of these.
            PeerError: The slowest group does not go on within the timeout.
        """
        with self._changed:
            for push in pushes:
                self._apply_once(push)
            if self._staleness is not None and pushes:
                self._await_slowest(pushes[0].group, pushes[0].sequence - self._staleness)
            return [Answer(self._versions[push.number], self._held.values(push.number)) for push in pushes]

    def pull(self, number: int, *, whole: bool = False) -> Answer:
        """Return the values of a slice, as soon as it has any.

        Args:
            number: The slice.
            whole: Also return what the rule keeps for each element, in rows below.
        """
        with self._changed:
            self._await_values(number)
            values = self._held.rows(number) if whole else self._held.values(number)
            return Answer(self._versions[number], values)

    def synchronise(self, number: int) -> Answer:
        """Bring a slice together with the other server groups; updates may be applied meanwhile."""
        if self._synchroniser is None:
            return self.pull(number)
        sent = self.pull(number)
        received = self._synchroniser.exchange(number, sent.values)
        if received is None:
            return self.pull(number)
        with self._changed:
            if self._versions[number] != sent.version:  # keep what was applied since
                received = self._held.values(number) + (received - sent.values)
            self._held.set_values(number, received)
            return Answer(self._versions[number], received)

    def exchange(self, group: int, number: int, sent: Tensor) -> Tensor:
        """Take what a server group sends of a slice whose master this server is; return what it gets back."""
        assert self._synchroniser is not None
        with self._changed:
            self._await_values(number)
        return self._synchroniser.take(group, number, sent, self._add)

    def resume(self, group: int) -> dict[int, int]:
        """Return, by slice, how often a group has pushed it, for one that has lost what it pushed.

        A checkpoint holds all of that: the group could not push it again.
        """
        self.keep()
        with self._changed:
            return {number: last for (other, number), last in self._last.items() if other == group}

    def saved(self, group: int, number: int) -> int:
        """Return the last push of a slice that a checkpoint holds, by the sequence numbers of its group."""
        return self._saved.get((group, number), -1)

    def leave(self, group: int) -> None:
        """Let nobody wait for a worker group any more."""
        with self._changed:
            self._present.discard(group)
            self._changed.notify_all()
            is_last = not self._present
        self.keep()  # nobody would push again what this group has pushed
        if is_last and self._synchroniser is not None:
            self._synchroniser.leave()

    def withdraw(self, group: int) -> None:
        """Let no slice wait for a server group any more, as their master."""
        assert self._synchroniser is not None
        self._synchroniser.withdraw(group)

    def report(self) -> dict[str, Any]:
        """Return what was counted, when all worker groups have ended, however long that takes."""
        with self._changed:
            self._await(lambda: not self._present, lambda: "all groups to end", timeout_s=math.inf)
            return {
                "applied": self.applied,
                "repeated": self.repeated,
                "leads": dict(sorted(self.leads.items())),
                "ages": dict(sorted(self.ages.items())),
            }

    def fail(self, error: BaseException) -> None:
        """Let all that wait fail."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    # Checkpoints.

    def keep(self) -> None:
        """Save all that was applied, where the server has a checkpoint."""
        if self.checkpoint is not None:
            self.save(self.checkpoint)

    def save(self, path: Path) -> None:
        """Write slices, versions and sequence numbers to a file, whole or not at all."""
        with self._saving:
            self._save(path)

    def _save(self, path: Path) -> None:
        with self._changed:
            last = dict(self._last)
            state = {
                "present": sorted(self._present),
                "versions": sorted(self._versions.items()),
                "last": [[group, number, last] for (group, number), last in sorted(self._last.items())],
                "counts": [self.applied, self.repeated, [*self.leads.items()], [*self.ages.items()]],
            }
            arrays = {str(number): self._held.rows(number).numpy() for number in self._versions}
        write_checkpoint(path, Checkpoint(state, arrays))
        self._saved = last

    def restore(self, path: Path) -> None:
        """Go on where ``save`` was called.

        Raises:
            ReadError: The file is damaged.
            UsageError: It is of other worker groups.
        """
        checkpoint = read_checkpoint(path)
        last = {(group, number): last for group, number, last in checkpoint.state["last"]}
        if {group for group, _ in last} - self._clocks.keys():
            raise UsageError(f"{path}: is of a server of other worker groups")
        with self._changed:
            for number, version in checkpoint.state["versions"]:
                self._held.set_rows(number, torch.from_numpy(checkpoint.arrays[str(number)].copy()))
                self._versions[number] = version
            self._last, self._saved = last, dict(last)
            self._present &= set(checkpoint.state["present"])
            for (group, _), sequence in last.items():
                self._clocks[group] = max(self._clocks[group], sequence)
            self.applied, self.repeated, leads, ages = checkpoint.state["counts"]
            self.leads, self.ages = Counter(dict(leads)), Counter(dict(ages))
            self._changed.notify_all()

    # With the lock.

    def _apply_once(self, push: Push) -> None:
        self._await_values(push.number)
        last = self._last[push.group, push.number]
        if push.sequence > last + 1:
            raise RunError(
                f"slice {push.number}: worker group {push.group} pushes update {push.sequence}, expected "
                f"{last + 1}; the updates between are lost"
            )
        if push.sequence <= last:
            self.repeated += 1
        else:
            self._apply(push)

    def _apply(self, push: Push) -> None:
        number, version = push.number, self._versions[push.number]
        slowest = min((self._clocks[group] for group in self._others(push.group)), default=push.sequence - 1)
        self.leads[max(0, push.sequence - 1 - slowest)] += 1
        # a push that comes again was computed from values that a server had before it was started again
        self.ages[max(0, version - push.version)] += 1
        self._held.apply(push, version)
        self._versions[number] = version + 1
        self._last[push.group, number] = push.sequence
        self._clocks[push.group] = max(self._clocks[push.group], push.sequence)
        self.applied += 1
        self._changed.notify_all()

    def _add(self, number: int, delta: Tensor) -> Tensor:
        """Add what another group's updates have changed; return the sum."""
        with self._changed:
            values = self._held.values(number) + delta
            self._held.set_values(number, values)
            return values

    def _others(self, group: int) -> set[int]:
        return self._present - {group}

    def _await_values(self, number: int) -> None:
        self._await(lambda: number in self._versions, lambda: f"the first values of slice {number}")

    def _await_slowest(self, group: int, clock: int) -> None:
        def behind() -> list[int]:
            return [other for other in self._others(group) if self._clocks[other] < clock]

        self._await(
            lambda: not behind(),
            lambda: (
                f"worker group {behind()[0]} to push update {clock}: it is the slowest, and group {group} "
                f"may be at most {self._staleness} updates ahead"
            ),
        )

    def _await(
        self, is_so: Callable[[], bool], what: Callable[[], str], *, timeout_s: float | None = None
    ) -> None:
        until_s = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        while not is_so():
            if self._error is not None:
                raise PeerError(f"a server cannot go on: {self._error}") from self._error
            if time.monotonic() >= until_s:
                raise PeerError(f"a server has waited {self._timeout_s:.0f} s for {what()}")
            self._changed.wait(min(WAKE_S, max(0.0, until_s - time.monotonic())))


def report_lines(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each server: what it applied, and how stale that was.

    Args:
        reports: What ``report`` returned, by server.
    """
    return [
        f"server {number}: {one['applied']} slice updates applied, {one['repeated']} repeated; updates "
        f"ahead of the slowest group {_histogram(one['leads'])}, versions behind {_histogram(one['ages'])}"
        for number, one in enumerate(reports)
    ]


def _histogram(counts: Mapping[Any, int]) -> str:
    return json.dumps({str(key): count for key, count in counts.items()}).replace('"', "")
