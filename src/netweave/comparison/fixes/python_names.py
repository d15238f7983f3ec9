"""Names inside a function of Python source."""

from __future__ import annotations

import ast

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters_of(function: Function) -> set[str]:
    """Return the names of a function's parameters."""
    arguments = function.args
    given = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    return {argument.arg for argument in given if argument is not None}


def assigned_names(function: Function) -> set[str]:
    """Return the names that something is assigned to inside a function."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}
