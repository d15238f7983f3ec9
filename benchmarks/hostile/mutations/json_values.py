"""Damage to JSON: values of another kind or size, keys that are missing, renamed or exchanged."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from benchmarks.hostile.mutations.text import mutate_text

if TYPE_CHECKING:
    import random

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, 2**31, 2**40, 2**63, -(2**63), 10**400, 0.5,
    -0.0, 1e308, float("inf"), float("nan"), "", "x", "0", "-1", "None", "(1,", "(2147483648, 1)", "../x",
    "\0", "\ud800", "\x1b[2J", "y" * 3000,
    [], {}, [[]], [0], [-1], [1, 2, 3], [None], [0, 2**47, 2**47], [1] * 70,
    {"": {}}, {"class_name": "Dense", "config": {}}, "9" * 5000,
)  # fmt: skip


def mutate_json(rng: random.Random, content: bytes) -> bytes:
    """Return a document with some values changed; one that is no JSON is damaged as a text."""
    try:
        value = json.loads(content)
    except ValueError:
        return mutate_text(rng, content)
    if rng.random() < 0.15:
        return mutate_text(rng, content)
    holder = [value]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        edit_value(rng, holder)
    try:
        return json.dumps(holder[0] if holder else None).encode("utf-8", "surrogatepass")
    except RecursionError:  # deep edits inside of deep edits
        return mutate_text(rng, content)


def edit_value(rng: random.Random, holder: list[Any] | dict[str, Any]) -> None:
    """Change something in a list or an object, at any depth."""
    container: Any = holder
    while True:
        keys = list(container) if isinstance(container, dict) else range(len(container))
        if not keys:
            return
        key = rng.choice(keys)
        inner = container[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.85:
            container = inner
            continue
        break
    _edit(rng, container, key)


def _edit(rng: random.Random, container: Any, key: Any) -> None:
    match rng.choice(("change",) * 5 + ("delete", "repeat", "exchange", "rename", "wrap", "deep")):
        case "change":
            container[key] = copy.deepcopy(rng.choice(VALUES))
        case "delete":
            del container[key]
        case "repeat" if isinstance(container, list):
            container[key:key] = [container[key]] * rng.choice((1, 2, 100))
        case "rename" if isinstance(container, dict):
            container[rng.choice((*container, "x", "config", "name"))] = container.pop(key)
        case "exchange":
            other = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
            container[key], container[other] = container[other], container[key]
        case "deep":
            depth = rng.choice((3, 99, 101, 900))
            container[key] = _nested(container[key] if depth < 100 else 0, depth)
        case _:
            container[key] = rng.choice(([container[key]], {"x": container[key]}, [container[key]] * 3))


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value
