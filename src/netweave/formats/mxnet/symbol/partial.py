"""The part of a symbol whose operators are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.errors import UnsupportedError
from netweave.files.partial import left_out_note, split_readable
from netweave.formats.mxnet.symbol.operators import READERS

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.document import Document
    from netweave.formats.mxnet.symbol.vertex import Vertex


def readable_part(document: Document) -> tuple[Document, tuple[str, ...]]:
    """Return a net without unknown operators and what needs them, and notes on what was left out.

    Its heads are those that are left, and what the left-out operators read.

    Raises:
        UnsupportedError: Nothing is left.
    """
    readable, rest = split_readable(
        document.nodes,
        is_unknown=lambda node: not node.is_variable and node.op not in READERS,
        reads=lambda node: (source for source, _ in node.inputs),
        makes=lambda node: (node,),
    )
    if not rest:
        return document, ()
    kept: set[Vertex] = {node for node in readable if not node.is_variable}
    heads = [head for head in document.heads if head.vertex in kept]
    heads += [source for node in rest for source in node.inputs if source.vertex in kept]
    if not heads:
        raise UnsupportedError(
            "no operator can be read without an unknown one before it", place=document.file
        )
    note = left_out_note([node.name for node in rest], noun="layer")
    return replace(document, heads=tuple(dict.fromkeys(heads))), (f"{document.file}: {note}",)
