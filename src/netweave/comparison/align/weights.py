"""Weights as evidence: which nodes of two nets hold the same filters.

A fingerprint of a filter bank is the ratio of its L1 to its L2 norm per output channel, sorted: it does not
change with layout, channel order or a scale per channel (a folded BatchNorm), and one changed weight moves
one entry of it only.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.signals import family_of, is_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

# Folding a BatchNorm in float32 moves a fingerprint by 1e-7, storage in half precision by 1e-5 (3e-5 for
# filters of 27 weights, which are not matched). Above lie unrelated filters of one shape: of 24 random
# banks of 512 x 512, the nearest two differ by 1.6e-4. bfloat16 moves it by up to 3e-4 and 8 bits by up to
# 1e-3, so that weights stored so cannot be told from unrelated ones by this number.
SAME_FINGERPRINT = 2e-5
"""Largest median difference of two fingerprints of the same weights, relative to their mean."""

# Of 270 pairs with up to 8 of 64 filters replaced, one entry misses 5 and three miss none. Nine leave a
# margin; the candidates to be looked at grow with the entries (nine: an eighth of all pairs of 150 random
# banks).
NUM_ENTRIES = 9
"""Entries of a fingerprint that candidates are looked for by."""


def filters_of(node: ir.Node) -> np.ndarray | None:
    """Return a node's main weights as (output channel, input channel, space ...); None if it has none.

    For a grouped convolution the input channels are those of one group.
    """
    weight = _main_weight(node)
    if weight is None or weight.const_value is None:
        return None
    return outputs_first(node, weight.const_value.numpy())


def filter_shape(node: ir.Node) -> tuple[int, ...] | None:
    """Return the shape that ``filters_of`` would have, without reading the weights."""
    weight = _main_weight(node)
    if weight is None or weight.const_value is None:
        return None
    shape = tuple(int(size) for size in weight.const_value.shape.numpy())
    return outputs_first(node, np.broadcast_to(np.float32(0), shape)).shape


def stand_in(a: ir.Node, b: ir.Node) -> bool:
    """Return whether a node may stand for another.

    Both are of one kind, or one is a dense layer and the other a convolution with its weights.

    A convolution whose window is all that it reads is a dense layer.
    """
    if family_of(a) == family_of(b):
        return True
    shapes = [filter_shape(node) for node in (a, b) if family_of(node) in {"Conv", "dense"}]
    shape_a, shape_b = shapes if len(shapes) == 2 else (None, None)
    return shape_a is not None and shape_b is not None and as_dense(shape_a) == as_dense(shape_b)


def as_dense(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape of filters as those of a dense layer.

    >>> as_dense((10, 8, 3, 3))
    (10, 72)
    """
    return shape[0], prod(shape[1:])


def _main_weight(node: ir.Node) -> ir.Value | None:
    if node.domain or node.op_type not in {"Conv", "ConvTranspose", "Gemm", "MatMul"}:
        return None
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    if weight is not None and is_constant(weight) and weight.shape is not None and len(weight.shape) >= 2:
        return weight
    return None


def outputs_first(node: ir.Node, weight: np.ndarray) -> np.ndarray:
    """Return weights as a node stores them as (output channel, input channel, space ...)."""
    if node.op_type == "ConvTranspose":
        return weight.swapaxes(0, 1)
    if node.op_type == "MatMul":
        return np.moveaxis(weight, -1, 0)
    if node.op_type == "Gemm":
        transposed = node.attributes.get("transB")
        return weight if transposed is not None and transposed.as_int() else weight.T
    return weight


def fingerprint(filters: np.ndarray) -> np.ndarray:
    """Return the sorted ratios of L1 to L2 norm, one per output channel; a dead channel counts 0."""
    rows = filters.reshape(len(filters), -1)
    if rows.dtype.kind == "V":  # bfloat16 and the other types of ml_dtypes, which einsum does not know
        rows = rows.astype(np.float32)
    squares = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    sums = np.abs(rows).sum(axis=1)
    return np.sort(np.where(squares > 0, sums / np.maximum(squares, 1e-30), 0.0))


