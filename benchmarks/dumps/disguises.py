"""Forms in which a right dump may come: other names, another order, other layouts, missing tensors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.decoders.ports import SPELLINGS

Dump = dict[str, np.ndarray]

Disguised = tuple[Dump, dict[str, str]]
"""The tensors, and the names that they have in the whole dump."""


def _is_kept(name: str) -> bool:
    return name.startswith("input")


def _named(items: Iterable[tuple[str, str, np.ndarray]]) -> Disguised:
    rows = list(items)
    return {new: x for new, _, x in rows}, {new: old for new, old, _ in rows}


def _plain(dump: Dump) -> Disguised:
    return _named((name, name, x) for name, x in dump.items())


def _shuffled(dump: Dump) -> Disguised:
    items = list(dump.items())
    random.Random(1).shuffle(items)
    return _named((name if _is_kept(name) else f"t{i}", name, x) for i, (name, x) in enumerate(items))


def _every_third_missing(dump: Dump) -> Disguised:
    items = enumerate(dump.items())
    return _named((name, name, x) for i, (name, x) in items if i % 3 != 1 or name.startswith(("in", "out")))


def _each(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Dump], Disguised]:
    def disguise(dump: Dump) -> Disguised:
        rows = ((name, x) for name, x in dump.items())
        return _named((n, n, x if _is_kept(n) or x.dtype != np.float32 else change(x)) for n, x in rows)

    return disguise


def _transposed(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if x.ndim in {3, 4} else x


def _packed(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1]) if x.ndim == 3 else x


def _bfloat16(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def _parted(
    count: int, pattern: str, axis: Callable[[np.ndarray], int] | None
) -> Callable[[Dump], Disguised]:
    """Return a disguise in which tensors are in parts, of ranks or of steps; without an axis each has all."""

    def disguise(dump: Dump) -> Disguised:
        rows = []
        for name, x in dump.items():
            is_whole = axis is None or (axis is _features and (_is_kept(name) or x.dtype != np.float32))
            parts = [x] * count if is_whole else np.array_split(x, count, axis(x) if axis else 0)
            rows += [(pattern.format(i) + name, name, np.array(part)) for i, part in enumerate(parts)]
        return _named(rows)

    return disguise


def _features(x: np.ndarray) -> int:
    return 1 if x.ndim == 4 else x.ndim - 1


def _time(x: np.ndarray) -> int:
    return 2 if x.ndim == 4 else min(1, x.ndim - 1)


def _split_residual(dump: Dump) -> Disguised:
    """Return the output of each block in two parts, as what the next norm adds."""
    rows: list[tuple[str, str, np.ndarray]] = []
    for name, x in dump.items():
        is_block = name.rpartition(".")[2].isdigit() and x.dtype == np.float32
        inner = [y for key, y in dump.items() if key.startswith(f"{name}.") and y.shape == x.shape]
        if is_block and inner:
            rows += [(f"{name}.0", name, inner[-1]), (f"{name}.1", name, x - inner[-1])]
        else:
            rows.append((name, name, x))
    return _named(rows)


FUSED = [
    (tuple(spelling.names[part] for part in parts), spelling.names[whole])
    for spelling in SPELLINGS.values()
    for parts, whole in (("qkv", "qkv"), (("gate", "up"), "gate_up"))
]
FUSED += [(tuple("qkv"), "qkv"), (("to_x", "to_gate"), "in_proj"), (("to_step", "to_b", "to_c"), "x_proj")]
"""Names of layers that read the same, and the name of the layer that computes them at once."""


def _fused(dump: Dump) -> Disguised:
    """Return a dump in which layers that read the same are one tensor."""
    rows = {name: (name, name, x) for name, x in dump.items()}
    for parts, whole in FUSED:
        for name in [name for name in dump if name.rpartition(".")[2] == parts[0] and name in rows]:
            stem = name.rpartition(".")[0]
            names = [f"{stem}.{part}" for part in parts]
            if all(key in rows and dump[key].shape[:-1] == dump[name].shape[:-1] for key in names):
                joined = np.concatenate([dump[key] for key in names], -1)
                rows[name] = f"{stem}.{whole}", name, joined
                for key in names[1:]:
                    del rows[key]
    return _named(rows.values())


def _apart(dump: Dump) -> Disguised:
    """Return a dump in which a layer that computes several things at once is several tensors."""
    wholes = {whole: parts for parts, whole in FUSED}
    rows: list[tuple[str, str, np.ndarray]] = []
    for name, x in dump.items():
        stem, _, own = name.rpartition(".")
        parts = wholes.get(own, ())
        sizes = _shares(x.shape[-1], len(parts)) if parts and x.ndim == 3 else ()
        ends = np.cumsum(sizes)[:-1]
        if sizes:
            split = zip(parts, np.split(x, ends, -1), strict=True)
            rows += [(f"{stem}.{part}", name, y.copy()) for part, y in split]
        else:
            rows.append((name, name, x))
    return _named(rows)


def _shares(size: int, count: int) -> tuple[int, ...]:
    """Return the features of each part: heads of 16 features, of which keys and values have two of four."""
    known = {(128, 3): (64, 32, 32), (20, 3): (4, 8, 8)}
    return known.get((size, count), (size // count,) * count if size % count == 0 else ())


CUT = 4
"""Steps by which the second sequence is shorter than the first."""


def _of_lengths(
    dump: Dump, put: Callable[[list[np.ndarray]], np.ndarray]
) -> Iterable[tuple[str, np.ndarray]]:
    """Yield tensors of two sequences of which the second lacks its last steps, put together."""
    batch, steps = next(x.shape for x in dump.values() if x.dtype.kind == "i")
    for name, x in dump.items():
        flat = x.ndim > 1 and x.shape[0] == batch * steps
        rows = x.reshape(batch, steps, *x.shape[1:]) if flat else x
        axis = next((i for i in (1, 2) if rows.ndim > i and rows.shape[i] == steps), 0)
        if rows.shape[0] != batch or not axis:
            continue
        rows = np.moveaxis(rows, axis, 1)
        joined = put([rows[0], rows[1, : steps - CUT]])
        yield name, joined if flat else np.moveaxis(joined, 1, axis) if joined.ndim == rows.ndim else joined


def _padded(dump: Dump) -> Disguised:
    """Return a dump of sequences with padding at the left, whose values there are anything."""
    random_values = np.random.default_rng(0)

    def put(sequences: list[np.ndarray]) -> np.ndarray:
        rows = np.zeros((2, len(sequences[0]) + 2, *sequences[0].shape[1:]), sequences[0].dtype)
        if rows.dtype.kind == "f":
            rows[:] = random_values.standard_normal(rows.shape)
        for row, sequence in zip(rows, sequences, strict=True):
            row[len(row) - len(sequence) :] = sequence
        return rows

    shown, names = _named((name, name, x) for name, x in _of_lengths(dump, put))
    steps = next(x.shape[1] for x in dump.values() if x.dtype.kind == "i")
    mask = np.ones((2, steps + 2), np.int64)
    mask[0, :2] = mask[1, : CUT + 2] = 0
    return shown | {"input.attention_mask": mask}, names


def _one_after_another(dump: Dump) -> Disguised:
    """Return a dump of sequences that follow each other without padding, with their starts."""
    shown, names = _named((name, name, x) for name, x in _of_lengths(dump, np.concatenate))
    steps = next(x.shape[1] for x in dump.values() if x.dtype.kind == "i")
    return shown | {"cu_seqlens": np.array([0, steps, 2 * steps - CUT], np.int32)}, names


def _float8(x: np.ndarray) -> np.ndarray:
    """Return values with 4 significant bits, as float8 (e4m3) has, and a scale that is a power of two."""
    largest = float(np.abs(x).max())
    if not largest:
        return x
    smallest = 2.0 ** (np.floor(np.log2(448 / largest)) * -1 - 6)
    unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), smallest))) - 3)
    return (np.round(x / unit) * unit).astype(np.float32)


def _prefill(dump: Dump) -> Disguised:
    """Return a dump of a prefill and of three steps of one token."""
    rows = []
    for name, x in dump.items():
        axis = _time(x)
        ends = [x.shape[axis] * i // 16 for i in (13, 14, 15)]
        parts = np.split(x, ends, axis)
        rows += [(f"step{i}/{name}", name, np.array(part)) for i, part in enumerate(parts)]
    return _named(rows)


DISGUISES: dict[str, Callable[[Dump], Disguised]] = {
    "plain": _plain,
    "shuffled": _shuffled,
    "third": _every_third_missing,
    "transposed": _each(_transposed),
    "packed": _each(_packed),
    "bfloat16": _each(_bfloat16),
    "ranks": _parted(2, "rank{}/", None),
    "sharded-2": _parted(2, "TP{}_PP0/", _features),
    "sharded-4": _parted(4, "rank={}/", _features),
    "decode": _parted(3, "step{}/", _time),
    "residual": _split_residual,
    "fused": _fused,
    "apart": _apart,
    "padded": _padded,
    "sequences": _one_after_another,
    "float8": _each(_float8),
    "prefill": _prefill,
}
"""Disguises by name."""

OF_SEQUENCES = ("decode", "residual", "padded", "sequences", "prefill")
"""Those of nets that compute one step after another."""
