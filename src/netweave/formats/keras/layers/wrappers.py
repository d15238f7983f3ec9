"""Layers around a layer (keras/layers/rnn/time_distributed)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import reshape
from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.registry import find_reader, layer_reader

if TYPE_CHECKING:
    from netweave.formats.keras.call import Call

SAME_FOR_ALL = frozenset({"Dense", "Activation", "Dropout", "ReLU", "LeakyReLU", "LayerNormalization"})
"""Layers that work on the last axis alone: every step of a sequence is the same to them."""


@layer_reader("TimeDistributed")
def time_distributed(call: Call) -> Tensor:
    """A layer on every step of a sequence by itself."""
    held = call.setting("layer")
    if not isinstance(held, dict) or not isinstance(held.get("config"), dict):
        raise call.wrong("its 'layer' is no layer")
    kind = str(held.get("class_name"))
    read = find_reader(kind)
    if read is None or kind in {"TimeDistributed", "Bidirectional", "LSTM", "GRU", "SimpleRNN"}:
        raise call.refuse(f"around a layer of class {kind!r} it is not read")
    inner = LayerConfig(str(held["config"].get("name", "")), kind, held["config"])
    if kind in SAME_FOR_ALL:
        return _one(read(call.inner(inner, [call.x], inside="layer")))
    steps, *sizes = call.writer.known(call.x, range(1, len(call.shape(call.x))))
    flat = reshape(call.writer, call.x, [None, *sizes])
    made = _one(read(call.inner(inner, [flat], inside="layer")))
    after = call.writer.known(made, range(1, len(call.shape(made))))
    return reshape(call.writer, made, [None, steps, *after])


def _one(made: object) -> Tensor:
    found = made if isinstance(made, Tensor) else next(iter(made))  # type: ignore[call-overload]
    assert isinstance(found, Tensor)
    return found
