"""The table of Keras's layers, one reader function each; settings that change nothing in inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.formats.lowering import RuleTable

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.formats.lowering.channels_last import Tensor


Read = Callable[["KerasLayer"], "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True, slots=True)
class LayerReader:
    """Reader of a class of layers.

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


TRAINING = frozenset(
    {
        "dropout", "fused", "l1", "l2", "noise_shape", "rate", "recurrent_dropout", "renorm_clipping",
        "renorm_momentum", "rng_type", "seed", "stddev", "synchronized", "trainable", "unit_forget_bias",
        "virtual_batch_size",
    }
)  # fmt: skip
"""Settings that count in training alone."""

BOOKKEEPING = frozenset(
    {
        "batch_input_shape", "batch_shape", "dtype", "fill_mode", "fill_value", "implementation",
        "input_length", "key_shape", "name", "query_shape", "sparse", "stateful", "unroll", "value_shape",
    }
)  # fmt: skip
"""Settings that say how a layer is computed, or what is known from elsewhere.

``fill_mode`` and ``fill_value`` count where an image keeps its aspect ratio, which is refused; a ``stateful``
layer begins like any other.
"""

ENDINGS = ("_constraint", "_initializer", "_regularizer")


def is_without_effect(name: str, value: Any) -> bool:
    """Return whether a setting changes nothing: it is off, or is none of a net that predicts."""
    if value is None or value is False or (name, value) == ("groups", 1):
        return True
    return name in TRAINING | BOOKKEEPING or name.endswith(ENDINGS)
