"""A store of ranks in the memory of one process, which counts what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryStore:
    """What netweave uses of ``torch.distributed.Store``, without waiting.

    Attributes:
        calls: Requests so far.
        values: Keys that these named.
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self.calls = self.values = 0

    def _count(self, num_keys: int) -> None:
        self.calls += 1
        self.values += num_keys

    def set(self, key: str, value: str | bytes) -> None:
        """Set a value."""
        self._count(1)
        self._values[key] = value.encode() if isinstance(value, str) else value

    def get(self, key: str) -> bytes:
        """Return a value that is there."""
        self._count(1)
        return self._values[key]

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all are there."""
        self._count(len(keys))
        return all(key in self._values for key in keys)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return values that are there."""
        self._count(len(keys))
        return [self._values[key] for key in keys]
