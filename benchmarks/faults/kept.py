"""Counts of the nets that were compared, kept as long as no code changes: a run that was cut off goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.score import Score

ROOT = Path(__file__).parents[2]
JUDGES = (ROOT / "benchmarks", ROOT / "tests" / "oracles")
"""What plants faults and judges what is said of them."""


def state_of(folders: Sequence[Path]) -> str:
    """Return what stands for the content of all files in some folders."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if "__pycache__" not in path.parts and path.name != "result.json":
                found.update(f"{path.relative_to(folder)}\\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class Kept:
    """The counts by net, in a folder that is named after the state of the code that made them.

    Attributes:
        folder: For the counts.
        code: Folders of the code.
        state: What stands for their content; ``put`` takes nothing of another one.
    """

    folder: Path
    code: tuple[Path, ...]
    state: str

    @classmethod
    def of(cls, folder: Path, *code: Path) -> Kept:
        """Return those of the code as it is now.

        Args:
            folder: For the counts of every state.
            code: The folders of the code that is run; those of the benchmark itself are taken with them.
        """
        state = state_of((*code, *JUDGES))
        made = folder / state
        made.mkdir(parents=True, exist_ok=True)
        return cls(made, (*code, *JUDGES), state)

    def names(self) -> list[str]:
        """Return the nets."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def get(self, name: str) -> Score | None:
        """Return a net's counts, if there are any."""
        return self[name] if (self.folder / f"{name}.json").exists() else None

    def __getitem__(self, name: str) -> Score:
        return Score.kept(json.loads((self.folder / f"{name}.json").read_text()))

    def put(self, name: str, counts: Score) -> None:
        """Keep a net's counts.

        Raises:
            RuntimeError: The code has changed since the run began, so that nobody knows which made them.
        """
        if state_of(self.code) != self.state:
            raise RuntimeError(f"{name}: the code changed during the run; run again, on one state")
        part = self.folder / f"{name}.part"
        part.write_text(json.dumps(counts.to_keep()))
        part.replace(self.folder / f"{name}.json")
