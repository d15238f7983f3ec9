"""Recurrent operators, which Caffe's layers say in a way that nets of other frameworks do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.writing import Refused
from netweave.formats.caffe.writer.table import Call, written

if TYPE_CHECKING:
    from netweave.formats.caffe.writer.layer import CaffeLayer


@written("LSTM", "GRU", "RNN")
def recurrent(call: Call) -> list[CaffeLayer]:
    """Caffe's LSTM is told at each step whether the sequence goes on; there is no GRU."""
    raise Refused(
        "Caffe's LSTM reads beside its sequence where each one goes on (cont), which this net has not"
        if call.node.op_type == "LSTM"
        else "Caffe has no such layer, or one with an activation behind its output"
    )
