"""One function more of what the code of a PyTorch net returns, as a softmax that a port leaves out."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from netweave.comparison.fixes.python_names import assigned_names, parameters_of
from netweave.comparison.fixes.text import NotAppliedError, Replacement

if TYPE_CHECKING:
    from netweave.comparison import Edit
    from netweave.comparison.fixes.python_places import Places

_VALUE = re.compile(r"(?P<place>\d+) of (?P<count>\d+): (?P<name>\w+)\((?P<arguments>.*)\)")

NO_TENSORS = (
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.Constant,
    ast.Starred,
    ast.GeneratorExp,
    ast.ListComp,
)
"""What a returned tensor is not written as."""


def output_changes(tree: ast.Module, line: int, edit: Edit, places: Places) -> list[Replacement]:
    """Return the changes that put an output of the ``return`` at a line into the call of a function.

    Raises:
        NotAppliedError: The line does not return as many outputs one by one, or nothing that the file imports
            has the function.
    """
    wanted = _VALUE.fullmatch(edit.value)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Return) and node.lineno == line]
    if wanted is None or len(found) != 1 or found[0].value is None:
        raise NotAppliedError(
            f"line {line} does not return what the net computes; it is not the file compared"
        )
    output = _output(found[0].value, int(wanted["place"]), int(wanted["count"]), line)
    owner = _owner_of_functions(tree, found[0], wanted["name"])
    arguments = f", {wanted['arguments']}" if wanted["arguments"] else ""
    start, end = places.of(output)
    return [
        Replacement(start, start, f"{owner}.{wanted['name']}("),
        Replacement(end, end, f"{arguments})"),
    ]


def _output(returned: ast.expr, place: int, count: int, line: int) -> ast.expr:
    """Return the expression of an output, which stands alone or is one of those that are listed."""
    outputs = [returned]
    if count > 1:
        outputs = returned.elts if isinstance(returned, ast.Tuple | ast.List) else []
    if len(outputs) != count or any(isinstance(output, NO_TENSORS) for output in outputs):
        raise NotAppliedError(f"line {line} does not list the {count} outputs that it returns")
    return outputs[place - 1]


def _owner_of_functions(tree: ast.Module, returned: ast.Return, name: str) -> str:
    """Return how the file calls what has PyTorch's functions: ``torch``, ``F``, ``nn.functional``."""
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _holds(node, returned)
    ]
    hidden = {name for function in functions for name in parameters_of(function) | assigned_names(function)}
    owners = [owner for owner in _imported_owners(tree) if owner.partition(".")[0] not in hidden]
    if not owners:
        raise NotAppliedError(
            f"the file imports neither torch nor its functions; do it by hand: use torch.{name}"
        )
    return owners[0]


def _imported_owners(tree: ast.Module) -> list[str]:
    """Return the names under which the file has PyTorch's functions, ``torch`` itself first."""
    found: list[tuple[int, str]] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch" and alias.asname is None:
                    found.append((0, "torch"))
                elif alias.name in _RANKS and alias.asname is not None:
                    rank, inside = _RANKS[alias.name]
                    found.append((rank, alias.asname + inside))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if (module := f"{node.module}.{alias.name}") in _RANKS:
                    rank, inside = _RANKS[module]
                    found.append((rank, (alias.asname or alias.name) + inside))
    return [owner for _, owner in sorted(found)]


_RANKS = {"torch": (0, ""), "torch.nn.functional": (1, ""), "torch.nn": (2, ".functional")}
"""Modules from which PyTorch's functions are reached, and how, the shortest first."""


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in ast.walk(outer))
