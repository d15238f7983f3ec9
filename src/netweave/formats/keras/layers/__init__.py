"""Readers of Keras's layers, one file per family; importing this package registers them all."""

from netweave.formats.keras.layers import (
    activation,
    attention,
    cells,
    convolution,
    dense,
    elements,
    masking,
    merging,
    normalization,
    parts,
    pooling,
    preprocessing,
    recurrent,
    shaping,
    wrappers,
)
from netweave.formats.keras.layers.refused import REASONS

__all__ = [
    "REASONS",
    "activation",
    "attention",
    "cells",
    "convolution",
    "dense",
    "elements",
    "masking",
    "merging",
    "normalization",
    "parts",
    "pooling",
    "preprocessing",
    "recurrent",
    "shaping",
    "wrappers",
]
