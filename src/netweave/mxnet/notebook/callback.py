"""``mx.notebook.callback``: curves of metrics while a fit runs; draw them with any library."""

from __future__ import annotations

import logging
from typing import Any


class LiveLearningCurve:
    """Keeps a metric of training and evaluation.

    Args:
        metric_name: The metric.
        display_freq: As MXNet has it: nothing is drawn by itself.
        frequent: Batches from one point to the next.

    Attributes:
        curves: Points (batches so far, value) of ``train`` and ``eval``.
    """

    def __init__(self, metric_name: str, display_freq: int = 10, frequent: int = 50) -> None:
        self.metric_name, self.frequent = metric_name, frequent
        self.curves: dict[str, list[tuple[int, float]]] = {"train": [], "eval": []}
        self._batches = 0

    def batch_cb(self, param: Any) -> None:
        """Take in a batch of training."""
        self._batches += 1
        if self._batches % self.frequent == 0:
            self._take("train", param)

    def eval_cb(self, param: Any) -> None:
        """Take in an evaluation."""
        self._take("eval", param)

    def epoch_cb(self, *args: Any) -> None:
        """Take in the end of an epoch."""
        logging.info("%s: %s", self.metric_name, {key: rows[-1:] for key, rows in self.curves.items()})

    def _take(self, curve: str, param: Any) -> None:
        values = dict(param.eval_metric.get_name_value())
        if self.metric_name in values:
            self.curves[curve].append((self._batches, values[self.metric_name]))

    def callback_args(self) -> dict[str, Any]:
        """Return the arguments of ``fit``."""
        return {
            "batch_end_callback": self.batch_cb,
            "eval_end_callback": self.eval_cb,
            "epoch_end_callback": self.epoch_cb,
        }


def args_wrapper(*args: Any) -> dict[str, Any]:
    """Return the arguments of ``fit`` for several objects with ``callback_args``."""
    by_name: dict[str, list[Any]] = {}
    for one in args:
        for name, callback in one.callback_args().items():
            by_name.setdefault(name, []).append(callback)
    return dict(by_name)


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.notebook.callback", name, ["LiveLearningCurve", "args_wrapper"])
