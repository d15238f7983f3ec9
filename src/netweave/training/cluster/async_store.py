"""MXNet's ``dist_async``: a key-value store whose pushes are applied one by one as they come.

Each worker holds some of the keys and is their server. A push goes to the holder of its key, which changes
the value at once by the updater that its own process was given: there is one script, so all have the same. A
worker's pushes of a key are applied in their order, each once. A pull after a push returns what that push was
answered with, any other pull the value of that moment.
"""

from __future__ import annotations

import atexit
import sys
import threading
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import PeerError, UsageError
from netweave.training.cluster.server import Push, Server
from netweave.training.cluster.wire import RemoteServer, connect, serve
from netweave.training.parallel.kvstore import KVStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch import Tensor

    from netweave.runtime.engine import Engine
    from netweave.training.cluster.server import Answer, Service
    from netweave.training.parallel.kvstore import Key, UpdateFunction
    from netweave.training.parallel.world import World

LANE = "servers"
"""Where pushes go out: a thread for each server."""

SPREAD = 9973
"""Keys go to the servers by their number times this, as in ``kvstore_dist.h`` of MXNet."""

NAMED = 1 << 40
"""Numbers of keys that are names begin here."""

TIMEOUT_S = 60.0


class KeyValues:
    """The values that a server of keys holds, and how they change.

    Args:
        timeout_s: How long pushes wait for this process to be given its updater.
    """

    def __init__(self, timeout_s: float) -> None:
        self._stored: dict[int, tuple[Key, Tensor]] = {}
        self._updater: UpdateFunction | None = None
        self._has_updater = threading.Event()
        self._timeout_s = timeout_s

    def add(self, number: int, key: Key, value: Tensor) -> None:
        """Hold a key."""
        self._stored[number] = key, value

    def set_updater(self, updater: UpdateFunction) -> None:
        """Let a function change values from now on."""
        self._updater = updater
        self._has_updater.set()

    def values(self, number: int) -> Tensor:
        """Return a copy of a value's elements in a row."""
        return self._stored[number][1].reshape(-1).clone()

    def set_values(self, number: int, values: Tensor) -> None:
        """Replace them."""
        stored = self._stored[number][1]
        stored.copy_(values.reshape(stored.shape))

    def rows(self, number: int) -> Tensor:
        """Return the elements as a matrix of one row: what an updater keeps is its own."""
        return self.values(number)[None]

    def set_rows(self, number: int, rows: Tensor) -> None:
        """Replace the elements."""
        self.set_values(number, rows[0])

    def await_updater(self) -> None:
        """Wait until this process was given its updater.

        Raises:
            PeerError: It was given none within the timeout.
        """
        if not self._has_updater.wait(self._timeout_s):
            raise PeerError(
                "a dist_async store has no updater on the worker that holds a key: every worker calls "
                "set_optimizer or set_updater"
            )

    def apply(self, push: Push, version: int) -> None:
        """Change a value by what was pushed."""
        assert self._updater is not None
        key, stored = self._stored[push.number]
        with torch.no_grad():
            self._updater(key, push.gradient.to(stored.dtype).reshape(stored.shape), stored)


class KeyServer(Server):
    """A server of keys: pushes wait for its updater; pulls do not, also not those of its own process."""

    def __init__(self, held: KeyValues, groups: Iterable[int], **settings: Any) -> None:
        super().__init__(held, groups, **settings)
        self._keys = held

    def push(self, *pushes: Push) -> list[Answer]:
        """Apply pushes, as soon as there is an updater; see ``Server``."""
        self._keys.await_updater()
        return super().push(*pushes)


