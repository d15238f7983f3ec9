"""Non-maximum suppression as in ``graph/ops/boxes``: the building blocks of the bodies.

B tables of P boxes are dealt with at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.onnx.functions.table import LOWEST
from netweave.formats.onnx.functions.tape import Tensor, constant, loop, multi_op, op

if TYPE_CHECKING:
    from collections.abc import Callable


def indices(size: Tensor) -> Tensor:
    """Return 0, 1, 2, ... up to a size, which is a list of one number."""
    return op("Range", constant(0), op("Squeeze", size), constant(1))


def best_first(scores: Tensor, count: Tensor) -> Tensor:
    """Return the numbers of the largest scores of each table, equal ones in their own order."""
    return multi_op("TopK", scores, count, outputs=2, axis=-1)[1]


def rows(table: Tensor, order: Tensor) -> Tensor:
    """Return rows of each table (B, P, columns) in an order (B, K)."""
    sizes = op("Concat", order.sizes(0, 2), table.sizes(-1), axis=0)
    return op("GatherElements", table, op("Expand", order.at(2), sizes), axis=1)


def for_nms(boxes: Tensor) -> Tensor:
    """Return boxes as ``NonMaxSuppression`` takes them: it would turn round one whose corners are swapped.

    Such a box overlaps nothing; it comes out without an area, which overlaps nothing there.
    """
    low, high = boxes.split(2, axis=-1)
    return op("Concat", low, op("Max", low, high), axis=-1)


def greedy(
    boxes: Tensor,
    candidates: Tensor,
    *,
    most: Tensor,
    suppresses: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return which boxes stay, (B, P): the first candidate of each table, as often as there is one.

    Args:
        boxes: (B, P, 4), best first.
        candidates: (B, P).
        most: So many of each table at most.
        suppresses: Given the box that stays (B, 1, 4) and its number (B, 1), says what goes with it, (B, P).
    """
    places = indices(boxes.size(1)).at(0)

    def step(number: Tensor, left: Tensor, stays: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        first = op("ArgMax", left.cast(ir.DataType.INT32), axis=1, keepdims=1)
        taken = op("Equal", places, first) & left
        left = left & ~(taken | suppresses(rows(boxes, first), first))
        return _any(left), [left, stays | taken], []

    none = candidates & ~candidates
    return loop(most, _any(candidates), [candidates, none], step)[1]


def _any(flags: Tensor) -> Tensor:
    return op("ReduceMax", flags.cast(ir.DataType.INT32), keepdims=0).cast(ir.DataType.BOOL)


def masked(flags: Tensor, scores: Tensor) -> Tensor:
    """Return the scores, the lowest number where a flag is off."""
    return op("Where", flags, scores, LOWEST)
