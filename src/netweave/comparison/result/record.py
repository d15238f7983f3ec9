"""The record of a net in a comparison that was saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.graph import Graph, LayerTable


@dataclass(frozen=True, slots=True)
class NetRecord:
    """A net without its nodes and arrays.

    Attributes:
        name: The net's name.
        format: Its format.
        files: Its files.
        layers: Its layers.
    """

    name: str
    format: str
    files: tuple[str, ...]
    layers: LayerTable

    @classmethod
    def of(cls, net: Graph | NetRecord) -> NetRecord:
        """Return the record of a net."""
        return cls(net.name, net.format, tuple(net.files), net.layers)
