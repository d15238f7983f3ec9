"""The file of results: counts by reader, and every case that broke the pledge, also after it was mended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.hostile.worker import Outcome

FAULTS = ("untyped", "crashed", "slow", "large")
KINDS = ("read", "typed", "unforeseen")


@dataclass(slots=True)
class Counts:
    """What became of the cases of one reader.

    Attributes:
        next: Number of the next case.
        unforeseen: Errors that only the last resort made typed: faults of readers, though none of the pledge.
        slowest_s: Most processor time of a case that kept the pledge.
        largest_mb: Most memory of a process of such a case.
        unforeseen_kinds: How often each of them came, and the number of its first case.
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
    unforeseen_kinds: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome) -> None:
        """Count a case."""
        self.next = max(self.next, number + 1)
        self.cases += 1
        self.count(outcome, 1)
        if outcome.kind == "unforeseen":
            row = self.unforeseen_kinds.setdefault(outcome.key, [0, number])
            row[0] += 1

    def count(self, outcome: Outcome, by: int) -> None:
        """Add a case to its kind and faults, or take it away."""
        marks = [*outcome.faults, *([outcome.kind] if outcome.kind in KINDS else [])]
        for mark in marks:
            setattr(self, mark, getattr(self, mark) + by)
        if not outcome.faults:
            self.slowest_s = max(self.slowest_s, outcome.seconds)
            self.largest_mb = max(self.largest_mb, outcome.num_bytes // 1_000_000)


@dataclass(slots=True)
class Finding:
    """A case that broke the pledge.

    Attributes:
        case: ``READER:SEED:NUMBER``.
        faults: What it counted as.
        key: Its error, where there is one.
        seconds: Its processor time.
        num_bytes: Its memory.
        source: The version of Netweave that it was found in.
        kind: What became of it otherwise, for the counts.
        mended: The version in which it was read again and kept the pledge; empty while it does not.
        now: What became of it then.
    """

    case: str
    faults: list[str]
    key: str
    seconds: float
    num_bytes: int
    source: str
    kind: str
    mended: str = ""
    now: str = ""

    @property
    def place(self) -> tuple[str, int, int]:
        """Reader, seed and number."""
        reader, seed, number = self.case.rsplit(":", 2)
        return reader, int(seed), int(number)


@dataclass(slots=True)
class Results:
    """All counts, by reader.

    Attributes:
        seed: What the cases are drawn from.
        readers: Counts by name.
        findings: Cases that broke the pledge, mended ones included.
        sources: How many cases each version of Netweave read.
    """

    seed: int
    readers: dict[str, Counts] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    sources: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> Counts:
        """Return the counts of a reader."""
        return self.readers.setdefault(name, Counts())

    def add(self, name: str, number: int, outcome: Outcome, source: str) -> bool:
        """Count a case; return whether it broke the pledge."""
        self.of(name).add(number, outcome)
        self.sources[source] = self.sources.get(source, 0) + 1
        if outcome.faults:
            case = f"{name}:{self.seed}:{number}"
            row = (outcome.faults, outcome.key, outcome.seconds, outcome.num_bytes, source, outcome.kind)
            self.findings.append(Finding(case, *row))
        return bool(outcome.faults)

    def mend(self, finding: Finding, before: Outcome, now: Outcome, source: str) -> None:
        """Count a case anew that keeps the pledge now."""
        finding.mended, finding.now = source, now.kind
        counts = self.of(finding.place[0])
        counts.count(before, -1)
        counts.count(now, 1)

    def totals(self) -> dict[str, int]:
        """Return the sums over all readers."""
        return {
            name: sum(getattr(counts, name) for counts in self.readers.values())
            for name in ("cases", *FAULTS, "unforeseen")
        }

    def to_json(self) -> dict[str, Any]:
        """Return what a file of results holds."""
        return {
            **self.totals(),
            "found_and_mended": sum(bool(finding.mended) for finding in self.findings),
            "seed": self.seed,
            "sources": self.sources,
            "readers": {name: asdict(counts) for name, counts in sorted(self.readers.items())},
            "findings": [asdict(finding) for finding in self.findings],
        }

    def table(self) -> str:
        """Return the counts for people."""
        faults = "".join(f"{name:>9}" for name in FAULTS)
        lines = [f"{'':28}{'cases':>9}{'read':>8}{'unfor.':>7}{faults}  most s    MB"]
        for name, row in sorted(self.readers.items()):
            faults = "".join(f"{getattr(row, fault):>9}" for fault in FAULTS)
            most = f"{row.slowest_s:>8.2f}{row.largest_mb:>6}"
            lines.append(f"{name:28}{row.cases:>9,}{row.read:>8,}{row.unforeseen:>7}{faults}{most}")
            kinds = row.unforeseen_kinds.items()
            lines += [f"    {count:>6} {key} (case {first})" for key, (count, first) in kinds]
        lines += [f"{row.case} {row.faults} {row.key} {row.seconds:.1f} s" for row in self.open_findings()]
        return "\n".join([*lines, str(self.totals())])

    def open_findings(self) -> list[Finding]:
        """Return the cases that are not mended."""
        return [finding for finding in self.findings if not finding.mended]


def of_record(content: dict[str, Any], seed: int) -> Results:
    """Return the results that a file held; new ones if it held none."""
    if not content:
        return Results(seed)
    readers = {name: Counts(**row) for name, row in content["readers"].items()}
    findings = [Finding(**row) for row in content["findings"]]
    return Results(content["seed"], readers, findings, content["sources"])
