"""Layers around a layer (keras/layers/rnn/time_distributed)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.keras.registry import READERS, layer_reader, read_layer
from netweave.lowering.channels_last.axes import reshape

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.lowering.channels_last import Tensor

RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN"})

SAME_FOR_ALL = frozenset({"Dense", "Activation", "Dropout", "ReLU", "LeakyReLU", "LayerNormalization"})
"""Layers that work on the last axis alone: every step of a sequence is the same to them."""


@layer_reader("TimeDistributed")
def time_distributed(ctx: KerasLayer) -> Tensor:
    """A layer on every step of a sequence by itself."""
    layer = ctx.layer_setting("layer")
    if layer.type not in READERS or layer.type in {"TimeDistributed", "Bidirectional", *RECURRENT}:
        raise ctx.unsupported(f"a layer of class {layer.type!r} inside it is not supported")
    if layer.type in SAME_FOR_ALL:
        return read_layer(ctx.inner(layer, [ctx.x], inside="layer"))[0]
    steps, *sizes = ctx.sizes(range(1, ctx.rank()))
    every_step = reshape(ctx, ctx.x, [None, *sizes])
    outputs = read_layer(ctx.inner(layer, [every_step], inside="layer"))[0]
    return reshape(ctx, outputs, [None, steps, *ctx.sizes(range(1, ctx.rank(outputs)), outputs)])
