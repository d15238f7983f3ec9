"""The lines of the source that construct each module or layer, or return the outputs: where fixes go."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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
        places = callers(self, sys._getframe(1), files)
        if places:
            lines[self] = places

    with patch.object(base, "__init__", initialise):
        yield lines


def callers(module: Any, frame: FrameType | None, files: Collection[str]) -> tuple[tuple[str, int], ...]:
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


# The one ``return`` of a PyTorch module's ``forward``.


def return_place(module: Any, files: Collection[str]) -> tuple[str, int] | None:
    """Return the file and the line at which a net returns its outputs.

    None if the class inherits ``forward`` from an installed package, if ``forward`` returns at several
    lines, if a hook may change what it returns, or if a part of the net is of the same class, so that the
    line returns other values as well.

    Args:
        module: The net.
        files: The full paths of the files that count, which are not those of installed packages.
    """
    forward = type(module).forward
    code = getattr(forward, "__code__", None)
    is_changed = "forward" in vars(module) or bool(module._forward_hooks)
    if code is None or code.co_filename not in files or is_changed:
        return None
    if any(type(part).forward is forward for part in module.modules() if part is not module):
        return None
    try:
        tree = ast.parse(Path(code.co_filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    own = [f for f in functions if f.name == code.co_name and _first_line(f) == code.co_firstlineno]
    lines = [line for function in own for line in _return_lines(function)]
    return (code.co_filename, lines[0]) if len(lines) == 1 else None


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def _return_lines(node: ast.AST) -> list[int]:
    """Return the lines at which a function returns, those of functions inside it left out."""
    numbers = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            numbers.append(child.lineno)
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            numbers += _return_lines(child)
    return numbers
