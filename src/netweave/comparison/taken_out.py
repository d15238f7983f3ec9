"""Differences that the compared form of two nets no longer shows: training mode, unread inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.result.coverage import Unexercised
from netweave.formats.dialect import dialect_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir

    from netweave.comparison.execution.input_mapping import InputMapping
    from netweave.comparison.side import Side
    from netweave.graph import Graph


def taken_out(a: Side, b: Side, mappings: Sequence[InputMapping]) -> Iterator[Unexercised]:
    """Yield what differs between two nets and is gone from the form in which they are compared.

    Args:
        a: The first net.
        b: The second net.
        mappings: How A's inputs become B's.
    """
    training = {side.name: _num_training(side.source) for side in (a, b)}
    for op_type in ("BatchNormalization", "Dropout"):
        counts = {name: numbers[op_type] for name, numbers in training.items()}
        if counts["A"] != counts["B"]:
            reason = f"in training mode {counts['A']} in A, {counts['B']} in B; compared as for inference"
            yield Unexercised(f"{op_type} training_mode", "", reason, differs=True)
    read = {side.name: {str(v.name) for v in side.graph.inputs if _is_read(v)} for side in (a, b)}
    for mapping in mappings:
        is_read = mapping.a in read["A"], mapping.b in read["B"]
        if is_read in {(True, False), (False, True)}:
            ignoring = "B" if is_read[0] else "A"
            name = mapping.b if is_read[0] else mapping.a
            yield Unexercised(f"input {name!r}", "", f"{ignoring} does not read it", differs=True)


def _num_training(graph: Graph) -> dict[str, int]:
    counts = {"BatchNormalization": 0, "Dropout": 0}
    if not dialect_of(graph.format).has_modes:  # its files describe training and inference at once
        return counts
    for node in graph.nodes:
        if node.op_type in counts:
            counts[node.op_type] += _is_training(node)
    return counts


def _is_training(node: ir.Node) -> bool:
    if node.op_type == "BatchNormalization":
        return bool(node.attributes.get_int("training_mode", 0))
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    value = mode.const_value if mode is not None else None
    return value is not None and bool(value.numpy().any())


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
