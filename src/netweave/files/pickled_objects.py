"""Objects that a pickle describes: names, calls and references, and limits on their nesting.

Nothing here hashes, compares or prints an object that the pickle builds: a few hundred bytes describe a
tuple of 2**100 elements (each tuple holds the one before it twice), and Python hashes tuples by recursion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from netweave.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH = 100
"""Tuples, lists and dicts inside one another; deeper ones are refused."""

MAX_EXPANDED = 4_000_000
"""Elements of one value, counted once for each place that they appear in."""

_MAX_SHOWN = 120
"""Characters of a name or a text that a message shows."""

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Name:
    """Something that a pickle would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False, repr=False)
class PickledCall:
    """An object that a pickle would make by a call.

    Attributes:
        function: What it would call.
        arguments: What with.
        state: What it would then set as the object's state.
        items: What it would then put in by key.
        elements: What it would then append.
    """

    function: Any
    arguments: Any
    state: Any = None
    items: list[tuple[Any, Any]] = field(default_factory=list)
    elements: list[Any] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{describe(self)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Persistent:
    """An object outside the pickle, by what the pickle calls it."""

    id: Any

    def __repr__(self) -> str:
        return f"<{describe(self)}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpaqueKey:
    """A key of a dict that is no text and no number, such as a tuple; equal to itself only."""

    value: Any

    def __repr__(self) -> str:
        return f"<{describe(self)}>"


_BYTES_FROM = frozenset(
    (Name("_codecs", "encode"), Name("builtins", "bytearray"), Name("__builtin__", "bytearray"))
)


def bytes_of(value: Any) -> bytes | None:
    """Return the bytes that a value describes, whichever Python and protocol wrote it; None if it has none.

    Python 2 pickles bytes as text, Python 3 in its oldest protocols as encoded text, and a ``bytearray`` is a
    call on either.
    """
    for _ in range(2):  # bytearray(encode(text, "latin1"))
        if (
            isinstance(value, PickledCall)
            and isinstance(value.function, Name)
            and value.function in _BYTES_FROM
        ):
            arguments = value.arguments
            value = arguments[0] if isinstance(arguments, tuple) and arguments else None
    if isinstance(value, str):
        try:
            return value.encode("latin-1")
        except UnicodeEncodeError:
            return None
    return bytes(value) if isinstance(value, bytes | bytearray) else None


_KEYS = frozenset((str, bytes, float, bool, type(None), Name, PickledCall, Persistent))
_CONTAINERS = frozenset((tuple, list, dict))
_OPAQUE = frozenset((PickledCall, Persistent, OpaqueKey))
_NESTING = _CONTAINERS | _OPAQUE


def key_of(value: Any) -> Any:
    """Return what stands for a value as the key of a dict; it takes a bounded time to hash and compare.

    Python hashes text with a secret, but numbers and tuples without one: whoever makes the file could choose
    a million of them that collide, and a dict of those takes hours.

    Raises:
        TypeError: Python could not hash the value either.
    """
    if type(value) in _KEYS or (type(value) is int and value in _INT64):
        return value
    if type(value) in {list, dict}:
        raise TypeError(f"unhashable type: {type(value).__name__!r}")
    return OpaqueKey(value)


def describe(value: Any) -> str:
    """Return a few words on a value, for messages, however large the value is.

    >>> describe(Name("torch", "FloatStorage")), describe([[1, 2], [3]]), describe("a name")
    ('torch.FloatStorage', 'a list', "'a name'")
    """
    if isinstance(value, Name):
        return _shortened(str(value))
    if isinstance(value, PickledCall):
        known = isinstance(value.function, Name)
        return f"a call of {describe(value.function) if known else 'something that is no name'}"
    if isinstance(value, Persistent):
        return "an object outside the pickle"
    if isinstance(value, OpaqueKey):
        return describe(value.value)
    if isinstance(value, str | bytes):
        return _shortened(repr(value[:_MAX_SHOWN]))
    if value is None or isinstance(value, float) or (isinstance(value, int) and value in _INT64):
        return repr(value)
    return f"a {type(value).__name__}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def check_nesting(root: Any, *, place: str) -> None:
    """Check that everything in a value can be walked, copied, compared and printed in a bounded time.

    Containers are measured as if all that is shared were written out. A ``PickledCall``, a ``Persistent``
    and an ``OpaqueKey`` are leaves of what holds them, since they compare by identity and print without their
    contents; what they hold is measured by itself, so that objects may refer to one another in a circle.

    Args:
        root: What a pickle describes.
        place: The file's name, for messages.

    Raises:
        UnsupportedError: Containers hold themselves, are nested too deep, or would be too large.
    """
    measure, waiting = _Measure(place), [root]
    while waiting:
        value = waiting.pop()
        if type(value) in _CONTAINERS:
            measure.measure(value)
        elif type(value) in _OPAQUE:
            measure.opaque.append(value)
        waiting += measure.take_contents()


def _contents(value: Any) -> tuple[Any, ...]:
    if type(value) is PickledCall:
        return value.function, value.arguments, value.state, value.items, value.elements
    return (value.id if type(value) is Persistent else value.value,)


class _Measure:
    """Depths and expanded sizes of containers, each measured once, without recursion.

    Attributes:
        opaque: Objects met since ``take_contents``, which ends the walk there.
    """

    def __init__(self, place: str) -> None:
        self.opaque: list[Any] = []
        self._place = place
        self._sizes: dict[int, tuple[int, int] | None] = {}
        self._taken: set[int] = set()

    def take_contents(self) -> list[Any]:
        """Return what the opaque objects hold that were met, each once."""
        contents = []
        for value in self.opaque:
            if id(value) not in self._taken:
                self._taken.add(id(value))
                contents += [held for held in _contents(value) if type(held) in _NESTING and held]
        self.opaque = []
        return contents

    def measure(self, root: Any) -> None:
        """Measure a container with all containers in it."""
        stack = [(root, False)]
        while stack:
            value, is_complete = stack.pop()
            if is_complete:
                self._sizes[id(value)] = self._size(value)
            elif id(value) not in self._sizes:
                self._sizes[id(value)] = None
                stack.append((value, True))
                for element in _elements(value):
                    if type(element) in _CONTAINERS and element:
                        stack.append((element, False))
                    elif type(element) in _OPAQUE:
                        self.opaque.append(element)
            elif self._sizes[id(value)] is None:
                raise UnsupportedError(
                    f"its pickle has a {type(value).__name__} that contains itself", place=self._place
                )

    def _size(self, value: Any) -> tuple[int, int]:
        depth, size = 1, 1
        for element in _elements(value):
            if type(element) in _CONTAINERS and element:
                inner = self._sizes[id(element)]
                assert inner is not None, "a container is measured before what holds it"
                depth, size = max(depth, inner[0] + 1), size + inner[1]
            else:
                size += 1
        if depth > MAX_DEPTH or size > MAX_EXPANDED:
            raise UnsupportedError(
                f"its pickle nests containers more than {MAX_DEPTH} deep, or shares them so that they would "
                f"have more than {MAX_EXPANDED:,} elements; only arrays in dicts are supported",
                place=self._place,
            )
        return depth, size


def _elements(value: Any) -> Iterable[Any]:
    """Return what a container holds, keys included."""
    return chain.from_iterable(value.items()) if type(value) is dict else value
