"""Rotary position embeddings put together again, as one operator.

Code writes ``x * cos + rotate(x) * sin``, joins the two halves that it computed, stacks neighbours or
multiplies complex numbers, of a whole head or of its first features. What such nodes do is found by giving
them numbers, and not by knowing the ways of writing it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from netweave.graph import DOMAIN, OPSET
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.rewriting import Pass, Rewriter, prune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from netweave.graph import Graph

    Compute = Callable[[np.ndarray], np.ndarray]

MOVES = frozenset(
    {
        "Cast", "Concat", "Flatten", "Gather", "Identity", "Neg", "Reshape", "Slice", "Split", "Squeeze",
        "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators that move elements and change their signs."""

SUMS = frozenset({"Add", "Sub"})

MAX_NODES = 24
MAX_ELEMENTS = 1 << 22
"""A rotation has few nodes; and to see what they do, they are computed a few times."""

MAX_TRIED = 3
"""So many values at most are tried for what is rotated."""

TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class _Cone:
    """Nodes that together make one value of an earlier one.

    Attributes:
        x: The earlier value.
        nodes: The nodes in topological order.
        stored: What they read besides.
        angle: What their cosines and sines are computed of; None where these are stored.
    """

    x: ir.Value
    nodes: list[ir.Node]
    stored: list[ir.Value]
    angle: ir.Value | None = None


@dataclass(frozen=True, slots=True)
class _Turn:
    """A rotation of the first features of each position.

    Attributes:
        interleaved: 1 where neighbours are pairs, 0 where halves are.
        rotary_dim: Number of features that are rotated.
        cosines: For each pair, with the axes of what is rotated; of size 1 where all are alike.
        sines: Likewise.
        sign: Of the sines of an angle that is computed.
    """

    interleaved: int
    rotary_dim: int
    cosines: np.ndarray
    sines: np.ndarray
    sign: int = 1


@Pass
def join_rotations(graph: Graph) -> None:
    """Make one RotaryEmbedding of the nodes that compute it on cosines and sines, stored or computed."""
    rewriter = Rewriter(graph)
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    covered: set[ir.Node] = set()
    for node in reversed(list(graph.nodes)):
        if node in covered or node.domain or node.op_type not in {"Add", "Concat", "Reshape"}:
            continue
        for cone in _cones(node, places):
            turn = _turn(cone)
            if turn is None:
                continue
            covered.update(cone.nodes)
            width = (cone.x.shape or (0,))[-1]
            settings = {
                "interleaved": turn.interleaved,
                "rotary_dim": turn.rotary_dim if turn.rotary_dim != width else None,
            }
            if cone.angle is None:
                tables = [
                    _stored(rewriter, table, cone.stored, f"{node.name}/{name}")
                    for name, table in (("cos", turn.cosines), ("sin", turn.sines))
                ]
            else:
                tables = _computed(rewriter, node, cone.angle, turn)
            inputs = [cone.x, *tables]
            rewriter.fuse(cone.nodes, node.outputs[0], "RotaryEmbedding", inputs, settings, domain=DOMAIN)
            break
    if covered:
        prune.edit(graph)


def _computed(rewriter: Rewriter, before: ir.Node, angle: ir.Value, turn: _Turn) -> list[ir.Value]:
    """Return cosines and sines of an angle, with the axes of what is rotated."""
    sizes = rewriter.initializer(
        ir.Tensor(np.array([-1, *turn.cosines.shape[1:]], np.int64)), f"{before.name}/axes"
    )
    placed = rewriter.insert(before, "Reshape", [angle, sizes]).outputs[0]
    batch = (angle.shape or [None])[0]
    placed.shape, placed.type = ir.Shape([batch, *turn.cosines.shape[1:]]), angle.type
    tables = [rewriter.insert(before, op_type, [placed]).outputs[0] for op_type in ("Cos", "Sin")]
    if turn.sign < 0:
        tables[1] = rewriter.insert(before, "Neg", [tables[1]]).outputs[0]
    for table in tables:
        table.shape, table.type = placed.shape, placed.type
    return tables


