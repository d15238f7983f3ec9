"""World of ranks."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import torch
from torch import distributed

from netweave.errors import NetweaveError, PeerError, UsageError
from netweave.runtime.backends.torch.device import find_device
from netweave.training.parallel.environment import (
    DEVICE,
    MACHINE,
    UNITS,
    is_launched,
    is_restarted_by_torchrun,
    rank_environment,
)
from netweave.training.parallel.heartbeat import BEAT_S, Heartbeat, within
from netweave.training.parallel.occupancy import Occupancy
from netweave.training.parallel.roster import Roster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from netweave.training.cluster.part import ClusterPart
    from netweave.training.parallel.environment import RankEnvironment


# The store is ``torch.distributed``'s, held by the launcher, by ``torchrun``, or by rank 0.

T = TypeVar("T")

FIRST_PAUSE_S, LAST_PAUSE_S = 0.001, 0.1
"""Between two looks for a value, and for a rank that has failed meanwhile: twice as long each time."""

HOLD_S = 9.0
"""A rank that ends holds the store so long for the others: they look for who is to blame, see ``FIND_S``."""

SLACK_S = 5.0
"""A call that knows its timeout is given so much longer to say itself what was wrong."""

_FAILED = "failed"

_joined = itertools.count(1)


class StartedAgainError(PeerError):
    """A rank that has met the others was started again: those that wait for it can meet it once more."""


class RankStore:
    """The store of a run's ranks, seen from one of them.

    Args:
        environment: This rank.
        timeout_s: How long a rank, or the store, is waited for.

    Attributes:
        num_joined: How many stores this process has opened so far.
        names: What each rank is called in messages.
        keys: The keys of the ranks that have met.
        met: Name of their list.
        is_restart: True, on rank 0, if ``keep`` has found what an earlier start of the ranks kept.

    Raises:
        PeerError: There is no store.
    """

    num_joined: ClassVar[int] = 0

    def __init__(self, environment: RankEnvironment, *, timeout_s: float) -> None:
        self.names: Sequence[str] = [f"rank {rank}" for rank in range(environment.size)]
        self._environment, self._timeout_s = environment, timeout_s
        self._num_calls: Counter[str] = Counter()
        self.is_restart = False
        # a process may train several times; keys of the last time are still there
        if not environment.group:  # the groups of a run have its number
            RankStore.num_joined = next(_joined)
        number = RankStore.num_joined
        self._place = f"netweave/{number}/{environment.group}".rstrip("/")
        self._base = self._connect(is_master=environment.hosts_store)
        self._run = distributed.PrefixStore(f"{self._place}/run", self._base)
        self._roster = self._call(
            lambda: Roster(
                distributed.PrefixStore(f"{self._place}/roster", self._base),
                environment.rank,
                environment.size,
                rejoins=environment.rejoins,
            )
        )
        self.meet()

    @property
    def holder(self) -> str:
        """Who holds the store, in words."""
        environment = self._environment
        place = f"{environment.address}:{environment.port}"
        if environment.agent_holds_store:
            return f"the store of the ranks at {place}"
        return f"{self.names[0]}, which holds the store of the ranks at {place},"

    def second_connection(self) -> distributed.Store:
        """Return another way to the same keys: one that waits for a key keeps the first busy."""
        return distributed.PrefixStore(self._prefix, self._connect(is_master=False))

    def gather(self, value: Any, what: str) -> list[Any]:
        """Return the value of each rank: JSON values, small ones.

        Raises:
            PeerError: A rank is not there within the timeout, or has failed; the message names it.
        """
        key = self._key(what)
        keys = [f"{key}/{rank}" for rank in range(len(self.names))]
        self._call(lambda: self.keys.set(keys[self._environment.rank], json.dumps(value)))
        if self._environment.rank:  # one rank reads what all have written, not each
            return list(self._values([key], keys, what)[0])
        values = self._values(keys, keys, what)
        self._call(lambda: self.keys.set(key, json.dumps(values)))
        return values

    def share(self, value: Any, what: str) -> Any:
        """Return the value that rank 0 has: JSON values, small ones.

        Where rank 0 was started again alone, that is what the others have read.
        """
        key = self._key(what)
        is_known = self._environment.rejoins and self._call(lambda: self.keys.check([key]))
        if self._environment.rank == 0 and not is_known:
            self._call(lambda: self.keys.set(key, json.dumps(value)))
        return self._values([key], [key], what)[0]

    def keep(self, make: Callable[[], Any], what: str) -> Any:
        """Return the value that the first start's rank 0 made, so that a restarted run has it again.

        Args:
            make: Called by rank 0 of the first start that comes so far.
            what: For keys and messages.
        """
        key = self._key(f"kept {what}")
        value = None
        if self._environment.rank == 0:
            if self._call(lambda: self._run.check([key])):
                self.is_restart = True
            else:
                made = json.dumps(make())
                self._call(lambda: self._run.set(key, made))
            value = json.loads(self._call(lambda: self._run.get(key)))
        return self.share(value, what)

    def announce_unit(self, ranks: Sequence[int]) -> None:
        """Tell the launcher which ranks are to be started again with this one; the others wait for them."""
        self._call(lambda: self._base.set(f"{UNITS}/{self._environment.rank}", json.dumps(list(ranks))))

    def starts_alone(self, rank: int) -> bool:
        """Return whether a rank has said that it is to be started again without all others."""
        return bool(self._call(lambda: self._base.check([f"{UNITS}/{rank}"])))

    def announce_failure(self, message: str) -> None:
        """Tell the others why this rank ends; only the first that says so is heard."""
        content = json.dumps([self._environment.rank, message])
        with contextlib.suppress(RuntimeError, TimeoutError):
            within(SLACK_S, lambda: self.keys.compare_set(_FAILED, "", content))

    def failure(self) -> str:
        """Return which rank has said that it ends, and why; nothing if none has."""
        with contextlib.suppress(RuntimeError, TimeoutError):
            return within(SLACK_S, lambda: self.read_failure(self.keys))
        return ""

    def read_failure(self, connection: distributed.Store) -> str:
        """Return the same by a connection to these keys; may block, and raise what the store raises."""
        if not connection.check([_FAILED]):
            return ""
        rank, message = json.loads(connection.get(_FAILED))
        return f"{self.names[rank]} failed: {message}"

    def announce_end(self) -> None:
        """Tell the others that this rank has done all that it had to."""
        self._call(lambda: self.keys.set(f"done/{self._environment.rank}", ""))

    def has_ended(self, rank: int) -> bool:
        """Return whether a rank has said so."""
        return bool(self._call(lambda: self.keys.check([f"done/{rank}"])))

    def await_ends(self, ranks: Sequence[int]) -> None:
        """Wait until ranks have done all that they had to, however long that takes.

        A launcher that sees one rank end well gives the others a minute; so all end together.

        Raises:
            PeerError: One has failed.
        """
        while not all(map(self.has_ended, ranks)):
            failure = self.failure()
            if failure:
                raise PeerError(f"rank {self._environment.rank} cannot go on: {failure}")
            time.sleep(LAST_PAUSE_S)

    def leave(self) -> None:
        """Say that this rank ends; whoever holds the store waits some seconds until all have.

        Ranks that lose the store know no more than that: they must have read before who is to blame.
        """
        others = [f"left/{rank}" for rank in range(len(self.names)) if rank != self._environment.rank]

        def wait() -> None:
            self.keys.set(f"left/{self._environment.rank}", "")
            until_s = time.monotonic() + HOLD_S
            while self._environment.hosts_store and time.monotonic() < until_s:
                if self.keys.check(others):
                    return
                time.sleep(LAST_PAUSE_S)

        with contextlib.suppress(RuntimeError, TimeoutError):
            within(HOLD_S + SLACK_S, wait)

    def meet(self) -> None:
        """Wait until all ranks have read one list of them, and take the keys of this list.

        Raises:
            PeerError: A rank is not there within the timeout; the message names it.
        """
        until_s = time.monotonic() + self._timeout_s
        pause_s = FIRST_PAUSE_S
        while not (met := self._call(self._roster.look)):
            if time.monotonic() >= until_s:
                raise self._not_there(self._call(self._roster.missing), "joining the others")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        self.met = met
        self._prefix = f"{self._place}/ranks {met}"
        self.keys = distributed.PrefixStore(self._prefix, self._base)
        self._num_calls.clear()

    def _values(self, keys: Sequence[str], of_ranks: Sequence[str], what: str) -> list[Any]:
        """Return the values of keys, for which ranks write theirs; ``share`` has but one."""
        until_s = time.monotonic() + self._timeout_s
        return [json.loads(value) for value in self._call(lambda: self._wait(keys, of_ranks, until_s, what))]

    def _wait(self, keys: Sequence[str], of_ranks: Sequence[str], until_s: float, what: str) -> list[bytes]:
        pause_s = FIRST_PAUSE_S
        while not self.keys.check(list(keys)):  # its own wait complains on standard error when it ends
            failure = self.read_failure(self.keys)
            if failure:
                raise PeerError(f"rank {self._environment.rank} cannot go on: {failure}")
            if self._roster.has_changed():
                raise StartedAgainError(
                    f"rank {self._environment.rank} cannot go on: another rank was started again"
                )
            if time.monotonic() >= until_s:
                missing = [rank for rank, key in enumerate(of_ranks) if not self.keys.check([key])]
                raise self._not_there(missing or [0], what)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        return list(self.keys.multi_get(list(keys)))

    def _not_there(self, ranks: Sequence[int], what: str) -> PeerError:
        missing = " and ".join(self.names[rank] for rank in ranks)
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


# A rank joins by the environment that ``torchrun`` or Netweave's own launcher gives it. Bytes are moved by
# ``torch.distributed``; each kind of traffic has a group of its own, so that its collectives are in one
# order on all ranks whatever the other kinds do.

TIMEOUT_S = 60.0
"""So long is a rank waited for; torch's own default is half an hour."""

