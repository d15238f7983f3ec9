"""The table of Keras's layers: one reader function each, in ``layers/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.lowering.channels_last import Tensor

Read = Callable[["KerasLayer"], "Tensor | Sequence[Tensor]"]

_READERS: dict[str, Read] = {}

ONLY_IN_TRAINING: set[str] = set()
"""Classes of layers whose settings count in training alone."""


def layer_reader(*names: str, only_in_training: bool = False) -> Callable[[Read], Read]:
    """Register the decorated function as the reader of a class of layers, by its names in every age.

    Args:
        names: The names.
        only_in_training: Whether the layer does nothing in a net that predicts, whatever its settings.
    """

    def register(read: Read) -> Read:
        _READERS.update(dict.fromkeys(names, read))
        ONLY_IN_TRAINING.update(names if only_in_training else ())
        return read

    return register


def find_reader(name: str) -> Read | None:
    """Return the reader of a class of layers, or None if there is none."""
    return _READERS.get(name)


def read_layer(ctx: KerasLayer) -> list[Tensor]:
    """Return the outputs of a layer; there must be a reader of its class."""
    read = find_reader(ctx.type)
    assert read is not None, "the classes of all layers are looked up before any is read"
    outputs = read(ctx)
    if ctx.type not in ONLY_IN_TRAINING:
        ctx.check_settings()
    return list(outputs) if isinstance(outputs, Sequence) else [outputs]


def all_readers() -> dict[str, Read]:
    """Return every reader by the name of the class."""
    return dict(sorted(_READERS.items()))
