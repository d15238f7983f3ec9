"""``mx.mon``: looking at values of a net while it trains."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netweave.mxnet import ndarray as nd
from netweave.mxnet.ndarray.array import NDArray

if TYPE_CHECKING:
    from netweave.mxnet.executor import Executor


class Monitor:
    """Logs a statistic of outputs and arrays whose names match a pattern, every ``interval`` batches.

    Args:
        interval: Batches from one look to the next.
        stat_func: From an array to its statistic; the norm over the root of the size if None.
        pattern: Regular expression for names.
        sort: Whether what is logged is in the order of names.
        monitor_all: Whether inputs of operators are looked at, too.
    """

    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Any] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.interval, self.sort, self.monitor_all = interval, sort, monitor_all
        self.stat_func = stat_func or (lambda x: nd.norm(x) / x.size**0.5)
        self.re_prog = re.compile(pattern)
        self.activated = False
        self.step = 0
        self.exes: list[Executor] = []
        self.queue: list[tuple[int, str, Any]] = []

    def install(self, exe: Executor) -> None:
        """Look at an executor."""
        exe.set_monitor_callback(self._take, self.monitor_all)
        self.exes.append(exe)

    def _take(self, name: str, array: NDArray) -> None:
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def tic(self) -> None:
        """Begin a batch."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """End a batch; return number, name and statistic of what was looked at."""
        if not self.activated:
            return []
        self.activated = False
        for exe in self.exes:
            for arrays in (exe.arg_dict, exe.aux_dict):
                for name, array in arrays.items():
                    if self.re_prog.match(name):
                        self.queue.append((self.step, name, self.stat_func(array)))
        if self.sort:
            self.queue.sort(key=lambda one: one[1])
        rows = [(step, name, _shown(value)) for step, name, value in self.queue]
        self.queue = []
        return rows

    def toc_print(self) -> None:
        """End a batch; log what was looked at."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, text)


def _shown(value: Any) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    texts = [
        str(one.asscalar() if one.size == 1 else one.asnumpy()) if isinstance(one, NDArray) else str(one)
        for one in values
    ]
    return "\t".join(texts) + "\t"
