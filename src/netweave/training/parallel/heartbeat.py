"""Who stands still and who is slow: every rank says once a second how far it is, and one reads all of them.

A collective that waits says nothing about whom it waits for, and as all ranks wait for the slowest, all take
equally long for an update. A beat therefore holds how many collectives the rank has begun, and for how long
it has computed in all without waiting for anybody. Whoever misses beats is stopped or cut off; whoever has
begun the fewest collectives while nothing moves is the one that all others wait for; whoever computes much
longer for an update than the others, on average between two beats, is slow.

Rank 0 reads all beats and reports on them, and the others read its report alone: the store's work grows with
the number of ranks and not with its square. Where no report comes any more, rank 1 reads and reports, and so
on.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from torch import distributed

from netweave.training.parallel.environment import GROUP_LOST, leave_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.training.parallel.world import RankStore

T = TypeVar("T")

BEAT_S = 1.0
"""Seconds between two beats."""

SILENT_S = 5.0
"""A rank that has not beaten for so long is named."""

LEAVE_S = 3.0
"""A rank whose store is gone has so long to end by itself."""

TAKE_OVER_S = 2.5
"""Rank 1 reads all beats when no report has come for so long, rank 2 a beat later, and so on."""

MISSED_S = 3 * BEAT_S
"""Who has not beaten for so long is to blame when the others cannot go on."""

CLOSE_S = 2.0
"""A beat takes milliseconds, or does not come back at all."""

SLOW_RATIO = 1.5
"""A rank is slow when it computes so many times as long for an update as the median of the others ..."""

SLOW_SHARE = 0.1
"""... what it takes longer is at least this share of the time that passes ..."""

SLOW_BEATS = 3
"""... and both hold at so many beats one after another."""


HAND_OVER = 3
"""A rank that has read all beats goes on for so many beats when an earlier one reports again: it says so."""

_REPORT = "report"


@dataclass(slots=True)
class Progress:
    """Progress of a rank; written by the run, read by its heartbeat.

    Attributes:
        iteration: Number of the last update.
        collectives: Collectives begun.
        updates: Updates done by this process.
        compute_s: Seconds for which it has computed for these, without waiting for others.
    """

    iteration: int = 0
    collectives: int = 0
    updates: int = 0
    compute_s: float = 0.0


@dataclass(slots=True)
class Pace:
    """Time that a rank computes for an update, on average between two heartbeats.

    Attributes:
        compute_s: Seconds for an update; 0 while that is not known.
        updates_per_s: Updates in a second.
        is_new: Whether there was an update since the last judgement.
    """

    compute_s: float = 0.0
    updates_per_s: float = 0.0
    is_new: bool = False
    _until: Progress = field(default_factory=Progress)
    _until_s: float = 0.0

    def note(self, progress: Progress, now_s: float) -> None:
        """Take how far the rank is; beats without a further update say nothing."""
        updates = progress.updates - self._until.updates
        if not updates:
            return
        if self._until.updates:  # the first updates allocate, and take longer
            self.compute_s = (progress.compute_s - self._until.compute_s) / updates
            self.updates_per_s = updates / max(now_s - self._until_s, 1e-9)
            self.is_new = True
        self._until, self._until_s = progress, now_s


@dataclass(slots=True)
class Peer:
    """State of another rank, as far as it is known.

    Attributes:
        changed_s: When its beat changed last, by this process's clock.
        beat: Its last beat.
        progress: What that says.
        pace: How fast it computes.
        silent: Whether it was named as silent.
        slow_beats: Beats in a row at which it was slow.
        named_slow: Whether it was named as slow.
    """

    changed_s: float
    beat: bytes = b""
    progress: Progress = field(default_factory=Progress)
    pace: Pace = field(default_factory=Pace)
    silent: bool = False
    slow_beats: int = 0
    named_slow: bool = False


class PeerWatch:
    """Judges beats; knows no threads and no store.

    Args:
        rank: The rank that watches.
        names: What each rank is called in messages.
        now_s: The time at which watching begins.
        timeout_s: How long the group waits for a rank.
        holder: What the store, and who holds it, is called in messages.
    """

    def __init__(
        self, rank: int, names: Sequence[str], now_s: float, timeout_s: float, *, holder: str = "the store"
    ) -> None:
        self.peers = [Peer(now_s) for _ in names]
        self._holder = holder
        self._noted_s = self._reported_s = now_s
        self._report = b""
        self._rank = rank
        self._names = names
        self._timeout_s = timeout_s

    def note(self, beats: Sequence[bytes], now_s: float) -> list[str]:
        """Take the latest beat of each rank; return messages, if it is this rank's turn to say them."""
        self._skip_stop(now_s)
        for peer, beat in zip(self.peers, beats, strict=True):
            if beat != peer.beat:
                peer.beat, peer.changed_s = beat, now_s
                peer.progress = Progress(*json.loads(beat)[1:])
                peer.pace.note(peer.progress, now_s)
        own = self.peers[self._rank]
        if own.silent or now_s - own.changed_s > SILENT_S:
            return self._cut_off(now_s)
        before = self._speaker()
        messages = [*self._silent(now_s), *self._slow()]
        # who is back does not know that it was away: whoever spoke for it says so
        return messages if self._rank in {before, self._speaker()} else []

    def hear(self, report: bytes, now_s: float) -> None:
        """Take the last report of who reads all beats; nothing if there was none yet."""
        if report and report != self._report and json.loads(report)[0] != self._rank:
            self._report, self._reported_s = report, now_s

    @property
    def reader(self) -> int:
        """The rank whose report came last; this one if there was none yet."""
        return int(json.loads(self._report)[0]) if self._report else self._rank

    def listen(self, own_beat: bytes, now_s: float) -> list[str]:
        """Return messages about this rank's own link, where another rank reads all beats.

        Args:
            own_beat: The last beat of this rank that the store has taken.
            now_s: The time.
        """
        self._skip_stop(now_s)
        own = self.peers[self._rank]
        if own_beat != own.beat:
            own.beat, own.changed_s = own_beat, now_s
        return self._cut_off(now_s) if own.silent or now_s - own.changed_s > SILENT_S else []

    def takes_over(self, now_s: float) -> bool:
        """Return whether it is this rank's turn to read all beats, as no rank before it reports."""
        if not self._rank:
            return True
        return now_s - self._reported_s > TAKE_OVER_S + (self._rank - 1) * BEAT_S

    def report(self, count: int, failure: str, now_s: float) -> str:
        """Return what the other ranks need to know of all.

        Args:
            count: A number that changes.
            failure: What a rank has said of why it ends.
            now_s: The time.
        """
        silent = self._silent_ones(now_s)
        return json.dumps(
            [self._rank, count, self.peers[self._rank].progress.iteration, failure, silent, self._last_ones()]
        )

    def reported(self, now_s: float, *, has_ended: bool) -> list[str]:
        """Return what ``waiting_for`` does, by the last report of another rank."""
        if not self._report:
            return []
        reader, _, iteration, failure, silent, last = json.loads(self._report)
        away_s = now_s - self._reported_s
        if away_s > MISSED_S and reader != self._rank:
            silent = [[reader, self._not_answered(reader, away_s, iteration)], *silent]
        silent = [sentence for rank, sentence in silent if rank != self._rank]
        return [failure] if failure else silent or ([] if has_ended else list(last))

    def _skip_stop(self, now_s: float) -> None:
        """Move all times on if this process was stopped, and not the others."""
        stopped_s = now_s - self._noted_s
        self._noted_s = now_s
        if stopped_s > SILENT_S / 2:
            self._reported_s = min(now_s, self._reported_s + stopped_s)
            for peer in self.peers:
                peer.changed_s += stopped_s

    def _speaker(self) -> int:
        """Return the first rank that answers: it speaks for all."""
        return next((rank for rank, peer in enumerate(self.peers) if not peer.silent), self._rank)

    def waiting_for(self, now_s: float, *, has_ended: bool = False) -> list[str]:
        """Return what is known of the ranks that the others wait for: silent ones, or the last ones.

        Args:
            now_s: The time.
            has_ended: Whether one of them has ended: then who is the last says nothing.
        """
        silent = [sentence for _, sentence in self._silent_ones(now_s)]
        return silent if silent or has_ended else self._last_ones()

    def _silent_ones(self, now_s: float) -> list[tuple[int, str]]:
        return [
            (rank, self._not_answered(rank, now_s - peer.changed_s, peer.progress.iteration))
            for rank, peer in enumerate(self.peers)
            if rank != self._rank and now_s - peer.changed_s > MISSED_S
        ]

    def _not_answered(self, rank: int, silent_s: float, iteration: int) -> str:
        return (
            f"{self._names[rank]} has not answered for {silent_s:.0f} s, last seen in iteration {iteration}"
        )

    def _last_ones(self) -> list[str]:
        begun = [peer.progress.collectives for peer in self.peers]
        if min(begun) == max(begun):
            return []
        return [
            f"{self._names[rank]} is behind, in iteration {peer.progress.iteration}"
            for rank, peer in enumerate(self.peers)
            if peer.progress.collectives == min(begun)
        ]

    def _silent(self, now_s: float) -> list[str]:
        messages = []
        for rank, peer in enumerate(self.peers):
            silent_s = now_s - peer.changed_s
            name = self._names[rank]
            if not peer.silent and silent_s > SILENT_S:
                peer.silent = True
                messages.append(
                    f"{name} has not answered for {silent_s:.0f} s (in iteration {peer.progress.iteration}); "
                    f"the others wait for it, up to {self._timeout_s:.0f} s"
                )
            elif peer.silent and silent_s < SILENT_S:
                peer.silent = False
                messages.append(f"{name} answers again")
        return messages

    def _cut_off(self, now_s: float) -> list[str]:
        """Return messages about this rank, of whose own beats nothing is heard, or was not until now."""
        own = self.peers[self._rank]
        silent_s = now_s - own.changed_s
        was_silent, own.silent = own.silent, silent_s > SILENT_S
        if own.silent == was_silent:
            return []
        if not own.silent:
            return [f"{self._holder} answers {self._names[self._rank]} again"]
        return [
            f"{self._holder} has not answered {self._names[self._rank]} for {silent_s:.0f} s; is the link "
            f"down? The run waits up to {self._timeout_s:.0f} s"
        ]

    def _slow(self) -> list[str]:
        messages = []
        times = [peer.pace.compute_s for peer in self.peers]
        for rank, peer in enumerate(self.peers):
            if not peer.pace.is_new or len(times) == 1:
                continue
            peer.pace.is_new = False
            others = statistics.median([*times[:rank], *times[rank + 1 :]])
            share = (times[rank] - others) * peer.pace.updates_per_s
            is_slow = 0 < others < times[rank] / SLOW_RATIO and share > SLOW_SHARE
            peer.slow_beats = peer.slow_beats + 1 if is_slow else 0
            if peer.slow_beats >= SLOW_BEATS and not peer.named_slow:
                peer.named_slow = True
                messages.append(
                    f"{self._names[rank]} is slow: it computes for {times[rank]:.3g} s per update, the "
                    f"others for {others:.3g} s"
                )
            elif peer.named_slow and not is_slow:
                peer.named_slow = False
                messages.append(f"{self._names[rank]} is no longer slow")
        return messages


