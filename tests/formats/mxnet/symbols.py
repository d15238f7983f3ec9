"""Symbol files written by hand from the description of the format, for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def variable(name: str, **attributes: str) -> dict[str, Any]:
    """Return the node of a variable."""
    return {"op": "null", "name": name, "attrs": attributes, "inputs": []}


def node(op: str, name: str, inputs: Sequence[int | tuple[int, int]], **settings: str) -> dict[str, Any]:
    """Return the node of an operator; an input is the number of a node, or that and of its output."""
    entries = [[i, 0, 0] if isinstance(i, int) else [*i, 0] for i in inputs]
    return {"op": op, "name": name, "attrs": settings, "inputs": entries}


def symbol(nodes: Sequence[Mapping[str, Any]], *, num_outputs: int = 1, version: int = 10901) -> str:
    """Return a symbol file whose outputs are those of the last node."""
    last = len(nodes) - 1
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [number for number, item in enumerate(nodes) if item["op"] == "null"],
            "heads": [[last, number, 0] for number in range(num_outputs)],
            "attrs": {"mxnet_version": ["int", version]},
        },
        indent=1,
    )
