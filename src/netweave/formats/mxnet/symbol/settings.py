"""An operator's settings: texts in the file, values of the right type for its reader.

MXNet writes every setting as a text, by the rules of Python's ``str``: ``(3, 3)``, ``True``, ``None``, and,
from Python 2, ``(3L, 3L)``. What a reader did not ask for is known at the end: nothing is skipped silently.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from netweave.errors import ReadError, UnsupportedError
from netweave.files.unknown_names import UnknownLayer, UnknownSetting

T = TypeVar("T")
V = TypeVar("V")


class Default(enum.Enum):
    """Marker for the default of a required setting."""

    NONE = "none"


LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""Range of the integers of MXNet and of ONNX."""

LARGEST_FACTOR = 2.0**31
"""Beyond it, no size is left that MXNet can hold."""

HARMLESS = frozenset({"workspace", "cudnn_tune", "cudnn_off", "ctx_group", "force_mirroring", "mirror_stage"})
"""Settings that say where and how fast something is computed, and never what."""

HARMLESS_SUFFIXES = ("lr_mult", "wd_mult")
"""Ends of settings that only training needs; those of arrays are in ``Parameter``."""

_BOOLEANS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}

DTYPES = {
    "0": "float32",
    "1": "float64",
    "2": "float16",
    "3": "uint8",
    "4": "int32",
    "5": "int8",
    "6": "int64",
    "7": "bool",
    "8": "int16",
    "9": "uint16",
    "10": "uint32",
    "11": "uint64",
    "12": "bfloat16",
}
"""Names of element types by MXNet's number (mshadow/base.h, TypeFlag)."""


def is_channels_last(layout: str | None) -> bool:
    """Return whether a ``layout`` such as NHWC puts the channels last; None is NCHW or its like."""
    return layout is not None and layout.endswith("C") and len(layout) > 2


def _integer(text: str) -> int:
    number = int(text.strip().removesuffix("L"))
    if not LOWEST <= number <= HIGHEST:
        raise ValueError(text)
    return number


def _count(text: str) -> int:
    number = _integer(text)
    if number < 1:
        raise ValueError(text)
    return number


def _factor(text: str) -> float:
    number = float(text)
    if not 0 < number < LARGEST_FACTOR:
        raise ValueError(text)
    return number


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.strip()]


def _items(text: str) -> list[str]:
    inner = text.strip()
    if inner[:1] + inner[-1:] in {"()", "[]"}:
        inner = inner[1:-1]
    items = [item.strip() for item in inner.split(",")]
    return items[:-1] if items[-1] == "" else items


def _integers(text: str) -> tuple[int, ...]:
    return tuple(_integer(item) for item in _items(text))


def _bounds(text: str) -> tuple[int | None, ...]:
    return tuple(None if item == "None" else _integer(item) for item in _items(text))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(item) for item in _items(text))


def _dtype(text: str) -> str:
    name = DTYPES.get(text.strip(), text.strip())
    if name not in DTYPES.values():
        raise ValueError(text)
    return name


