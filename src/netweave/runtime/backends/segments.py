"""Cutting a graph into parts that a runtime can run and parts that it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from netweave.graph.operators import effects_of
from netweave.graph.uses import reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes that run together.

    Attributes:
        native: Whether the runtime runs them; otherwise the registry's own forwards do.
        nodes: The nodes, in topological order.
        inputs: Values that they read and that something before them makes.
        initializers: Stored values that they read.
        outputs: Values that they make and that are read after them or wanted by the caller.
    """

    native: bool
    nodes: tuple[ir.Node, ...]
    inputs: tuple[ir.Value, ...]
    initializers: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]


def split(
    nodes: Iterable[ir.Node],
    *,
    is_native: Callable[[ir.Node], bool],
    wanted: set[ir.Value],
    max_nodes: int | None = None,
) -> list[Segment]:
    """Cut nodes into the longest segments that can run one after another.

    Nodes move ahead of nodes that they do not depend on, so that there are as few segments as a change
    between runtimes along some path demands; nodes with effects keep their order among themselves.

    Args:
        nodes: The nodes, in topological order.
        is_native: Whether the runtime can run a node.
        wanted: Values that must be outputs of their segments.
        max_nodes: Most nodes in a segment of the runtime's; None for any number. A segment with a value of
            unknown type stays whole, since a value that goes from one to the next needs one.
    """
    levels: dict[ir.Node, int] = {}
    last_effect = 0
    for node in nodes:
        native = is_native(node)
        makers = [value.producer() for value in reads(node)]
        after = [levels[maker] for maker in makers if maker in levels]
        if effects_of(node):
            after.append(last_effect)
        level = max([_aligned(level, native=native) for level in after], default=0 if native else 1)
        if effects_of(node):
            last_effect = level
        levels[node] = level
    members: dict[int, list[ir.Node]] = {}
    for node, level in levels.items():
        members.setdefault(level, []).append(node)
    parts = [
        (level % 2 == 0, part)
        for level in sorted(members)
        for part in _pieces(members[level], max_nodes if level % 2 == 0 else None)
    ]
    return _bounded(parts, wanted)


def _pieces(nodes: list[ir.Node], max_nodes: int | None) -> list[list[ir.Node]]:
    """Cut the nodes of a segment into pieces of about the same number."""
    typed = all(value.type is not None for node in nodes for value in node.outputs if value.name)
    if max_nodes is None or len(nodes) <= max_nodes or not typed:
        return [nodes]
    size = ceil(len(nodes) / ceil(len(nodes) / max_nodes))
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]


def _aligned(level: int, *, native: bool) -> int:
    """Even levels are native and odd ones are not; return the first that is not before ``level``."""
    return level if (level % 2 == 0) == native else level + 1


def _bounded(parts: Sequence[tuple[bool, list[ir.Node]]], wanted: set[ir.Value]) -> list[Segment]:
    needed = set(wanted)
    segments: list[Segment] = []
    for native, nodes in reversed(parts):
        made = [value for node in nodes for value in node.outputs]
        inside = set(made)
        read = dict.fromkeys(value for node in nodes for value in reads(node))
        outside = [value for value in read if value not in inside]
        segments.append(
            Segment(
                native=native,
                nodes=tuple(nodes),
                inputs=tuple(value for value in outside if not value.is_initializer()),
                initializers=tuple(value for value in outside if value.is_initializer()),
                outputs=tuple(value for value in made if value in needed),
            )
        )
        needed.update(outside)
    return segments[::-1]
