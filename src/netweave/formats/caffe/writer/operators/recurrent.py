"""Recurrent operators, which Caffe's layers say in a way that nets of other frameworks do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.table import CaffeNode, writes

if TYPE_CHECKING:
    from netweave.formats.caffe.writer.layer import CaffeLayer


@writes("LSTM", "GRU", "RNN")
def recurrent(node: CaffeNode) -> list[CaffeLayer]:
    """Caffe's LSTM is told at each step whether the sequence goes on; there is no GRU."""
    raise NotWritable(
        "Caffe's LSTM reads beside its sequence where each one goes on (cont), which this net has not"
        if node.op_type == "LSTM"
        else "Caffe has no such layer, or one with an activation behind its output"
    )
