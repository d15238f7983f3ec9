"""Forms in which a right dump may come: other names, another order, other layouts, missing tensors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import numpy as np

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
}
"""Disguises by name."""

OF_SEQUENCES = ("decode", "residual")
"""Those of nets that compute one step after another."""
