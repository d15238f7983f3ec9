"""Dense layers over sequences: those whose steps come first, (L, N, E), and those over rows, (L * N, E)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, infer_shapes, layer_keys, set_layer_keys
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.projections import Dense, dense_before
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader, prune

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class _Turned:
    """A dense layer before or behind a transpose of the leading axes.

    Attributes:
        dense: The layer.
        before: What puts the steps first before it; None if what it reads is not transposed.
        reshape: What makes a sequence of its rows, if it computes (L * N, E).
        behind: What puts the examples first behind it, if it reads joined heads; None if ``before`` is there.
    """

    dense: Dense
    before: ir.Node | None = None
    reshape: ir.Node | None = None
    behind: ir.Node | None = None


def num_steps_first(graph: Graph) -> int:
    """Return how many dense layers read or make sequences with the steps first."""
    return sum(1 for _ in _turned(graph))


@Pass
def examples_first(graph: Graph) -> None:
    """Compute dense layers before the steps of a sequence are put first, or after they are put back."""
    rewriter = Rewriter(graph)
    found = list(_turned(graph))
    for each in found:
        if each.before is not None:
            _compute_before(rewriter, each.dense, each.before)
        elif each.behind is not None:
            _compute_behind(rewriter, each.dense, each.reshape, each.behind)
    if found:
        prune.edit(graph)
        infer_shapes(graph)


def _turned(graph: Graph) -> Iterator[_Turned]:
    covered: set[ir.Node] = set()
    for node in reversed(list(graph.nodes)):
        if node in covered or node.op_type not in {"Add", "Gemm", "MatMul"}:
            continue
        dense = dense_before(node.outputs[0])
        if dense is None:
            continue
        covered.update(dense.nodes)
        before = dense.x.producer()
        if before is not None and _turns(before):
            if not _is_turned_input(before.inputs[0]):  # inputs are paired by how they are turned
                yield _Turned(dense, before)
        elif _joins_heads(dense.x) and (reader := _only_reader(dense.result)) is not None:
            reshape = reader if _parts_rows(reader, dense) else None
            behind = reader if reshape is None else _only_reader(reshape.outputs[0])
            if behind is not None and _turns(behind):
                yield _Turned(dense, None, reshape, behind)


def _turns(node: ir.Node) -> bool:
    """Return whether a node transposes axes of a sequence before the last."""
    if node.domain or node.op_type != "Transpose":
        return False
    perm = list(attributes_of(node).get("perm") or ())
    return len(perm) > 2 and perm[-1] == len(perm) - 1 and perm != sorted(perm)


def _is_turned_input(value: ir.Value | None) -> bool:
    return value is not None and value.is_graph_input() and has_one_reader(value)


def _joins_heads(value: ir.Value) -> bool:
    """Return whether a value is heads (N, H, L, D), transposed and then joined to features."""
    node = value.producer()
    while node is not None and node.op_type == "Reshape" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
        if node is not None and node.op_type == "Transpose":
            return len(attributes_of(node).get("perm") or ()) == 4
    return False


def _only_reader(value: ir.Value) -> ir.Node | None:
    return next((use.node for use in value.uses()), None) if has_one_reader(value) else None


def _parts_rows(node: ir.Node, dense: Dense) -> bool:
    """Return whether a node makes a sequence of the rows of a dense layer's result."""
    if node.domain or node.op_type != "Reshape" or len(dense.result.shape or ()) != 2:
        return False
    made, sizes = node.outputs[0].shape, node.inputs[1]
    if made is None or len(made) < 3 or made[-1] != dense.num_outputs or sizes is None:
        return False
    return sizes.const_value is None or bool((sizes.const_value.numpy() != 0).all())


def _compute_before(rewriter: Rewriter, dense: Dense, turn: ir.Node) -> None:
    """Compute a dense layer on what is transposed in front of it, and transpose the result."""
    product, *biased = dense.nodes
    last = dense.nodes[-1]
    made = rewriter.insert(last, "MatMul", [turn.inputs[0], product.inputs[1]]).outputs[0]
    for add in biased:
        made = rewriter.insert(last, "Add", [made, _stored(add)]).outputs[0]
    perm = list(attributes_of(turn)["perm"])
    rewriter.take_over(dense.result, rewriter.insert(last, "Transpose", [made], {"perm": perm}).outputs[0])


