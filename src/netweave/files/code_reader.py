"""Reading models that are code: a child process in the sandbox runs it, and the reader takes its files."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.files.guard_answer import failure
from netweave.files.net_names import literal_arguments
from netweave.files.sandbox import run_guarded
from netweave.files.source import is_file, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.files.source import Source

MAX_CODE_BYTES = 1 << 20
"""Of a ``.py`` file this much is looked at."""


def imports_package(head: bytes, *packages: str) -> bool:
    """Return whether the text of a ``.py`` file imports one of some packages.

    >>> [imports_package(text, "chainer") for text in (b"from chainer import links", b"import chainerx")]
    [True, False]
    """
    names = "|".join(packages).encode()
    return re.search(rb"^[ \t]*(import|from)[ \t]+(" + names + rb")\b", head, re.MULTILINE) is not None


_LOADER = re.compile(
    rb'^WEIGHTS = Path\(__file__\)\.with_suffix\("(\.\w+)"\)$'
    rb".*?^def load\(path=WEIGHTS\):$.*?^    net = (\w+)\(\)$",
    re.MULTILINE | re.DOTALL,
)
"""How code that Netweave writes loads its weights, and what it calls to construct the net."""


def weights_of_written(source: Source) -> tuple[Path, str] | None:
    """Return the weights of code that Netweave wrote, and what constructs the net.

    The weights are those that the caller names, or those beside the code under its name. Other code gets
    None: a file of arrays beside it may belong to something else, and its names need not fit.
    """
    with source.net.open("rb") as file:
        found = _LOADER.search(file.read(MAX_CODE_BYTES))
    if found is None:
        return None
    weights = source.weights or source.net.with_suffix(found[1].decode())
    return (weights, found[2].decode()) if is_file(weights) else None


def files_in_arguments(source: Source) -> dict[str, Path]:
    """Return the files that the arguments of a factory name, by the texts that name them.

    The caller has written these names, as in ``net.py:Darknet('configs/yolov3.cfg')``; the sandbox would hide
    the files. Code that must keep to its own folder gets none.
    """
    if not source.around:
        return {}
    positional, named = literal_arguments(source.arguments)
    texts = {text for value in (*positional, *named.values()) for text in _texts(value)}
    return {text: Path(text).resolve() for text in sorted(texts) if is_file(Path(text))}


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a literal, without the keys of dicts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _texts(item)


@contextmanager
def run_reader(
    source: Source, child: Path, names: Sequence[str], *, readable: Sequence[Path] = (), **request: Any
) -> Iterator[list[Path]]:
    """Run a reader's child over a file and give the files that it wrote.

    Args:
        source: The file with the code, and its weights.
        child: The reader's ``child.py``.
        names: What the child must have written.
        readable: What the child may read besides the source.
        request: What the child is told besides the names of the source.

    Raises:
        SourceError: The code fails, or may not run; the weights cannot be read.
    """
    place, weights = str(source.net), source.weights
    named = files_in_arguments(source)
    if weights is not None:
        read_bytes(weights)
    request |= {
        "net": str(source.net.resolve()),
        "place": place,
        "entry": source.entry,
        "arguments": source.arguments,
        "argument_files": {text: str(path) for text, path in named.items()},
        "config": source.config,
        "trusted_folder": str(Path.cwd()) if source.trust else None,
        "weights": str(weights.resolve()) if weights else None,
        "weights_place": str(weights) if weights else "",
        "input_shapes": {name: list(shape) for name, shape in source.input_shapes.items()},
        "likely_shapes": [list(shape) for shape in source.likely_shapes],
    }
    files = [source.net, *([weights] if weights else []), *named.values(), *readable]
    with run_guarded(
        child, [json.dumps(request)], readable=files, place=place, trust=source.trust
    ) as outcome:
        paths = [path for path in map(outcome.file, names) if path is not None]
        if outcome.status != 0 or len(paths) < len(names):
            raise failure(outcome, place)
        yield paths
