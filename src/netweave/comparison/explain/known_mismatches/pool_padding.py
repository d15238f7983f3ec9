"""Mismatches of what a maximum is taken over at the border: zeros in one net, nothing in the other.

Frameworks pad a max pooling with minus infinity, which no maximum is. A layer of zeros in front of it, as
ports of SAME rules have it, wins wherever all values of a window are negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.explain.known_mismatches.attributes import canonical
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named
from netweave.comparison.explain.wording import in_words, setting
from netweave.comparison.signals import constants_of
from netweave.graph import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.graph import Graph


def pool_padding_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's padding in front of a max pooling: the pooling's own, or one of zeros."""
    for node_a, node_b in case.pairs():
        if node_a.op_type != "MaxPool" or node_b.op_type != "MaxPool":
            continue
        pad_a, pad_b = (
            _pad_before(n, nodes) for n, nodes in ((node_a, case.nodes_a), (node_b, case.nodes_b))
        )
        own_a, own_b = (tuple(canonical(node)["pads"]) for node in (node_a, node_b))
        if pad_b is not None and pad_a is None and any(own_a):
            cause = "A pads with minus infinity, as part of the max pooling; B pads with zeros in front of it"
            fix = f"{setting(case.b.graph.format, node_b, 'pads', own_a)}, and no padding in front"
            yield _proposal(node_a, node_b, cause, fix, _Repad(node_b.name, pad_b.name, None, own_a))
        if pad_a is not None and pad_b is None and any(own_b):
            amounts = _amounts(pad_a)
            if amounts is None:
                continue
            cause = "A pads with zeros in front of the max pooling; B with minus infinity, as part of it"
            fix = f"pad with zeros in front ({in_words('pads', _spatial(amounts))}), and not in the pooling"
            yield _proposal(node_a, node_b, cause, fix, _Repad(node_b.name, None, amounts, own_a))


def _proposal(node_a: ir.Node, node_b: ir.Node, cause: str, fix: str, change: _Repad) -> Proposal:
    return Proposal(
        mismatch="pool-padding", cause=cause, fix=fix, node_a=node_a, node_b=node_b, change=change
    )


def _pad_before(node: ir.Node, nodes: Sequence[ir.Node]) -> ir.Node | None:
    """Return the padding with zeros in a group that a pooling reads."""
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if source is None or source.op_type != "Pad" or not any(source is other for other in nodes):
        return None
    value = constants_of(source).get(2)
    is_zero = value is None or (value.const_value is not None and not value.const_value.numpy().any())
    mode = attributes_of(source).get("mode", "constant")
    return source if mode == "constant" and is_zero and _amounts(source) is not None else None


def _amounts(pad: ir.Node) -> np.ndarray | None:
    """Return what a Pad adds at the begins and at the ends of all axes; None if it is computed."""
    amounts = constants_of(pad).get(1)
    if (
        amounts is None
        or amounts.const_value is None
        or len(constants_of(pad)) > 2 + (2 in constants_of(pad))
    ):
        return None
    array: np.ndarray = amounts.const_value.numpy()
    return array


def _spatial(amounts: np.ndarray) -> tuple[int, ...]:
    half = len(amounts) // 2
    return tuple(int(x) for x in (*amounts[2:half], *amounts[half + 2 :]))


class _Repad:
    """Takes the padding in front of a pooling away, or puts one there, and gives the pooling its own."""

    def __init__(
        self, node: str | None, drop: str | None, amounts: np.ndarray | None, own: tuple[int, ...]
    ) -> None:
        self._node, self._drop, self._amounts, self._own = node, drop, amounts, own

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        if self._drop is not None:
            pad = node_named(graph, self._drop)
            node.replace_input_with(0, pad.inputs[0])
        if self._amounts is not None:
            stored = ir.Value(
                name=f"{self._node}/amounts",
                shape=ir.Shape(self._amounts.shape),
                type=ir.TensorType(ir.DataType.INT64),
                const_value=ir.Tensor(self._amounts.astype(np.int64)),
            )
            graph.model.graph.register_initializer(stored)
            pad = ir.Node("", "Pad", [node.inputs[0], stored], num_outputs=1, name=f"{self._node}/pad")
            pad.outputs[0].name = f"{self._node}/padded"
            pad.outputs[0].type = node.outputs[0].type
            graph.model.graph.insert_before(node, pad)
            node.replace_input_with(0, pad.outputs[0])
        node.attributes["pads"] = ir.AttrInt64s("pads", self._own)
