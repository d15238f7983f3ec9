"""The mismatch of a softmax over rows: all axes from one on taken together, as ONNX did before opset 13."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.explain.known_mismatches.attributes import canonical, mismatch_key, set_attribute
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal
from netweave.comparison.explain.wording import setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir


def softmax_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's axis where B's softmax takes all axes from another one on for one row."""
    for node_a, node_b in case.pairs():
        rows = _rows(node_b)
        if node_a.op_type != node_b.op_type or rows is None:
            continue
        axis_a, axis_b = canonical(_rows(node_a) or node_a)["axis"], canonical(rows)["axis"]
        if axis_a != axis_b:
            yield Proposal(
                mismatch=mismatch_key(node_b.op_type, "axis"),
                cause=f"the sum is over axis {axis_a} in A and over all axes from {axis_b} on in B",
                fix=setting(case.b.graph.format, node_b, "axis", axis_a),
                node_a=node_a,
                node_b=node_b,
                change=set_attribute(rows.name, "axis", axis_a),
            )


def _rows(node: ir.Node) -> ir.Node | None:
    """Return the flatten that makes the rows of a softmax, if there is one."""
    if node.op_type not in {"Softmax", "LogSoftmax"} or node.inputs[0] is None:
        return None
    producer = node.inputs[0].producer()
    return producer if producer is not None and producer.op_type == "Flatten" else None