FIND_S = 7.0
"""So long do ranks look for the one whose connection was closed: until it has missed its beats, and the rank
that reads the beats of all has said so."""

Group: TypeAlias = distributed.ProcessGroup


@dataclass(frozen=True, slots=True)
class Rank:
    """The description that a rank gives of itself when it joins.

    Attributes:
        number: Its number.
        host: Name of its machine.
        pid: Its process.
        device: Its device.
        versions: Versions of Netweave and torch.
    """

    number: int
    host: str
    pid: int
    device: str
    versions: str

    def __str__(self) -> str:
        return f"rank {self.number} (pid {self.pid} on {self.host})"


class World:
    """All ranks of a run, seen from one of them.

    Attributes:
        rank: Number of this process, from 0.
        size: Number of processes.
        run: Name of the run, the same in all starts.
        is_restart: True, on rank 0, if the ranks were started again.
        device: Where this rank computes.
        ranks: All ranks.
        machines: The ranks of each machine, in order.
        progress: How far this rank is, for the others.
        occupancy: How long it computed and communicated.
        store: The store through which the ranks have met.
        timeout_s: How long a rank is waited for.
        part: The part in a cluster of which these ranks are a worker group; None where they are all.
    """

    def __init__(
        self,
        environment: RankEnvironment,
        *,
        device: torch.device,
        timeout_s: float,
        tell: Callable[[str], None],
    ) -> None:
        self.rank, self.size = environment.rank, environment.size
        self.device = device
        self.timeout_s = timeout_s
        self.part: ClusterPart | None = None
        self.occupancy = Occupancy()
        self._closed = False
        self._groups: dict[str, Group] = {}
        self._blame: str | None = None
        self._blame_lock = threading.Lock()
        self.store = RankStore(environment, timeout_s=timeout_s)
        try:
            self.ranks, self.run = self._introduce()
            self.is_restart = self.store.is_restart
            self._heartbeat = Heartbeat(self.store, self.rank, timeout_s=timeout_s, tell=tell)
        except NetweaveError as error:
            self._announce(error)
            raise
        self.progress = self._heartbeat.progress
        hosts = list(dict.fromkeys(rank.host for rank in self.ranks))
        self.machines = tuple(
            tuple(rank.number for rank in self.ranks if rank.host == host) for host in hosts
        )
        self._owns_default = not distributed.is_initialized()
        if self._owns_default:
            try:
                self._initialise()
            except PeerError as error:
                self._announce(error)
                self._heartbeat.close()
                raise

    @property
    def is_first(self) -> bool:
        """True if this is the rank that writes and shows."""
        return self.rank == 0

    def group(self, name: str, ranks: Sequence[int] | None = None) -> Group:
        """Return the group of this name; all ranks must ask for new ones in the same order.

        Args:
            name: What it is used for.
            ranks: Its ranks; all by default.
        """
        if name not in self._groups:
            self._groups[name] = self._connect(
                lambda: distributed.new_group(
                    None if ranks is None else list(ranks),
                    timeout=timedelta(seconds=self.timeout_s),
                    backend="nccl" if self.device.type == "cuda" and name != "objects" else "gloo",
                )
            )
        return self._groups[name]

    def gather(self, value: Any, what: str) -> list[Any]:
        """Return the value of each rank: JSON values, small ones, through the store.

        Raises:
            PeerError: A rank is not there within the timeout, or has failed; the message names it.
        """
        return self.store.gather(value, what)

    def share(self, value: Any, what: str) -> Any:
        """Return the value that rank 0 has: JSON values, small ones, through the store."""
        return self.store.share(value, what)

    def keep(self, make: Callable[[], Any], what: str) -> Any:
        """Return the value that the first start's rank 0 made, so that a restarted run has it again."""
        return self.store.keep(make, what)

    def require_equal(self, value: Any, what: str, remedy: str) -> None:
        """Refuse to go on unless all ranks have the same value; see ``require_all_equal``."""
        self.require_all_equal({what: value}, remedy)

    def require_all_equal(self, values: Mapping[str, Any], remedy: str) -> None:
        """Refuse to go on unless all ranks have the same values.

        Args:
            values: JSON values by what they are called in messages.
            remedy: What to do if not.

        Raises:
            UsageError: One has others than most; the message names the rank, and the first that differs.
        """
        of_ranks = self.gather(
            {what: json.dumps(one, sort_keys=True) for what, one in values.items()}, "start"
        )
        for what in dict.fromkeys(what for one in of_ranks for what in one):
            of_each = [one.get(what, "nothing") for one in of_ranks]
            usual = max(of_each, key=of_each.count)
            for rank, value in zip(self.ranks, of_each, strict=True):
                if value != usual:
                    raise UsageError(f"{rank} has {what} {value}, the others {usual}; {remedy}")

    def barrier(self) -> None:
        """Wait for all ranks."""
        with self.watched("a barrier"):
            distributed.barrier(self.group("objects"))

    @contextlib.contextmanager
    def watched(self, what: str) -> Any:
        """Turn the error of a collective into one that names whom it waited for."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            if isinstance(error, PeerError):
                raise
            raise self.peer_error(what, error) from error

    def peer_error(self, what: str, error: BaseException) -> PeerError:
        """Return the error for a collective that failed."""
        cause = self._cause(has_ended=_says_ended(error)) or _in_words(error)
        return PeerError(f"rank {self.rank} cannot go on, {what} with the other ranks failed: {cause}")

    def _cause(self, *, has_ended: bool) -> str:
        """Return which rank is to blame, and for what; nothing if that is not known.

        Args:
            has_ended: Whether a connection was closed. Whose, gloo does not say: it is the rank that has said
                why it ends, or that does not answer from now on. The launcher knows that without waiting. So
                does torchrun, which starts the ranks again as soon as this one has ended.
        """
        self._heartbeat.hush()  # what it would say from now on is in the error
        with self._blame_lock:  # collectives on their way all fail, and are told the same
            is_known = is_launched() or is_restarted_by_torchrun()
            until_s = time.monotonic() + (FIND_S if has_ended and not is_known else 0.0)
            while self._blame is None:
                cause = self.store.failure() or self._heartbeat.waiting_for(has_ended=has_ended)
                if cause or time.monotonic() >= until_s:
                    self._blame = cause
                    self._heartbeat.report()  # the others wait for it, and this rank ends
                else:
                    time.sleep(BEAT_S / 5)
            return self._blame

    def close(self, *, failed: bool = False) -> None:
        """Leave; after a run that went well wait for the others first."""
        if self._closed:
            return
        self._closed = True
        if not failed:
            self.barrier()
        self._heartbeat.close()
        # else peers may be dead, and the process ends soon; one that is alone may begin again
        if self._owns_default and (self.size == 1 or not failed):
            distributed.destroy_process_group()

    def _announce(self, error: BaseException) -> None:
        """Tell the others why this rank ends, unless it ends because of another one."""
        if not isinstance(error, PeerError):
            self.store.announce_failure(str(error) or type(error).__name__)
        self.store.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._announce(error)
        self.close(failed=error is not None)

    # Joining.

    def _introduce(self) -> tuple[list[Rank], str]:
        """Return all ranks, and the name of the run; begin again if one is started again meanwhile."""
        while True:
            try:
                ranks = self._gather_ranks()
                self.store.names = [str(rank) for rank in ranks]
                return ranks, self.keep(lambda: secrets.token_hex(8), "run")
            except StartedAgainError:
                self.store.meet()

    def _gather_ranks(self) -> list[Rank]:
        host = os.environ.get(MACHINE) or socket.gethostname()
        netweave = import_module("netweave")  # by name: the package imports this module, not the reverse
        versions = f"netweave {netweave.__version__}, torch {torch.__version__}"
        own = [self.rank, host, os.getpid(), str(self.device), versions]
        ranks = [Rank(*values) for values in self.gather(own, "joining the others")]
        usual = max((rank.versions for rank in ranks), key=[rank.versions for rank in ranks].count)
        for rank in ranks:
            if rank.versions != usual:
                raise UsageError(
                    f"{rank} has {rank.versions}, the others {usual}; install the same versions everywhere"
                )
        return ranks

    def _initialise(self) -> None:
        store = distributed.PrefixStore("groups", self.store.keys)
        self._connect(
            lambda: distributed.init_process_group(
                "gloo",
                store=store,
                rank=self.rank,
                world_size=self.size,
                timeout=timedelta(seconds=self.timeout_s),
            )
        )

    def _connect(self, connect: Callable[[], Any]) -> Any:
        try:
            return within(self.timeout_s + SLACK_S, connect)
        except (RuntimeError, ValueError, TimeoutError) as error:
            cause = self._cause(has_ended=_says_ended(error)) or _in_words(error)
            raise PeerError(
                f"rank {self.rank} cannot connect to the other ranks within {self.timeout_s:.0f} s: {cause}; "
                "can the machines reach each other? GLOO_SOCKET_IFNAME names the network interface to use"
            ) from error


def join(
    environment: RankEnvironment | None = None,
    *,
    device: str | torch.device | None = None,
    timeout_s: float = TIMEOUT_S,
    tell: Callable[[str], None] | None = None,
) -> World | None:
    """Join the ranks that the environment speaks of; return None if it speaks of none.

    Args:
        environment: What it says of this rank; read from its variables by default.
        device: Where this rank computes; what the launcher says, or the CPU, by default.
        timeout_s: How long a rank is waited for.
        tell: Told of ranks that stand still or are slow; lines on standard error by default.

    Raises:
        UsageError: The environment is incomplete, the device is not there, or ranks do not fit together.
        PeerError: A rank does not come within the timeout.
    """
    environment = environment or rank_environment()
    if environment is None:
        return None
    use_loopback(environment)
    place = find_device(device or os.environ.get(DEVICE) or "cpu")
    return World(environment, device=place, timeout_s=timeout_s, tell=tell or _tell)


def use_loopback(environment: RankEnvironment) -> None:
    """Let gloo use the loopback where all ranks are on one machine.

    It would look up the host's name, which on many machines leads to no interface or a slow one.
    """
    if threading.current_thread() is threading.main_thread() and environment.is_one_machine:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")


def _says_ended(error: BaseException) -> bool:
    return any(
        words in str(error) for words in ("Connection closed by peer", "Connection reset", "Broken pipe")
    )


def _in_words(error: BaseException) -> str:
    """Return what gloo says, without its source lines."""
    text = str(error)
    if _says_ended(error):
        return "another rank has ended"
    if isinstance(error, TimeoutError) or "timed out" in text.lower() or "timeout" in text.lower():
        return "no answer within the timeout; is the link down?"
    return re.sub(r"\[/\S+\] ", "", text).strip().splitlines()[-1]


def _tell(text: str) -> None:
    print(f"netweave: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a message while the run waits
