"""Known mismatches of gates and softmax."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.explain.known_mismatches.attributes import canonical, mismatch_key, set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant, same_array
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal
from netweave.comparison.explain.wording import setting
from netweave.comparison.metric import constants_of
from netweave.formats.lowering.recurrent import ONNX_GATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir

    from netweave.graph import Graph


# TensorFlow 1's cells keep i, c, f, o; Keras, PyTorch and MXNet i, f, c, o; ONNX i, o, f, c; Caffe i, f, o,
# c.

GATES = {op_type: ONNX_GATES[op_type] for op_type in ("LSTM", "GRU")}
"""Gates of a recurrent operator, in the order of its weights."""

WEIGHTS = (1, 2, 3)
"""Positions of the weights of the input, those of the state, and the biases."""


def gate_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's order of the gates where B's weights are A's with the gates in another order."""
    for node_a, node_b in case.pairs():
        names = GATES.get(node_b.op_type)
        if names is None or node_a.op_type != node_b.op_type:
            continue
        arrays_a, arrays_b = _arrays(node_a), _arrays(node_b)
        order = _order(arrays_a, arrays_b, len(names))
        if order is None:
            continue
        stored = ", ".join(names[gate] for gate in order)
        yield Proposal(
            mismatch="gate-order",
            cause=f"where A has the gates {', '.join(names)} of the {node_b.op_type}, B has A's {stored}",
            fix="put the gates of the weights, of the weights of the state and of the biases in A's order",
            node_a=node_a,
            node_b=node_b,
            change=_Gates(node_b.name, {index: arrays_a[index] for index in arrays_b}),
        )


def _arrays(node: ir.Node) -> dict[int, np.ndarray]:
    """Return the stored weights and biases of a recurrent node, by position."""
    arrays = {}
    for index, value in constants_of(node).items():
        if index in WEIGHTS and value.const_value is not None:
            arrays[index] = value.const_value.numpy()
    return arrays


def _order(a: dict[int, np.ndarray], b: dict[int, np.ndarray], count: int) -> tuple[int, ...] | None:
    """Return which of A's gates stands in each place of B; None if each is in its own, or none is found."""
    if a.keys() != b.keys() or not {1, 2} <= a.keys() or any(a[i].shape != b[i].shape for i in a):
        return None
    for order in itertools.islice(itertools.permutations(range(count)), 1, None):
        if all(same_array(_in_order(a[index], order), b[index]) for index in (1, 2)):
            return order
    return None


def _in_order(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Return weights (directions, gates * units, ...) with the gates in another order."""
    directions, rows = array.shape[:2]
    blocks = array.reshape(directions, len(order), rows // len(order), *array.shape[2:])
    return np.ascontiguousarray(blocks[:, list(order)]).reshape(array.shape)


class _Gates:
    """Gives a node of a subgraph A's weights and biases."""

    def __init__(self, node: str | None, arrays: dict[int, np.ndarray]) -> None:
        self._node, self._arrays = node, arrays

    def __call__(self, graph: Graph) -> None:
        for index, array in self._arrays.items():
            replace_constant(self._node, index, array)(graph)


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
