"""The hierarchy of errors.

    NetweaveError
    ├── UsageError            a call with wrong arguments
    ├── WriteError            a file that cannot be written: no room, no permission, no folder
    ├── SourceError           a problem in a file or in the net in it (has a place)
    │   ├── ReadError         missing, truncated, of another type, or not parseable
    │   ├── UnsupportedError  well-formed, but holds something that Netweave does not read
    │   ├── CodeError         contains code that may not run, fails, or exceeds its time or memory limit
    │   ├── ShapeError        sizes that do not match
    │   └── WeightError       stored arrays that do not match the net
    └── RunError              a net that was read but cannot be run as asked
        └── PeerError         another process of the run failed, or cannot be reached

A message reads ``place: what was found, what was expected; what to do``. The command line turns every
``NetweaveError`` into one line and exit status 2; anything else is a bug in Netweave.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "CodeError",
    "NetweaveError",
    "PeerError",
    "ReadError",
    "RunError",
    "ShapeError",
    "SourceError",
    "UnsupportedError",
    "UsageError",
    "WeightError",
    "WriteError",
]


MAX_MESSAGE = 1000
"""Characters of a message; names and texts from files, which messages quote, can have any length."""

MAX_PLACE = 300
"""Characters of a place."""


def shortened(text: str, most: int) -> str:
    """Return a text with its middle left out where it is longer than so many characters.

    >>> shortened("a" * 30 + "b" * 30, 20)
    'aaaaaaaaaa ... bbbbb'
    """
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]} ... {text[len(text) - (most - head - 5) :]}"


class NetweaveError(Exception):
    """Base of all errors that Netweave raises on purpose; messages that are too long lose their middle."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message, MAX_MESSAGE))


class UsageError(NetweaveError):
    """A call, option or argument that cannot be carried out as asked.

    Args:
        message: What was asked, what is possible, and what to do.
        unknown_inputs: Names that the caller took for inputs of a net, if that is what is wrong.
    """

    def __init__(self, message: str, *, unknown_inputs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.unknown_inputs = unknown_inputs


class WriteError(NetweaveError):
    """A file cannot be written: its disk is full, or its folder missing; the old file is untouched."""


class SourceError(NetweaveError):
    """Something is wrong with a file or with the net that it describes.

    Args:
        message: What was found, what was expected, and what to do.
        place: Where: ``file``, ``file:line`` or ``file: layer 'name'``.
        open_inputs: The inputs whose sizes are nowhere given, if that is what is wrong.
        open_shapes: What the file says of their sizes, where it says some: None for an open size, and for an
            input of which not even the number of axes is known.
    """

    def __init__(
        self,
        message: str,
        *,
        place: str | None = None,
        open_inputs: tuple[str, ...] = (),
        open_shapes: Mapping[str, tuple[int | None, ...] | None] | None = None,
    ) -> None:
        place = place if place is None else shortened(place, MAX_PLACE)
        message = shortened(message, MAX_MESSAGE - MAX_PLACE)
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place
        self.message = message
        self.open_inputs = open_inputs
        self.open_shapes = dict(open_shapes or {})


class ReadError(SourceError):
    """A file is missing, truncated, of another kind than its name says, or cannot be parsed."""


class UnsupportedError(SourceError):
    """A file is well-formed, but holds a layer, operator or version that Netweave does not read."""


class CodeError(SourceError):
    """A file contains code that may not run, fails, or exceeds its time or memory limit."""


class ShapeError(SourceError):
    """Sizes in a net do not fit together."""


class WeightError(SourceError):
    """Stored arrays do not fit the net that they are meant for."""


class RunError(NetweaveError):
    """A net that was read cannot be run as asked."""


class PeerError(RunError):
    """Another process of the run failed or cannot be reached; this one has done nothing wrong."""
