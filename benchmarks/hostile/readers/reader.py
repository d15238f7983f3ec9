"""What is fuzzed: a reader, the files that it is given, and how they are damaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from benchmarks.hostile.mutations import Mutation

MAX_TRIES = 8
"""Damages that change nothing are drawn again, at most so often."""


SMALL_BYTES = 4096
"""Seeds up to this size are drawn equally often."""


@dataclass(frozen=True, slots=True)
class Seed:
    """Whole files that a reader reads, one of which is damaged.

    Attributes:
        files: Content by name.
        damaged: The file that is damaged.
        mutation: How.
        read: Reads the files in a folder, which is the working folder too.
    """

    files: Mapping[str, bytes]
    damaged: str
    mutation: Mutation
    read: Callable[[Path], object]

    def write(self, folder: Path) -> None:
        """Write the files, undamaged."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    @property
    def weight(self) -> float:
        """How often the seed is drawn: large ones take longer, and are drawn less often for it."""
        return 1 / max(SMALL_BYTES, sum(map(len, self.files.values())))

    def content(self, rng: random.Random) -> bytes:
        """Return a damaged content of the damaged file."""
        whole = self.files[self.damaged]
        for _ in range(MAX_TRIES):
            if (content := self.mutation(rng, whole)) != whole:
                break
        return content


def one_file(name: str, content: bytes, mutation: Mutation, read: Callable[[Path], object]) -> Seed:
    """Return a seed of one file, which a function reads by its path."""
    return Seed({name: content}, name, mutation, lambda folder: read(folder / name))


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader, or one source of records, with its seeds.

    Attributes:
        name: Such as ``caffe.prototxt``.
        make_seeds: Makes the seeds; called when the reader is fuzzed.
    """

    name: str
    make_seeds: Callable[[], list[Seed]]
