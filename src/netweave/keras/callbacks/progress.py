"""The progress output of a fit."""

from __future__ import annotations

import sys
import time

from netweave.keras.callbacks.base import Callback, Logs

WIDTH = 20
"""Characters of a bar."""


class Progress(Callback):
    """Prints a bar for each epoch, or a line; the bar moves on a terminal alone.

    Args:
        verbose: 0 for nothing, 1 for a bar, 2 for a line; ``auto`` is 1.
    """

    def __init__(self, verbose: str | int = "auto") -> None:
        super().__init__()
        self._verbose = 1 if verbose == "auto" else int(verbose)
        self._began = self._drawn = 0.0
        self._testing = False

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Name the epoch."""
        self._began = time.perf_counter()
        self._testing = True
        if self._verbose:
            print(f"Epoch {epoch + 1}/{self.params.get('epochs', '?')}")

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Move the bar, at most ten times a second."""
        now = time.perf_counter()
        if self._verbose == 1 and sys.stdout.isatty() and now - self._drawn > 0.1:
            self._drawn = now
            steps = self.params.get("steps") or batch + 1
            done = "=" * (WIDTH * (batch + 1) // steps)
            sys.stdout.write(f"\r{batch + 1}/{steps} [{done:{WIDTH}}] {_text(logs)}")
            sys.stdout.flush()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Print the metrics."""
        if not self._verbose:
            return
        if self._verbose == 1 and sys.stdout.isatty():
            sys.stdout.write("\r")
        steps = self.params.get("steps") or "?"
        print(f"{steps}/{steps} - {time.perf_counter() - self._began:.0f}s - {_text(logs)}")

    def on_test_begin(self, logs: Logs = None) -> None:
        """Note when it began."""
        if not self._testing:
            self._began = time.perf_counter()

    def on_test_end(self, logs: Logs = None) -> None:
        """Print the metrics of an evaluation by itself."""
        if self._verbose and not self._testing:
            print(f"{time.perf_counter() - self._began:.0f}s - {_text(logs)}")


def _text(logs: Logs) -> str:
    numbers = ((name, value) for name, value in (logs or {}).items() if isinstance(value, float))
    return " - ".join(f"{name}: {value:.4f}" for name, value in numbers)
