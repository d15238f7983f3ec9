"""What is compared: nets as files, and faults planted in them. Nothing here imports Netweave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Files = dict[str, bytes]
"""A net's files by name; the first one is the net, the second, if there is one, its weights."""


@dataclass(frozen=True)
class Net:
    """A net as files.

    Attributes:
        name: Short name, unique.
        format: ``caffe``, ``mxnet`` or ``onnx``.
        files: Its files.
        inputs: Input sizes by name, with a batch of 2.
    """

    name: str
    format: str
    files: Files
    inputs: dict[str, tuple[int, ...]]

    def write(self, folder: Path) -> Path:
        """Write the files and return the net's."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder / next(iter(self.files))


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        kind: What was done (``pool: max to average``).
        layer: Name of the layer that it was done to.
        traps: Keys of the traps that may explain it.
        net: The net with the fault.
        in_table: Whether a row of the trap table describes it.
    """

    kind: str
    layer: str
    traps: frozenset[str]
    net: Net
    in_table: bool = True


@dataclass(frozen=True)
class Subject:
    """A net, forms of it that compute the same, and its faults.

    Attributes:
        net: The net as it is.
        partners: Other forms by what they are (``renamed``, ``folded``).
        faults: Nets with one fault each.
        names: The layer's name in a partner, by partner and name; a name that is missing stays.
    """

    net: Net
    partners: dict[str, Net] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
