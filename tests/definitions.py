"""Finds a second definition of a rule that stands once, by what it computes and not by what it is called."""

from __future__ import annotations

import ast
import re
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from netweave.formats.lowering.elementwise import ONNX_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Definition = ast.FunctionDef | ast.Dict
"""Where a rule is defined: a function, or a table."""

LEAST_ROWS = 8
"""So many names of functions of each element make a table; fewer are what one layer takes."""

GATES = {"LSTM": [set("ifoc"), set("ifog")], "GRU": [set("zrh"), set("zrn")]}
"""The gates of a recurrent layer by the letters that stand for them."""


def overlaps_of_boxes(tree: ast.AST) -> Iterator[Definition]:
    """Give the functions that divide something by ``a + b`` less the same: intersection over union."""
    for function in functions(tree):
        unions = [
            ast.dump(node.right)
            for node in ast.walk(function)
            if isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Sub)
            and isinstance(node.left, ast.BinOp)
            and isinstance(node.left.op, ast.Add)
        ]
        if set(unions) & {ast.dump(numerator) for numerator in numerators(function)}:
            yield function


def numerators(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Give what a function divides: by an operator, or by a call: ``np.divide``, ``op("Div", ...)``."""
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield node.left
        elif isinstance(node, ast.Call) and node.args:
            first, *others = node.args
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in {"divide", "div", "true_divide"}:
                yield first
            elif isinstance(first, ast.Constant) and first.value == "Div" and others:
                yield others[0]


def windows_of_poolings(tree: ast.AST) -> Iterator[Definition]:
    """Give the functions that read both the window of a pooling and how it is rounded or what it counts."""
    for function in functions(tree):
        read = set(keys_read(function))
        if "kernel_shape" in read and read & {"ceil_mode", "rounding", "count_include_pad"}:
            yield function


def keys_read(function: ast.FunctionDef) -> Iterator[str]:
    """Give the keys that a function reads: ``settings["name"]``, ``settings.get("name")``."""
    for node in ast.walk(function):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            key = node.args[0] if node.func.attr in {"get", "get_ints", "get_int"} else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def orders_of_gates(tree: ast.AST) -> Iterator[Definition]:
    """Give the tables that say in which order an LSTM or a GRU has its gates: by letters, or by numbers."""
    for table in tables(tree):
        if any(is_order(name, value) for name, value in rows(table)):
            yield table


def is_order(name: str, value: ast.expr) -> bool:
    """Whether a row is an order of gates: ``"LSTM": "ifco"``, ``"LSTM": (0, 2, 3, 1)``."""
    constants = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    words = [each.value for each in constants if isinstance(each, ast.Constant)]
    if name not in GATES or len(words) != len(constants):
        return False
    letters = "".join(map(str, words))
    numbers = set("0123"[: len(letters)])
    return len(letters) >= 3 and (set(letters) in GATES[name] or set(letters) == numbers)


def names_of_functions(tree: ast.AST) -> Iterator[Definition]:
    """Give the tables from a framework's names of functions of each element to ONNX's, or back."""
    for table in tables(tree):
        pairs = [(name, value.value) for name, value in rows(table) if isinstance(value, ast.Constant)]
        if sum(is_synonym(name, value) for name, value in pairs) >= LEAST_ROWS:
            yield table


def is_synonym(name: str, value: object) -> bool:
    """Whether one of two words is ONNX's operator for the other: ``"softrelu": "Softplus"``."""
    if not isinstance(value, str):
        return False
    meanings = [ONNX_NAMES.get(re.sub(r".*\.|_|\W.*", "", word).lower()) for word in (name, value)]
    return meanings[0] == value or meanings[1] == name


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Give the functions of a module that hold no other, so that each is looked at by itself."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def tables(tree: ast.AST) -> Iterator[ast.Dict]:
    """Give the dicts that are written out in a module."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Dict))


def rows(table: ast.Dict) -> Iterator[tuple[str, ast.expr]]:
    """Give the rows of a table whose key is a word."""
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def found_in(source: str, detector: Callable[[ast.AST], Iterator[Definition]]) -> bool:
    """Whether a rule is defined in a file, in code that stands in its strings too."""
    return any(True for tree in _trees(source) for _ in detector(tree))


@cache
def _trees(source: str) -> list[ast.AST]:
    trees: list[ast.AST] = [ast.parse(source)]
    for node in ast.walk(trees[0]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "return " in node.value:
            try:
                trees.append(ast.parse(textwrap.dedent(node.value)))
            except SyntaxError:
                continue
    return trees


DEFINITIONS: dict[Callable[[ast.AST], Iterator[Definition]], str] = {
    overlaps_of_boxes: "graph/ops/box_geometry.py",
    windows_of_poolings: "graph/ops/pooling.py",
    orders_of_gates: "formats/lowering/recurrent.py",
    names_of_functions: "formats/lowering/elementwise.py",
}
"""Where the one definition of each rule stands, under ``src/netweave``."""
