"""What a case of a bad file is, and how to make one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.hostile.nets import nets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from netweave.errors import NetweaveError


@dataclass(frozen=True)
class Case:
    """One bad net.

    Attributes:
        make: Fills a folder and returns the path to load.
        error: The class of the error.
        message: Pattern that its message matches.
    """

    make: Callable[[Path], Path]
    error: type[NetweaveError]
    message: str


NAMED: dict[str, Case] = {}

ANY = "."


def file(name: str, content: bytes | str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def weights(kind: str, content: bytes) -> Callable[[Path], Path]:
    """Damage the weights of a small net."""

    def make(folder: Path) -> Path:
        return nets()[kind].write(folder, content)

    return make


def add(name: str, make: Callable[[Path], Path], error: type[NetweaveError], message: str) -> None:
    NAMED[name] = Case(make, error, message)
