"""Masks of attention: what is computed from sizes alone, and what it lets a query see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import NetweaveError
from netweave.graph import infer_shapes
from netweave.graph.passes.rewriting import Pass, Rewriter, prune
from netweave.graph.passes.scaffolding import has_scaffolding, see_through
from netweave.graph.passes.windows import specialise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph

NEVER = -1e4
"""Largest number that takes a score out when added to it: e to its power is 0 in float32."""

MANY = 29
"""So many steps are taken where their number is open: enough to tell a causal mask from one of a window."""

BROADCASTING = frozenset({"Add", "And", "Mul", "Or", "Sub", "Where"})
"""Operators that repeat a value of size 1 along an axis to the size of another one."""


class Masks:
    """The values of a graph that are computed from sizes alone, as numbers.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[str, ir.Value] | None = None

    def numbers(self, value: ir.Value) -> np.ndarray | None:
        """Return what a value is for inputs of some sizes, if their numbers do not count."""
        if self._known is None:
            self._known = self._folded()
        known = self._known.get(value.name or "")
        return None if known is None or known.const_value is None else known.const_value.numpy()

    def _folded(self) -> dict[str, ir.Value]:
        shapes = {value.name or "": self._sizes(value) for value in self._graph.inputs}
        try:
            folded = see_through(specialise(self._graph, shapes))
        except NetweaveError:
            return {}
        values = folded.values()
        return values | {name: values[to] for name, to in folded.aliases.items() if to in values}

    def _sizes(self, value: ir.Value) -> list[int]:
        """Return sizes of an input: those that are known, those declared, or others."""
        declared = self._graph.declared.get(value.name or "") or [None] * len(value.shape or ())
        return [
            next((each for each in (size, given) if isinstance(each, int)), 2 if axis == 0 else MANY)
            for axis, (size, given) in enumerate(zip(value.shape or (), declared, strict=True))
        ]


@Pass
def store_masks(graph: Graph) -> None:
    """Store what exporters compute from sizes alone for each example, if it is the same for all of them."""
    if not has_scaffolding(graph):
        return
    rewriter, masks = Rewriter(graph), Masks(graph)
    is_changed = False
    for value in dict.fromkeys(_ends(graph)):
        numbers = masks.numbers(value)
        if numbers is None or not len(numbers) or (numbers != numbers[:1]).any():
            continue
        stored = rewriter.initializer(ir.Tensor(numbers[:1]), f"{value.name}/stored")
        ir.convenience.replace_all_uses_with(value, stored)
        is_changed = True
    if is_changed:
        prune.edit(graph)
        infer_shapes(graph)


def _ends(graph: Graph) -> Iterator[ir.Value]:
    """Yield the values computed from sizes alone that nodes read beside values of the same open batch."""
    of_sizes: set[ir.Value] = set()
    for node in graph.nodes:
        read = [value for value in node.inputs if value is not None and value.const_value is None]
        if node.op_type in {"Shape", "Size"} or (read and of_sizes.issuperset(read)):
            of_sizes.update(node.outputs)
    for value in of_sizes:
        if value.is_graph_output() or value.shape is None or len(value.shape) < 2:
            continue
        batch, *rest = value.shape
        readers = [use.node for use in value.uses()]
        is_end = any(not of_sizes.issuperset(reader.outputs) for reader in readers)
        is_open = not isinstance(batch, int) and all(isinstance(size, int) for size in rest)
        if (
            is_end
            and is_open
            and all(of_sizes.issuperset(r.outputs) or _broadcasts(r, value) for r in readers)
        ):
            yield value


def _broadcasts(node: ir.Node, value: ir.Value) -> bool:
    """Return whether another input of a node has the batch that a value has."""
    others = [each.shape for each in node.inputs if each is not None and each is not value]
    shape = value.shape
    return node.op_type in BROADCASTING and any(
        other is not None and shape is not None and len(other) == len(shape) and other[0] == shape[0]
        for other in others
    )


def stored(mask: ir.Value | np.ndarray | None) -> np.ndarray | None:
    """Return the numbers of a mask; None where inputs decide them."""
    if isinstance(mask, ir.Value):
        return mask.const_value.numpy() if mask.const_value is not None else None
    return mask


def has_causal_form(mask: np.ndarray) -> bool:
    """Return whether a mask takes out of each row the keys behind the query, and nothing else."""
    steps = mask.shape[-1] if mask.ndim >= 2 else 0
    if steps < 2 or mask.shape[-2] != steps or mask.size != steps * steps:
        return False
    square, allowed = mask.reshape(steps, steps), np.tri(steps, dtype=np.bool_)
    return bool((square[allowed] == 0).all() and (square[~allowed] <= NEVER).all())
