"""``mx.rnn``: recurrent cells of symbols, and batches of sentences."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.rnn.cells import (
    BaseRNNCell,
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    LSTMCell,
    ModifierCell,
    ResidualCell,
    RNNCell,
    RNNParams,
    SequentialRNNCell,
    ZoneoutCell,
)
from netweave.mxnet.rnn.fused import FusedRNNCell
from netweave.mxnet.rnn.sentences import (
    BucketSentenceIter,
    do_rnn_checkpoint,
    encode_sentences,
    load_rnn_checkpoint,
    save_rnn_checkpoint,
)

__all__ = [
    "BaseRNNCell",
    "BidirectionalCell",
    "BucketSentenceIter",
    "DropoutCell",
    "FusedRNNCell",
    "GRUCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RNNParams",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
    "do_rnn_checkpoint",
    "encode_sentences",
    "load_rnn_checkpoint",
    "save_rnn_checkpoint",
]


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.rnn", name, __all__)
