"""The speed of a run in records per second."""

from __future__ import annotations

from time import perf_counter


class RecordSpeed:
    """Records per second between two displays."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def since_last(self, iteration: int, records: int) -> float | None:
        """Return the records trained per second since the last call; None at the first.

        Args:
            iteration: Updates done.
            records: Records of an update.
        """
        now, last = perf_counter(), self._last
        self._last = (iteration, now)
        if last is None or iteration <= last[0]:
            return None
        return (iteration - last[0]) * records / (now - last[1])
