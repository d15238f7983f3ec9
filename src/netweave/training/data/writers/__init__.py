"""Writers of records, one for each kind that can be packed."""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from pathlib import Path

from netweave.errors import UsageError
from netweave.files.output_files import Replacement, writing
from netweave.training.data.writers.writer import SplitWriter, Writer

__all__ = ["WRITERS", "Writer", "make_writer"]

WRITERS: dict[str, tuple[str, str]] = {
    "lmdb": ("files", "LMDBWriter"),
    "recordio": ("recordio", "RecordIOWriter"),
    "hdf5": ("hdf5", "HDF5Writer"),
    "mnist": ("files", "IdxWriter"),
    "kvfile": ("files", "KVFileWriter"),
}
"""The kinds: module of this package and class; ``data.SOURCES`` has the same names."""


def make_writer(
    kind: str, target: Path, *, split_bytes: int | None = None, suffix: str = ".png", quality: int = 95
) -> Writer:
    """Return a writer of a kind.

    Args:
        kind: One of ``WRITERS``.
        target: File or folder to be made.
        split_bytes: Largest size of a file, where records are spread over several; None for one.
        suffix: What bare pixels are encoded as, where the kind holds files.
        quality: Of JPEG, 1 to 100.

    Raises:
        UsageError: There is no such kind, or the target is there already.
        WriteError: The target cannot be written.
    """
    if kind not in WRITERS:
        raise UsageError(f"cannot pack into {kind!r}; expected one of {', '.join(WRITERS)}")
    module, name = WRITERS[kind]
    made: type[Writer] = getattr(importlib.import_module(f"netweave.training.data.writers.{module}"), name)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        new = stack.enter_context(Replacement(target))
        writer = made(target, new) if split_bytes is None else SplitWriter(target, new, split_bytes, made)
        stack.pop_all()  # from here on, the writer's own ``with`` block ends it
    writer.suffix, writer.quality = suffix, quality
    return writer
