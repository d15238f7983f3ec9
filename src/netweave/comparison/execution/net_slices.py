"""Cutting a net into slices of consecutive nodes, none of which makes more than a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph.costs import num_bytes
from netweave.graph.operators import effects_of
from netweave.graph.uses import needed_nodes, reads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.comparison.execution.memory_budget import MemoryBudget
    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class NetSlice:
    """Some consecutive nodes of a net.

    Attributes:
        inputs: Names of the values that they read and do not make.
        outputs: Names of the values to return: those wanted, and those that later slices read.
        boundary: The latter.
        num_bytes: Estimate of the bytes of all values that they make.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    boundary: frozenset[str]
    num_bytes: int


def cut_net(
    graph: Graph, wanted: Mapping[str, ir.Value], *, batch: int, max_bytes: int | None
) -> list[NetSlice]:
    """Cut a net into slices, in topological order; into one if it fits, or cannot be cut.

    A slice of one node may be larger. A net with random operators is never cut: computed again, they would
    give other values.

    Args:
        graph: The net, with its shapes inferred.
        wanted: The values to compute, by name.
        batch: What the open batch is.
        max_bytes: Most bytes of the values of a slice; None for any number.
    """
    needed = needed_nodes(wanted.values())
    nodes = [node for node in graph.nodes if node in needed]
    sizes = node_bytes(nodes, batch)
    parts = [nodes]
    if max_bytes is not None and sum(sizes) > max_bytes and _can_be_cut(nodes):
        parts = _parts(nodes, sizes, max_bytes)
    bytes_of = dict(zip(nodes, sizes, strict=True))
    return _bounded(parts, set(wanted.values()), bytes_of)


def check_budget(graph: Graph, wanted: Mapping[str, ir.Value], *, batch: int, budget: MemoryBudget) -> None:
    """Check, before a net is run, that each of its nodes can be run within a budget.

    Args:
        graph: The net, with its shapes inferred.
        wanted: The values to compute, by name.
        batch: What the open batch is.
        budget: The budget.

    Raises:
        UsageError: The largest node does not fit; of a net that cannot be cut, all its nodes.
    """
    needed = needed_nodes(wanted.values())
    nodes = [node for node in graph.nodes if node in needed]
    if not budget.is_promised or not nodes:
        return
    made = node_bytes(nodes, batch)
    read = [sum(num_bytes(value, batch) for value in reads(node)) for node in nodes]
    largest = max(range(len(nodes)), key=lambda index: made[index] + read[index])
    tensors = [num_bytes(value, batch) for node in nodes for value in node.outputs]
    budget.check(
        node=graph.place_of(nodes[largest]),
        node_bytes=made[largest] + read[largest] if _can_be_cut(nodes) else sum(made),
        tensor_bytes=max(tensors, default=0),
    )


def node_bytes(nodes: Sequence[ir.Node], batch: int) -> list[int]:
    """Return what each node makes, in bytes; of unknown size, as much as the largest value that it reads."""
    known: dict[ir.Value, int] = {}
    sizes = []
    for node in nodes:
        largest = max((known.get(value, 0) for value in reads(node)), default=0)
        for value in node.outputs:
            known[value] = num_bytes(value, batch) or largest
        sizes.append(sum(known[value] for value in node.outputs if value.name))
    return sizes


def _can_be_cut(nodes: Sequence[ir.Node]) -> bool:
    """Return whether every value can be handed from one slice to the next, and comes out the same again."""
    values = [value for node in nodes for value in node.outputs if value.name]
    return all(isinstance(value.type, ir.TensorType) for value in values) and not any(map(effects_of, nodes))


def _parts(nodes: Sequence[ir.Node], sizes: Sequence[int], max_bytes: int) -> list[list[ir.Node]]:
    parts: list[list[ir.Node]] = []
    filled = max_bytes
    for node, size in zip(nodes, sizes, strict=True):
        if not parts or filled + size > max_bytes:
            parts.append([])
            filled = 0
        parts[-1].append(node)
        filled += size
    return parts


def _bounded(
    parts: Sequence[Sequence[ir.Node]], wanted: set[ir.Value], bytes_of: Mapping[ir.Node, int]
) -> list[NetSlice]:
    slices: list[NetSlice] = []
    read_later: set[ir.Value] = set()
    for nodes in reversed(parts):
        outputs = [value for node in nodes for value in node.outputs]
        inside = set(outputs)
        read = dict.fromkeys(value for node in nodes for value in reads(node))
        outside = [v for v in read if v not in inside and not v.is_initializer()]
        slices.append(
            NetSlice(
                inputs=tuple(str(value.name) for value in outside),
                outputs=tuple(str(v.name) for v in outputs if v in wanted or v in read_later),
                boundary=frozenset(str(v.name) for v in outputs if v in read_later),
                num_bytes=sum(bytes_of[node] for node in nodes),
            )
        )
        read_later.update(outside)
    return slices[::-1]
