"""Finding the number of decoding threads by itself."""

from __future__ import annotations

from netweave.runtime.engine.cores import num_cores

WINDOW_BATCHES = 16
WINDOW_S = 0.25
"""A number of threads is judged over so many batches, and so long, at least."""

WAITING = 0.05
"""With a larger share of the time spent in waiting for batches, another thread is tried."""

GAIN = 1.03
"""A further thread must make so many times the batches per second to stay."""


class ThreadTuner:
    """Adds threads as long as somebody waits for batches and they help; takes back one that did not.

    Args:
        most: Largest number of threads; that of the processors if None.

    Attributes:
        threads: The number that is best so far, or on trial.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most or num_cores()
        self.threads = min(2, self._most)
        self._batches = 0
        self._waited_s = 0.0
        self._elapsed_s = 0.0
        self._rate_before: float | None = None  # of the number before the one on trial
        self._pause = 0  # windows without a trial
        self._next_pause = 4

    def note(self, waited_s: float, elapsed_s: float) -> bool:
        """Take note of a batch; say whether ``threads`` has changed.

        Args:
            waited_s: How long the batch was waited for.
            elapsed_s: Time since the batch before.
        """
        self._batches += 1
        self._waited_s += waited_s
        self._elapsed_s += elapsed_s
        if self._batches < WINDOW_BATCHES or self._elapsed_s < WINDOW_S:
            return False
        rate, waiting = self._batches / self._elapsed_s, self._waited_s / self._elapsed_s
        self._batches, self._waited_s, self._elapsed_s = 0, 0.0, 0.0
        before = self.threads
        self._judge(rate, waiting)
        return self.threads != before

    def _judge(self, rate: float, waiting: float) -> None:
        if self._rate_before is not None:
            if rate < GAIN * self._rate_before:
                self.threads -= 1
                self._pause = self._next_pause
                self._next_pause *= 2
            self._rate_before = None
        elif self._pause:
            self._pause -= 1
        elif waiting > WAITING and self.threads < self._most:
            self.threads += 1
            self._rate_before = rate
