"""Writing a symbol file, in the form of MXNet 1.9."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netweave.symbol.document import Document
    from netweave.symbol.vertex import Vertex


def to_json(document: Document) -> str:
    """Return a net as JSON (nnvm, saveload_json.cc)."""
    nodes = document.nodes
    number = {node: place for place, node in enumerate(nodes)}
    counts = [node.reader.count(node.settings) if node.reader else 1 for node in nodes]
    content = {
        "nodes": [_node(node, number) for node in nodes],
        "arg_nodes": [place for place, node in enumerate(nodes) if node.is_variable],
        "node_row_ptr": list(accumulate(counts, initial=0)),
        "heads": [[number[node], output, 0] for node, output in document.heads],
        "attrs": {"mxnet_version": ["int", document.version]},
    }
    return json.dumps(content, indent=2)


def _node(node: Vertex, number: dict[Vertex, int]) -> dict[str, Any]:
    written: dict[str, Any] = {"op": node.op, "name": node.name}
    if node.attributes:
        written["attrs"] = dict(sorted(node.attributes.items()))
    return {**written, "inputs": [[number[source], output, 0] for source, output in node.inputs]}
