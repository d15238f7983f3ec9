"""The one ``return`` of a module's ``forward``."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def return_place(module: torch.nn.Module, files: Collection[str]) -> tuple[str, int] | None:
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