class AsyncStore(KVStore):
    """A ``dist_async`` store.

    Args:
        world: The workers; None for this one alone.
        num_servers: So many workers hold keys, the first ones; all by default.
        staleness: Pushes of a key by which a worker may be ahead of the slowest; None for any number.
        engine: As for ``KVStore``.
    """

    def __init__(
        self,
        world: World | None,
        *,
        num_servers: int | None = None,
        staleness: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        super().__init__("dist_async", world, engine=engine)
        self._num_servers = min(num_servers or self.num_workers, self.num_workers)
        self._engine.add_lane(LANE, self._num_servers)
        self._lane = LANE
        self._timeout_s = TIMEOUT_S if world is None else world.timeout_s
        self._held = KeyValues(self._timeout_s)
        self.server = KeyServer(
            self._held, range(self.num_workers), staleness=staleness, timeout_s=self._timeout_s
        )
        self._numbers: dict[Key, int] = {}
        self._sequences: dict[Key, int] = {}
        self._versions: dict[Key, int] = {}
        self._answered: set[Key] = set()
        self._services: list[Service] = []
        self._sessions: list[threading.Thread] = []
        self._dtype: torch.dtype | None = None
        self._finished = False
        atexit.register(self._finish_at_exit)  # scripts for MXNet close no store

    def init(self, key: Key | Sequence[Key], value: Tensor | Sequence[Tensor]) -> None:
        """Give keys their first values, those of the first worker.

        Raises:
            UsageError: A key has a value already, or is of whole numbers, or wider than the first one.
        """
        before = set(self._stored)
        super().init(key, value)
        for one in [each for each in self._stored if each not in before]:
            self._connect_for(one)
            number = self._number(one)
            self._sequences[one] = self._versions[one] = 0
            if self._holder(number) == self.rank:
                self._held.add(number, one, self._stored[one].clone())
                self.server.put(number, self._stored[one].reshape(1, -1), sequence=0, version=0)

    def pull(self, key: Key | Sequence[Key], out: Any, priority: int = 0) -> None:
        """Copy what is stored, after this worker's own pushes of the keys."""
        for one in [key] if isinstance(key, int | str) else key:
            self._refresh(one)
        super().pull(key, out, priority)

    def row_sparse_pull(self, key: Key, out: Tensor, row_ids: Tensor) -> None:
        """Copy some rows of what is stored at this moment; the other rows of ``out`` become zero."""
        self._refresh(key)
        super().row_sparse_pull(key, out, row_ids)

    def set_updater(self, updater: UpdateFunction) -> None:
        """Let a function change the values that this worker holds."""
        super().set_updater(updater)
        self._held.set_updater(updater)

    def set_gradient_compression(self, settings: Mapping[str, Any]) -> None:
        """Refuse compression: pushes to a server are sent as they are.

        Raises:
            UsageError: Always.
        """
        raise UsageError("a dist_async store sends gradients as they are; compression is for dist_sync")

    def close(self) -> None:
        """Wait for all pushes of all workers, and end."""
        self.finish()
        super().close()

    def finish(self) -> None:
        """Let the servers know that this worker is done, and serve the others until they are."""
        if self._finished:
            return
        self._finished = True
        atexit.unregister(self._finish_at_exit)
        self._engine.wait_all()
        for service in self._services:
            service.leave(self.rank)
            if isinstance(service, RemoteServer):
                service.end()
        for session in self._sessions:
            session.join()
        if self._world is not None:
            self._world.store.announce_end()
            self._world.store.await_ends(range(self.num_workers))

    def _finish_at_exit(self) -> None:
        if not hasattr(sys, "last_value"):  # the script has not failed
            self.finish()

    # What pushes do.

    def _push_to_workers(self, *arguments: Any) -> None:
        """Do nothing: other workers' pushes are no part of this one's."""

    def _update(self, key: Key, merged: list[Tensor]) -> None:
        if self._updater is None:
            raise UsageError("a dist_async store needs an updater: call set_optimizer before the first push")
        number = self._numbers[key]
        self._sequences[key] += 1
        (answer,) = self._services[self._holder(number)].push(
            Push(
                self.rank,
                number,
                self._sequences[key],
                self._versions[key],
                merged[0].detach().to("cpu", self._dtype).reshape(-1),
                rate=0.0,
            )
        )
        self._keep(key, answer.version, answer.values)
        self._answered.add(key)

    def _refresh(self, key: Key) -> None:
        if key not in self._numbers:
            return  # the check that follows says so
        self._engine.wait_for(self._variables[key])
        if key in self._answered:
            self._answered.discard(key)
            return
        answer = self._services[self._holder(self._numbers[key])].pull(self._numbers[key])
        self._keep(key, answer.version, answer.values)

    def _keep(self, key: Key, version: int, values: Tensor) -> None:
        self._versions[key] = version
        with torch.no_grad():
            self._stored[key].copy_(values.reshape(self._stored[key].shape))

    # Who holds what.

    def _number(self, key: Key) -> int:
        number = key if isinstance(key, int) else NAMED + zlib.crc32(key.encode())
        if number in self._numbers.values():
            raise UsageError(f"key {key!r} of the store has the number of another key; give it another name")
        self._numbers[key] = number
        return number

    def _holder(self, number: int) -> int:
        return number * SPREAD % self._num_servers

    def _connect_for(self, key: Key) -> None:
        """Connect to all servers for keys of one type, the first time."""
        dtype = self._stored[key].dtype
        if not dtype.is_floating_point:
            raise UsageError(f"key {key!r} holds {dtype}; a dist_async store is of floating-point values")
        if self._dtype is not None:
            if dtype.itemsize > self._dtype.itemsize:
                raise UsageError(f"key {key!r} holds {dtype}, and the first one {self._dtype}; init it first")
            return
        self._dtype = dtype
        if self.rank < self._num_servers:
            others = [rank for rank in range(self.num_workers) if rank != self.rank]
            self._sessions = [self._begin_session(rank) for rank in others]
        self._services = [self._service(rank) for rank in range(self._num_servers)]

    def _service(self, rank: int) -> Service:
        if rank == self.rank:
            return self.server
        assert self._world is not None
        assert self._dtype is not None
        pair = connect(
            self._world.store, self.rank, rank, side=0, dtype=self._dtype, timeout_s=self._timeout_s
        )
        return RemoteServer(pair, timeout_s=self._timeout_s)

    def _begin_session(self, rank: int) -> threading.Thread:
        name = f"session with worker {rank}"
        session = threading.Thread(target=partial(self._answer, rank), name=name, daemon=True)
        session.start()
        return session

    def _answer(self, rank: int) -> None:
        assert self._world is not None
        assert self._dtype is not None
        try:
            store = self._world.store
            serve(
                self.server,
                connect(store, rank, self.rank, side=1, dtype=self._dtype, timeout_s=self._timeout_s),
            )
        except BaseException as error:  # noqa: BLE001 - whoever waits for this worker is told
            self.server.fail(error)
