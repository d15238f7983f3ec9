"""What a format wrote, and how it is read again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Written:
    """A net in files.

    Attributes:
        net: The file that describes the net.
        weights: The file of its stored arrays, if it is another one.
        entry: Name of the class in a file of code that is the net.
        inputs: The name that an input of the net has in the file, where it is another one.
    """

    net: Path
    weights: Path | None = None
    entry: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
