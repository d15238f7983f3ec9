"""Who stands still and who is slow: every rank says once a second how far it is, and reads the others.

A collective that waits says nothing about whom it waits for. A beat holds the number of updates, how many
collectives the rank has begun, and how long it computed for the last update before it waited for anybody.
Whoever misses beats is stopped or cut off; whoever has begun the fewest collectives while nothing moves is
the one that all others wait for; whoever computes much longer than the others is slow.
"""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.parallel.environment import GROUP_LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.distributed import Store

BEAT_S = 1.0
"""Seconds between two beats."""

SILENT_S = 5.0
"""A rank that has not beaten for so long is named."""

SLOW_RATIO = 1.5
SLOW_DIFFERENCE_S = 0.02
"""A rank is slow when it computes so much longer for an update than the median of the others ..."""

SLOW_BEATS = 3
"""... at so many beats one after another."""


@dataclass(slots=True)
class Progress:
    """How far a rank is; written by the run, read by its monitor."""

    iteration: int = 0
    collectives: int = 0
    compute_s: float = 0.0


@dataclass(slots=True)
class Peer:
    """What is known of another rank.

    Attributes:
        changed_s: When its beat changed last, by this process's clock.
        beat: Its last beat.
        progress: What that says.
        silent: Whether it was named as silent.
        slow_beats: Beats in a row at which it was slow.
        named_slow: Whether it was named as slow.
    """

    changed_s: float
    beat: bytes = b""
    progress: Progress = field(default_factory=Progress)
    silent: bool = False
    slow_beats: int = 0
    named_slow: bool = False


class Watch:
    """Judges beats; knows no threads and no store.

    Args:
        rank: The rank that watches.
        names: What each rank is called in messages.
        now_s: The time at which watching begins.
        timeout_s: How long the group waits for a rank.
    """

    def __init__(self, rank: int, names: Sequence[str], now_s: float, timeout_s: float) -> None:
        self.peers = [Peer(now_s) for _ in names]
        self._rank = rank
        self._names = names
        self._timeout_s = timeout_s

    def note(self, beats: Sequence[bytes], now_s: float) -> list[str]:
        """Take the latest beat of each rank; return messages, if it is this rank's turn to say them."""
        for peer, beat in zip(self.peers, beats, strict=True):
            if beat != peer.beat:
                peer.beat, peer.changed_s = beat, now_s
                peer.progress = Progress(*json.loads(beat)[1:])
        messages = [*self._silent(now_s), *self._slow()]
        speaker = next((rank for rank, peer in enumerate(self.peers) if not peer.silent), self._rank)
        return messages if speaker == self._rank else []

    def waiting_for(self, now_s: float) -> list[str]:
        """Return what is known of the ranks that the others wait for: silent ones, or the last ones."""
        silent = [
            f"{self._names[rank]} has not answered for {now_s - peer.changed_s:.0f} s, last seen in "
            f"iteration {peer.progress.iteration}"
            for rank, peer in enumerate(self.peers)
            if rank != self._rank and now_s - peer.changed_s > 3 * BEAT_S
        ]
        if silent:
            return silent
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
            if not peer.silent and silent_s > SILENT_S:
                peer.silent = True
                messages.append(
                    f"{self._names[rank]} has not answered for {silent_s:.0f} s (in iteration "
                    f"{peer.progress.iteration}); the others wait for it, up to {self._timeout_s:.0f} s"
                )
            elif peer.silent and silent_s < SILENT_S:
                peer.silent = False
                messages.append(f"{self._names[rank]} answers again")
        return messages

    def _slow(self) -> list[str]:
        messages = []
        times = [peer.progress.compute_s for peer in self.peers]
        for rank, peer in enumerate(self.peers):
            others = statistics.median([*times[:rank], *times[rank + 1 :]] or [times[rank]])
            slow = times[rank] > max(SLOW_RATIO * others, others + SLOW_DIFFERENCE_S)
            peer.slow_beats = peer.slow_beats + 1 if slow and others else 0
            if peer.slow_beats >= SLOW_BEATS and not peer.named_slow:
                peer.named_slow = True
                messages.append(
                    f"{self._names[rank]} is slow: it computes {times[rank]:.3g} s for an update, the others "
                    f"{others:.3g} s"
                )
            elif peer.named_slow and not peer.slow_beats:
                peer.named_slow = False
                messages.append(f"{self._names[rank]} is no longer slow")
        return messages


class Monitor:
    """Beats, and watches the others, on a thread of its own.

    A rank whose store is gone ends at once: its launcher is dead, and nobody would end it otherwise.

    Args:
        store: Where beats are; a connection of its own, since a rank that waits for a key holds the lock.
        rank: This rank.
        names: What each rank is called in messages.
        timeout_s: How long the group waits for a rank.
        tell: Told of messages.
    """

    def __init__(
        self, store: Store, rank: int, names: Sequence[str], *, timeout_s: float, tell: Callable[[str], None]
    ) -> None:
        self.progress = Progress()
        self._store = store
        self._rank = rank
        self._size = len(names)
        self._tell = tell
        self._watch = Watch(rank, names, time.monotonic(), timeout_s)
        self._end = threading.Event()
        self._count = 0
        self._beat()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def waiting_for(self) -> list[str]:
        """Return what is known of the ranks that the others wait for."""
        return self._watch.waiting_for(time.monotonic())

    def close(self) -> None:
        """Stop beating."""
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        self._count += 1
        own = self.progress
        beat = json.dumps([self._count, own.iteration, own.collectives, own.compute_s])
        self._store.set(f"beat/{self._rank}", beat)

    def _run(self) -> None:
        while not self._end.wait(BEAT_S):
            try:
                self._beat()
                beats = self._store.multi_get([f"beat/{rank}" for rank in range(self._size)])
            except RuntimeError:  # torch's DistError, of the store's connection, is one
                if self._end.is_set():
                    return
                self._tell("the store of the ranks is gone: its launcher ended, or the link to it is down")
                os._exit(GROUP_LOST)
            for message in self._watch.note(beats, time.monotonic()):
                self._tell(message)
