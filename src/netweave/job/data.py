"""Where the batches of a phase come from, as a source file says it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class DataSource:
    """Records that become some of a graph's inputs.

    Attributes:
        kind: What holds the records: ``lmdb``, ``hdf5``, ``images``, ``arrays``, ...; a row of the table
            of sources in ``data``.
        outputs: Names of the graph inputs that are fed, one for each part of a record (image, label); a part
            that the graph does not take has a name that none of its inputs has.
        batch_size: Records in one batch, >= 1.
        settings: What the kind needs to be opened (``path``, ...); JSON values.
        order: In which order records are taken, where not as they are: ``shuffle``, ``skip``, ``last`` (see
            ``data.Order``).
        transforms: What happens to the first part of a record before it enters the batch, in order; each
            ``{"kind": ..., its settings}``, JSON values; rows of the table of transforms in ``data``.
        place: Where the source file says so, ``file:line`` or ``file: layer 'name'``; for messages.
    """

    kind: str
    outputs: tuple[str, ...]
    batch_size: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    order: Mapping[str, Any] = field(default_factory=dict)
    transforms: tuple[Mapping[str, Any], ...] = ()
    place: str = ""


def with_path(
    sources: tuple[DataSource, ...], path: str, *, phase: str, place: str
) -> tuple[DataSource, ...]:
    """Return the sources of a phase with another path in the one that has any.

    Raises:
        UsageError: There is not one source that reads records from a path.
    """
    named = [source for source in sources if "path" in source.settings]
    if len(named) != 1:
        raise UsageError(
            f"{place}: {len(named)} layers of phase {phase} read records from a path, expected one that can "
            f"read from {path} instead; change the names in the file"
        )
    return tuple(
        replace(source, settings={**source.settings, "path": path}) if source is named[0] else source
        for source in sources
    )


def root_of_names(path: Path, names: Iterable[str]) -> Path:
    """Return the folder that names in a file are relative to: the working one, or one above the file.

    It is the nearest in which one of the names is; the working folder where there are none.
    """
    listed = list(names)
    folders = (Path(), *path.absolute().parents)
    return next((folder for folder in folders if any(_exists(folder / name) for name in listed)), Path())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is longer than the system takes
        return False
