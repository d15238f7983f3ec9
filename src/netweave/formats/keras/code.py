"""Models of Keras as Python files: made by a guarded child process, which saves them as Keras does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UnsupportedError
from netweave.files import Source
from netweave.files.guard_answer import failure
from netweave.files.sandbox import run_guarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph

CHILD = Path(__file__).with_name("child.py")

MAX_CODE_BYTES = 1 << 20

_IMPORT = re.compile(rb"^(?:import|from)\s+keras\b", re.MULTILINE)


def is_code(path: Path) -> bool:
    """Whether a file is Python that imports Keras."""
    if path.suffix != ".py":
        return False
    try:
        with path.open("rb") as file:
            return _IMPORT.search(file.read(MAX_CODE_BYTES)) is not None
    except OSError:
        return False


def read_code(source: Source, read: Callable[[Source], Graph]) -> Graph:
    """Read the model that a file makes.

    Args:
        source: The file; its weights, if they are in another one, lie beside it.
        read: Reads a model that is saved.

    Raises:
        SourceError: The code fails, or may not run.
        UnsupportedError: Keras is not installed.
    """
    place = str(source.net)
    if find_spec("keras") is None or find_spec("torch") is None:
        raise UnsupportedError(
            "needs Keras on PyTorch, which is not installed: pip install 'netweave[keras]'; "
            "or save the model with model.save, and give Netweave that file",
            place=place,
        )
    request = {"net": str(source.net.resolve()), "place": place, "entry": source.entry}
    beside = [
        path
        for suffix in (".npz", ".weights.h5", ".h5")
        if (path := source.net.with_name(source.net.stem + suffix)).is_file()
    ]
    with run_guarded(
        CHILD, [json.dumps(request)], readable=[source.net, *beside], place=place, trust=source.trust
    ) as outcome:
        saved = outcome.file("net.keras")
        if outcome.status != 0 or saved is None:
            raise failure(outcome, place)
        graph = read(Source(saved, input_shapes=source.input_shapes))
    return replace(graph, files=(place, *map(str, beside)))
