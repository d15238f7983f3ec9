"""Numbers of a module that may bound the length of a sequence, and inputs that its code can do without."""

from __future__ import annotations

import inspect
import re
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OF_LENGTHS = re.compile(
    r"pos|wpe|len|window|context|ctx|seq|chunk|block_size|buffer|cache|table|angle|freq|rot|rope|mask|bias|tril"
)
"""Names of settings and tables that say something of lengths, in lower case."""

SMALL = 128
"""A setting with another name is taken for a length up to this number."""

MOST_MEMBERS = 256
"""Settings in a list or dict; larger ones are data."""

DEEPEST = 12
"""Names that a setting has before its own: a configuration may hold another one, and that the first."""

LARGEST = 1 << 24
"""Numbers beyond it are no lengths."""

OF_INPUTS = re.compile(r"mask|position|past|cache|segment|token_type|start_pos|offset|lengths")
"""Names of arguments without which a net computes something else, in lower case."""

SWITCHES = re.compile(r"^(use|return|output|is|has)_")
"""Names of arguments that are no inputs, though they may name one."""


def lengths_of(module: Any) -> dict[int, str]:
    """Return numbers that may be lengths of a sequence, each with its name in the module.

    They are settings, those of a configuration among them, sizes of tables, and numbers in the code.

    Args:
        module: An ``nn.Module``.
    """
    named: dict[int, str] = {}
    for number, name in _numbers_of(module):
        if 1 < number <= LARGEST:
            named.setdefault(number, name)
    return named


def left_out(module: Any, given: Iterable[str]) -> list[str]:
    """Return the inputs that a module's code can do without and was traced without.

    Args:
        module: An ``nn.Module``.
        given: Names of the arguments that it was traced with.
    """
    arguments = inspect.signature(module.forward).parameters
    return [
        name
        for name, argument in arguments.items()
        if argument.default is None
        and name not in set(given)
        and OF_INPUTS.search(name.lower())
        and not SWITCHES.match(name)
    ]


def _numbers_of(module: Any) -> Iterator[tuple[int, str]]:
    seen: set[int] = set()
    kinds: set[type] = set()
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            if id(value) not in seen and not key.startswith("_"):
                seen.add(id(value))
                yield from _settings(f"{path}.{key}".lstrip("."), key, value)
        for key, table in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)):
            name = f"{path}.{key}".lstrip(".")
            yield from ((size, f"size of {name}") for size in table.shape if OF_LENGTHS.search(name.lower()))
        if type(part) not in kinds and not type(part).__module__.startswith("torch."):
            kinds.add(type(part))
            yield from ((number, f"number in {type(part).__name__}") for number in _in_code(type(part)))


def _settings(path: str, key: str, value: Any) -> Iterator[tuple[int, str]]:
    """Yield the whole numbers of a setting: itself, or those of a configuration."""
    if path.count(".") > DEEPEST:
        return
    if type(value) is int and (value <= SMALL or OF_LENGTHS.search(path.lower())):
        yield value, key
    elif isinstance(value, list | tuple) and len(value) <= MOST_MEMBERS:
        for inner in value:
            yield from _settings(path, key, inner)
    for name, inner in _members(key, value).items():
        yield from _settings(f"{path}.{name}", name, inner)


def _members(key: str, value: Any) -> dict[str, Any]:
    """Return the settings in a dict, or in a configuration: its own, and those of its class."""
    if isinstance(value, dict):
        if len(value) > MOST_MEMBERS:  # a vocabulary and the like
            return {}
        return {str(name): inner for name, inner in value.items()}
    if "config" not in key.lower() or not hasattr(value, "__dict__"):
        return {}
    of_class = {name: inner for base in reversed(type(value).__mro__) for name, inner in vars(base).items()}
    return {name: inner for name, inner in (of_class | vars(value)).items() if not name.startswith("_")}


def _in_code(kind: type) -> Iterator[int]:
    """Yield the whole numbers in the code of a class, and of functions of its file that this code names."""
    functions = [f for f in vars(kind).values() if isinstance(f, FunctionType)]
    names = {name for function in functions for name in function.__code__.co_names}
    for function in functions[:1]:
        beside = function.__globals__
        functions += [
            beside[name]
            for name in sorted(names)
            if isinstance(beside.get(name), FunctionType) and beside[name].__module__ == kind.__module__
        ]
        yield from (beside[n] for n in sorted(names) if type(beside.get(n)) is int)
    for function in functions:
        yield from _in_constants(function.__code__)


def _in_constants(code: CodeType) -> Iterator[int]:
    for constant in code.co_consts:
        for each in constant if isinstance(constant, tuple) else (constant,):
            if type(each) is int:
                yield each
            elif isinstance(each, CodeType):
                yield from _in_constants(each)
