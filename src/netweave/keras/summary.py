"""A model as a table: its layers with sizes and numbers of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from netweave.keras.layer import Network

COLUMNS = ("Layer (type)", "Output Shape", "Param #", "Connected to")


def summary_text(network: Network) -> str:
    """Return a table of the layers, and what all of them hold."""
    operations = network.call_graph.operations
    is_row = all(len(node.tensors) <= 1 for node in network.call_graph.nodes)
    rows = [COLUMNS[: 3 if is_row else 4]]
    inside = {id(node) for node in network.call_graph.nodes}
    for operation in operations:
        nodes = [node for node in operation.nodes if id(node) in inside]
        shapes = [str(tensor.shape) for tensor in nodes[0].outputs]
        count = getattr(operation, "count_params", int)()
        row = [f"{operation.name} ({operation.class_name})", ", ".join(shapes), f"{count:,}"]
        before = dict.fromkeys(tensor.name for node in nodes for tensor in node.tensors)
        rows.append(tuple(row if is_row else [*row, ", ".join(before)]))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    rule = "-" * max(map(len, lines))
    learnt = _count(network.trainable_weights)
    rest = _count(network.non_trainable_weights)
    totals = [
        f"Total params: {learnt + rest:,}",
        f"Trainable params: {learnt:,}",
        f"Non-trainable params: {rest:,}",
    ]
    return "\n".join([f'Model: "{network.name}"', lines[0], rule, *lines[1:], rule, *totals])


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.rjust(width) if at == 2 else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _count(variables: list[Any]) -> int:
    return sum(int(np.prod(one.shape)) for one in variables)
