"""Pickles, read without running what they name."""

from __future__ import annotations

import collections
import collections.abc
import pickletools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, UnsupportedError

if TYPE_CHECKING:
    import io


# Nothing here hashes, compares or prints an object that the pickle builds: a few hundred bytes describe a
# tuple of 2**100 elements (each tuple holds the one before it twice), and Python hashes tuples by
# recursion.

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


# Unpickling runs whatever the file names. Here a name stays a ``Name`` and a call stays a ``PickledCall``;
# each reader gives a meaning to the few that it knows, and refuses the others.

MAX_OPCODES = 1_500_000
"""Longer pickles are refused: each opcode takes up to a hundred bytes, and a tensor some thirty opcodes."""

_MAX_REASON = 200
"""Characters of another library's message that ours repeats; they quote what they read."""


class _Mark:
    """The opcode MARK on the stack."""

    __slots__ = ()


_MARK = _Mark()


def read_pickled(file: io.BytesIO, *, place: str) -> Any:
    """Return what the next pickle in a file describes; the file then stands behind it.

    Containers and numbers come as themselves, the rest as ``Name``, ``PickledCall`` and ``Persistent``.

    Args:
        file: The file's content, at the begin of a pickle of any protocol; from a file on disk a text that
            announces 2**62 bytes would be allocated before it is read.
        place: The file's name, for messages.

    Raises:
        ReadError: It is not a complete pickle.
        UnsupportedError: It uses an opcode that no writer of arrays needs, or has too many.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of escapes in the oldest protocol's text
            value = _run(pickletools.genops(file), place)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ReadError(
            f"is not a complete pickle ({error!s:.{_MAX_REASON}}); was it copied or downloaded whole?",
            place=place,
        ) from error
    check_nesting(value, place=place)
    return value


def _run(opcodes: Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]], place: str) -> Any:
    """Return what the opcodes up to STOP leave on the stack."""
    machine = _Machine()
    for count, (opcode, argument, _) in enumerate(opcodes):
        if opcode.name == "STOP":
            return machine.pop()
        if count >= MAX_OPCODES:
            raise UnsupportedError(f"its pickle has more than {MAX_OPCODES:,} opcodes", place=place)
        step = _STEPS.get(opcode.name)
        if step is None:
            raise UnsupportedError(f"its pickle has the opcode {opcode.name}", place=place)
        step(machine, argument)
    raise ReadError("its pickle ends unexpectedly; was it copied or downloaded whole?", place=place)


class _Machine:
    """The stack and the memo of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a mark where a value should be")
        return value

    def pop_to_mark(self) -> list[Any]:
        values = []
        while (value := self.stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def top(self) -> Any:
        value = self.stack[-1]
        if value is _MARK:
            raise ValueError("a mark where a value should be")
        return value


def _push(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


def _constant(value: Any) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(value)


def _get(machine: _Machine, argument: Any) -> None:
    machine.push(machine.memo[int(argument)])


def _put(machine: _Machine, argument: Any) -> None:
    if argument not in range(MAX_OPCODES + 1):  # others may collide in the memo
        raise ValueError("a number in its memo that no pickle of this length reaches")
    machine.memo[int(argument)] = machine.top()


def _memoize(machine: _Machine, argument: Any) -> None:
    machine.memo[len(machine.memo)] = machine.top()


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, argument: Any) -> None:
        machine.push(tuple([machine.pop() for _ in range(count)][::-1]))

    return step


def _of_marked(make: Callable[[list[Any]], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(make(machine.pop_to_mark()))


def _pairs(values: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(map(key_of, values[::2]), values[1::2], strict=True))


def _extend(machine: _Machine, values: list[Any]) -> None:
    target = machine.top()
    (target.elements if isinstance(target, PickledCall) else target).extend(values)


def _update(machine: _Machine, pairs: list[tuple[Any, Any]]) -> None:
    target = machine.top()
    if isinstance(target, PickledCall):
        target.items.extend(pairs)
    else:
        target.update(pairs)


def _setitem(machine: _Machine, argument: Any) -> None:
    value, key = machine.pop(), machine.pop()
    _update(machine, [(key_of(key), value)])


def _build(machine: _Machine, argument: Any) -> None:
    state, target = machine.pop(), machine.top()
    if not isinstance(target, PickledCall):
        raise TypeError(f"{describe(target)} cannot have a state")
    target.state = state


def _global(machine: _Machine, argument: str) -> None:
    machine.push(Name(*argument.split(" ", 1)))


def _stack_global(machine: _Machine, argument: Any) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(module, str) or not isinstance(name, str):
        raise TypeError(f"{describe(module)} and {describe(name)} are no name")
    machine.push(Name(module, name))


def _call(machine: _Machine, argument: Any) -> None:
    arguments, function = machine.pop(), machine.pop()
    machine.push(PickledCall(function, arguments))


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "APPEND": lambda machine, _: _extend(machine, [machine.pop()]),
    "APPENDS": lambda machine, _: _extend(machine, machine.pop_to_mark()),
    "BINPERSID": lambda machine, _: machine.push(Persistent(machine.pop())),
    "BUILD": _build,
    "DICT": _of_marked(lambda values: dict(_pairs(values))),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": _constant(()),
    "FRAME": lambda machine, _: None,
    "GLOBAL": _global,
    "LIST": _of_marked(list),
    "MARK": _constant(_MARK),
    "MEMOIZE": _memoize,
    "NEWFALSE": _constant(False),
    "NEWOBJ": _call,
    "NEWTRUE": _constant(True),
    "NONE": _constant(None),
    "POP": lambda machine, _: machine.stack.pop(),
    "PROTO": lambda machine, _: None,
    "REDUCE": _call,
    "SETITEM": _setitem,
    "SETITEMS": lambda machine, _: _update(machine, _pairs(machine.pop_to_mark())),
    "STACK_GLOBAL": _stack_global,
    "TUPLE": _of_marked(tuple),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
}
_STEPS |= dict.fromkeys(("BINGET", "GET", "LONG_BINGET"), _get)
_STEPS |= dict.fromkeys(("BINPUT", "PUT", "LONG_BINPUT"), _put)
_STEPS |= dict.fromkeys(
    (
        *("BINFLOAT", "BININT", "BININT1", "BININT2", "FLOAT", "INT", "LONG", "LONG1", "LONG4"),
        *("BINBYTES", "BINBYTES8", "SHORT_BINBYTES", "BINSTRING", "SHORT_BINSTRING", "STRING"),
        "BYTEARRAY8",
        *("BINUNICODE", "BINUNICODE8", "SHORT_BINUNICODE", "UNICODE"),
    ),
    _push,
)


ALIASES: dict[str, Any] = {"float": float, "int": int, "object": object, "str": str, "complex": complex}
"""NumPy had them as names of Python's own types until 1.24."""


@contextmanager
def removed_names() -> Iterator[None]:
    """Let code use them again until the context ends; what a name stands for has not changed."""
    removed = [(collections, name, getattr(collections.abc, name)) for name in collections.abc.__all__]
    removed += [(np, name, value) for name, value in ALIASES.items()]
    with ExitStack() as stack:
        for module, name, value in removed:
            if name not in vars(module):  # hasattr would have NumPy warn of the name
                setattr(module, name, value)
                stack.callback(delattr, module, name)
        yield
