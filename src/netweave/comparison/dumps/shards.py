"""Tensors of a dump that ranks or steps of a run share, joined by trial, and fused ones, taken apart."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, permutations, product
from math import gcd

import numpy as np

from netweave.comparison.dumps.tensors import TensorIndex, alike, comparable_arrays
from netweave.comparison.metric import Signals, constants_of

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


MAX_FUSED = 3
"""Layers that are computed at once: queries, keys and values, or a gate and its factor."""

MAX_HEADS = 64
"""Heads of a fused tensor, each with its queries, keys and values."""

Split = tuple[int, tuple[int, ...]]
"""A way to take a fused tensor apart: the heads, and the features that each part has in a head."""


def projections_of(signals: Signals) -> list[list[str]]:
    """Return the signals that another implementation may compute at once: dense layers that read the same.

    What a dense layer computes is one with its bias; what is split is all its parts.
    """
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    sources: dict[str, tuple[str, str]] = {}
    for node in signals.nodes:
        read, made = signals.inputs_of(node), signals.outputs_of(node)
        if node.op_type in {"MatMul", "Gemm"} and len(read) == 1 and made:
            sources[made[0]] = read[0], made[0]
        elif node.op_type == "Add" and len(read) == 1 and read[0] in sources and constants_of(node):
            sources[made[0]] = sources[read[0]]
        elif node.op_type == "Split" and 1 < len(made) <= MAX_FUSED and read:
            groups[made[0]] = {name: name for name in made}
            continue
        else:
            continue
        source, first = sources[made[0]]
        groups[source][first] = made[0]
    rows = [list(group.values()) for group in groups.values()]
    return [row for row in rows if len(row) > 1]


def take_apart(
    arrays: Arrays, values: Arrays, groups: Sequence[Sequence[str]], *, tolerance: float
) -> dict[str, np.ndarray]:
    """Return a dump with fused tensors in parts that are tensors of the net, ``NAME[first:last]``.

    Args:
        arrays: The dump.
        values: What the net computes.
        groups: Signals that may be computed at once, of each layer.
        tolerance: Largest error that counts as rounding.

    The parts follow each other, in the whole tensor or in each head. A way to take it apart is right if one
    part is a tensor of the net. Where none is, the tensor may be wrong: it is taken apart as others of its
    size are, or else so that its parts resemble those of the net. What resembles none stays whole.
    """
    known = comparable_arrays({name: values[name] for group in groups for name in group if name in values})
    index = TensorIndex(known, tolerance)
    sets = [[known[name] for name in row] for group in groups for row in _choices(group, known)]
    ways: dict[int, Split] = {}
    found: dict[str, Split] = {}
    left: list[str] = []
    whole = TensorIndex(comparable_arrays(values), tolerance)
    for name, x in arrays.items():
        fitting = [row for row in sets if x.ndim > 1 and sum(part.size for part in row) == x.size]
        if x.dtype != np.float32 or not fitting or whole.find(name, x):
            continue
        splits = _splits(x, fitting)
        right = next((s for s in splits if any(index.find("", y) for y in _parts_of(x, s))), None)
        if right is None:
            left.append(name)
        else:
            found[name] = ways[x.shape[-1]] = right
    for name in left:
        x = arrays[name]
        split = ways.get(x.shape[-1]) or _likeliest(x, _splits(x, sets), known)
        if split is not None:
            found[name] = split
    return {key: y for name, x in arrays.items() for key, y in _named_parts(name, x, found.get(name))}


def _choices(group: Sequence[str], known: Arrays) -> Iterator[list[str]]:
    """Yield the signals of a group, and two of each three that follow each other: keys and values alone."""
    names = [name for name in group if name in known]
    if 1 < len(names) <= MAX_FUSED:
        yield names
    if len(names) > 2:
        yield from (names[i : i + 2] for i in range(len(names) - 1))


def _splits(x: np.ndarray, sets: Sequence[Sequence[np.ndarray]]) -> list[Split]:
    """Return the ways to take a tensor apart into tensors of these sizes, in any order."""
    found: dict[Split, None] = {}
    features = x.shape[-1]
    rows = x.size // features
    for row in sets:
        if sum(part.size for part in row) != x.size or any(part.size % rows for part in row):
            continue
        sizes = [part.size // rows for part in row]
        common = gcd(*sizes)
        for heads in [n for n in range(1, MAX_HEADS + 1) if common % n == 0 and (n == 1 or common // n > 1)]:
            for order in dict.fromkeys(permutations(size // heads for size in sizes)):
                found[heads, order] = None
    return list(found)


def _parts_of(x: np.ndarray, split: Split) -> list[np.ndarray]:
    heads, sizes = split
    ends = np.cumsum(sizes)[:-1]
    parts = np.split(x.reshape(*x.shape[:-1], heads, -1), ends, -1)
    return [np.ascontiguousarray(part).reshape(*x.shape[:-1], -1) for part in parts]


def _likeliest(x: np.ndarray, splits: Sequence[Split], known: Arrays) -> Split | None:
    """Return the way to take a tensor apart in which all parts resemble tensors of the net, the most."""
    best: tuple[float, Split] | None = None
    for split in splits:
        pairs = alike(known, {str(i): part for i, part in enumerate(_parts_of(x, split))})
        likeness = sum(pair.likeness for pair in pairs)
        if len(pairs) == len(split[1]) and (best is None or likeness > best[0]):
            best = likeness, split
    return best[1] if best is not None else None


def _named_parts(name: str, x: np.ndarray, split: Split | None) -> Iterator[tuple[str, np.ndarray]]:
    if split is None:
        yield name, x
        return
    heads, sizes = split
    start = 0
    for size, part in zip(sizes, _parts_of(x, split), strict=True):
        yield f"{name}[{'heads, ' if heads > 1 else ''}{start}:{start + size}]", part
        start += size
