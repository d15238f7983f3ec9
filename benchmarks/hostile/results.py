"""The file of results: counts by reader, and the kinds of faults with a case of each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import netweave

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.hostile.worker import Outcome

FAULTS = ("untyped", "crashed", "slow", "large")
MAX_EXAMPLES = 40


@dataclass(slots=True)
class Counts:
    """What became of the cases of one reader.

    Attributes:
        next: Number of the next case.
        unforeseen: Errors that only the last resort made typed: faults of readers, though none of the pledge.
        slowest_s: Most processor time of a case.
        largest_mb: Most memory of a process.
        kinds: How often each kind of fault came, and the number of its first case.
    """

    next: int = 0
    cases: int = 0
    read: int = 0
    typed: int = 0
    unforeseen: int = 0
    untyped: int = 0
    crashed: int = 0
    slow: int = 0
    large: int = 0
    slowest_s: float = 0.0
    largest_mb: int = 0
    kinds: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome) -> bool:
        """Count a case; return whether it is the first of a kind of fault."""
        self.next = number + 1
        self.cases += 1
        if outcome.kind in {"read", "typed", "unforeseen"}:
            setattr(self, outcome.kind, getattr(self, outcome.kind) + 1)
        for fault in outcome.faults:
            setattr(self, fault, getattr(self, fault) + 1)
        self.slowest_s = max(self.slowest_s, outcome.seconds)
        self.largest_mb = max(self.largest_mb, outcome.num_bytes // 1_000_000)
        marks = [*outcome.faults, *(["unforeseen"] if outcome.kind == "unforeseen" else [])]
        is_new = False
        for mark in marks:
            key = f"{mark}: {outcome.key}".strip(": ")
            row = self.kinds.setdefault(key, [0, number])
            row[0] += 1
            is_new = is_new or row[0] == 1
        return is_new


@dataclass(slots=True)
class Results:
    """All counts, by reader."""

    seed: int
    readers: dict[str, Counts] = field(default_factory=dict)

    def of(self, name: str) -> Counts:
        """Return the counts of a reader."""
        return self.readers.setdefault(name, Counts())

    def totals(self) -> dict[str, int]:
        """Return the sums over all readers."""
        return {
            name: sum(getattr(counts, name) for counts in self.readers.values())
            for name in ("cases", *FAULTS, "unforeseen")
        }

    def save(self, path: Path) -> None:
        """Write the file."""
        rows = {name: asdict(counts) for name, counts in sorted(self.readers.items())}
        content: dict[str, Any] = {**self.totals(), "seed": self.seed, "netweave": netweave.__version__}
        path.write_text(json.dumps({**content, "readers": rows}, indent=1) + "\n")

    def table(self) -> str:
        """Return the counts for people."""
        lines = [
            f"{'':28}{'cases':>9}{'read':>8}{'unfor.':>7}"
            + "".join(f"{name:>9}" for name in FAULTS)
            + "  most s    MB"
        ]
        for name, row in sorted(self.readers.items()):
            faults = "".join(f"{getattr(row, fault):>9}" for fault in FAULTS)
            lines.append(
                f"{name:28}{row.cases:>9,}{row.read:>8,}{row.unforeseen:>7}{faults}{row.slowest_s:>8.2f}{row.largest_mb:>6}"
            )
            lines += [f"    {count:>6} {key} (case {first})" for key, (count, first) in row.kinds.items()]
        return "\n".join([*lines, str(self.totals())])


def new(seed: int) -> Results:
    """Return results without a case."""
    return Results(seed)


def load(path: Path, seed: int) -> Results:
    """Return the results of a file; new ones where there is none."""
    if not path.exists():
        return Results(seed)
    content = json.loads(path.read_text())
    return Results(content["seed"], {name: Counts(**row) for name, row in content["readers"].items()})
