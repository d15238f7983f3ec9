"""The ranks of a run: who they are, which of them share a machine, and the groups they exchange in.

A rank joins by the environment that ``torchrun`` or Netweave's own launcher gives it. Bytes are moved by
``torch.distributed``; each kind of traffic has a group of its own, so that its collectives are in one order
on all ranks whatever the other kinds do.
"""

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
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from importlib import metadata
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import torch
from torch import distributed

from netweave.backends.torch.device import find_device
from netweave.errors import PeerError, UsageError
from netweave.parallel.environment import DEVICE, MACHINE, rank_environment
from netweave.parallel.monitor import Monitor
from netweave.parallel.occupancy import Occupancy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from netweave.parallel.environment import RankEnvironment

TIMEOUT_S = 60.0
"""So long is a rank waited for; torch's own default is half an hour."""

_joined = itertools.count(1)

Group: TypeAlias = distributed.ProcessGroup


@dataclass(frozen=True, slots=True)
class Rank:
    """What a rank says of itself when it joins.

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
        attempt: How often the processes were started again.
        run: Name of the run, the same in all attempts.
        device: Where this rank computes.
        ranks: All ranks.
        machines: The ranks of each machine, in order.
        progress: How far this rank is, for the others.
        occupancy: How long it computed and communicated.
        timeout_s: How long a rank is waited for.
    """

    def __init__(
        self,
        environment: RankEnvironment,
        *,
        device: torch.device,
        timeout_s: float,
        tell: Callable[[str], None],
    ) -> None:
        self.rank, self.size, self.attempt = environment.rank, environment.size, environment.attempt
        self.device = device
        self.timeout_s = timeout_s
        self.occupancy = Occupancy()
        self._closed = False
        self._groups: dict[str, Group] = {}
        self._num_calls: Counter[str] = Counter()
        base = self._open_store(environment)
        number = next(_joined)  # a process may train several times; keys of the last time are still there
        self._run_store = distributed.PrefixStore(f"netweave/{number}/run", base)
        self._prefix = f"netweave/{number}/attempt {self.attempt}"
        self._store = distributed.PrefixStore(self._prefix, base)
        self.ranks = self._introduce()
        self.run: str = self.keep(lambda: secrets.token_hex(8), "run")
        hosts = list(dict.fromkeys(rank.host for rank in self.ranks))
        self.machines = tuple(
            tuple(rank.number for rank in self.ranks if rank.host == host) for host in hosts
        )
        self._owns_default = not distributed.is_initialized()
        if self._owns_default:
            self._initialise()
        self._monitor = Monitor(
            distributed.PrefixStore("monitor", self._second_connection(environment)),
            self.rank,
            [str(rank) for rank in self.ranks],
            timeout_s=timeout_s,
            tell=tell,
        )
        self.progress = self._monitor.progress

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes and shows."""
        return self.rank == 0

    def group(self, name: str, ranks: Sequence[int] | None = None) -> Group:
        """Return the group of this name; all ranks must ask for new ones in the same order.

        Args:
            name: What it is used for.
            ranks: Its ranks; all by default.
        """
        if name not in self._groups:
            made = distributed.new_group(
                None if ranks is None else list(ranks),
                timeout=timedelta(seconds=self.timeout_s),
                backend="nccl" if self.device.type == "cuda" and name != "objects" else "gloo",
            )
            self._groups[name] = made
        return self._groups[name]

    def gather(self, value: Any, what: str) -> list[Any]:
        """Return the value of each rank: JSON values, small ones, through the store.

        Raises:
            PeerError: A rank is not there within the timeout; the message names it.
        """
        key = self._key(what)
        self._store.set(f"{key}/{self.rank}", json.dumps(value))
        return [self._value(f"{key}/{rank}", rank, what) for rank in range(self.size)]

    def share(self, value: Any, what: str) -> Any:
        """Return the value that rank 0 has: JSON values, small ones, through the store."""
        key = self._key(what)
        if self.rank == 0:
            self._store.set(key, json.dumps(value))
        return self._value(key, 0, what)

    def keep(self, make: Callable[[], Any], what: str) -> Any:
        """Return the value that the first attempt's rank 0 made, so that a restarted run has it again.

        Args:
            make: Called by rank 0 of the first attempt that comes so far.
            what: For keys and messages.
        """
        key = self._key(f"kept {what}")
        value = None
        if self.rank == 0:
            if not self._run_store.check([key]):
                self._run_store.set(key, json.dumps(make()))
            value = json.loads(self._run_store.get(key))
        return self.share(value, what)

    def require_equal(self, value: Any, what: str, remedy: str) -> None:
        """Refuse to go on unless all ranks have the same value.

        Raises:
            UsageError: One has another than most; the message names rank and values.
        """
        values = [json.dumps(one, sort_keys=True) for one in self.gather(value, f"equal/{what}")]
        usual = max(values, key=values.count)
        others = [(rank, one) for rank, one in zip(self.ranks, values, strict=True) if one != usual]
        if others:
            rank, one = others[0]
            raise UsageError(f"{rank} has {what} {one}, the others {usual}; {remedy}")

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
        blamed = self._monitor.waiting_for()
        cause = "; ".join(blamed) or _in_words(error)
        return PeerError(f"rank {self.rank} cannot go on, {what} with the other ranks failed: {cause}")

    def close(self, *, failed: bool = False) -> None:
        """Leave; after a run that went well wait for the others first."""
        if self._closed:
            return
        self._closed = True
        if not failed:
            self.barrier()
        self._monitor.close()
        if self._owns_default and not failed:  # after a failure peers may be dead, and the process ends soon
            distributed.destroy_process_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=error is not None)

    # Joining.

    def _open_store(self, environment: RankEnvironment) -> distributed.Store:
        try:
            return distributed.TCPStore(
                environment.address,
                environment.port,
                world_size=None,
                is_master=environment.hosts_store,
                timeout=timedelta(seconds=self.timeout_s),
                wait_for_workers=False,
            )
        except RuntimeError as error:
            raise PeerError(
                f"rank {self.rank} finds no store at {environment.address}:{environment.port} within "
                f"{self.timeout_s:.0f} s; is rank 0 running, and its port open?"
            ) from error

    def _second_connection(self, environment: RankEnvironment) -> distributed.Store:
        store = distributed.TCPStore(
            environment.address,
            environment.port,
            is_master=False,
            timeout=timedelta(seconds=self.timeout_s),
            wait_for_workers=False,
        )
        return distributed.PrefixStore(self._prefix, store)

    def _introduce(self) -> list[Rank]:
        host = os.environ.get(MACHINE) or socket.gethostname()
        versions = f"netweave {_installed()}, torch {torch.__version__}"
        own = [self.rank, host, os.getpid(), str(self.device), versions]
        ranks = [Rank(*values) for values in self.gather(own, "rank")]
        usual = max((rank.versions for rank in ranks), key=[rank.versions for rank in ranks].count)
        for rank in ranks:
            if rank.versions != usual:
                raise UsageError(
                    f"{rank} has {rank.versions}, the others {usual}; install the same versions everywhere"
                )
        return ranks

    def _initialise(self) -> None:
        try:
            distributed.init_process_group(
                "gloo",
                store=distributed.PrefixStore("groups", self._store),
                rank=self.rank,
                world_size=self.size,
                timeout=timedelta(seconds=self.timeout_s),
            )
        except (RuntimeError, ValueError) as error:
            raise PeerError(
                f"rank {self.rank} cannot connect to the other ranks within {self.timeout_s:.0f} s: "
                f"{_in_words(error)}; can the machines reach each other? GLOO_SOCKET_IFNAME names the "
                "network interface to use"
            ) from error

    def _key(self, what: str) -> str:
        """Return a key that was not used before: a process may train several times."""
        self._num_calls[what] += 1
        return f"{what} {self._num_calls[what]}"

    def _value(self, key: str, rank: int, what: str) -> Any:
        try:
            return json.loads(self._store.get(key))
        except RuntimeError as error:
            raise PeerError(
                f"rank {self.rank} waits for rank {rank}, which has not come to {what!r} within "
                f"{self.timeout_s:.0f} s"
            ) from error


def join(
    *,
    device: str | torch.device | None = None,
    timeout_s: float = TIMEOUT_S,
    tell: Callable[[str], None] | None = None,
) -> World | None:
    """Join the ranks that the environment speaks of; return None if it speaks of none.

    Args:
        device: Where this rank computes; what the launcher says, or the CPU, by default.
        timeout_s: How long a rank is waited for.
        tell: Told of ranks that stand still or are slow; lines on standard error by default.

    Raises:
        UsageError: The environment is incomplete, the device is not there, or ranks do not fit together.
        PeerError: A rank does not come within the timeout.
    """
    environment = rank_environment()
    if environment is None:
        return None
    if threading.current_thread() is threading.main_thread() and environment.local_size == environment.size:
        # gloo would look up the host's name, which on many machines leads to no interface or a slow one
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    place = find_device(device or os.environ.get(DEVICE) or "cpu")
    return World(environment, device=place, timeout_s=timeout_s, tell=tell or _tell)


def _installed() -> str:
    try:
        return metadata.version("netweave")
    except metadata.PackageNotFoundError:  # the sources of a checkout
        return "unknown"


def _in_words(error: BaseException) -> str:
    """Return what gloo says, without its source lines."""
    text = str(error)
    if "Connection closed by peer" in text or "Connection reset" in text or "Broken pipe" in text:
        return "another rank has ended"
    if "Timed out" in text or "timeout" in text.lower():
        return "no answer within the timeout; is the link down?"
    return re.sub(r"\[/\S+\] ", "", text).strip().splitlines()[-1]


def _tell(text: str) -> None:
    print(f"netweave: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a message while the run waits
