"""What a format wrote, and how it is read again."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class Written:
    """A net in files.

    Attributes:
        net: The file that describes the net.
        weights: The file of its stored arrays, if it is another one.
        entry: Name of the class in a file of code that is the net.
        inputs: The name that an input of the net has in the file, where it is another one; None if the file
            itself says the sizes of its inputs.
        one_size: Whether it is for one size of images: what rounds is written for that size.
    """

    net: Path
    weights: Path | None = None
    entry: str | None = None
    inputs: Mapping[str, str] | None = field(default_factory=dict)
    one_size: bool = False


def need_weights(graph: Graph, *, random_weights: bool) -> None:
    """Refuse to write a net whose weights nobody gave, unless drawn ones are asked for.

    Raises:
        UsageError: Some parameters have no weights.
    """
    missing = [key for key, parameter in graph.parameters.items() if not parameter.loaded]
    if missing and not random_weights:
        named = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"net {graph.name!r} has no weights for {len(missing)} of {len(graph.parameters)} parameters "
            f"({named}): name its weights, or ask for random ones (--random-weights, random_weights=True)"
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a folder to write a file and those beside it into; they take the places of old ones at the end.

    Raises:
        UsageError: They cannot be written; the old ones are whole.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            yield Path(folder)
            for written in sorted(Path(folder).iterdir(), key=lambda file: file.name == path.name):
                os.replace(written, path.parent / written.name)  # noqa: PTH105
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