def _compute_behind(rewriter: Rewriter, dense: Dense, reshape: ir.Node | None, turn: ir.Node) -> None:
    """Compute a dense layer on what it reads, given the axes and the order that its result is given."""
    x = dense.x
    if reshape is not None:
        x = rewriter.insert(turn, "Reshape", [x, _sizes(rewriter, reshape, dense)]).outputs[0]
    x = rewriter.insert(turn, "Transpose", [x], {"perm": list(attributes_of(turn)["perm"])}).outputs[0]
    _compute_on(rewriter, dense, x, turn)


def _compute_on(rewriter: Rewriter, dense: Dense, x: ir.Value, turn: ir.Node) -> None:
    """Compute a dense layer on a value, in the place of what a node makes of its result."""
    weight, bias = dense.arrays(rewriter, name=f"{dense.result.name}")
    for node in dense.nodes:
        for read in node.inputs:
            if read is not None and read.const_value is not None:
                tag_sources(weight if read.const_value is dense.weight else bias, source_keys(read))
    operators = [("MatMul", weight), ("Add", bias)] if dense.bias is not None else [("MatMul", weight)]
    for op_type, stored in operators:
        node = rewriter.insert(turn, op_type, [x, stored])
        set_layer_keys(node, layer_keys(dense.nodes[-1]))
        x = node.outputs[0]
    rewriter.take_over(turn.outputs[0], x)


def _over_rows(graph: Graph) -> Iterator[tuple[Dense, ir.Value, ir.Node]]:
    """Yield dense layers over the rows of a sequence, with the sequence and what makes one of the result."""
    for node in graph.nodes:
        result, made = node.inputs[0] if node.op_type == "Reshape" else None, node.outputs[0].shape
        dense = dense_before(result) if result is not None and not node.domain and made is not None else None
        before = dense.x.producer() if dense is not None else None
        if dense is None or before is None or before.op_type != "Reshape" or not has_one_reader(dense.result):
            continue
        x = before.inputs[0]
        if x is None or x.shape is None or made is None or not 2 < len(x.shape) == len(made):
            continue
        is_kept = list(x.shape)[:-1] == list(made)[:-1]
        sizes = [*dense.weight.shape.numpy()][:: -1 if dense.has_rows else 1]
        if is_kept and len(dense.x.shape or ()) == 2 and [x.shape[-1], made[-1]] == sizes:
            yield dense, x, node


def num_over_rows(graph: Graph) -> int:
    """Return how many dense layers are computed over the rows of a sequence."""
    return sum(1 for _ in _over_rows(graph))


@Pass
def over_sequences(graph: Graph) -> None:
    """Compute dense layers over sequences as they are, not over their rows."""
    rewriter = Rewriter(graph)
    found = list(_over_rows(graph))
    for dense, x, reshape in found:
        _compute_on(rewriter, dense, x, reshape)
    if found:
        prune.edit(graph)
        infer_shapes(graph)


def _sizes(rewriter: Rewriter, reshape: ir.Node, dense: Dense) -> ir.Value:
    """Return the sizes that a Reshape gives to a dense layer's result for what the layer reads."""
    sizes = reshape.inputs[1]
    assert sizes is not None  # as ``_parts_rows`` has it
    width = np.array([dense.matrix().shape[0]], np.int64)
    name = f"{reshape.name}/sizes"
    if sizes.const_value is not None:
        own = np.concatenate([sizes.const_value.numpy()[:-1], width])
        return rewriter.initializer(ir.Tensor(own), name)
    start, end, last = (
        rewriter.initializer(ir.Tensor(number), name) for number in (np.array([0]), np.array([-1]), width)
    )
    leading = rewriter.insert(reshape, "Slice", [sizes, start, end]).outputs[0]
    return rewriter.insert(reshape, "Concat", [leading, last], {"axis": 0}).outputs[0]


def _stored(node: ir.Node) -> ir.Value | None:
    return next(value for value in node.inputs if value is not None and value.const_value is not None)
