"""``gluon.rnn``: recurrent layers, and cells that compute one step."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.gluon.rnn.cells import (
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    HybridRecurrentCell,
    HybridSequentialRNNCell,
    LSTMCell,
    ModifierCell,
    RecurrentCell,
    ResidualCell,
    RNNCell,
    SequentialRNNCell,
    ZoneoutCell,
)
from netweave.mxnet.gluon.rnn.layers import GRU, LSTM, RNN

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "BidirectionalCell",
    "DropoutCell",
    "GRUCell",
    "HybridRecurrentCell",
    "HybridSequentialRNNCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RecurrentCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("gluon.rnn", name, __all__)
