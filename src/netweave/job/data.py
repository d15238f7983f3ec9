"""Where the batches of a phase come from, as a source file says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


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
