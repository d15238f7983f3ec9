"""The table of Keras's layers: one reader function each, in ``layers/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.keras.call import Call

Read = Callable[["Call"], "Tensor | Sequence[Tensor]"]

_READERS: dict[str, Read] = {}


def layer_reader(*names: str) -> Callable[[Read], Read]:
    """Register the decorated function as the reader of a class of layers, by its names in every age."""

    def register(read: Read) -> Read:
        _READERS.update(dict.fromkeys(names, read))
        return read

    return register


def find_reader(name: str) -> Read | None:
    """Return the reader of a class of layers, or None if there is none."""
    return _READERS.get(name)


def all_readers() -> dict[str, Read]:
    """Return every reader by the name of the class."""
    return dict(sorted(_READERS.items()))
