"""Callbacks of Keras that stop, constrain or show."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.callbacks.base import Callback, Logs, Monitoring

if TYPE_CHECKING:
    from netweave.keras.operation import Variable


class EarlyStopping(Monitoring):
    """Ends a fit when a metric has not improved for some epochs.

    Args:
        monitor: The metric.
        min_delta: Less of a change than this is no improvement.
        patience: After so many epochs without improvement the fit ends.
        verbose: Whether to print that it does.
        mode: ``min``, ``max``, or ``auto``: the larger the better for accuracies and the like.
        baseline: What has to be bettered at all.
        restore_best_weights: Whether the arrays of the best epoch are put back at the end.
        start_from_epoch: Epochs before this one do not count.

    Attributes:
        stopped_epoch: The epoch after which the fit was stopped; 0 if it was not.
        best_epoch: The best epoch.

    Raises:
        UsageError: There is no such mode.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch
        self._begin()

    def _begin(self) -> None:
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best = self.worst
        self.best_weights: Any = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begin anew, unless a checkpoint says where to go on."""
        if not self.__dict__.pop("_restored", False):
            self._begin()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Take in the metrics of an epoch.

        Raises:
            UsageError: The metric is not among them.
        """
        value = self.value(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights, self.best_epoch = self.model.get_weights(), epoch
        self.wait += 1
        if self.is_better(value, self.best):
            self.best, self.best_epoch = value, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.is_better(value, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs = None) -> None:
        """Put the best arrays back."""
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            self.model.set_weights(self.best_weights)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        weights = None if self.best_weights is None else [one.tolist() for one in self.best_weights]
        return {"best": self.best, "wait": self.wait, "best_epoch": self.best_epoch, "weights": weights}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self.best, self.wait, self.best_epoch = state["best"], state["wait"], state["best_epoch"]
        weights = state["weights"]
        self.best_weights = None if weights is None else [np.asarray(one, np.float32) for one in weights]
        self._restored = True


class ReduceLROnPlateau(Monitoring):
    """Multiplies the learning rate when a metric has not improved for some epochs.

    Args:
        monitor: The metric.
        factor: On the rate, below 1.
        patience: After so many epochs without improvement.
        verbose: Whether to print that it does.
        mode: As of ``EarlyStopping``.
        min_delta: Less of a change than this is no improvement.
        cooldown: Epochs to wait after a change.
        min_lr: The lowest rate.

    Raises:
        UsageError: The factor is not below 1, or there is no such mode.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        if factor >= 1.0:
            raise UsageError(f"factor is {factor}, expected a number below 1")
        super().__init__(monitor, mode, min_delta)
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr
        self._begin()

    def _begin(self) -> None:
        self.wait = self.cooldown_counter = 0
        self.best = self.worst

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begin anew, unless a checkpoint says where to go on."""
        if not self.__dict__.pop("_restored", False):
            self._begin()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Take in the metrics of an epoch, and add the rate of this epoch to them."""
        value = self.value(logs)
        if logs is not None:
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        if value is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.is_better(value, self.best):
            self.best, self.wait = value, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(epoch)

    def _reduce(self, epoch: int) -> None:
        optimizer = self.model.optimizer
        rate = float(optimizer.learning_rate)
        if rate > self.min_lr:
            optimizer.learning_rate = max(rate * self.factor, self.min_lr)
            if self.verbose:
                print(f"Epoch {epoch + 1}: learning rate {optimizer.learning_rate:g}")
            self.cooldown_counter, self.wait = self.cooldown, 0

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"best": self.best, "wait": self.wait, "cooldown": self.cooldown_counter}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self.best, self.wait, self.cooldown_counter = state["best"], state["wait"], state["cooldown"]
        self._restored = True


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch.

    Args:
        schedule: Returns the rate of an epoch, from its number and the present rate.
        verbose: Whether to print it.
    """

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Set the rate.

        Raises:
            UsageError: It is no number.
        """
        optimizer = self.model.optimizer
        try:
            rate = self.schedule(epoch, float(optimizer.learning_rate))
        except TypeError:  # Keras also takes a function of the number alone
            rate = self.schedule(epoch)
        if not isinstance(rate, (float, int, np.floating)):
            raise UsageError(f"the schedule returned {rate!r} for epoch {epoch}, expected a number")
        optimizer.learning_rate = float(rate)
        if self.verbose:
            print(f"Epoch {epoch + 1}: learning rate {rate:g}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Add the rate of the epoch to its metrics."""
        if logs is not None:
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)


class TerminateOnNaN(Callback):
    """Ends a fit whose loss is no number any more, with the history so far.

    Without it such a fit is an error. The update of that batch is not made.
    """

    ends_on_nan = True

    def __init__(self) -> None:
        super().__init__()
        self.stopped = False


class LambdaCallback(Callback):
    """Functions as a callback.

    Args:
        functions: By the names of the methods: ``on_epoch_end=lambda epoch, logs: ...``.

    Raises:
        UsageError: There is no such method.
    """

    def __init__(self, **functions: Callable[..., Any] | None) -> None:
        super().__init__()
        from netweave.keras.objects import suggestion

        known = [name for name in dir(Callback) if name.startswith("on_")]
        for name, function in functions.items():
            if name not in known:
                raise UsageError(f"LambdaCallback has no argument {name!r}{suggestion(name, known)}")
            if function is not None:
                setattr(self, name, function)


class Constrained(Callback):
    """Brings arrays back into their constraints.

    Args:
        rows: The arrays, each with its constraint.
    """

    def __init__(self, rows: Sequence[tuple[Variable, Any]]) -> None:
        super().__init__()
        self._rows = list(rows)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Bring all arrays back."""
        for variable, constraint in self._rows:
            variable.assign(constraint(variable.numpy()))


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
