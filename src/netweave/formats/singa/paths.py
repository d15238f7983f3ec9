"""Paths in a ``job.conf``: relative to one folder, as in SINGA to its home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.job import DataSource, root_of_names

if TYPE_CHECKING:
    from netweave.files.protobuf import Message

_FILES = {
    "store_conf": ("path", "mean_file", "std_file"),
    "sharddata_conf": ("path",),
    "lmdbdata_conf": ("path",),
    "rgbimage_conf": ("meanfile",),
    "char_rnn_conf": ("path", "vocab_path"),
}
"""The fields of a layer that name files, by its message."""

_PATHS = ("path", "vocab_path")
"""The settings of a source of data, and of a transform, that are such names."""


def root_of(message: Message, path: Path) -> Path:
    """Return the folder that names in a file are relative to.

    It is the working folder, or the nearest folder above the file, in which one of the files is; the working
    folder where there are none.
    """
    names = [
        layer[field][name]
        for layer in message["neuralnet"]["layer"]
        for field, fields in _FILES.items()
        if field in layer
        for name in fields
        if name in layer[field]
    ]
    names += list(message["checkpoint_path"])
    return root_of_names(path, names)


def below(source: DataSource, root: Path) -> DataSource:
    """Return a source whose files are below a folder."""
    return replace(
        source,
        settings=_joined(source.settings, root),
        transforms=tuple(_joined(row, root) for row in source.transforms),
    )


def _joined(settings: Mapping[str, Any], root: Path) -> dict[str, Any]:
    return {
        name: str(root / value) if name in _PATHS and value else value for name, value in settings.items()
    }
