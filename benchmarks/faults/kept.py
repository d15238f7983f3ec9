"""Counts of the nets that were compared, kept as long as no code changes: a run that was cut off goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.score import Score

ROOT = Path(__file__).parents[2]
CODE = ("src/netweave", "benchmarks/faults")


@dataclass(frozen=True)
class Kept:
    """The counts by net in one folder, which is named after the code that made them."""

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> Kept:
        """Return those of the code as it is now."""
        found = hashlib.sha256()
        for path in sorted(path for part in CODE for path in (ROOT / part).rglob("*.py")):
            found.update(path.read_bytes())
        made = folder / found.hexdigest()[:16]
        made.mkdir(parents=True, exist_ok=True)
        return cls(made)

    def names(self) -> list[str]:
        """Return the nets."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def get(self, name: str) -> Score | None:
        """Return a net's counts, if there are any."""
        return self[name] if (self.folder / f"{name}.json").exists() else None

    def __getitem__(self, name: str) -> Score:
        return Score.kept(json.loads((self.folder / f"{name}.json").read_text()))

    def put(self, name: str, counts: Score) -> None:
        """Keep a net's counts."""
        (self.folder / f"{name}.json").write_text(json.dumps(counts.to_keep()))
