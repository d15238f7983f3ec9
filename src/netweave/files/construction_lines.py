"""The lines of the source that construct each module or layer: where its settings stand, and fixes go."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from types import FrameType

MAX_FRAMES = 50
"""A constructor is looked for no further up than this."""

MAX_CALLERS = 8
"""So many lines are recorded of those that led to a constructor."""

Lines = WeakKeyDictionary[Any, tuple[tuple[str, int], ...]]
"""Files and lines by what they construct: that which constructs it first, then those that called this one."""


@contextmanager
def recording(base: type, files: Collection[str]) -> Iterator[Lines]:
    """Record the lines that construct each module, until the context ends.

    Args:
        base: What all modules are: ``torch.nn.Module``, ``keras.Layer``.
        files: The full paths of the files that count, which are not those of installed packages.
    """
    lines: Lines = WeakKeyDictionary()
    original: Any = base.__dict__["__init__"]

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        places = _callers(self, sys._getframe(1), files)
        if places:
            lines[self] = places

    with patch.object(base, "__init__", initialise):
        yield lines


def _callers(module: Any, frame: FrameType | None, files: Collection[str]) -> tuple[tuple[str, int], ...]:
    """Return the lines of the files outside of the module's own constructors, the innermost first."""
    callers: list[tuple[str, int]] = []
    for _ in range(MAX_FRAMES):
        if frame is None or len(callers) == MAX_CALLERS:
            break
        is_own = frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is module
        if not is_own and frame.f_code.co_filename in files:
            callers.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(callers)


# Without running anything, from text: what a training script constructs, so that a net whose class wants
# arguments is read as it was trained.


@dataclass(frozen=True, slots=True)
class Construction:
    """A call that constructs a net, with arguments that are literals, constants or a parser's defaults.

    Attributes:
        name: The class.
        arguments: Its arguments as Python literals: ``100, n_out=10``.
        line: Where the call stands.
    """

    name: str
    arguments: str
    line: int


def classes_with_arguments(code: str) -> dict[str, bool]:
    """Return the classes of a file that derive from something, and whether each must be given arguments."""
    found = {}
    for node in _tree(code).body:
        if isinstance(node, ast.ClassDef) and node.bases:
            takes = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
            given = takes[0].args if takes else None
            count = 0 if given is None else len(given.args) - 1 - len(given.defaults)
            found[node.name] = count > 0
    return found


def find_construction(code: str, names: Sequence[str]) -> Construction | None:
    """Return the first call of a class whose arguments are known; None if there is none.

    >>> find_construction("p.add_argument('--unit', default=9); net = MLP(args.unit, n_out=3)", ["MLP"])
    Construction(name='MLP', arguments='9, n_out=3', line=1)

    Args:
        code: The text of a script.
        names: The classes; one that stands earlier is preferred.
    """
    tree = _tree(code)
    known = _known_values(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for name in names:
        for call in calls:
            values = [(one.arg, _value(one.value, known)) for one in call.keywords]
            values = [*((None, _value(one, known)) for one in call.args), *values]
            if _last(call.func) == name and values and all(text is not None for _, text in values):
                shown = ", ".join(f"{key}={text}" if key else str(text) for key, text in values)
                return Construction(name, shown, call.lineno)
    return None


def _tree(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _known_values(tree: ast.Module) -> dict[str, str]:
    """Return constants of a script by name, and defaults of its arguments by ``.name``, as literals."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = node.value
        if isinstance(node, ast.Call) and _last(node.func) == "add_argument":
            texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
            option = next((str(text) for text in texts if str(text).startswith("--")), "")
            settings = {one.arg: one.value for one in node.keywords}
            if option and "default" in settings:
                known["." + option[2:].replace("-", "_")] = settings["default"]
    return {key: text for key, value in known.items() if (text := _value(value, {})) is not None}


def _value(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """Return an argument as a literal; None if it is neither that nor known."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        return known.get(f".{node.attr}")
    try:
        return repr(ast.literal_eval(node))
    except ValueError:
        return None


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
