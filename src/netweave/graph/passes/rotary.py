"""Rotary position embeddings put together again: ``x * cos + rotate(x) * sin`` as one operator.

Code writes ``rotate`` by slices, negation and concatenation, and differs in which features are a pair: the
two halves of a head, or neighbours. Which of them it is shows where the elements come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import DOMAIN, known_shape
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.rewriting import Pass, Rewriter, evaluate_node

if TYPE_CHECKING:
    from netweave.graph import Graph

MOVES = frozenset(
    {
        "Concat", "Flatten", "Gather", "Identity", "Neg", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
        "Unsqueeze",
    }
)  # fmt: skip
"""Operators of which rotations are made: they move elements and change their signs."""

MAX_NODES = 16
MAX_ELEMENTS = 1 << 22
"""A rotation has few nodes; and to see where elements come from, each is given a number."""


@dataclass(frozen=True, slots=True)
class _Rotation:
    """A rotation and what it reads.

    Attributes:
        x: What is rotated.
        cosines: Stored factors of it.
        sines: Stored factors of its pairs' other features.
        nodes: All nodes in topological order, the sum last.
        partners: The other feature of each one's pair.
        signs: The sign that it has.
    """

    x: ir.Value
    cosines: ir.Value
    sines: ir.Value
    nodes: list[ir.Node]
    partners: np.ndarray
    signs: np.ndarray


@Pass
def join_rotations(graph: Graph) -> None:
    """Make one RotaryEmbedding of the nodes that compute it on stored cosines and sines."""
    rewriter = Rewriter(graph)
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        rotation = _rotation(node, places) if node.op_type == "Add" and not node.domain else None
        tables = _tables(rotation) if rotation is not None else None
        if rotation is None or tables is None:
            continue
        interleaved, cosines, sines = tables
        stored = [
            _stored(rewriter, cosines, rotation.cosines, f"{node.name}/cos"),
            _stored(rewriter, sines, rotation.sines, f"{node.name}/sin"),
        ]
        settings = {"interleaved": interleaved}
        rewriter.replace(rotation.nodes, "RotaryEmbedding", [rotation.x, *stored], settings, domain=DOMAIN)


def _stored(rewriter: Rewriter, table: np.ndarray, source: ir.Value, name: str) -> ir.Value:
    value = rewriter.initializer(ir.Tensor(np.ascontiguousarray(table)), name)
    tag_sources(value, source_keys(source))
    return value


def _tables(rotation: _Rotation) -> tuple[int, np.ndarray, np.ndarray] | None:
    """Return whether neighbours are pairs, and a cosine and a sine for each pair; None if it turns none."""
    width, partners = len(rotation.partners), rotation.partners
    cosines, sines = (_numbers(value) for value in (rotation.cosines, rotation.sines))
    sines = sines * rotation.signs.astype(sines.dtype)
    for interleaved, firsts in ((0, np.arange(width // 2)), (1, np.arange(0, width, 2))):
        seconds = firsts + (1 if interleaved else width // 2)
        is_paired = np.array_equal(partners[firsts], seconds) and np.array_equal(partners[seconds], firsts)
        is_turn = np.allclose(cosines[..., firsts], cosines[..., seconds]) and np.allclose(
            sines[..., firsts], -sines[..., seconds]
        )
        if is_paired and is_turn:
            return interleaved, cosines[..., firsts], sines[..., seconds]
    return None


def _numbers(value: ir.Value) -> np.ndarray:
    assert value.const_value is not None  # as ``_product`` has it
    return value.const_value.numpy()


def _rotation(add: ir.Node, places: dict[int, int]) -> _Rotation | None:
    """Read ``x * cos + rotate(x) * sin``."""
    products = [_product(value) for value in add.inputs]
    for plain, turned in (products, products[::-1]):
        if plain is None or turned is None:
            continue
        (node, x, cosines), (other, rotated, sines) = plain, turned
        shape = known_shape(x)
        width = shape[-1] if shape else None
        moved = _Origins(x).of(rotated) if width is not None and width % 2 == 0 else None
        if moved is None or width is None or {_width(cosines), _width(sines)} != {width}:
            continue
        partners, signs, moving = moved
        nodes = [*sorted([*moving, node, other], key=lambda each: places.get(id(each), 0)), add]
        if _are_alone(nodes) and all(id(each) in places for each in nodes):
            return _Rotation(x, cosines, sines, nodes, partners, signs)
    return None


def _product(value: ir.Value | None) -> tuple[ir.Node, ir.Value, ir.Value] | None:
    """Return a product, what of it is computed, and what is stored."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "Mul" or node.domain:
        return None
    first, second = node.inputs
    for computed, stored in ((first, second), (second, first)):
        if computed is None or stored is None:
            continue
        if stored.const_value is not None and computed.const_value is None:
            return node, computed, stored
    return None


def _width(stored: ir.Value) -> int | None:
    shape = known_shape(stored)
    return shape[-1] if shape else None


def _are_alone(nodes: list[ir.Node]) -> bool:
    """Return whether nothing but these nodes reads what they make, the last one's output aside."""
    inside = {id(node) for node in nodes}
    return not any(
        value.is_graph_output() or any(id(use.node) not in inside for use in value.uses())
        for node in nodes[:-1]
        for value in node.outputs
    )


class _Origins:
    """Origins of the elements that a few nodes move along the last axis.

    Args:
        x: The value that they move elements of; its batch may be open.
    """

    def __init__(self, x: ir.Value) -> None:
        shape = known_shape(x) or ()
        sizes = [1 if size is None and axis == 0 else size for axis, size in enumerate(shape)]
        known = [size for size in sizes if size is not None]
        self._x = x
        self._numbers: np.ndarray | None = None
        self._made: dict[ir.Value, np.ndarray] = {}
        self._nodes: list[ir.Node] = []
        if len(known) == len(sizes) and 0 < prod(known) <= MAX_ELEMENTS:
            self._numbers = np.arange(1, prod(known) + 1, dtype=np.float32).reshape(known)

    def of(self, value: ir.Value) -> tuple[np.ndarray, np.ndarray, list[ir.Node]] | None:
        """Return which feature each is, with which sign, and the nodes; None if they are not just moved."""
        moved = self._moved(value) if self._numbers is not None else None
        if moved is None or self._numbers is None or moved.shape != self._numbers.shape or not self._nodes:
            return None
        width = moved.shape[-1]
        rows = moved.reshape(-1, width)
        partners = np.abs(rows) - 1 - np.arange(len(rows))[:, None] * width
        signs = np.sign(rows)
        is_same = (partners == partners[0]).all() and (signs == signs[0]).all()
        if not is_same or not np.array_equal(np.sort(partners[0]), np.arange(width)):
            return None
        return partners[0].astype(np.int64), signs[0], self._nodes

    def _moved(self, value: ir.Value) -> np.ndarray | None:
        if value is self._x:
            return self._numbers
        if value in self._made:
            return self._made[value]
        node = value.producer()
        if node is None or node.domain or node.op_type not in MOVES or len(self._nodes) >= MAX_NODES:
            return None
        arrays = []
        for read in node.inputs:
            if read is None:
                continue
            array = read.const_value.numpy() if read.const_value is not None else self._moved(read)
            if array is None:
                return None
            arrays.append(array)
        try:
            outputs = evaluate_node(ir.serde.serialize_node(node), arrays)
        except Exception:  # noqa: BLE001 (the evaluator has no type of error of its own)
            return None
        self._nodes.append(node)
        self._made |= dict(zip(node.outputs, outputs, strict=False))
        return self._made.get(value)
