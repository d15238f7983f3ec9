"""Servers of other processes: a gloo pair for each session, and one request at a time on each.

A pair is a process group of two, so that a peer that dies is noticed at once and known by name, and all other
sessions go on. A message is a header of numbers and, where the header says so, bytes and elements.

Where processes are started again one by one, both ends of a broken session make another one. The client asks
again what it has no answer to, after all pushes that no checkpoint of the server holds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from netweave.errors import NetweaveError, PeerError
from netweave.training.cluster.server import Answer, Push
from netweave.training.parallel.world import LAST_PAUSE_S, SLACK_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from netweave.training.cluster.server import Server
    from netweave.training.parallel.world import RankStore

CONNECT_S = 10.0
"""So long may it take to connect two processes that both wait for it; one of them may end meanwhile."""

IDLE = timedelta(days=30)
"""So long may a server be asked nothing; a peer that dies closes its connection."""


class Kind(IntEnum):
    """Kinds of messages."""

    ANSWER = 0
    FAILED = 1
    PUT = 2
    PUSH = 3
    PULL = 4
    SYNCHRONISE = 5
    EXCHANGE = 6
    LEAVE = 7
    REPORT = 8
    END = 9
    WITHDRAW = 10
    RESUME = 11


class EndedError(PeerError):
    """The other end of a session has ended without saying so."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer.

    Attributes:
        kind: Which.
        number: The slice.
        group: The group that sends it.
        sequence: See ``Push``.
        version: See ``Push``.
        rate: See ``Push``.
        scale: See ``Push``; of a pull, 1 where the rule's state is wanted too.
        rows: Elements: (rows, elements); None for none.
        content: JSON values besides.
    """

    kind: Kind
    number: int = 0
    group: int = 0
    sequence: int = 0
    version: int = 0
    rate: float = 0.0
    scale: float = 0.0
    rows: Tensor | None = None
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def slices(self) -> list[int]:
        """Numbers of the slices that it is about."""
        return [one[0] for one in self.content["slices"]] if self.kind is Kind.PUSH else [self.number]


class Pair:
    """Two processes, connected; both make one with the same name.

    Args:
        store: Through which they find each other; this end's own connection.
        name: Of the session.
        side: 0 for the end that asks, 1 for the one that answers.
        peer: The other process, for messages.
        dtype: Type of the elements.
        timeout_s: How long the peer is waited for.
        answers_within_s: How long afterwards; as long by default.

    Raises:
        PeerError: The peer does not come within the timeout.
    """

    def __init__(
        self,
        store: distributed.Store,
        name: str,
        side: int,
        *,
        peer: str,
        dtype: torch.dtype,
        timeout_s: float,
        answers_within_s: float | None = None,
    ) -> None:
        self.peer = peer
        self._dtype, self._other = dtype, 1 - side
        self._timeout_s = answers_within_s or timeout_s
        timeout = timedelta(seconds=timeout_s)
        try:
            prefixed = distributed.PrefixStore(f"pairs/{name}", store)
            self._group = distributed.ProcessGroupGloo(prefixed, side, 2, timeout)
        except RuntimeError as error:
            raise PeerError(f"{peer} cannot be reached within {timeout_s:.0f} s: {error}") from error

    def send(self, message: Message) -> None:
        """Send a message."""
        text = json.dumps(message.content).encode() if message.content else b""
        rows = message.rows
        shape = (0, 0) if rows is None else tuple(rows.reshape(-1, rows.shape[-1]).shape)
        header = [message.kind, message.number, message.group, message.sequence, message.version]
        numbers = [*map(float, header), message.rate, message.scale, len(text), *map(float, shape)]
        self._send(torch.tensor(numbers, dtype=torch.float64))
        if text:
            self._send(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        if rows is not None:
            self._send(rows.detach().to("cpu", self._dtype).contiguous())

    def receive(self, wait: timedelta) -> Message:
        """Wait for a message.

        Args:
            wait: How long.

        Raises:
            PeerError: The peer has ended, or sends nothing for so long.
        """
        header = self._receive(torch.empty(_HEADER, dtype=torch.float64), wait).tolist()
        kind, number, group, sequence, version = map(int, header[:5])
        size, count, length = map(int, header[7:])
        soon = timedelta(seconds=self._timeout_s)
        text = self._receive(torch.empty(size, dtype=torch.uint8), soon) if size else None
        content = {} if text is None else json.loads(text.numpy().tobytes())
        rows = self._receive(torch.empty(count, length, dtype=self._dtype), soon) if count else None
        rate, scale = header[5:7]
        return Message(Kind(kind), number, group, sequence, version, rate, scale, rows, content)

    def _send(self, tensor: Tensor) -> None:
        try:
            self._group.send([tensor], self._other, 0).wait(timedelta(seconds=self._timeout_s))
        except RuntimeError as error:
            raise self._error(error) from error

    def _receive(self, tensor: Tensor, wait: timedelta) -> Tensor:
        try:
            self._group.recv([tensor], self._other, 0).wait(wait)
        except RuntimeError as error:
            raise self._error(error) from error
        return tensor

    def _error(self, error: RuntimeError) -> PeerError:
        if "timed out" in str(error).lower():
            return PeerError(f"{self.peer} has not answered for {self._timeout_s:.0f} s")
        return EndedError(f"{self.peer} has ended")


_HEADER = 10
"""Numbers in a header."""


def connect(
    store: RankStore, client: int, server: int, *, side: int, dtype: torch.dtype, timeout_s: float
) -> Pair:
    """Return one end of the session between two processes of a run.

    Args:
        store: Their store.
        client: The process that asks.
        server: The process that answers.
        side: 0 for the client's end, 1 for the server's.
        dtype: As for ``Pair``.
        timeout_s: As for ``Pair``.
    """
    peer = store.names[client if side else server]
    name = f"{client}-{server}"
    return Pair(store.second_connection(), name, side, peer=peer, dtype=dtype, timeout_s=timeout_s)


class Rejoining:
    """One end of a session whose processes may be started again, one by one.

    Both ends count the starts of both processes and the pairs that they have made between two; so they give
    the next pair one name.

    Args:
        store: The store of the processes.
        client: The process that asks.
        server: The process that answers.
        side: 0 for the client's end, 1 for the server's.
        dtype: As for ``Pair``.
        timeout_s: How long the other process is waited for.
    """

    def __init__(
        self, store: RankStore, client: int, server: int, *, side: int, dtype: torch.dtype, timeout_s: float
    ) -> None:
        self._other = client if side else server
        self.peer = store.names[self._other]
        self._store, self._keys = store, store.second_connection()
        self._processes, self._side = (client, server), side
        self._dtype, self._timeout_s = dtype, timeout_s
        self._num_made: Counter[str] = Counter()

    def connect(self) -> Pair | None:
        """Return this end of the next pair; None where the client has done all that it had to.

        Raises:
            PeerError: The other process does not come within the timeout, or has said why it failed.
            EndedError: It was there, and is not started again alone.
        """
        if self._side and self._num_made and self._store.has_ended(self._other):
            return None
        if self._num_made and not self._store.starts_alone(self._other):
            raise EndedError(f"{self.peer} has ended")
        if self._num_made:
            sys.stderr.write(f"netweave: {self.peer} has ended; waiting for it to be started again\n")
            sys.stderr.flush()
        until_s = time.monotonic() + self._timeout_s
        while True:
            name = self._meet(until_s)
            if name is None:
                return None
            self._num_made[name] += 1
            try:
                return Pair(
                    self._store.second_connection(),
                    f"{name}-{self._num_made[name]}",
                    self._side,
                    peer=self.peer,
                    dtype=self._dtype,
                    timeout_s=min(self._timeout_s, CONNECT_S),
                    answers_within_s=self._timeout_s,
                )
            except PeerError:  # it ended while the pair was made
                if time.monotonic() >= until_s:
                    raise

    def _meet(self, until_s: float) -> str | None:
        """Wait until both processes want one pair, and return what it is called."""
        client, server = self._processes
        while True:
            starts = [int(self._keys.add(f"starts/{process}", 0)) for process in self._processes]
            name = f"{client}.{starts[0]}-{server}.{starts[1]}"
            wanted = f"wanted/{name}/{self._num_made[name]}"
            self._keys.set(f"{wanted}/{self._side}", "")
            if self._keys.check([f"{wanted}/{1 - self._side}"]):
                return name
            if self._side and self._store.has_ended(client):
                return None
            failure = self._store.read_failure(self._keys)
            if failure:
                raise PeerError(failure)
            if time.monotonic() >= until_s:
                raise PeerError(f"{self.peer} has ended, and did not come again in {self._timeout_s:.0f} s")
            time.sleep(LAST_PAUSE_S)


class RemoteServer:
    """A server in another process; has the methods of ``Server`` that workers and other servers call.

    Args:
        pair: The way to it; or what makes one, also again when the server was started again.
        timeout_s: How long an answer is waited for: a server itself waits so long for the slowest group.
    """

    def __init__(self, pair: Pair | Rejoining, *, timeout_s: float) -> None:
        self._rejoining = pair if isinstance(pair, Rejoining) else None
        connected = pair.connect() if isinstance(pair, Rejoining) else pair
        assert connected is not None
        self._pair: Pair = connected
        self._wait = timedelta(seconds=timeout_s + SLACK_S)
        self._lock = threading.Lock()
        self._unsaved: list[Message] = []
        self._saved: dict[int, int] = {}

    def put(self, number: int, rows: Tensor, *, sequence: int, version: int) -> None:
        """Give a slice its first values."""
        self._ask(Message(Kind.PUT, number, sequence=sequence, version=version, rows=rows))

    def push(self, *pushes: Push) -> list[Answer]:
        """Apply gradients of one update of a group, in one message; return the new values."""
        first = pushes[0]
        slices = [[push.number, push.version, len(push.gradient), dict(push.factors)] for push in pushes]
        answer = self._ask(
            Message(
                Kind.PUSH,
                group=first.group,
                sequence=first.sequence,
                rate=first.rate,
                scale=first.scale,
                rows=torch.cat([push.gradient for push in pushes]),
                content={"slices": slices},
            )
        )
        assert answer.rows is not None
        values = answer.rows[0].split([len(push.gradient) for push in pushes])
        return [Answer(*one) for one in zip(answer.content["versions"], values, strict=True)]

    def pull(self, number: int, *, whole: bool = False) -> Answer:
        """Return the values of a slice."""
        answer = self._ask(Message(Kind.PULL, number, scale=float(whole)))
        assert answer.rows is not None
        return Answer(answer.version, answer.rows if whole else answer.rows[0])

    def synchronise(self, number: int) -> Answer:
        """Bring a slice together with the other server groups."""
        return _answer(self._ask(Message(Kind.SYNCHRONISE, number)))

    def exchange(self, group: int, number: int, sent: Tensor) -> Tensor:
        """Send what this group has of a slice to its master; return what becomes of it."""
        return _answer(self._ask(Message(Kind.EXCHANGE, number, group, rows=sent))).values

    def resume(self, group: int) -> dict[int, int]:
        """Return, by slice, how often a worker group has pushed it."""
        answer = self._ask(Message(Kind.RESUME, group=group))
        return {int(number): last for number, last in answer.content.items()}

    def leave(self, group: int) -> None:
        """Say that a worker group has ended."""
        self._ask(Message(Kind.LEAVE, group=group))

    def withdraw(self, group: int) -> None:
        """Say that a server group is synchronised no more."""
        self._ask(Message(Kind.WITHDRAW, group=group))

    def report(self) -> dict[str, Any]:
        """Return what was counted, when all worker groups have ended, however long that takes."""
        return dict(self._ask(Message(Kind.REPORT), IDLE).content)

    def end(self) -> None:
        """End the session."""
        with self._lock:
            try:
                self._pair.send(Message(Kind.END))
            except EndedError:
                if self._rejoining is None:
                    raise  # else it finds out by the store that this process has done all

    def _ask(self, message: Message, wait: timedelta | None = None) -> Message:
        keeps = self._rejoining is not None and message.kind in {Kind.PUT, Kind.PUSH}
        with self._lock:
            if keeps:
                self._unsaved.append(message)
            try:
                answer = self._exchange(message, wait or self._wait)
            except EndedError:
                if self._rejoining is None:
                    raise
                answer = self._ask_again(self._rejoining, message, wait or self._wait, keeps=keeps)
            if keeps:
                self._forget(message, answer.sequence)
        return answer

    def _exchange(self, message: Message, wait: timedelta) -> Message:
        self._pair.send(message)
        answer = self._pair.receive(wait)
        if answer.kind is Kind.FAILED:
            raise PeerError(f"{self._pair.peer} cannot go on: {answer.content['error']}")
        return answer

    def _ask_again(self, rejoining: Rejoining, message: Message, wait: timedelta, *, keeps: bool) -> Message:
        """Ask what the server does not hold and what it has not answered; return the last answer."""
        messages = [*self._unsaved] if keeps else [*self._unsaved, message]
        while True:
            pair = rejoining.connect()
            assert pair is not None
            self._pair = pair
            try:
                answers = [self._exchange(one, wait) for one in messages]
            except EndedError:  # once more
                continue
            return answers[-1]

    def _forget(self, message: Message, saved: int) -> None:
        """Forget the messages that a checkpoint of the server holds.

        Args:
            message: One that was answered.
            saved: The last update of its slices that a checkpoint holds all of.
        """
        self._saved.update(dict.fromkeys(message.slices, saved))
        self._unsaved = [
            one
            for one in self._unsaved
            if any(self._saved.get(number, -1) < one.sequence for number in one.slices)
        ]


def serve(server: Server, session: Pair | Rejoining) -> None:
    """Answer what comes in a session, until the peer ends it.

    Args:
        server: The server.
        session: The way to the peer; or what makes one, also again when the peer was started again.

    Raises:
        PeerError: The peer has ended without saying so.
        NetweaveError: A request cannot be carried out; the peer is told, too.
    """
    pair = session.connect() if isinstance(session, Rejoining) else session
    while pair is not None:
        try:
            _serve(server, pair)
        except EndedError:
            if not isinstance(session, Rejoining):
                raise
            pair = session.connect()
        else:
            return


def _serve(server: Server, pair: Pair) -> None:
    while (message := pair.receive(IDLE)).kind is not Kind.END:
        try:
            answer = _carry_out(server, message)
        except NetweaveError as error:
            pair.send(Message(Kind.FAILED, content={"error": str(error)}))
            raise
        pair.send(answer)


def _carry_out(server: Server, message: Message) -> Message:
    kind, number, rows = message.kind, message.number, message.rows
    if kind is Kind.PUT:
        assert rows is not None
        server.put(number, rows, sequence=message.sequence, version=message.version)
        return Message(Kind.ANSWER, sequence=-1)
    if kind is Kind.PUSH:
        pushes = _pushes(message)
        answers = server.push(*pushes)
        versions = [answer.version for answer in answers]
        return Message(
            Kind.ANSWER,
            sequence=min(server.saved(push.group, push.number) for push in pushes),
            rows=torch.cat([answer.values for answer in answers]),
            content={"versions": versions},
        )
    if kind is Kind.PULL:
        return _message(server.pull(number, whole=bool(message.scale)))
    if kind is Kind.SYNCHRONISE:
        return _message(server.synchronise(number))
    if kind is Kind.EXCHANGE:
        assert rows is not None
        return Message(Kind.ANSWER, rows=server.exchange(message.group, number, rows[0]))
    if kind in {Kind.LEAVE, Kind.WITHDRAW}:
        leave = server.leave if kind is Kind.LEAVE else server.withdraw
        leave(message.group)
        return Message(Kind.ANSWER)
    if kind is Kind.RESUME:
        last = server.resume(message.group)
        return Message(Kind.ANSWER, content={str(one): sequence for one, sequence in last.items()})
    return Message(Kind.ANSWER, content=server.report())


def _pushes(message: Message) -> list[Push]:
    assert message.rows is not None
    slices = message.content["slices"]
    gradients = message.rows[0].split([length for _, _, length, _ in slices])
    return [
        Push(
            message.group,
            number,
            message.sequence,
            version,
            gradient,
            message.rate,
            message.scale,
            {key: tuple(values) for key, values in factors.items()},
        )
        for (number, version, _, factors), gradient in zip(slices, gradients, strict=True)
    ]


def _message(answer: Answer) -> Message:
    return Message(Kind.ANSWER, version=answer.version, rows=answer.values)


def _answer(message: Message) -> Answer:
    assert message.rows is not None
    return Answer(message.version, message.rows[0])
