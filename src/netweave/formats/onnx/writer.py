"""Writing a Graph as an ONNX file, with the tables of its source as metadata."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.files.onnx.save import save

if TYPE_CHECKING:
    from netweave.graph import Graph


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> None:
    """Write a net as an ONNX file; an old file stays whole until the new one is.

    Operators of the domain ``netweave`` are written as they are: only Netweave runs such a file.
    Weights of more than ``MAX_INSIDE_BYTES`` go to ``<name>.data`` beside it.

    Args:
        graph: The net; it is not changed.
        path: The file, in a folder that is there.
        random_weights: Write a net without weights with the drawn ones that stand in for them.

    Raises:
        UsageError: The net has no weights, or the file cannot be written.
    """
    missing = [key for key, parameter in graph.parameters.items() if not parameter.loaded]
    if missing and not random_weights:
        named = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"net {graph.name!r} has no weights for {len(missing)} of {len(graph.parameters)} parameters "
            f"({named}): name its weights, or ask for random ones (--random-weights, random_weights=True)"
        )
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            save(graph, Path(folder) / path.name)
            for written in sorted(Path(folder).iterdir(), key=lambda file: file.name == path.name):
                os.replace(written, path.parent / written.name)  # noqa: PTH105
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
