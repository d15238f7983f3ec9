"""Stored arrays by the names that a module has for them: without the prefix of what they were saved from.

``nn.DataParallel`` puts ``module.`` before each name, Lightning the attribute of the net (``model.``),
and a net that is a part of another one has the names of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COUNTERS = "num_batches_tracked"
"""Batches that a BatchNorm has seen, which old files lack and no net reads."""

DEEPEST = 3
"""A prefix has at most so many parts."""


@dataclass(frozen=True, slots=True)
class Match:
    """Stored arrays by a module's names.

    Attributes:
        arrays: The arrays.
        note: What to tell the user; empty if the names are the module's.
    """

    arrays: Mapping[str, Any]
    note: str = ""


def match_names(arrays: Mapping[str, Any], own: Mapping[str, Sequence[int]]) -> Match:
    """Return stored arrays by a module's names: the same ones if no prefix makes all of them fit.

    Args:
        arrays: The arrays, by the names in the file.
        own: Sizes of the module's arrays, by its names.
    """
    if _fits(arrays, own):
        return Match(arrays)
    for prefix in _prefixes(arrays):
        inner = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
        if _fits(inner, own):
            others = [name for name in arrays if not name.startswith(prefix)]
            left = f"; {len(others)} others ({', '.join(others[:3])}, ...) are not" if others else ""
            return Match(inner, f"the arrays under {prefix!r} are used{left}")
    for prefix in _prefixes(own):
        outer = {f"{prefix}{name}": array for name, array in arrays.items()}
        if _fits(outer, own):
            return Match(outer, f"the arrays are those of the module's part {prefix!r}")
    return Match(arrays)


def _fits(arrays: Mapping[str, Any], own: Mapping[str, Sequence[int]]) -> bool:
    """Return whether there is an array of the right size for each of a module's own."""
    return all(
        name in arrays and tuple(arrays[name].shape) == tuple(shape)
        for name, shape in own.items()
        if not name.endswith(COUNTERS)
    )


def _prefixes(names: Mapping[str, Any]) -> list[str]:
    """Return what names begin with, up to a dot, short ones first."""
    found: dict[str, None] = {}
    for depth in range(1, DEEPEST + 1):
        for name in names:
            parts = name.split(".")
            if len(parts) > depth:
                found[".".join(parts[:depth]) + "."] = None
    return list(found)
