"""Files of the frameworks' own repositories, where the corpus is (``NETWEAVE_CORPUS``)."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import netweave
from benchmarks.hostile.mutations import mutate_json, mutate_pickle, mutate_text
from benchmarks.hostile.readers.reader import Reader, Seed
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


def readers() -> list[Reader]:
    """Return a reader for each kind of file; none without a corpus."""
    folder = os.environ.get("NETWEAVE_CORPUS")
    if not folder or not Path(folder).is_dir():
        return []
    return [Reader(name, partial(_seeds, Path(folder), name)) for name in _KINDS]


def _seeds(corpus: Path, kind: str) -> list[Seed]:
    mutation, patterns = _KINDS[kind]
    paths = [path for pattern in patterns for path in sorted(corpus.glob(pattern)) if path.is_file()]
    seeds = []
    for path in paths:
        if path.stat().st_size <= MAX_SEED_BYTES or path.suffix == ".pt":
            name = path.name.rpartition("__")[2]
            read = read_state if path.suffix == ".pt" else netweave.load
            seeds.append(
                Seed({name: path.read_bytes()}, name, mutation, partial(_read, read=read, name=name))
            )
    return seeds


def _read(folder: Path, *, read: object, name: str) -> object:
    return read(folder / name)  # type: ignore[operator]
