"""Types of layers, one file for each family; importing this registers them all."""

from netweave.formats.darknet.layers import activation, heads, joining, pooling, rearranging, weighted

__all__ = ["REASONS", "activation", "heads", "joining", "pooling", "rearranging", "weighted"]

_RECURRENT = "it keeps a state from ctx to ctx; recurrent layers are not read"
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
