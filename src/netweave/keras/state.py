"""Settings of a program for all models: the seed, the layout of images, names that are taken."""

from __future__ import annotations

import secrets
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.formats.keras.weights import snake_case

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = ("channels_last", "channels_first")

EPSILON = 1e-7
"""What Keras adds where a number might be zero (``keras.config.epsilon``)."""


class _State:
    def __init__(self) -> None:
        self.image_data_format = FORMATS[0]
        self.seed: int | None = None
        self.drawn = 0
        self.names: Counter[str] = Counter()
        self.prefix = ""


_state = _State()


def image_data_format() -> str:
    """Return which axis of images has the channels where a layer does not say."""
    return _state.image_data_format


def set_image_data_format(data_format: str) -> None:
    """Say where images have their channels if a layer does not: ``channels_last`` or ``channels_first``.

    Raises:
        UsageError: There is no such format.
    """
    if data_format not in FORMATS:
        raise UsageError(f"data_format is {data_format!r}, expected {' or '.join(FORMATS)}")
    _state.image_data_format = data_format


def set_random_seed(seed: int) -> None:
    """Seed all that is drawn from here on: first values, orders of records, dropout."""
    _state.seed, _state.drawn = seed, 0


def next_seed() -> int:
    """Return a seed: the next of the series that ``set_random_seed`` began, or a fresh one."""
    if _state.seed is None:
        return secrets.randbits(31)
    _state.drawn += 1
    return (_state.seed * 1_000_003 + _state.drawn) % (1 << 31)


def unique_name(stem: str) -> str:
    """Return a name for an object: ``dense``, then ``dense_1``."""
    stem = _state.prefix + snake_case(stem)
    number = _state.names[stem]
    _state.names[stem] += 1
    return f"{stem}_{number}" if number else stem


@contextmanager
def names_of_training() -> Iterator[None]:
    """Number names by themselves inside: what a loss is made of takes no names from a user's layers."""
    before = _state.names, _state.prefix
    _state.names, _state.prefix = Counter(), "training_"
    try:
        yield
    finally:
        _state.names, _state.prefix = before


def clear_session() -> None:
    """Begin to number names anew."""
    _state.names.clear()
