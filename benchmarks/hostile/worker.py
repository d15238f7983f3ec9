"""One run of cases in a process of its own, measured case by case.

The process is forked from one that has everything imported, and reads many cases one after another: that is
what makes hundreds of cases a second. Processor time, that of children included, is measured for each; so is
the peak of memory, whose mark the kernel resets. A case that ends the process, or does not end, is known to
the parent by what was announced last. The files are in memory, since a disk makes each case wait.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import tempfile
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchmarks.hostile.zygote import forked_programs
from netweave.errors import NetweaveError
from netweave.files import hdf5
from netweave.training.data.sources import hdf5_process

if TYPE_CHECKING:
    from benchmarks.hostile.readers import Seed

MAX_SECONDS = 2.0
"""Processor time that a case may take: the pledge."""

MAX_BYTES = 500_000_000
"""Memory of a process that reads a case: the pledge."""

ADDRESS_BYTES = 6 << 30
"""Address space of the process: a case that asks for more fails with a MemoryError, and not the machine."""

STOP_SECONDS = 12
"""Processor time after which a case is ended; it counts as slow."""

BORDER = "library_errors.py"
"""Where the last resort is; an error made there was foreseen by nobody (``files.library_errors``)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        kind: ``read``, ``typed``, ``unforeseen`` (typed, by the last resort), ``untyped`` or ``crashed``.
        seconds: Processor time.
        num_bytes: Peak of memory of the process.
        key: Of an untyped or unforeseen error: its type and the place in the program, to tell kinds apart.
    """

    kind: str
    seconds: float
    num_bytes: int
    key: str = ""

    @property
    def faults(self) -> list[str]:
        """What the case counts as, of what must not be."""
        marks = {"slow": self.seconds > MAX_SECONDS, "large": self.num_bytes > MAX_BYTES}
        return [self.kind] * (self.kind in {"untyped", "crashed"}) + [
            name for name, is_so in marks.items() if is_so
        ]


def rng_of(reader: str, seed: int, number: int) -> random.Random:
    """Return the generator of a case, which says everything about it."""
    return random.Random(f"{reader}:{seed}:{number}")


def make_case(seeds: list[Seed], reader: str, seed: int, number: int) -> tuple[int, bytes]:
    """Return which seed a case damages, and the damaged content."""
    rng = rng_of(reader, seed, number)
    (chosen,) = rng.choices(range(len(seeds)), [seed.weight for seed in seeds])
    return chosen, seeds[chosen].content(rng)


def run_cases(
    seeds: list[Seed], reader: str, seed: int, numbers: range, seconds: float, out: IO[str]
) -> None:
    """Read cases until their processor time is over; report each before and after, as a line of JSON."""
    limit()
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as base, Meter() as meter:
        folders: dict[int, Path] = {}
        for number in numbers:
            chosen, content = make_case(seeds, reader, seed, number)
            if chosen not in folders:
                folders[chosen] = Path(base) / str(chosen)
                folders[chosen].mkdir()
                seeds[chosen].write(folders[chosen])
            print(number, file=out)
            outcome = measure(seeds[chosen], folders[chosen], content, number, meter)
            row = [outcome.kind, round(outcome.seconds, 3), outcome.num_bytes, outcome.key]
            print(json.dumps(row), file=out)
            if {"slow", "large"} & set(outcome.faults) or meter.total_seconds > seconds:
                break  # what it left behind would be counted against the next cases


def measure(seed: Seed, folder: Path, content: bytes, number: int, meter: Meter) -> Outcome:
    """Read one case in this process."""
    (folder / seed.damaged).write_bytes(content)
    os.chdir(folder)
    meter.begin(number)
    kind, key = "read", ""
    try:
        seed.read(folder)
    except NetweaveError as error:
        kind, key = ("unforeseen", _key(error.__cause__ or error)) if _is_unforeseen(error) else ("typed", "")
    except BaseException as error:  # noqa: BLE001 - what this counts
        kind, key = "untyped", _key(error)
    return Outcome(kind, *meter.end(), key)


class Meter:
    """Measures processor time and the peak of memory of a case, those of its child processes included."""

    def __enter__(self) -> Meter:
        """Let programs that read HDF5 be forked."""
        self._stack = ExitStack()
        self._zygote, self._announce = self._stack.enter_context(forked_programs(hdf5, hdf5_process))
        self._marks = self._stack.enter_context(open("/proc/self/clear_refs", "wb", buffering=0))  # noqa: PTH123
        self._first = self._start = self._own_seconds()
        self._arm()
        return self

    def __exit__(self, *_: object) -> None:
        """Start programs as ever."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._stack.close()

    @property
    def total_seconds(self) -> float:
        """Processor time of all cases so far, and of what lies between them."""
        return self._now - self._first + self._zygote.total_seconds

    def begin(self, number: int) -> None:
        """Begin a case of such a number."""
        self._announce(number)
        self._marks.write(b"5")  # the kernel's mark of the peak becomes what is used now
        self._start = self._own_seconds()
        if self._start - self._armed > 1:  # a call of the kernel for each case would take longer than some
            self._arm()

    def end(self) -> tuple[float, int]:
        """Return the seconds and bytes since the begin."""
        seconds = self._own_seconds() - self._start + self._zygote.seconds
        return seconds, max(self._max_bytes, self._zygote.max_bytes)

    def _own_seconds(self) -> float:
        """Return the processor time of this process and its children until now, and note their peak."""
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        self._max_bytes = max(own.ru_maxrss, children.ru_maxrss) << 10
        self._now = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        return self._now

    def _arm(self) -> None:
        """End the process when a case goes on for too long from now."""
        self._armed = self._now
        signal.setitimer(signal.ITIMER_PROF, STOP_SECONDS)


def limit() -> None:
    """Limit this process, so that a case harms it alone."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
    with suppress(OSError):
        os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # libraries of images complain there


def _is_unforeseen(error: NetweaveError) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).name == BORDER


def _key(error: BaseException) -> str:
    """Return the type of an error and the last line of ours that it went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "netweave" in frame.filename]
    ours = [frame for frame in frames if not frame.filename.endswith(BORDER)]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {place}"


def outcome_of(row: list[Any]) -> Outcome:
    """Return an outcome as it was reported."""
    return Outcome(*row)