def _stored(rewriter: Rewriter, table: np.ndarray, sources: list[ir.Value], name: str) -> ir.Value:
    value = rewriter.initializer(ir.Tensor(np.ascontiguousarray(table)), name)
    tag_sources(value, list(dict.fromkeys(key for source in sources for key in source_keys(source))))
    return value


def _cones(root: ir.Node, places: dict[int, int]) -> Iterator[_Cone]:
    """Yield the single values that a node's output is computed of, if it may be a rotation."""
    shape = root.outputs[0].shape
    front = {root.outputs[0]}
    nodes: list[ir.Node] = []
    stored: dict[ir.Value, None] = {}
    tables: list[ir.Node] = []
    angles: set[ir.Value] = set()
    has_product, tried = False, 0
    while front and len(nodes) < MAX_NODES and tried < MAX_TRIED:
        if len(front) == 1 and has_product:
            (x,) = front
            if x.shape is not None and shape is not None and list(x.shape) == list(shape):
                of_tables = sorted(dict.fromkeys(tables), key=lambda each: places.get(id(each), -1))
                angle = next(iter(angles), None)
                yield _Cone(x, [*of_tables, *nodes[::-1]], list(stored), angle)
                tried += 1
        value = max(front, key=lambda each: places.get(id(each.producer()), -1))
        node = value.producer()
        if (
            node is None
            or id(node) not in places
            or node.domain
            or node.op_type not in {*MOVES, *SUMS, "Mul"}
        ):
            return
        read = [each for each in node.inputs if each is not None]
        computed = [each for each in read if each.const_value is None]
        is_product = node.op_type == "Mul"
        if is_product and len(computed) == 2:
            table = next((each for each in map(_table, computed) if each is not None), None)
            if table is None or angles - {table.angle}:
                return
            angles.add(table.angle)
            tables += table.nodes
            stored |= dict.fromkeys(table.stored)
            computed.remove(table.value)
            has_product = True
        if len(computed) != (1 if is_product else 2 if node.op_type in SUMS else len(computed)):
            return
        front -= set(node.outputs)
        front.update(computed)
        stored |= dict.fromkeys(each for each in read if each.const_value is not None)
        has_product |= is_product and any(each not in computed and _size(each) > 1 for each in read)
        nodes.append(node)


@dataclass(frozen=True, slots=True)
class _Table:
    """Cosines or sines that are computed.

    Attributes:
        value: The cosines or sines, repeated and moved.
        angle: What they are of, before anything repeats it.
        nodes: The nodes between.
        stored: What these read besides.
    """

    value: ir.Value
    angle: ir.Value
    nodes: list[ir.Node]
    stored: list[ir.Value]


def _table(value: ir.Value) -> _Table | None:
    """Return the cosines or sines that a value is; None if it is anything else."""
    nodes: list[ir.Node] = []
    stored: list[ir.Value] = []
    angle, is_table = value, False
    while (node := angle.producer()) is not None and not node.domain:
        read = [each for each in node.inputs if each is not None]
        computed = {each for each in read if each.const_value is None}
        is_last = node.op_type in {"Cos", "Sin"}
        if len(computed) != 1 or (node.op_type not in MOVES and not is_last) or (is_last and is_table):
            break
        is_table |= is_last
        (angle,) = computed
        nodes.append(node)
        stored += [each for each in read if each.const_value is not None]
    return _Table(value, angle, nodes, stored) if is_table else None


def _size(value: ir.Value) -> int:
    return value.const_value.size if value.const_value is not None else 0


