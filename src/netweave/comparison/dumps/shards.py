"""Tensors of a dump that several ranks or several steps of a run share, joined by trial."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

import numpy as np

from netweave.comparison.dumps.tensors import TensorIndex, alike, comparable_arrays

RANK = re.compile(r"(?i)(?<![a-z])(?:tp|rank|shard|cuda|gpu|device|worker)[=_:-]?(\d+)")
"""The number of a rank in a name: ``TP0_PP0_Rank0``, ``rank=1``, ``outputs_cuda_0``."""

STEP = re.compile(r"(?i)(?<![a-z])(?:step|pass|forward_pass_id)[=_:-]?(\d+)")
"""The number of a step in a name: ``step=1``, ``Pass00001``, ``step_0``."""

OWN = re.compile(r"(?i)pid\d+|dump_index=\d+")
"""Parts of a name that tell the process or the order, and not the tensor."""

Arrays = Mapping[str, np.ndarray]

Parts = Mapping[tuple[int, int], tuple[str, np.ndarray]]
"""The parts of a tensor, with their names, by step and rank."""


Way = tuple[str | int, int]
"""A way to join parts: the one for ranks, and the axis along which steps follow each other."""


def groups_of(arrays: Arrays) -> dict[str, Parts]:
    """Return the tensors that differ in the number of a rank or a step alone: by step and rank, with names.

    >>> x = np.ones(2)
    >>> {key: list(parts) for key, parts in groups_of({"rank0/h": x, "rank1/h": x, "w": x}).items()}
    {'rank/h': [(0, 0), (0, 1)]}
    """
    found: dict[str, dict[tuple[int, int], tuple[str, np.ndarray]]] = defaultdict(dict)
    for name, x in arrays.items():
        numbers = [int(match[1]) if (match := pattern.search(name)) else 0 for pattern in (STEP, RANK)]
        key = OWN.sub("", name)
        for pattern in (STEP, RANK):
            key = pattern.sub(lambda match: match[0][: match.start(1) - match.start()], key)
        found[key][numbers[0], numbers[1]] = name, x
    return {key: parts for key, parts in found.items() if len(parts) > 1 and _is_whole(list(parts))}


def _is_whole(places: Sequence[tuple[int, int]]) -> bool:
    """Return whether every step has the same ranks."""
    steps, ranks = ({place[i] for place in places} for i in (0, 1))
    return set(places) == set(product(steps, ranks))


def join_inputs(arrays: Arrays) -> dict[str, np.ndarray]:
    """Return a dump with its integers joined: ids are the same on all ranks, and follow in steps."""
    joined = dict(arrays)
    for parts in groups_of({name: x for name, x in arrays.items() if x.dtype.kind in "iu"}).values():
        for _, whole in islice(_joined(parts), 1):
            _put(joined, parts, whole)
    return joined


def join_parts(arrays: Arrays, values: Arrays, *, tolerance: float) -> dict[str, np.ndarray]:
    """Return a dump with the parts of each tensor joined in the way that gives a tensor of the net.

    Args:
        arrays: The dump.
        values: What the net computes.
        tolerance: Largest error that counts as rounding.

    Parts are the same tensor, or follow each other along an axis, or are to be added. Where none of these is
    a tensor of the net, it may be wrong: they are joined as most others of as many axes are, or else as what
    resembles a tensor of the net most. What resembles none stays as it is.
    """
    joined = dict(arrays)
    known = comparable_arrays(values)
    index = TensorIndex(known, tolerance)
    groups = groups_of(comparable_arrays(arrays))
    ways: Counter[tuple[int, Way]] = Counter()
    left = []
    for key, parts in groups.items():
        right = next((whole for whole in _joined(parts) if index.find(key, whole[1])), None)
        if right is None:
            left.append(parts)
        else:
            ways[right[1].ndim, right[0]] += 1
            _put(joined, parts, right[1])
    for parts in left:
        wholes = dict(_joined(parts))
        usual = [way for (rank, way), _ in ways.most_common() if way in wholes and wholes[way].ndim == rank]
        whole = (
            wholes[usual[0]]
            if usual
            else max(wholes.values(), key=lambda x: _likeness(x, known), default=None)
        )
        if whole is not None and (usual or _likeness(whole, known)):
            _put(joined, parts, whole)
    return joined


def _likeness(whole: np.ndarray, known: Arrays) -> float:
    sized = {name: x for name, x in known.items() if x.size == whole.size}
    return max((pair.likeness for pair in alike(sized, {"": whole})), default=0.0)


def _put(arrays: dict[str, np.ndarray], parts: Parts, whole: np.ndarray) -> None:
    """Put a tensor in the place of its parts, under the name of the first."""
    first, *others = (part[0] for part in parts.values())
    arrays[first] = whole
    for name in others:
        arrays.pop(name, None)


def _joined(parts: Parts) -> Iterator[tuple[Way, np.ndarray]]:
    """Yield what parts may be parts of: those of all ranks first, then the steps one after another."""
    steps = sorted({step for step, _ in parts})
    rows = [[parts[place][1] for place in sorted(parts) if place[0] == step] for step in steps]
    num_axes = rows[0][0].ndim
    last_first = [*range(num_axes - 1, -1, -1)]
    of_ranks: list[str | int] = ["same", *last_first, "sum"] if len(rows[0]) > 1 else ["same"]
    for way in of_ranks:
        wholes = [_joined_ranks(row, way) for row in rows]
        if any(whole is None for whole in wholes):
            continue
        if len(wholes) == 1:
            yield from (((way, 0), whole) for whole in wholes if whole is not None)
            continue
        for axis in [*last_first[1:], *last_first[:1]] if num_axes > 2 else last_first[::-1]:
            whole = _concatenated([x for x in wholes if x is not None], axis)
            if whole is not None:
                yield (way, axis), whole


def _joined_ranks(row: Sequence[np.ndarray], way: str | int) -> np.ndarray | None:
    if isinstance(way, int):
        return _concatenated(row, way)
    if any(x.shape != row[0].shape for x in row):
        return None
    if way == "sum":
        return np.asarray(sum(row[1:], row[0]))
    return row[0] if all(np.array_equal(x, row[0]) for x in row) else None


def _concatenated(row: Sequence[np.ndarray], axis: int) -> np.ndarray | None:
    shapes = {x.shape[:axis] + x.shape[axis + 1 :] for x in row if x.ndim > axis}
    return np.concatenate(row, axis) if len(shapes) == 1 and all(x.ndim > axis for x in row) else None
