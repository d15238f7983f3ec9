"""What is compared: nets as files, and faults planted in them. Nothing here imports Netweave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

Files = dict[str, bytes]
"""A net's files by name; the first one is the net, the second, if there is one, its weights."""


@dataclass(frozen=True)
class Net:
    """A net as files.

    Attributes:
        format: ``caffe``, ``mxnet``, ``onnx``, ... as in the folders of ``netweave.formats``.
        files: Its files.
        inputs: Input sizes by name, without the batch.
    """

    format: str
    files: Files
    inputs: dict[str, tuple[int, ...]]

    def write(self, folder: Path) -> None:
        """Write the files."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        kind: What was done (``pool: max to average``).
        layer: Name of the layer that it was done to.
        mismatches: Keys of the mismatches that may explain it.
        net: The net with the fault.
        in_table: Whether a row of the mismatch table describes it.
        beside: Layers that may be named as well: of two in the wrong order the second.
    """

    kind: str
    layer: str
    mismatches: frozenset[str]
    net: Net
    in_table: bool = True
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """A net, forms of it that compute the same, and its faults.

    Attributes:
        name: Short name, unique.
        net: The net as it is.
        partners: Other forms by what they are (``renamed``, ``folded``).
        faults: Makes the nets with one fault each.
        names: By partner: what a layer is called there; a name that is missing stays.
        folded: By partner: layers whose numbers are part of another layer's weights there.
    """

    name: str
    net: Net
    partners: dict[str, Net]
    faults: list[Fault]
    names: dict[str, dict[str, str]] = field(default_factory=dict)
    folded: dict[str, frozenset[str]] = field(default_factory=dict)


Subjects = Iterator[Subject]

Wanted = Callable[[str], bool]
"""Whether a net is to be made, by its name (``caffe-lenet``)."""
