"""Types of layers, one file for each family; importing this registers them all."""

from netweave.formats.darknet.context import LAYERS
from netweave.formats.lowering import import_families

__all__ = ["LAYERS", "REASONS"]

_RECURRENT = "it keeps a state from one call to the next; recurrent layers are not supported"
_LRN = "its sum leaves out one neighbour, by an error in normalization_layer.c; not written yet"

REASONS = {
    "crnn": _RECURRENT,
    "gru": _RECURRENT,
    "lstm": _RECURRENT,
    "rnn": _RECURRENT,
    "conv_lstm": _RECURRENT,
    "lrn": _LRN,
    "normalization": _LRN,
    "contrastive": "a loss of training; not written yet",
}

import_families(__name__)
