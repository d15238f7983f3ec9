"""Sequences whose steps come first, (L, N, E), and dense layers over the rows of a sequence, (L * N, E)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, infer_shapes, layer_keys, set_layer_keys
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.projections import Dense, dense_before
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader, prune

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.graph import Graph


POSITIONWISE = frozenset({
    "Abs", "Add", "Cast", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
    "Max", "Min", "Mish", "Mul", "Neg", "Pow", "Relu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh",
})  # fmt: skip
"""Operators that compute each number by itself."""

ROWWISE = frozenset({"LayerNormalization", "LpNormalization", "LogSoftmax", "RMSNormalization", "Softmax"})
"""Operators that compute along one axis, here the last."""


@dataclass(frozen=True, slots=True)
class _Sinking:
    """A node that can be computed before its inputs are transposed.

    Attributes:
        node: The node.
        perm: The order of the axes that they are given.
        inputs: Its inputs before.
        attributes: Its attributes that change.
    """

    node: ir.Node
    perm: tuple[int, ...]
    inputs: list[ir.Value | None]
    attributes: dict[str, Any] = field(default_factory=dict)


def steps_first(graph: Graph) -> list[tuple[int, ...]]:
    """Return the transposes that put steps first, and those before nodes that could be computed without."""
    return [
        perm
        for node in graph.nodes
        if (perm := _perm(node)) and _turns(node) and (perm[0] != 0 or _is_before_dense(node))
    ]


def _is_before_dense(node: ir.Node) -> bool:
    return any(_sinking(use.node, None) is not None for use in node.outputs[0].uses())


@Pass
def examples_first(graph: Graph) -> None:
    """Compute a net with the examples first: transposes that put steps first go behind what reads them."""
    over_sequences.edit(graph)
    rewriter, is_changed = Rewriter(graph), bool(steps_first(graph))
    for node in list(graph.nodes):
        if (sizes := _joined_steps_first(node)) is not None:
            _join_examples_first(rewriter, node, sizes)
    for node in list(graph.nodes):
        if node.op_type == "Transpose":
            _compose(rewriter, node)
        elif (sinking := _sinking(node, rewriter)) is not None:
            _sink(rewriter, sinking)
    if is_changed:
        prune.edit(graph)
        infer_shapes(graph)


def _turns(node: ir.Node) -> bool:
    """Return whether a node transposes axes of a sequence before the last."""
    perm = _perm(node)
    return len(perm) > 2 and perm[-1] == len(perm) - 1 and list(perm) != sorted(perm)


def _perm(node: ir.Node) -> tuple[int, ...]:
    is_transpose = not node.domain and node.op_type == "Transpose"
    return tuple(attributes_of(node).get("perm") or ()) if is_transpose else ()


# Heads (N, H, L, D) become (L, N, H, D), and then (L, N, E); so do the directions of a recurrent layer,
# (L, 2, N, H), which become (N, L, 2, H), and then (N, L, E).


def _joined_steps_first(node: ir.Node) -> list[int] | None:
    """Return the sizes that heads are joined to the other way round, if a node joins them steps first."""
    before = node.inputs[0].producer() if node.op_type == "Reshape" and node.inputs[0] is not None else None
    shape = node.outputs[0].shape
    if before is None or node.domain or _perm(before) != (2, 0, 1, 3) or shape is None or len(shape) != 3:
        return None
    heads = before.outputs[0].shape
    width = shape[2]
    if heads is None or list(heads)[:2] != list(shape)[:2]:
        return None
    return [0, 0, width] if isinstance(width, int) else None


def _join_examples_first(rewriter: Rewriter, node: ir.Node, sizes: list[int]) -> None:
    """Join heads with the examples first, and put the steps first then."""
    assert node.inputs[0] is not None  # as ``_joined_steps_first`` has it
    before = node.inputs[0].producer()
    assert before is not None
    turned = rewriter.insert(node, "Transpose", [before.inputs[0]], {"perm": [0, 2, 1, 3]})
    shape = rewriter.initializer(ir.Tensor(np.array(sizes, np.int64)), f"{node.name}/sizes")
    joined = rewriter.insert(node, "Reshape", [turned.outputs[0], shape])
    back = rewriter.insert(node, "Transpose", [joined.outputs[0]], {"perm": [1, 0, 2]})
    rewriter.take_over(node.outputs[0], back.outputs[0])


# A transpose goes behind nodes that compute each step by itself, up to one that takes it back.


def _sinking(node: ir.Node, rewriter: Rewriter | None) -> _Sinking | None:
    """Return how a node is computed before its inputs are transposed; None if it cannot be.

    Args:
        node: The node.
        rewriter: Takes the stored inputs that are transposed as well; with None these stay as they are.
    """
    turns = {at: turn for at, value in enumerate(node.inputs) if (turn := _turn_before(value)) is not None}
    perms = {_perm(turn) for turn in turns.values()}
    others = {at: value for at, value in enumerate(node.inputs) if value is not None and at not in turns}
    is_stored = all(value.const_value is not None for value in others.values())
    if node.domain or len(perms) != 1 or not is_stored or len(node.outputs) > 1:
        return None
    (perm,) = perms
    inputs = [turns[at].inputs[0] if at in turns else value for at, value in enumerate(node.inputs)]
    axis = attributes_of(node).get("axis", 0 if node.op_type == "Gather" else -1)
    if node.op_type == "MatMul":
        is_dense = [*turns] == [0] and len(others[1].shape or ()) == 2
        return _Sinking(node, perm, inputs) if is_dense else None
    if perm[0] == 0 and not _is_bias(node, inputs):
        return None  # heads are put before steps in one order by all
    if node.op_type in ROWWISE and [*turns] == [0]:
        return _Sinking(node, perm, inputs) if axis in {-1, len(perm) - 1} else None
    if node.op_type == "Gather" and len(perm) == 3 and 0 <= axis < 2 and others[1].shape == ():
        return _Sinking(node, (0, 1), inputs, {"axis": perm[axis]})
    is_wider = any(len(value.shape or ()) > len(perm) for value in others.values())
    if node.op_type not in POSITIONWISE or is_wider:
        return None
    for at, value in others.items():
        if len(value.shape or ()) > 1 and rewriter is not None:
            inputs[at] = _turned_back(rewriter, value, perm)
    return _Sinking(node, perm, inputs)


def _is_bias(node: ir.Node, inputs: list[ir.Value | None]) -> bool:
    """Return whether a node adds a stored vector to a product."""
    makers = [value.producer() if value is not None else None for value in inputs]
    is_product = any(maker is not None and maker.op_type == "MatMul" for maker in makers)
    return (
        node.op_type == "Add" and is_product and any(len(x.shape or ()) == 1 for x in inputs if x is not None)
    )


def _turn_before(value: ir.Value | None) -> ir.Node | None:
    """Return the transpose that makes a value; inputs of the net are paired by how they are turned."""
    maker = value.producer() if value is not None else None
    return maker if maker is not None and _turns(maker) and not _is_turned_input(maker.inputs[0]) else None


def _turned_back(rewriter: Rewriter, value: ir.Value, perm: tuple[int, ...]) -> ir.Value:
    """Return a stored value as it is before a transpose."""
    assert value.const_value is not None  # as ``_sinking`` has it
    array = value.const_value.numpy()
    array = array.reshape((1,) * (len(perm) - array.ndim) + array.shape).transpose(np.argsort(perm))
    turned = rewriter.initializer(ir.Tensor(np.ascontiguousarray(array)), value.name or "")
    tag_sources(turned, source_keys(value))
    return turned


def _sink(rewriter: Rewriter, sinking: _Sinking) -> None:
    """Compute a node on what is not transposed yet, and transpose its result.

    The node keeps its name where the net does not give its result back, since findings are named by it.
    """
    node, perm = sinking.node, sinking.perm
    attributes = attributes_of(node) | sinking.attributes
    made = rewriter.insert(node, node.op_type, sinking.inputs, attributes).outputs[0]
    result = node.outputs[0]
    shape = result.shape
    if perm != tuple(sorted(perm)):
        turned = rewriter.insert(node, "Transpose", [made], {"perm": list(perm)}).outputs[0]
    else:
        turned = made
    rewriter.take_over(result, turned)
    if shape is not None and turned is not made:
        made.shape = ir.Shape([shape[axis] for axis in np.argsort(perm)])
        if not turned.is_graph_output():
            made.name, turned.name = turned.name, made.name


def _compose(rewriter: Rewriter, node: ir.Node) -> None:
    """Read through a transpose before another one."""
    before = node.inputs[0].producer() if node.inputs[0] is not None else None
    first, second = _perm(before) if before is not None else (), _perm(node)
    if before is None or not second or len(first) != len(second) or first[0] == 0 == second[0]:
        return
    perm = [first[axis] for axis in second]
    node.replace_input_with(0, before.inputs[0])
    node.attributes["perm"] = ir.AttrInt64s("perm", perm)
    if perm == sorted(perm) and before.inputs[0] is not None:
        rewriter.bypass(node, before.inputs[0])


def _is_turned_input(value: ir.Value | None) -> bool:
    return value is not None and value.is_graph_input() and has_one_reader(value)


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
        if x is None or x.shape is None or made is None or not 2 < len(made) <= len(x.shape):
            continue
        is_kept = list(x.shape)[: len(made) - 1] == list(made)[:-1]
        sizes = [*dense.weight.shape.numpy()][:: -1 if dense.has_rows else 1]
        features = list(x.shape)[len(made) - 1 :]
        if is_kept and len(dense.x.shape or ()) == 2 and [_product(features), made[-1]] == sizes:
            yield dense, x, node


def _product(sizes: Sequence[int | ir.SymbolicDim]) -> int | None:
    numbers = [size for size in sizes if isinstance(size, int)]
    return prod(numbers) if len(numbers) == len(sizes) else None


def num_over_rows(graph: Graph) -> int:
    """Return how many dense layers are computed over the rows of a sequence."""
    return sum(1 for _ in _over_rows(graph))


@Pass
def over_sequences(graph: Graph) -> None:
    """Compute dense layers over sequences as they are, not over their rows."""
    rewriter = Rewriter(graph)
    found = list(_over_rows(graph))
    for dense, x, reshape in found:
        leading = len(reshape.outputs[0].shape or ()) - 1
        if len(x.shape or ()) > leading + 1:  # heads, which are joined to features
            shape = np.array([0] * leading + [-1], np.int64)
            sizes = rewriter.initializer(ir.Tensor(shape), f"{reshape.name}/sizes")
            x = rewriter.insert(reshape, "Reshape", [x, sizes]).outputs[0]
            made = reshape.outputs[0].shape
            x.shape = ir.Shape([*list(made or ())[:-1], dense.matrix().shape[0]])
        _compute_on(rewriter, dense, x, reshape)
    if found:
        prune.edit(graph)
        infer_shapes(graph)
