"""A layer of Caffe's as it will be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored array of a layer.

    Attributes:
        array: Gives its values.
        source: Name of the stored value that it is, if it is one as it stands; layers with the same share it.
    """

    array: Callable[[], np.ndarray]
    source: str | None = None


@dataclass(frozen=True, slots=True)
class CaffeLayer:
    """One layer; its blobs are values here, each with a name of its own.

    Attributes:
        type: Caffe's name of the type.
        bottoms: Names of the values that it reads.
        tops: Names of the values that it makes.
        settings: Its parameters, as ``Schema.encode`` takes them.
        blobs: Its stored arrays.
        sources: Names of the source's layers that it does.
    """

    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    blobs: tuple[Blob, ...] = ()
    sources: tuple[str, ...] = ()