def _turn(cone: _Cone) -> _Turn | None:
    """Return the rotation that nodes compute; None if they compute anything else."""
    shape, of_angle = (_sizes(value, 1 if cone.angle is None else 2) for value in (cone.x, cone.angle))
    if len(shape) < 2 or not 0 < prod(shape) <= MAX_ELEMENTS:
        return None
    draws = np.random.default_rng(0)
    x = draws.uniform(0.5, 1.5, shape).astype(np.float32)
    angle = draws.uniform(-3, 3, of_angle).astype(np.float32) if cone.angle is not None else None
    compute = _function(cone, angle)
    try:
        turned = compute(x)
        if turned.shape != shape:
            return None
        is_changed = (turned != x).reshape(-1, shape[-1]).any(axis=0)
        rotary_dim = int(is_changed.nonzero()[0].max(initial=-1)) + 1
        rotary_dim += rotary_dim % 2
        turn = _found(compute, x, turned, rotary_dim) if 0 < rotary_dim <= shape[-1] else None
        return turn if turn is None or angle is None else _of_angle(turn, angle)
    except Exception:  # noqa: BLE001 (the evaluator has no type of error of its own)
        return None


def _sizes(value: ir.Value | None, batch: int) -> tuple[int, ...]:
    """Return sizes of a value, with 0 for open ones but the batch."""
    dims = value.shape if value is not None and value.shape is not None else ()
    return tuple(dim if isinstance(dim, int) else batch * (axis == 0) for axis, dim in enumerate(dims))


def _of_angle(turn: _Turn, angle: np.ndarray) -> _Turn | None:
    """Return a rotation by an angle whose cosines and sines are its own; None if they are others."""
    if turn.cosines.size != angle.size or turn.cosines.ndim < angle.ndim:
        return None
    placed = angle.reshape(turn.cosines.shape)
    if not _close(np.cos(placed), turn.cosines):
        return None
    for sign in (1, -1):
        if _close(sign * np.sin(placed), turn.sines):
            return replace(turn, sign=sign)
    return None


def _found(compute: Compute, x: np.ndarray, turned: np.ndarray, rotary_dim: int) -> _Turn | None:
    """Return the rotation of some features that gives what was computed, of halves or of neighbours."""
    for interleaved in (0, 1):
        places = np.arange(rotary_dim)
        first, second = (places[::2], places[1::2]) if interleaved else np.split(places, 2)
        of_first, of_second = np.zeros_like(x), np.zeros_like(x)
        of_first[..., first], of_second[..., second] = 1, 1
        made = compute(of_first)
        cosines, sines = made[..., first], made[..., second]
        expected = x.copy()
        expected[..., first] = x[..., first] * cosines - x[..., second] * sines
        expected[..., second] = x[..., first] * sines + x[..., second] * cosines
        again = compute(of_second)
        is_turn = _close(again[..., first], -sines) and _close(again[..., second], cosines)
        if is_turn and _close(expected, turned) and sines.any():
            return _Turn(interleaved, rotary_dim, _alike(cosines), _alike(sines))
    return None


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() <= TOLERANCE * max(1.0, float(np.abs(b).max())))


def _alike(table: np.ndarray) -> np.ndarray:
    """Return a table with size 1 along the axes in front of the last along which its entries are alike."""
    for axis in range(table.ndim - 1):
        one = table.take([0], axis)
        if (table == one).all():
            table = one
    return table


def _function(cone: _Cone, angle: np.ndarray | None) -> Compute:
    """Return what nodes compute, as a function of the value that they read."""
    from onnx.reference import ReferenceEvaluator  # loaded when first needed: it takes 0.2 s

    graph = onnx.GraphProto(name="rotation")
    graph.node.extend(ir.serde.serialize_node(node) for node in cone.nodes)
    known = {} if cone.angle is None else {cone.angle.name or "": angle}
    for read in (cone.x.name or "", *known):
        graph.input.append(onnx.helper.make_tensor_value_info(read, onnx.TensorProto.FLOAT, None))
    result = cone.nodes[-1].outputs[0].name or ""
    graph.output.append(onnx.helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None))
    for value in cone.stored:
        assert value.const_value is not None  # as ``_cones`` has it
        graph.initializer.append(onnx.numpy_helper.from_array(value.const_value.numpy(), value.name))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    evaluator = ReferenceEvaluator(model)
    name = cone.x.name or ""
    return lambda x: np.asarray(next(iter(evaluator.run(None, {name: x, **known}))))
