"""What is said of one cell, and what it is kept by: its files, its reference, and Netweave's own source."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from netweave.errors import NetweaveError

ROOT = Path(__file__).parents[2]
ROOMS = ("api", "comparison", "files", "formats", "graph", "runtime")
"""What a cell's outcome may hang on, of Netweave."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An outcome.

    Attributes:
        net: Key of the net.
        format: Key of the format; of a pair, the second one.
        kind: ``theirs``, ``ours``, ``pair`` or ``code``.
        origin: Where the net comes from: the framework and its script; for others, the format of the first.
        ok: Whether all is as it should be.
        error: Largest difference from the reference, relative to its rms; None if nothing could be compared.
        said: What is to be said: the verdict, or why it failed.
        facts: More of it.
        seconds: How long it took, when it was last done.
    """

    net: str
    format: str
    kind: str
    origin: str
    ok: bool
    error: float | None = None
    said: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Refused(Exception):  # noqa: N818 (an outcome, and no error)
    """A net is not written in a format; the reason is what Netweave says."""


def attempt(head: dict[str, str], work: Callable[[], dict[str, Any]]) -> Cell:
    """Do the work of a cell; what goes wrong is its outcome."""
    start = time.perf_counter()
    try:
        outcome = work()
    except Refused as error:
        outcome = {"ok": False, "said": " ".join(str(error).split())[:400], "facts": {"refused": True}}
    except NetweaveError as error:
        outcome = {"ok": False, "said": " ".join(str(error).split())[:400]}
    except Exception as error:  # noqa: BLE001 (a cell that crashes is one that failed)
        outcome = {"ok": False, "said": f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]}
    return Cell(**head, **outcome, seconds=round(time.perf_counter() - start, 1))


class Kept:
    """Outcomes of earlier runs in a folder, by the content of everything that they hang on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._code = _digest(_source())
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(
        self, head: dict[str, str], files: Iterable[Path], work: Callable[[], dict[str, Any]]
    ) -> Cell:
        """Return the outcome of a cell, from before if nothing that it hangs on has changed.

        Args:
            head: Names the cell.
            files: All that was read for it, and the module that does the work.
            work: Does it.
        """
        content = _digest(_contents(files))
        key = hashlib.sha256(json.dumps([head, self._code, content]).encode()).hexdigest()
        path = self._folder / f"{key}.json"
        if not path.exists():
            path.write_text(json.dumps(asdict(attempt(head, work)), indent=1) + "\n")
        return Cell(**json.loads(path.read_text()))


def _source() -> Iterable[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / "src" / "netweave" / room).rglob("*.py"))


def _contents(files: Iterable[Path]) -> Iterable[Path]:
    for path in files:
        yield from sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _digest(paths: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()
