"""Settings of layers that change nothing in a net that predicts."""

from __future__ import annotations

from typing import Any

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
    """Whether a setting changes nothing: it is off, or is none of a net that predicts."""
    if value is None or value is False or (name, value) == ("groups", 1):
        return True
    return name in TRAINING | BOOKKEEPING or name.endswith(ENDINGS)
