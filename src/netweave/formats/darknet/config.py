"""The text of a net: sections of settings, as ``read_cfg`` (parser.c) and ``option_list.c`` take them.

All blanks are dropped, a line that begins with ``#`` or ``;`` is a comment, and of a setting that is written
twice in one section the first counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from netweave.errors import ReadError
from netweave.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

_INTEGER = re.compile(r"[+-]?\d{1,18}(?![\d.])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the file: a layer, or the net itself.

    Attributes:
        type: What stands between the brackets.
        file: The file.
        line: The line of the brackets, from 1.
        settings: Texts by name, without blanks.
        lines: The line of each setting.
    """

    type: str
    file: str
    line: int
    settings: Mapping[str, str]
    lines: Mapping[str, int]

    @property
    def place(self) -> str:
        """Where it stands, for a message."""
        return self.place_of(self.line)

    def place_of(self, line: int) -> str:
        """Where one of its lines stands, for a message."""
        return f"{self.file}:{line}: section [{self.type}]"

    def has(self, name: str) -> bool:
        """Whether a setting is written."""
        return name in self.settings

    def integer(self, name: str, default: int, *, least: int | None = None) -> int:
        """An integer, as C's ``atoi`` reads it; what follows the number is ignored.

        Raises:
            ReadError: It is not one, or is below ``least``.
        """
        expected = "an integer" if least is None else f"an integer of at least {least}"
        number = self._value(name, default, _integer, expected)
        if least is not None and number < least:
            raise self.read_error(name, expected)
        return number

    def flag(self, name: str) -> bool:
        """Whether a setting is an integer other than 0; off if it is not written."""
        return self.integer(name, 0) != 0

    def strides(self) -> list[int]:
        """The steps of a window, down and across."""
        stride = self.integer("stride", 1, least=1)
        return [self.integer(name, stride, least=1) for name in ("stride_y", "stride_x")]

    def number(self, name: str, default: float) -> float:
        """A number, as C's ``atof`` reads it.

        Raises:
            ReadError: It is not one.
        """
        return self._value(name, default, _number, "a number")

    def integers(self, name: str) -> tuple[int, ...]:
        """Integers between commas; none if the setting is not written.

        Raises:
            ReadError: They are not.
        """
        return self._value(name, (), _integers, "integers between commas")

    def string(self, name: str, default: str) -> str:
        """A string."""
        return self.settings.get(name, default)

    def read_error(self, name: str, expected: str) -> ReadError:
        """Return the error for a setting that is not what it must be."""
        if name not in self.settings:
            return ReadError(f"has no {name!r}, expected {expected}", place=self.place)
        message = f"{name!r} is {self.settings[name]!r:.60}, expected {expected}"
        return ReadError(message, place=self.place_of(self.lines[name]))

    def _value(self, name: str, default: T, parse: Callable[[str], T], expected: str) -> T:
        if name not in self.settings:
            return default
        try:
            return parse(self.settings[name])
        except ValueError as error:
            raise self.read_error(name, expected) from error


def read_config(path: Path) -> list[Section]:
    """Parse a file.

    Raises:
        ReadError: It cannot be read, is no text, or a line is neither a section nor a setting.
    """
    return parse_config(read_bytes(path), file=str(path))


def parse_config(content: bytes, *, file: str) -> list[Section]:
    """Parse a file's content; see ``read_config``."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not text: byte {error.start} is not UTF-8", place=file) from error
    sections: list[Section] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"\s", "", raw)
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            sections.append(_section(line, file=file, number=number))
        else:
            _add_setting(sections, line, file=file, number=number)
    if not sections:
        raise ReadError("contains no section; expected [net] and layers", place=file)
    return sections


def _section(line: str, *, file: str, number: int) -> Section:
    name, bracket, _ = line[1:].partition("]")
    if not bracket or not name:
        raise ReadError(f"{line!r:.60} is not a section, expected [name]", place=f"{file}:{number}")
    return Section(name, file, number, {}, {})


def _add_setting(sections: Sequence[Section], line: str, *, file: str, number: int) -> None:
    name, equals, value = line.partition("=")
    place = f"{file}:{number}"
    if not equals or not name or not value:
        raise ReadError(f"{line!r:.60} is not a setting; expected name=value", place=place)
    if not sections:
        raise ReadError(f"{line!r:.60} is before the first section; expected [net]", place=place)
    section = sections[-1]
    assert isinstance(section.settings, dict)
    assert isinstance(section.lines, dict)
    section.settings.setdefault(name, value)
    section.lines.setdefault(name, number)


def _integer(text: str) -> int:
    match = _INTEGER.match(text)
    if not match:
        raise ValueError(text)
    return int(match[0])


def _number(text: str) -> float:
    match = _NUMBER.match(text)
    if not match:
        raise ValueError(text)
    return float(match[0])


def _integers(text: str) -> tuple[int, ...]:
    return tuple(_integer(item) for item in text.split(",") if item)
