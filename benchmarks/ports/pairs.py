"""The pairs: where they come from, how they are given to Netweave, and how they truly differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Difference:
    """A true difference, written down by reading both sources, before Netweave compared them.

    Attributes:
        what: What differs, in words.
        mismatch: Keys of the known mismatches that describe it; any of them is right.
        layer_a: Pattern of the names of A's layers that it is at; empty if it has none.
        layer_b: Pattern of those of B's.
        count: At how many layers it is.
        without_effect: Whether both nets compute the same all the same, at this size of the input.
    """

    what: str
    mismatch: tuple[str, ...]
    layer_a: str = ""
    layer_b: str = ""
    count: int = 1
    without_effect: bool = False


@dataclass(frozen=True, slots=True)
class Net:
    """A net in a repository at a commit.

    Attributes:
        repository: Owner and name on GitHub.
        commit: The commit.
        net: How Netweave is given it, from the root of the repository; ``{build}`` is the folder of what was
            prepared.
    """

    repository: str
    commit: str
    net: str

    def folder(self, checkouts: Path) -> Path:
        """Return where the checkout lies."""
        return checkouts / self.repository.replace("/", "+")


@dataclass(frozen=True, slots=True)
class Pair:
    """An original and a port of it.

    Attributes:
        name: What the pair is called.
        original: The original.
        port: The port.
        weights: ``trained`` if both came with their weights, ``drawn`` if Netweave drew them.
        differences: How they truly differ.
        prepare: How a net that is code of another framework is saved (``prepare.py``); None if it is not.
        options: Options of ``netweave compare``.
        note: What else must be known about the pair.
    """

    name: str
    original: Net
    port: Net
    weights: str
    differences: tuple[Difference, ...]
    prepare: dict[str, Any] | None = None
    options: str = ""
    note: str = ""

    @property
    def saved_port(self) -> bool:
        """Whether the port is compared as a file that its own framework saved, which no fix can change."""
        prepared = self.prepare is not None and self.prepare.get("python") != "text"
        return prepared and self.port.net.startswith("{build}")


def load_pairs(path: Path = FOLDER / "pairs.json") -> list[Pair]:
    """Return all pairs, in the order in which they were chosen."""
    return [_pair(row) for row in json.loads(path.read_text(encoding="utf-8"))]


def _pair(row: dict[str, Any]) -> Pair:
    differences = tuple(
        Difference(**{**difference, "mismatch": tuple(difference["mismatch"])})
        for difference in row["differences"]
    )
    nets = {side: Net(**row[side]) for side in ("original", "port")}
    rest = {key: value for key, value in row.items() if key not in {"differences", *nets}}
    return Pair(**rest, **nets, differences=differences)