def match_weights(a: Sequence[ir.Node], b: Sequence[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
    """Return pairs of nodes that hold the same weights, each node in one pair at most.

    A pair must be the best for both sides and clearly better than the second; where several nodes hold the
    same weights (shared ones), they are paired in order if they are as many on both sides.
    """
    buckets_a, buckets_b = _buckets(a), _buckets(b)
    pairs: list[tuple[ir.Node, ir.Node]] = []
    for key in buckets_a.keys() & buckets_b.keys():
        pairs += _match_bucket(buckets_a[key], buckets_b[key])
    place = {id(node): index for index, node in enumerate(a)}
    return sorted(pairs, key=lambda pair: place[id(pair[0])])


def _buckets(nodes: Sequence[ir.Node]) -> dict[tuple[int, int], list[tuple[ir.Node, np.ndarray]]]:
    buckets: dict[tuple[int, int], list[tuple[ir.Node, np.ndarray]]] = defaultdict(list)
    for node in nodes:
        filters = filters_of(node)
        if filters is not None and filters.size > 1:
            buckets[len(filters), filters.size].append((node, fingerprint(filters)))
    return buckets


def _match_bucket(
    a: list[tuple[ir.Node, np.ndarray]], b: list[tuple[ir.Node, np.ndarray]]
) -> list[tuple[ir.Node, ir.Node]]:
    marks_a, members_a = _distinct([mark for _, mark in a])
    marks_b, members_b = _distinct([mark for _, mark in b])
    typical = float(np.abs(marks_a).mean()) + 1e-30
    i, j = _near(marks_a, marks_b, 4 * SAME_FINGERPRINT * typical)
    distance = np.median(np.abs(marks_a[i] - marks_b[j]), axis=1) / typical
    partners, rivals = _nearest(i, j, distance, members_b), _nearest(j, i, distance, members_a)
    pairs = []
    for row, places_a in enumerate(members_a):
        candidates = partners.get(row)
        competing = rivals.get(candidates[0]) if candidates else None
        if candidates is None or competing is None or len(candidates[1]) != len(competing[1]):
            continue
        ranks = {place: rank for rank, place in enumerate(competing[1])}
        pairs += [(a[p][0], b[candidates[1][ranks[p]]][0]) for p in places_a if p in ranks]
    return pairs


def _distinct(marks: Sequence[np.ndarray]) -> tuple[np.ndarray, list[list[int]]]:
    """Return the fingerprints that differ, as rows, and the places at which each of them is."""
    places: dict[bytes, list[int]] = defaultdict(list)
    for place, mark in enumerate(marks):
        places[mark.tobytes()].append(place)
    return np.stack([marks[equal[0]] for equal in places.values()]), list(places.values())


def _near(a: np.ndarray, b: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return candidates (row of a, row of b): near at one of a few entries at least.

    Rows whose median difference is below ``reach`` are near at half of their entries. So not all rows have to
    be compared with all: the entries are sorted and searched.
    """
    keys = []
    for entry in np.unique(np.linspace(0, a.shape[1] - 1, NUM_ENTRIES).astype(np.int64)):
        order = np.argsort(b[:, entry], kind="stable")
        column = b[order, entry]
        low = np.searchsorted(column, a[:, entry] - reach, side="left")
        count = np.searchsorted(column, a[:, entry] + reach, side="right") - low
        rows = np.repeat(np.arange(len(a)), count)
        steps = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        keys.append(rows * len(b) + order[np.repeat(low, count) + steps])
    i, j = np.divmod(np.unique(np.concatenate(keys)), len(b))
    return i, j


def _nearest(
    rows: np.ndarray, others: np.ndarray, distance: np.ndarray, members: Sequence[list[int]]
) -> dict[int, tuple[int, list[int]]]:
    """Return, by row, the nearest other row, and the places of all that are as good as the same, in order."""
    order = np.argsort(rows, kind="stable")
    rows, others, distance = rows[order], others[order], distance[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    nearest = {}
    for start, end in zip(starts, [*starts[1:], len(rows)][: len(starts)], strict=True):
        mine, theirs = distance[start:end], others[start:end]
        least = float(mine.min())
        if least <= SAME_FINGERPRINT:
            same = theirs[mine <= max(4 * least, SAME_FINGERPRINT / 20)]
            nearest[int(rows[start])] = int(same[0]), sorted(p for other in same for p in members[other])
    return nearest
