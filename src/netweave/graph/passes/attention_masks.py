"""Masks of attention that are computed from sizes alone, as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import NetweaveError
from netweave.graph.passes.attention_scores import NEVER
from netweave.graph.passes.scaffolding import see_through
from netweave.graph.passes.specialise import specialise

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.graph.passes.attention_scores import Scores

MANY = 29
"""So many steps are taken where their number is open: enough to tell a causal mask from one of a window."""


class Masks:
    """The masks of a graph that are computed from sizes alone, as numbers.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[str, ir.Value] | None = None

    def settled(self, scores: Scores) -> Scores:
        """Return the core of attention with its mask as numbers, if it is one for all."""
        mask = stored(scores.mask)
        if mask is None and isinstance(scores.mask, ir.Value):
            mask = self._of_sizes(scores.mask)
        if mask is None or (mask.ndim == 4 and (mask != mask[:1]).any()):
            return scores
        if not mask.any():
            return replace(scores, mask=None)
        is_open = isinstance(scores.mask, ir.Value) and scores.mask.const_value is None
        if is_open and not has_causal_form(mask[:1]):
            return scores
        return replace(scores, mask=mask[:1] if mask.ndim == 4 else mask)

    def _of_sizes(self, value: ir.Value) -> np.ndarray | None:
        """Return what a value is for inputs of some sizes, if their numbers do not count."""
        if self._known is None:
            self._known = self._folded()
        found = self._known.get(value.name or "")
        return None if found is None or found.const_value is None else found.const_value.numpy()

    def _folded(self) -> dict[str, ir.Value]:
        shapes = {
            value.name or "": [
                size if isinstance(size, int) else 2 if axis == 0 else MANY
                for axis, size in enumerate(value.shape or ())
            ]
            for value in self._graph.inputs
        }
        try:
            folded = see_through(specialise(self._graph, shapes))
        except NetweaveError:
            return {}
        values = folded.values()
        return values | {name: values[to] for name, to in folded.aliases.items() if to in values}


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
