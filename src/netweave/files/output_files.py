"""The files that a writer produces, and how they are read again."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.files.atomic import Replacement
from netweave.files.checksums import write_checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """A net in files.

    Attributes:
        net: The file that describes the net.
        weights: The file of its weights, if it is a separate one.
        entry: Name of the class in a file of code that is the net.
        inputs: The name that an input of the net has in the file, where it differs; None if the file itself
            declares the shapes of its inputs.
        one_size: Whether the file is for one size of images: rounding rules are resolved for that size.
    """

    net: Path
    weights: Path | None = None
    entry: str | None = None
    inputs: Mapping[str, str] | None = field(default_factory=dict)
    one_size: bool = False


def require_weights(graph: Graph, *, random_weights: bool) -> None:
    """Reject a net that was read without its weights, unless random ones are asked for.

    Raises:
        UsageError: Some parameters have no weights.
    """
    missing = [key for key, parameter in graph.parameters.items() if not parameter.loaded]
    if missing and not random_weights:
        named = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"net {graph.name!r} has no weights for {len(missing)} of {len(graph.parameters)} parameters "
            f"({named}): give their file, or ask for random ones (--random-weights, random_weights=True)"
        )


@contextmanager
def replacing_files(path: Path) -> Iterator[Path]:
    """Yield a folder for a new file and those beside it; they replace the old ones when the block ends.

    The files beside it get checksums (``checksums``).

    Raises:
        WriteError: They cannot be written; the old files are untouched.
    """
    with Replacement(path) as new:
        yield new.folder
        for file in sorted(new.folder.iterdir()):
            if file.name != path.name:  # weights in a file of their own, whose formats have no checksum
                write_checksum(file)
