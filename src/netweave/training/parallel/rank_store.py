"""Small values that ranks tell each other through a store: every wait ends, and names whom it waited for.

The store is ``torch.distributed``'s, held by the launcher, by ``torchrun``, or by rank 0. Keys carry the
attempt: ranks that are started again must not read what their dead predecessors wrote.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from torch import distributed

from netweave.errors import PeerError
from netweave.training.parallel.waiting import within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.training.parallel.environment import RankEnvironment

T = TypeVar("T")

FIRST_PAUSE_S, LAST_PAUSE_S = 0.001, 0.1
"""Between two looks for a value, and for a rank that has failed meanwhile: twice as long each time."""

HOLD_S = 6.0
"""A rank that ends holds the store so long for the others: they look for who is to blame, see ``FIND_S``."""

SLACK_S = 5.0
"""A call that knows its timeout is given so much longer to say itself what was wrong."""

_FAILED = "failed"

_joined = itertools.count(1)


class RankStore:
    """The store of a run's ranks, seen from one of them.

    Args:
        environment: This rank.
        timeout_s: How long a rank, or the store, is waited for.

    Attributes:
        num_joined: How many stores this process has opened so far.
        names: What each rank is called in messages.
        attempt: The keys of this attempt.

    Raises:
        PeerError: There is no store.
    """

    num_joined: ClassVar[int] = 0

    def __init__(self, environment: RankEnvironment, *, timeout_s: float) -> None:
        self.names: Sequence[str] = [f"rank {rank}" for rank in range(environment.size)]
        self._environment, self._timeout_s = environment, timeout_s
        self._num_calls: Counter[str] = Counter()
        # a process may train several times; keys of the last time are still there
        RankStore.num_joined = number = next(_joined)
        self._prefix = f"netweave/{number}/attempt {environment.attempt}"
        base = self._connect(is_master=environment.hosts_store)
        self._run = distributed.PrefixStore(f"netweave/{number}/run", base)
        self.attempt = distributed.PrefixStore(self._prefix, base)

    @property
    def holder(self) -> str:
        """Who holds the store, in words."""
        environment = self._environment
        place = f"{environment.address}:{environment.port}"
        if environment.agent_holds_store:
            return f"the store of the ranks at {place}"
        return f"{self.names[0]}, which holds the store of the ranks at {place},"

    def second_connection(self) -> distributed.Store:
        """Return another way to the keys of this attempt: one that waits for a key keeps the first busy."""
        return distributed.PrefixStore(self._prefix, self._connect(is_master=False))

    def gather(self, value: Any, what: str) -> list[Any]:
        """Return the value of each rank: JSON values, small ones.

        Raises:
            PeerError: A rank is not there within the timeout, or has failed; the message names it.
        """
        key = self._key(what)
        keys = [f"{key}/{rank}" for rank in range(len(self.names))]
        self._call(lambda: self.attempt.set(keys[self._environment.rank], json.dumps(value)))
        return self._values(keys, range(len(keys)), what)

    def share(self, value: Any, what: str) -> Any:
        """Return the value that rank 0 has: JSON values, small ones."""
        key = self._key(what)
        if self._environment.rank == 0:
            self._call(lambda: self.attempt.set(key, json.dumps(value)))
        return self._values([key], [0], what)[0]

    def keep(self, make: Callable[[], Any], what: str) -> Any:
        """Return the value that the first attempt's rank 0 made, so that a restarted run has it again.

        Args:
            make: Called by rank 0 of the first attempt that comes so far.
            what: For keys and messages.
        """
        key = self._key(f"kept {what}")
        value = None
        if self._environment.rank == 0:
            if not self._call(lambda: self._run.check([key])):
                made = json.dumps(make())
                self._call(lambda: self._run.set(key, made))
            value = json.loads(self._call(lambda: self._run.get(key)))
        return self.share(value, what)

    def announce_failure(self, message: str) -> None:
        """Tell the others why this rank ends; only the first that says so is heard."""
        content = json.dumps([self._environment.rank, message])
        with contextlib.suppress(RuntimeError, TimeoutError):
            within(SLACK_S, lambda: self.attempt.compare_set(_FAILED, "", content))

    def failure(self) -> str:
        """Return which rank has said that it ends, and why; nothing if none has."""
        with contextlib.suppress(RuntimeError, TimeoutError):
            return within(SLACK_S, lambda: self.read_failure(self.attempt))
        return ""

    def read_failure(self, connection: distributed.Store) -> str:
        """Return the same by a connection of this attempt; may block, and raise what the store raises."""
        if not connection.check([_FAILED]):
            return ""
        rank, message = json.loads(connection.get(_FAILED))
        return f"{self.names[rank]} failed: {message}"

    def leave(self) -> None:
        """Say that this rank ends; whoever holds the store waits some seconds until all have.

        Ranks that lose the store know no more than that: they must have read before who is to blame.
        """
        others = [f"left/{rank}" for rank in range(len(self.names)) if rank != self._environment.rank]

        def wait() -> None:
            self.attempt.set(f"left/{self._environment.rank}", "")
            until_s = time.monotonic() + HOLD_S
            while self._environment.hosts_store and time.monotonic() < until_s:
                if self.attempt.check(others):
                    return
                time.sleep(LAST_PAUSE_S)

        with contextlib.suppress(RuntimeError, TimeoutError):
            within(HOLD_S + SLACK_S, wait)

    def _values(self, keys: Sequence[str], ranks: Sequence[int], what: str) -> list[Any]:
        """Return the values of keys, each written by a rank."""
        until_s = time.monotonic() + self._timeout_s
        return [json.loads(value) for value in self._call(lambda: self._wait(keys, ranks, until_s, what))]

    def _wait(self, keys: Sequence[str], ranks: Sequence[int], until_s: float, what: str) -> list[bytes]:
        pause_s = FIRST_PAUSE_S
        while not self.attempt.check(list(keys)):  # its own wait complains on standard error when it ends
            failure = self.read_failure(self.attempt)
            if failure or time.monotonic() >= until_s:
                raise self._missing(keys, ranks, failure, what)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        return list(self.attempt.multi_get(list(keys)))

    def _missing(self, keys: Sequence[str], ranks: Sequence[int], failure: str, what: str) -> PeerError:
        if failure:
            return PeerError(f"rank {self._environment.rank} cannot go on: {failure}")
        missing = " and ".join(
            self.names[rank] for key, rank in zip(keys, ranks, strict=True) if not self.attempt.check([key])
        )
        return PeerError(
            f"rank {self._environment.rank} cannot go on: {missing} did not come to {what!r} within "
            f"{self._timeout_s:.0f} s"
        )

    def _call(self, task: Callable[[], T]) -> T:
        """Call the store; raise a PeerError if it is gone or does not answer."""
        rank = self._environment.rank
        try:
            return within(self._timeout_s + SLACK_S, task)
        except TimeoutError as error:
            raise PeerError(
                f"rank {rank} cannot go on: {self.holder} has not answered for {self._timeout_s:.0f} s; "
                "is the link down?"
            ) from error
        except distributed.DistError as error:
            raise PeerError(f"rank {rank} cannot go on: {self.holder} has ended") from error

    def _connect(self, *, is_master: bool) -> distributed.Store:
        environment = self._environment

        def connect() -> distributed.Store:
            return distributed.TCPStore(
                environment.address,
                environment.port,
                world_size=None,
                is_master=is_master,
                timeout=timedelta(seconds=self._timeout_s),
                wait_for_workers=False,
            )

        try:
            return within(self._timeout_s + SLACK_S, connect)
        except (RuntimeError, TimeoutError) as error:
            if is_master and "EADDRINUSE" in str(error):
                cause = f"cannot listen on port {environment.port}: it is in use; choose another MASTER_PORT"
            else:
                cause = (
                    f"finds no store at {environment.address}:{environment.port} within "
                    f"{self._timeout_s:.0f} s; is rank 0 running, and its port open?"
                )
            raise PeerError(f"rank {environment.rank} {cause}") from error

    def _key(self, what: str) -> str:
        """Return a key that was not used before: a process may train several times."""
        self._num_calls[what] += 1
        return f"{what} {self._num_calls[what]}"
