"""Another arithmetic operation of two tensors in Python source: a sum in the place of a product."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from netweave.comparison.fixes.text import NotAppliedError, Replacement

if TYPE_CHECKING:
    from netweave.comparison import Edit
    from netweave.comparison.fixes.python_places import Places

ARITHMETIC: dict[str, tuple[type[ast.operator], str]] = {
    "+": (ast.Add, "add"),
    "-": (ast.Sub, "sub"),
    "*": (ast.Mult, "mul"),
}
"""Operations by their signs: as Python parses them, and what PyTorch calls them."""

SIGNS = {kind: sign for sign, (kind, _) in ARITHMETIC.items()}
FUNCTIONS = {"add": "+", "sub": "-", "subtract": "-", "mul": "*", "multiply": "*"}


def arithmetic_changes(tree: ast.Module, line: int, edit: Edit, places: Places) -> list[Replacement]:
    """Return the change of the one operation of two tensors at a line.

    Raises:
        NotAppliedError: There is none, or there are several.
    """
    there = [node for node in ast.walk(tree) if _begins_at(node, line)]
    operations = [node for node in there if isinstance(node, ast.BinOp | ast.AugAssign) and _is_known(node)]
    calls = [node for node in there if isinstance(node, ast.Call) and _called(node) in FUNCTIONS]
    if len(operations) + len(calls) != 1:
        count = len(operations) + len(calls)
        raise NotAppliedError(f"line {line} has {count} sums, differences and products, expected one")
    if operations:
        return [_sign_change(operations[0], edit.value, places)]
    (call,) = calls
    if not isinstance(call.func, ast.Attribute) or getattr(call.func.value, "id", "") != "torch":
        raise NotAppliedError(
            f"what else line {line} would call is not clear; do it by hand: use {edit.value}"
        )
    end = places.of(call.func)[1]
    return [Replacement(end - len(call.func.attr), end, ARITHMETIC[edit.value][1])]


def _sign_change(operation: ast.BinOp | ast.AugAssign, sign: str, places: Places) -> Replacement:
    """Return the change of the sign between two operands."""
    if isinstance(operation, ast.BinOp):
        left, right = operation.left, operation.right
    else:
        left, right = operation.target, operation.value
    start, end = places.of(left)[1], places.of(right)[0]
    # what else stands between operands are brackets, blanks and comments
    between = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), places.between(start, end))
    place = start + between.index(SIGNS[type(operation.op)])
    return Replacement(place, place + 1, sign)


def _begins_at(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.expr | ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _is_known(node: ast.BinOp | ast.AugAssign) -> bool:
    """Return whether an operation may be one of two tensors: numbers alone are none."""
    operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return type(node.op) in SIGNS and not any(isinstance(operand, ast.Constant) for operand in operands)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
