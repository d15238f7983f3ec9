"""Files of the frameworks' own repositories, where the corpus is (``NETWEAVE_CORPUS``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import netweave
from benchmarks.hostile.mutations import mutate_json, mutate_pickle, mutate_text
from benchmarks.hostile.readers.reader import Reader, Seed, one_file
from netweave.errors import NetweaveError
from netweave.formats.pytorch import read_state

if TYPE_CHECKING:
    from benchmarks.hostile.mutations import Mutation

MAX_SEED_BYTES = 12_000
"""Larger nets take longer to read than to damage."""

_KINDS: dict[str, tuple[Mutation, tuple[str, ...]]] = {
    "corpus.caffe": (mutate_text, ("caffe/**/*.prototxt", "mtcnn/*.prototxt")),
    "corpus.mxnet": (mutate_json, ("mxnet/**/*.json", "mtcnn/*.json")),
    "corpus.singa": (mutate_text, ("singa/**/*.conf",)),
    "corpus.pytorch": (mutate_pickle, ("mtcnn/*.pt",)),
}

_SHAPES = {
    "save_000800.json": {"data": (2, 10)},
    "det1-symbol.json": {"data": (1, 3, 12, 12)},
    "det2-symbol.json": {"data": (1, 3, 24, 24)},
}
"""Sizes of the inputs of nets that do not say them."""


def readers() -> list[Reader]:
    """Return a reader for each kind of file; none without a corpus."""
    folder = os.environ.get("NETWEAVE_CORPUS")
    if not folder or not Path(folder).is_dir():
        return []
    return [Reader(name, partial(_seeds, Path(folder), name)) for name in _KINDS]


def _seeds(corpus: Path, kind: str) -> list[Seed]:
    """Return the files that are read as they are: damage to what is refused anyhow would show little."""
    mutation, patterns = _KINDS[kind]
    paths = [path for pattern in patterns for path in sorted(corpus.glob(pattern)) if path.is_file()]
    small = [path for path in paths if path.stat().st_size <= MAX_SEED_BYTES or path.suffix == ".pt"]
    return [_seed(path, mutation) for path in small if _is_read(path)]


def _seed(path: Path, mutation: Mutation) -> Seed:
    name = path.name.rpartition("__")[2]
    shapes = _SHAPES.get(name)
    return one_file(name, path.read_bytes(), mutation, partial(_read, shapes=shapes))


def _is_read(path: Path) -> bool:
    try:
        _read(path, _SHAPES.get(path.name.rpartition("__")[2]))
    except NetweaveError:  # a solver, another phase's net, sizes that only its data have
        return False
    return True


def _read(path: Path, shapes: Mapping[str, Sequence[int]] | None) -> object:
    return read_state(path) if path.suffix == ".pt" else netweave.load(path, input_shapes=shapes)
