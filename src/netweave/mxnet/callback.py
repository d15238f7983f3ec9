"""``mx.callback``: functions that a fit calls after batches and after epochs."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netweave.mxnet.checkpoint import save_checkpoint

if TYPE_CHECKING:
    from netweave.mxnet.module.fitting import BatchEndParam


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """Return a callback that saves a module after every ``period`` epochs."""
    every = int(max(1, period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % every == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """Return a callback that saves symbol and arrays after every ``period`` epochs."""
    every = int(max(1, period))

    def callback(iter_no: int, sym: Any, arg: Any, aux: Any) -> None:
        if (iter_no + 1) % every == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[BatchEndParam], None]:
    """Return a callback that logs the metric after every ``period`` batches."""

    def callback(param: BatchEndParam) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """Logs samples per second and the metric after every ``frequent`` batches.

    Args:
        batch_size: Samples in a batch.
        frequent: Batches from one line to the next.
        auto_reset: Whether the metric of a line is that of its batches only.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size, self.frequent, self.auto_reset = batch_size, frequent, auto_reset
        self._began: float | None = None
        self._last = 0

    def __call__(self, param: BatchEndParam) -> None:
        """Take in a batch."""
        count = param.nbatch
        if self._last > count:
            self._began = None
        self._last = count
        if self._began is None:
            self._began = time.perf_counter()
            return
        if count % self.frequent:
            return
        seconds = time.perf_counter() - self._began
        speed = self.frequent * self.batch_size / seconds if seconds else math.inf
        batches = f"Batch [{max(0, count - self.frequent)}-{count}]"
        head = f"Epoch[{param.epoch}] {batches}\tSpeed: {speed:.2f} samples/sec"
        if param.eval_metric is not None:
            pairs = param.eval_metric.get_name_value()
            if self.auto_reset:
                param.eval_metric.reset_local()
            head += "".join(f"\t{name}={value:f}" for name, value in pairs)
        logging.info(head)
        self._began = time.perf_counter()


class ProgressBar:
    """Logs how much of an epoch is over.

    Args:
        total: Batches in an epoch.
        length: Characters of the bar.
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.total, self.bar_len = total, length

    def __call__(self, param: BatchEndParam) -> None:
        """Take in a batch."""
        filled = round(self.bar_len * param.nbatch / self.total)
        percent = math.ceil(100.0 * param.nbatch / self.total)
        logging.info("[%s] %s%%\r", "=" * filled + "-" * (self.bar_len - filled), percent)


class LogValidationMetricsCallback:
    """Logs the metrics of an evaluation."""

    def __call__(self, param: BatchEndParam) -> None:
        """Take in the end of an evaluation."""
        if param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
