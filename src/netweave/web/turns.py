"""Whose request gets the next thread of the server: the addresses take turns, and none gets all threads.

A client decides how long its request holds a thread: a slow line, a slow reader, a hundred connections at
once. With one line for all, whoever has the most connections has the server; here only its own wait.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Requests that wait for a thread, by address.

    Used by one thread only.
    """

    def __init__(self, *, threads: int, share: int, reserved: int = 0) -> None:
        """Begin with nothing waiting.

        Args:
            threads: Requests that run at the same time.
            share: Those of one address.
            reserved: Threads that only addresses get of which nothing runs.
        """
        self._threads, self._share, self._reserved = threads, share, reserved
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._running: Counter[str] = Counter()

    def wait(self, address: str, request: T) -> None:
        """Put a request behind those of its address that wait."""
        self._waiting.setdefault(address, deque()).append(request)

    def next(self) -> T | None:
        """Return the request that runs now; None if all threads are taken, or nobody waits who may have one.

        >>> turns = Turns(threads=3, share=2)
        >>> for address, request in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
        ...     turns.wait(address, request)
        >>> [turns.next() for _ in range(4)]
        [1, 4, 2, None]
        >>> turns.done("a"), turns.next()
        (None, 3)
        """
        num_free = self._threads - self._running.total()
        if num_free <= 0:
            return None
        share = self._share if num_free > self._reserved else 1
        address = next((a for a in self._waiting if self._running[a] < share), None)
        if address is None:
            return None
        line = self._waiting[address]
        request = line.popleft()
        self._waiting.move_to_end(address)
        if not line:
            del self._waiting[address]
        self._running[address] += 1
        return request

    def num_waiting(self, address: str) -> int:
        """Return how many requests of an address wait."""
        return len(self._waiting.get(address, ()))

    def done(self, address: str) -> None:
        """Note that a request of an address has ended."""
        self._running[address] -= 1
        if not self._running[address]:
            del self._running[address]
