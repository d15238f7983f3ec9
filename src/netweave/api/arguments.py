"""Checks of API arguments: a wrong type is reported at the call, not deep inside."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any

from netweave.errors import UsageError, shortened
from netweave.graph import Graph

PHASES = ("TEST", "TRAIN", "VALIDATE")


def check_phase(phase: Any) -> str:
    """Return a phase.

    Raises:
        UsageError: There is no such phase.
    """
    if phase not in PHASES:
        raise UsageError(f"phase is {phase!r}, expected {' or '.join(PHASES)}")
    return str(phase)


def check_shapes(shapes: Any) -> dict[str, tuple[int, ...]]:
    """Return input sizes by name.

    Raises:
        UsageError: The value is not a mapping from names to sizes.
    """
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise UsageError(f"input_shapes is {shapes!r}, expected sizes by name: {{'data': (1, 3, 224, 224)}}")
    for name, sizes in shapes.items():
        listed = isinstance(sizes, Sequence) and not isinstance(sizes, str)
        if not isinstance(name, str) or not listed or not all(_is_size(size) for size in sizes):
            raise UsageError(
                f"input_shapes[{name!r}] is {sizes!r}, expected sizes such as (1, 3, 224, 224), each > 0"
            )
    return {name: tuple(int(size) for size in sizes) for name, sizes in shapes.items()}


def check_names(value: Any, *, what: str) -> list[str]:
    """Return a list of names; a single string is rejected.

    Raises:
        UsageError: The value is a string, or contains something other than strings.
    """
    if isinstance(value, str):
        raise UsageError(f"{what} is the string {value!r}, expected a list of names: [{value!r}]")
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{what} is {value!r}, expected a list of names")
    return list(value)


def check_arrays(value: Any, *, what: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Return arrays by name.

    Raises:
        UsageError: The value is something else, such as an array.
    """
    if not isinstance(value, Mapping):
        example = names[0] if names else "data"
        raise UsageError(
            f"{what} is of type {type(value).__name__}, expected arrays by name: {{{example!r}: array}}"
        )
    return value


def check_text(value: Any, *, what: str, example: str) -> str:
    """Return a name.

    Raises:
        UsageError: The value is no string.
    """
    if not isinstance(value, str):
        raise UsageError(f"{what} is {shortened(repr(value), 60)}, expected a name such as {example!r}")
    return value


def check_tolerance(value: Any) -> float:
    """Return a tolerance.

    Raises:
        UsageError: The value is not a number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value) or value <= 0:
        raise UsageError(f"tolerance is {value!r}, expected a number > 0, such as 0.001")
    return float(value)


def check_count(value: Any, what: str, *, least: int) -> int:
    """Return a whole number.

    Raises:
        UsageError: The value is something else, or is too small.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:
        raise UsageError(f"{what} is {value!r}, expected a whole number >= {least}")
    return int(value)


def check_net(value: Any, *, what: str) -> Any:
    """Return a net: a Graph, the name of a file, or a PyTorch module in memory.

    Raises:
        UsageError: The value is something else.
    """
    torch = sys.modules.get("torch")  # who has a module in memory has loaded PyTorch
    if isinstance(value, Graph | str | Path) or (torch and isinstance(value, torch.nn.Module)):
        return value
    raise UsageError(
        f"{what} is {shortened(repr(value), 60)} ({type(value).__name__}), expected the name of a file, "
        "a Graph, or a PyTorch nn.Module"
    )


def check_nets(values: Any, *, least: int, named: bool = False) -> list[Any]:
    """Return several nets as a list; ``named`` ones may be pairs of a name and a net.

    Raises:
        UsageError: The value is one net, or holds something that is none, or too few.
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise UsageError(f"nets is {shortened(repr(values), 60)}, expected a list of nets: [a, b]")
    if len(values) < least:
        raise UsageError(f"nets has {len(values)} entries, expected at least {least}: [a, b]")
    nets = [value[1] if named and isinstance(value, tuple) and len(value) == 2 else value for value in values]
    return [check_net(net, what=f"nets[{index}]") for index, net in enumerate(nets)]


def check_file(value: Any, *, what: str) -> Path:
    """Return the name of a file.

    Raises:
        UsageError: The value is neither a string nor a path.
    """
    if not isinstance(value, str | Path):
        raise UsageError(f"{what} is of type {type(value).__name__}, expected the name of a file")
    return Path(value)


def check_graph(value: Any) -> Graph:
    """Return a net.

    Raises:
        UsageError: The value is something else, such as a file name.
    """
    if not isinstance(value, Graph):
        raise UsageError(
            f"the net is of type {type(value).__name__}, expected a Graph: netweave.load reads one from files"
        )
    return value


def _is_size(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__") and int(value) > 0


def data_paths(data: Mapping[str, str | Path] | str | Path | None) -> dict[str, str]:
    """Return paths of records by phase; what is given for all phases is under ``""``."""
    paths = {"": data} if isinstance(data, str | Path) else data or {}
    return {phase: str(path) for phase, path in paths.items()}
