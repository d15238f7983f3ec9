"""First values of parameters."""

from __future__ import annotations

import inspect
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from netweave.deferred import Table
from netweave.errors import UsageError
from netweave.formats.dialect import Filler, dialect_of
from netweave.graph import Parameter
from netweave.training.optim.rule import MODULES

# Every parameter is drawn from a generator of its own, seeded by the Job's seed and the parameter's key, so
# that its values depend on nothing else in the net. They are not the numbers that the source would have
# drawn, only of the same distribution. To add a filler: a function under ``@filler("source.name")``.

Shape = tuple[int, ...]


IGNORED = "ignored"
"""A filler with a further parameter ``**ignored`` takes settings that it does not use."""

FILLERS = Table[str, Callable[..., np.ndarray]](__package__, MODULES)
"""The fillers by kind: ``(shape, generator, its settings) -> array`` of any floating-point type."""

F = TypeVar("F", bound=Callable[..., np.ndarray])


def filler(*kinds: str) -> Callable[[F], F]:
    """Enter a filler in the table, under its name and its other names."""

    def enter(function: F) -> F:
        for kind in kinds:
            FILLERS[kind] = function
        return function

    return enter


def fill(kind: str, shape: Shape, settings: Mapping[str, Any], *, key: str, seed: int) -> np.ndarray:
    """Return first values, float32.

    Args:
        kind: Whose filler and which: ``caffe.xavier``.
        shape: Sizes in the source's own layout.
        settings: The filler's own, by the source's names.
        key: Name of the parameter, for its own generator and for messages.
        seed: Of the Job.

    Raises:
        UsageError: There is no such filler, it has no such setting, or it cannot fill this shape.
    """
    if kind not in FILLERS:
        source = kind.partition(".")[0]
        known = ", ".join(sorted(name for name in FILLERS if name.startswith(source + ".")))
        raise UsageError(f"parameter {key!r}: unknown filler {kind!r}; expected one of {known}")
    function = FILLERS[kind]
    takes = inspect.signature(function).parameters
    unknown = [name for name in settings if name not in takes and IGNORED not in takes]
    if unknown:
        known = ", ".join(list(takes)[2:]) or "none"
        raise UsageError(f"parameter {key!r}: filler {kind!r} has no {', '.join(unknown)}; it has: {known}")
    generator = np.random.default_rng([seed, zlib.crc32(key.encode())])
    try:
        return np.asarray(function(shape, generator, **settings), np.float32)
    except ValueError as error:
        raise UsageError(f"parameter {key!r}: filler {kind!r}: {error}") from error


def bilinear(shape: Shape, *, half: int, centre: float) -> np.ndarray:
    """Return the weights of an up-sampling by interpolation: the same square in every channel.

    Args:
        shape: Of square filters.
        half: Elements from one end of a filter to where it reaches 0.
        centre: Position of its top, in units of ``half``.

    Raises:
        ValueError: The shape is not that of square filters.
    """
    if len(shape) != 4 or shape[2] != shape[3]:
        raise ValueError(f"the shape is {shape}, expected 4 axes, the last two equal")
    line = 1.0 - np.abs(np.arange(shape[3]) / half - centre)
    return np.broadcast_to(np.outer(line, line), shape)


def first_values(parameter: Parameter, *, source: str, seed: int) -> np.ndarray:
    """Return the values that a parameter starts training from, float32, in the source's layout.

    Args:
        parameter: Its ``filler`` says how, or the source's rule for its name or role.
        source: The format that its net was read from.
        seed: Of the Job.

    Raises:
        UsageError: There is no such filler, or it cannot fill this parameter.
    """
    rule = dialect_of(source).first_values
    if parameter.filler:
        settings = dict(parameter.filler)
        kind = str(settings.pop("type", "constant"))
        if "init" in settings and settings["init"] is None:  # FusedRNN without one of its own
            settings["init"] = json.dumps(rule.weights)
    elif rule.by_role:
        kind, settings = "constant", {"value": rule.by_role.get(parameter.role, rule.by_role[""])}
    elif rule.weights:
        kind, settings = _by_name(parameter.key, rule.by_name, rule.weights)
    else:
        raise UsageError(
            f"parameter {parameter.key!r} has neither values nor {rule.setting}; set one, or give a weights "
            "file that has the parameter"
        )
    kind = f"{source}.{kind.lower() if rule.ignores_case else kind}"
    return fill(kind, parameter.shape, settings, key=parameter.key, seed=seed)


def _by_name(name: str, patterns: Iterable[tuple[str, Filler]], weights: Filler) -> Filler:
    for pattern, wanted in patterns:
        if re.fullmatch(pattern, name):
            return wanted
    if name.endswith("weight"):
        return weights
    raise UsageError(
        f"parameter {name!r}: MXNet has no default initializer for this name, only for names that end in "
        "weight, bias, gamma or beta; set an initializer for the variable (__init__)"
    )
