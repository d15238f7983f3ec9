"""The table of Keras's layers: one reader function each, in ``layers/``, one file per family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.lowering import RuleTable

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.lowering.channels_last import Tensor

Read = Callable[["KerasLayer"], "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True, slots=True)
class LayerReader:
    """How a class of layers is read.

    Attributes:
        read: Adds its nodes and returns its outputs.
        only_in_training: Whether it does nothing in a net that predicts, whatever its settings.
    """

    read: Read
    only_in_training: bool = False


READERS: RuleTable[Read, LayerReader] = RuleTable(LayerReader)
"""The readers by the names that a class of layers had in every age of Keras."""

layer_reader = READERS.register


def read_layer(ctx: KerasLayer) -> list[Tensor]:
    """Return the outputs of a layer; there must be a reader of its class."""
    reader = READERS[ctx.type]
    outputs = reader.read(ctx)
    if not reader.only_in_training:
        ctx.check_settings()
    return list(outputs) if isinstance(outputs, Sequence) else [outputs]
