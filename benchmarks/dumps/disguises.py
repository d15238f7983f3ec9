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


DISGUISES: dict[str, Callable[[Dump], Disguised]] = {
    "plain": _plain,
    "shuffled": _shuffled,
    "third": _every_third_missing,
    "transposed": _each(_transposed),
    "packed": _each(_packed),
    "bfloat16": _each(_bfloat16),
}
"""Disguises by name."""
