"""The roster of a run's ranks: which processes train together.

Each process that starts writes a fresh number for its rank. Rank 0 publishes the list of numbers when all are
there, and again when one changes; a process goes on only with a list that holds its own number, and only when
all that are listed have read that list. All later keys carry the hash of the list. So a rank that is started
again never reads what a dead one wrote, whoever starts the ranks and however often: the restarts that
``torchrun`` counts are each agent's own (pytorch/pytorch issues 108158, 135712, 167288).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import Store

_LIST = "list"


class Roster:
    """The list of a run's ranks, seen from one that joins; knows no clock.

    Args:
        store: Where ranks meet.
        rank: This rank.
        size: Number of ranks.
        rejoins: Whether it takes the place of a process that has met the others, who go on.
    """

    def __init__(self, store: Store, rank: int, size: int, *, rejoins: bool = False) -> None:
        self._store, self._rank = store, rank
        self._slots = [f"rank/{number}" for number in range(size)]
        self._listed: list[str] = json.loads(store.get(_LIST)) if rejoins and store.check([_LIST]) else []
        self._number = self._listed[rank] if self._listed else secrets.token_hex(8)
        store.set(self._slots[rank], self._number)

    def look(self) -> str:
        """Return the hash of the list that all its ranks have read and that holds this one; else nothing.

        To be called again until there is one.
        """
        store = self._store
        if self._rank == 0:
            self._publish()
        if not store.check([_LIST]):
            return ""
        listed = json.loads(store.get(_LIST))
        if listed[self._rank] != self._number:
            return ""  # of processes that were there before
        name = _hash(listed)
        if listed != self._listed:
            self._listed = listed
            store.set(_read_by(name, self._rank), "")
        if self._rank == 0 and store.check([_read_by(name, rank) for rank in range(len(listed))]):
            store.set(_complete(name), "")
            return name
        return name if store.check([_complete(name)]) else ""

    def has_changed(self) -> bool:
        """Return whether one of the ranks that have met was started again, and is listed."""
        return list(json.loads(self._store.get(_LIST))) != self._listed

    def missing(self) -> Sequence[int]:
        """Return the ranks that have not read the list of which this rank is one, or have never come."""
        if not self._listed:
            away = [rank for rank, slot in enumerate(self._slots) if not self._store.check([slot])]
            return away or [0]
        name = _hash(self._listed)
        ranks = range(len(self._listed))
        return [rank for rank in ranks if not self._store.check([_read_by(name, rank)])] or [0]

    def _publish(self) -> None:
        if not self._store.check(self._slots):
            return
        numbers = [number.decode() for number in self._store.multi_get(self._slots)]
        if numbers != self._listed and numbers[0] == self._number:  # else this process has a successor
            self._store.set(_LIST, json.dumps(numbers))


def _hash(listed: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(listed).encode()).hexdigest()[:16]


def _read_by(name: str, rank: int) -> str:
    return f"{name}/read by {rank}"


def _complete(name: str) -> str:
    return f"{name}/complete"
