"""Pickles as data: what a pickle would build is described, and nothing of it is imported or called.

Unpickling runs whatever the file names. Here a name stays a ``Name`` and a call stays a ``PickledCall``; each
reader gives a meaning to the few that it knows, and refuses the others.
"""

from __future__ import annotations

import pickletools
import warnings
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, UnsupportedError
from netweave.files.pickled_objects import (
    Name,
    OpaqueKey,
    Persistent,
    PickledCall,
    bytes_of,
    check_nesting,
    describe,
    key_of,
)

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator

__all__ = [
    "MAX_OPCODES",
    "Name",
    "OpaqueKey",
    "Persistent",
    "PickledCall",
    "bytes_of",
    "describe",
    "read_pickled",
]

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
