"""Trials: candidates measured in turns, and the choices that came of them, remembered on disk."""

from __future__ import annotations

import json
import platform
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from time import perf_counter

from netweave.errors import WriteError
from netweave.files.output_files import write_file
from netweave.files.reading_cache import cache_folder

Clock = Callable[[], float]
"""Returns the time in seconds; tests give their own."""

FILE = "trials.json"
"""Name of the file in the cache folder: an object of choices by question, for each processor."""

MAX_BYTES = 4 << 20
"""A larger file is started anew: it has grown by questions that nobody asks any more."""


def in_turns(
    measures: Mapping[str, Callable[[], float]],
    *,
    min_rounds: int,
    max_rounds: int,
    budget_s: float,
    clock: Clock = perf_counter,
) -> dict[str, tuple[float, ...]]:
    """Measure candidates in turns, so that what else happens on the machine meets all of them.

    Args:
        measures: By candidate, runs it once and returns the seconds.
        min_rounds: Rounds that there are in any case.
        max_rounds: Rounds that there are at most.
        budget_s: Seconds after which no further round begins.
        clock: Says how much of the budget is spent.

    Returns:
        The seconds of each candidate in each round.
    """
    times: dict[str, list[float]] = defaultdict(list)
    began = clock()
    for number in range(max_rounds):
        if number >= min_rounds and clock() - began > budget_s:
            break
        for candidate in list(measures)[:: 1 if number % 2 else -1]:
            times[candidate].append(measures[candidate]())
    return {candidate: tuple(seconds) for candidate, seconds in times.items()}


@cache
def processor() -> dict[str, str]:
    """Return what Linux says of the processor, by its own names: model name, family, model and stepping."""
    names = ("model name", "cpu family", "model", "stepping")
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    rows = {name: re.search(rf"^{name}\s*: (.*)$", text, re.MULTILINE) for name in names}
    known = {name: row[1] for name, row in rows.items() if row}
    return {"model name": platform.processor() or platform.machine()} | known


class Choices:
    """Choices by question on this processor, shared by processes through a file.

    A choice that cannot be read or written is made anew: the file only saves time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._processor = ", ".join(f"{name} {value}" for name, value in processor().items())
        self._known: dict[str, str] | None = None

    def get(self, question: str) -> str | None:
        """Return the choice for a question; None if there is none yet."""
        with self._lock:
            if self._known is None:
                self._known = _read().get(self._processor, {})
            return self._known.get(question)

    def keep(self, question: str, choice: str) -> None:
        """Remember a choice, beside those that other processes have made meanwhile."""
        with self._lock:
            content = _read()
            self._known = {**content.get(self._processor, {}), **(self._known or {}), question: choice}
            content[self._processor] = self._known
            with suppress(OSError, WriteError):
                cache_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
                write_file(cache_folder() / FILE, json.dumps(content, indent=1))


def _read() -> dict[str, dict[str, str]]:
    """Return the choices of all processors; none where the file is missing, too large or damaged."""
    with suppress(OSError, ValueError):
        file = cache_folder() / FILE
        content = json.loads(file.read_bytes()) if file.stat().st_size <= MAX_BYTES else {}
        if isinstance(content, dict) and all(isinstance(rows, dict) for rows in content.values()):
            return content
    return {}
