"""First values of parameters: the table of fillers, and drawing so that order does not matter.

Every parameter is drawn from a generator of its own, seeded by the Job's seed and the parameter's key, so
that its values depend on nothing else in the net. They are not the numbers that the source would have
drawn, only of the same distribution. To add a filler: a function under ``@filler("source.name")``.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Shape = tuple[int, ...]


IGNORED = "ignored"
"""A filler with a further parameter ``**ignored`` takes settings that it does not use."""

FILLERS: dict[str, Callable[..., np.ndarray]] = {}
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
