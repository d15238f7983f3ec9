"""Writing a symbol file, in the form of MXNet 1.9."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from netweave.symbol.registry import READERS
from netweave.symbol.settings import Settings

if TYPE_CHECKING:
    from netweave.symbol.document import Document, Node


def to_json(document: Document) -> str:
    """Return a net as JSON (nnvm, saveload_json.cc)."""
    counts = [_num_outputs(node) for node in document.nodes]
    content = {
        "nodes": [_node(node) for node in document.nodes],
        "arg_nodes": [number for number, node in enumerate(document.nodes) if node.is_variable],
        "node_row_ptr": list(accumulate(counts, initial=0)),
        "heads": [[entry.node, entry.output, 0] for entry in document.heads],
        "attrs": {"mxnet_version": ["int", document.version]},
    }
    return json.dumps(content, indent=2)


def _node(node: Node) -> dict[str, Any]:
    written: dict[str, Any] = {"op": node.op, "name": node.name}
    if node.attributes:
        written["attrs"] = dict(sorted(node.attributes.items()))
    return {**written, "inputs": [[entry.node, entry.output, 0] for entry in node.inputs]}


def _num_outputs(node: Node) -> int:
    reader = READERS.get(node.op)
    return reader.count(Settings(node.attributes, place=node.place)) if reader else 1