class Heartbeat:
    """Beats on one thread, and watches the others on another.

    A rank whose store is gone ends soon: its launcher is dead, and nobody would end it otherwise.

    Args:
        store: Where beats are.
        rank: This rank.
        timeout_s: How long the group waits for a rank.
        tell: Told of messages.
    """

    def __init__(self, store: RankStore, rank: int, *, timeout_s: float, tell: Callable[[str], None]) -> None:
        self.progress = Progress()
        self._store, self._connection = store, store.second_connection()
        self._keys = distributed.PrefixStore("heartbeat", self._connection)
        self._holder = store.holder
        self._rank = rank
        self._tell = tell
        self._watch = PeerWatch(rank, store.names, time.monotonic(), timeout_s, holder=store.holder)
        self._end = threading.Event()
        self._failure = self._lost = ""
        self._hushed = False
        self._count = 0
        self._beat = b""
        self._beats: Sequence[bytes] | None = None  # of all ranks, where this one reads them
        self._reads_until = 0
        self._beat_keys = [f"beat/{rank}" for rank in range(len(store.names))]
        # calls to a store beyond a link that is down do not return: who beats cannot watch as well
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._run_beats, self._run_watch)
        ]
        for thread in self._threads:
            thread.start()

    def waiting_for(self, *, has_ended: bool) -> str:
        """Return what is known of the ranks that the others wait for.

        Args:
            has_ended: Whether one of them has ended.
        """
        known = self._watch.waiting_for if self._beats is not None else self._watch.reported
        return self._failure or self._lost or "; ".join(known(time.monotonic(), has_ended=has_ended))

    def report(self) -> None:
        """Tell the others at once what this rank knows, if it is the one that reads all beats."""
        if self._beats is not None:
            with contextlib.suppress(RuntimeError, TimeoutError):
                within(CLOSE_S, self._write_report)

    def hush(self) -> None:
        """Go on beating and watching, and say nothing any more: the run ends."""
        self._hushed = True

    def close(self) -> None:
        """Stop beating; a beat that does not come back is left behind."""
        self._end.set()
        for thread in self._threads:
            thread.join(CLOSE_S)

    def _run_beats(self) -> None:
        try:
            while True:
                self._exchange_beats()
                if self._end.wait(BEAT_S):
                    return
        except RuntimeError:  # torch's DistError, of the store's connection, is one
            self._lost = f"{self._holder} has ended, or the link to it is down"
        # the run fails by itself where it needs the others, and says so; one that does not is ended
        if not self._end.wait(LEAVE_S):
            if not leave_error(self._lost):
                self._tell(self._lost)
            os._exit(GROUP_LOST)

    def _exchange_beats(self) -> None:
        self._count += 1
        own = self.progress
        beat = json.dumps([self._count, own.iteration, own.collectives, own.updates, own.compute_s])
        self._keys.set(f"beat/{self._rank}", beat)
        watch = self._watch
        watch.hear(self._keys.get(_REPORT) if self._keys.check([_REPORT]) else b"", time.monotonic())
        self._beat = beat.encode()
        if watch.takes_over(time.monotonic()):
            self._reads_until = sys.maxsize
        elif watch.reader < self._rank:
            self._reads_until = min(self._reads_until, self._count + HAND_OVER)
        if self._count >= self._reads_until:
            self._beats = None
        elif self._beats is not None or self._keys.check(self._beat_keys):
            self._beats = self._keys.multi_get(self._beat_keys)
            self._failure = self._failure or self._store.read_failure(self._connection)
            if self._reads_until == sys.maxsize:
                self._write_report()

    def _write_report(self) -> None:
        report = self._watch.report(self._count, self._failure, time.monotonic())
        self._keys.set(_REPORT, report)

    def _run_watch(self) -> None:
        while not self._end.wait(BEAT_S):
            self._watch_once()

    def _watch_once(self) -> None:
        now_s, beats = time.monotonic(), self._beats
        if beats is not None:
            messages = self._watch.note(beats, now_s)
        else:
            messages = self._watch.listen(self._beat, now_s)
        for message in messages:
            if not self._hushed:
                self._tell(message)


def within(seconds: float, task: Callable[[], T]) -> T:
    """Return what a task returns, or raise what it raises.

    A call to the store, or into gloo while it connects, takes a timeout and yet does not return while the
    link is down: its time begins only when the other side has answered. The thread of a task that is given
    up is left behind; it cannot be ended, and does not keep the process.

    Args:
        seconds: How long the task is waited for.
        task: What to do, on a thread of its own.

    Raises:
        TimeoutError: It has not ended.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, name="within", daemon=True).start()
    return future.result(seconds)