class Settings:
    """The settings of one node, read by name and type.

    Every method takes the name of the setting and its default; without a default it must be there.

    Args:
        attributes: The texts of the file.
        place: Where the node stands, for messages.
    """

    def __init__(self, attributes: Mapping[str, str], *, place: str) -> None:
        self._attributes = attributes
        self._place = place
        self._read: set[str] = set()

    def integer(self, name: str, default: T | Default = Default.NONE) -> int | T:
        """An integer."""
        return self._value(name, default, _integer, "an integer")

    def count(self, name: str, default: T | Default = Default.NONE) -> int | T:
        """An integer of at least 1."""
        return self._value(name, default, _count, "an integer of at least 1")

    def number(self, name: str, default: T | Default = Default.NONE) -> float | T:
        """A number."""
        return self._value(name, default, float, "a number")

    def factor(self, name: str, default: T | Default = Default.NONE) -> float | T:
        """A factor that sizes are multiplied by."""
        return self._value(name, default, _factor, "a number above 0")

    def flag(self, name: str, default: T | Default = Default.NONE) -> bool | T:
        """``True`` or ``False``, also as ``1`` or ``0``."""
        return self._value(name, default, _boolean, "True or False")

    def integers(self, name: str, default: T | Default = Default.NONE) -> tuple[int, ...] | T:
        """Integers: ``(3, 3)``, ``[3,3]`` or ``3``."""
        return self._value(name, default, _integers, "integers such as (3, 3)")

    def per_axis(self, name: str, rank: int, default: int) -> tuple[int, ...]:
        """One integer for each of ``rank`` axes, no smaller than the default for each.

        Raises:
            ReadError: There are more or fewer, or one is smaller.
        """
        values = self.integers(name, ()) or (default,) * rank
        if len(values) != rank or min(values, default=default) < default:
            raise ReadError(
                f"{name!r} is {_shown(values)}, expected {rank} integers of at least {default}",
                place=self._place,
            )
        return values

    def kernel(self) -> tuple[int, ...]:
        """The setting ``kernel``: sizes of a window over one to three axes.

        Raises:
            ReadError: It is missing, or has another number of axes or a size below 1.
        """
        kernel = self.integers("kernel")
        if not 1 <= len(kernel) <= 3:
            raise ReadError(f"'kernel' is {_shown(kernel)}, expected sizes of 1 to 3 axes", place=self._place)
        return self.per_axis("kernel", len(kernel), 1)

    def bounds(self, name: str, default: T | Default = Default.NONE) -> tuple[int | None, ...] | T:
        """Integers, or None for an open end."""
        return self._value(name, default, _bounds, "integers or None, such as (0, None)")

    def numbers(self, name: str, default: T | Default = Default.NONE) -> tuple[float, ...] | T:
        """Numbers: ``(0.1, 0.2)``."""
        return self._value(name, default, _numbers, "numbers such as (0.1, 0.2)")

    def dtype(self, name: str, default: T | Default = Default.NONE) -> str | T:
        """An element type, as a name or as MXNet's number for it."""
        return self._value(name, default, _dtype, "an element type such as float32")

    def choice(
        self,
        name: str,
        choices: Sequence[str],
        default: T | Default = Default.NONE,
        *,
        unread: Sequence[str] = (),
    ) -> str | T:
        """One of the words that the operator knows.

        Args:
            name: The name of the setting.
            choices: The words that Netweave reads.
            default: What holds without the setting; without a default it must be there.
            unread: Further words that MXNet knows.

        Raises:
            ReadError: It is a word that MXNet refuses.
            UnsupportedError: It is one of ``unread``.
        """
        word = self._value(name, default, str, "a string")
        if not isinstance(word, str) or word in choices:
            return word
        known = ", ".join(map(repr, choices))
        if word in unread:
            raise UnsupportedError(
                f"{name!r} is {_shown(word)}, of which Netweave supports {known}", place=self._place
            )
        raise ReadError(f"{name!r} is {_shown(word)}, expected one of {known}", place=self._place)

    def string(self, name: str, default: T | Default = Default.NONE) -> str | T:
        """A string, as it is written."""
        return self._value(name, default, str, "a string")

    def texts(self) -> dict[str, str]:
        """Return all settings as they are written, for an operator whose settings are the user's own."""
        return dict(self._attributes)

    def ignore(self, *names: str) -> None:
        """Say of settings that they do not matter here."""
        self._read.update(names)

    def unknown(self, layer: UnknownLayer) -> list[UnknownSetting]:
        """Return the settings that nobody asked for and that may matter.

        Args:
            layer: Whose they are.
        """
        return [
            UnknownSetting(name, value, layer, known=self._read)
            for name, value in self._attributes.items()
            if name not in self._read
            and name not in HARMLESS
            and not name.endswith(HARMLESS_SUFFIXES)
            and not (name.startswith("__") and name.endswith("__"))
        ]

    def _value(self, name: str, default: T | Default, parse: Callable[[str], V], expected: str) -> V | T:
        self._read.add(name)
        text = self._attributes.get(name)
        if text is None or (text == "None" and not isinstance(default, Default)):
            if isinstance(default, Default):
                raise ReadError(f"{name!r} is missing, expected {expected}", place=self._place)
            return default
        try:
            return parse(text)
        except (ValueError, KeyError) as error:
            raise ReadError(f"{name!r} is {_shown(text)}, expected {expected}", place=self._place) from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
