"""Child processes that stay after they have read several nets, to compare two of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.web import chosen_options

if TYPE_CHECKING:
    from netweave.web.models import Net
    from netweave.web.work import supervise

STAY_SECONDS = 20.0
"""So long a child that has read several nets waits to compare two of them: a page asks within a second."""

Key = tuple[frozenset[str], str, str]
"""The stored files, the sizes of inputs and the entry that a net is read with."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A child that has read several nets, and waits to compare two of them.

    Attributes:
        process: The child.
        folder: Where it works.
        numbers: Its number of each net that it has read.
        held: Ends it and removes its folder.
    """

    process: supervise.Child
    folder: Path
    numbers: Mapping[Key, int]
    held: ExitStack


class Readers:
    """The reader of the nets that came last: there is one at most, and no other job runs beside it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader: Reader | None = None

    def keep(self, reader: Reader) -> None:
        """Keep a reader until its nets are compared, another job begins, or its time is out."""
        self.drop()
        with self._lock:
            self._reader = reader
        timer = threading.Timer(STAY_SECONDS, self.drop, [reader])
        timer.daemon = True
        timer.start()

    def take(self, nets: Sequence[Net], chosen: Mapping[str, Any]) -> Reader | None:
        """Return the reader of two nets, which the caller ends; any other one is ended."""
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is None:
            return None
        is_read_otherwise = any(name in chosen for name in (*chosen_options.READ, *chosen_options.SIZES))
        if not is_read_otherwise and all(key_of(net) in reader.numbers for net in nets):
            return reader
        reader.held.close()
        return None

    def drop(self, only: Reader | None = None) -> None:
        """End the reader that is kept, if it is a certain one."""
        with self._lock:
            reader = self._reader
            if reader is None or only not in (None, reader):
                return
            self._reader = None
        reader.held.close()


READERS = Readers()


def keys_of(net: Net, sorting: Mapping[str, Any]) -> dict[Key, int]:
    """Return the numbers of the nets that were found among the files of one, by how ``split`` makes them."""
    stored = {file.name: file.stored for file in net.files.all()}
    first, *rest = sorting["nets"]
    keys = {_key([stored[name] for name in first if name in stored], net.input_shapes, net.entry): 0}
    for number, names in enumerate(rest, 1):
        if all(name in stored for name in names):
            keys[_key([stored[name] for name in names], {}, "")] = number
    return keys


def key_of(net: Net) -> Key:
    """Return what a net is read with."""
    return _key([file.stored for file in net.files.all()], net.input_shapes, net.entry)


def _key(stored: Sequence[str], input_shapes: Mapping[str, Any], entry: str) -> Key:
    return frozenset(stored), json.dumps(input_shapes, sort_keys=True), entry
