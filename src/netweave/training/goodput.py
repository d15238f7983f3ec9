"""The speed of a run: records per second, work of its machines, and goodput over all its starts.

A rank may compute all the time and still achieve little; so the multiply-adds that its samples took are held
against what the same processors reach in a matrix product.

Goodput is the share of a run's time that went into updates that were kept. The first rank keeps a ledger: for
each start when it began, when its first update did, and for each checkpoint when it was written and what had
taken time besides updates. A start that resumes from an earlier checkpoint strikes out those behind it: what
they held was lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from netweave.errors import WriteError
from netweave.files.output_files import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class RankWork:
    """Work of one rank from its first update to the end of the run.

    Attributes:
        rank: Its number.
        host: Its machine.
        device: Where it computed.
        compute: Share of the time in which it computed.
        link: Share of the time in which something was on the link.
        hidden: Share of the time on the link in which it computed too.
        input: Mean number of threads that made batches.
        multiply_adds_per_s: Multiply-adds that its samples took in forward and backward, per second.
        peak_per_s: Those of a matrix product on the same processors.
    """

    rank: int
    host: str
    device: str
    compute: float
    link: float
    hidden: float
    input: float
    multiply_adds_per_s: float
    peak_per_s: float

    def __str__(self) -> str:
        peak = f"{self.multiply_adds_per_s / self.peak_per_s:.0%}" if self.peak_per_s else "?"
        return (
            f"rank {self.rank} ({self.device} on {self.host}): computed {self.compute:.0%} of the time, link "
            f"busy {self.link:.0%}, of which {self.hidden:.0%} hidden, input {self.input:.0%}; "
            f"{self.multiply_adds_per_s / 1e9:.3g} G multiply-adds/s, {peak} of a matrix product's "
            f"{self.peak_per_s / 1e9:.3g} G"
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> RankWork:
        """Return what ``to_json`` was called on."""
        return RankWork(**content)


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


KEPT_SAVES = 20
"""So many checkpoints of a start are in the ledger: a run that resumes has no more of them."""

NOTE_S = 5.0
"""Seconds between two notes that a run is alive."""

CAUSES = ("start", "data", "exchange", "checkpoint", "test", "lost", "waiting")
"""What takes time besides updates that are kept: a start until its first update; waiting for a batch; waiting
for other ranks or the link; writing; tests; updates that no later start had; and time without a start."""


@dataclass(frozen=True, slots=True)
class Goodput:
    """Shares of the time of a run, by what it was spent on.

    Attributes:
        elapsed_s: Seconds from the beginning of the first start on.
        num_starts: How often the run was started.
        kept: Share of them in updates that were kept.
        causes: Shares of the rest, by the names in ``CAUSES``.
    """

    elapsed_s: float
    num_starts: int
    kept: float
    causes: Mapping[str, float]

    def __str__(self) -> str:
        rest = ", ".join(f"{cause} {share:.1%}" for cause, share in self.causes.items() if share >= 0.0005)
        starts = "1 start" if self.num_starts == 1 else f"{self.num_starts} starts"
        return f"goodput {self.kept:.1%} of {self.elapsed_s:,.0f} s in {starts}" + (
            f"; {rest}" if rest else ""
        )


def goodput(starts: Sequence[Mapping[str, Any]]) -> Goodput | None:
    """Return where the time of a run went; None if it has made no update.

    The updates of the last start count as kept as long as nobody has started after it.

    Args:
        starts: As in the ledger.
    """
    if not starts or starts[-1]["alive"] <= starts[0]["began"]:
        return None
    seconds = dict.fromkeys(CAUSES, 0.0)
    kept_s = 0.0
    for number, start in enumerate(starts):
        saves = start["saves"]
        end = start if number == len(starts) - 1 else saves[-1] if saves else None
        first = start["first"] or start["alive"]
        seconds["start"] += first - start["began"]
        until = end["alive"] if end and start["first"] else first
        besides = end["seconds"] if end and start["first"] else {}
        for cause, spent in besides.items():
            seconds[cause] += spent
        kept_s += max(0.0, until - first - sum(besides.values()))
        seconds["lost"] += start["alive"] - until
    for one, other in pairwise(starts):
        seconds["waiting"] += max(0.0, other["began"] - one["alive"])
    elapsed_s = starts[-1]["alive"] - starts[0]["began"]
    return Goodput(
        elapsed_s, len(starts), kept_s / elapsed_s, {key: spent / elapsed_s for key, spent in seconds.items()}
    )


def read_goodput(ledger: Path) -> Goodput | None:
    """Return where the time of the last run that has noted it went; None where none has."""
    try:
        return goodput(json.loads(ledger.read_text())["starts"])
    except (OSError, ValueError, KeyError, TypeError):  # none, or damaged: nothing depends on it
        return None


class Ledger:
    """The notes of one start of a run; where they cannot be written, the run goes on without.

    Args:
        path: The file; None for no notes.
        run: Name of the run; what other runs have noted is replaced.
        iteration: Updates done when it starts: checkpoints of later ones are struck out.
    """

    def __init__(self, path: Path | None, run: str, iteration: int) -> None:
        self._path, self._run = path, run
        self._starts: list[dict[str, Any]] = []
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            content: dict[str, Any] = json.loads(self._path.read_text()) if self._path else {"run": ""}
            if content["run"] == run:
                self._starts = content["starts"]
                for start in self._starts:
                    start["saves"] = [save for save in start["saves"] if save["iteration"] <= iteration]
        now_s = time.time()
        # a process that is younger than the last note was started to go on
        began_s = max(now_s - _process_age_s(), self._starts[-1]["alive"]) if self._starts else now_s
        self._own: dict[str, Any] = {
            "began": began_s,
            "first": None,
            "alive": now_s,
            "saves": [],
            "seconds": {},
        }
        self._starts.append(self._own)
        self._noted_s = 0.0

    @contextlib.contextmanager
    def spending(self, cause: str) -> Iterator[None]:
        """Count the time of a block for one of ``CAUSES``."""
        began_s = perf_counter()
        try:
            yield
        finally:
            self.spend(cause, perf_counter() - began_s)

    def spend(self, cause: str, seconds: float) -> None:
        """Count seconds for one of ``CAUSES``; what comes before the first update belongs to the start."""
        if self._own["first"] is not None:
            self._own["seconds"][cause] = self._own["seconds"].get(cause, 0.0) + seconds

    def begin_update(self) -> None:
        """Note that an update begins."""
        now_s = time.time()
        if self._own["first"] is None:
            self._own["first"] = now_s
        self._own["alive"] = now_s
        if now_s - self._noted_s >= NOTE_S:
            self.write()

    def save(self, iteration: int, exchange_s: float) -> None:
        """Note that there is a checkpoint.

        Args:
            iteration: Of so many updates.
            exchange_s: Seconds since the first update in which the link was busy and nothing was computed.
        """
        own = self._own
        own["alive"] = time.time()
        if own["first"] is not None and exchange_s:
            own["seconds"]["exchange"] = exchange_s
        save = {"iteration": iteration, "alive": own["alive"], "seconds": dict(own["seconds"])}
        own["saves"] = [*own["saves"], save][-KEPT_SAVES:]
        self.write()

    def write(self) -> None:
        """Write the ledger."""
        self._noted_s = self._own["alive"]
        if self._path is None:
            return
        with contextlib.suppress(WriteError, OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self._path, json.dumps({"run": self._run, "starts": self._starts}))

    def end(self, exchange_s: float) -> Goodput | None:
        """Note the end of the start; return where the time of the run went."""
        self._own["alive"] = time.time()
        self.spend("exchange", exchange_s - self._own["seconds"].get("exchange", 0.0))
        self.write()
        return goodput(self._starts)


def _process_age_s() -> float:
    """Return how long this process has run; 0 where the system does not say."""
    try:
        # the name of the program stands in brackets and may hold blanks; the 20th field after it is the start
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
