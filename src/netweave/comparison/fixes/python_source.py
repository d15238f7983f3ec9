"""Python source that a fix changes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.comparison import INPUT_ORDER, OPERATOR, OUTPUT
from netweave.comparison.fixes.python_calls import is_named, operator_changes, order_changes
from netweave.comparison.fixes.signatures import argument_changes, callee, takes_argument
from netweave.comparison.fixes.text import NotAppliedError, Replacement, SeveralCallsError, replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from netweave.comparison import Edit


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


class Places:
    """Characters of a text by the lines and UTF-8 columns that Python counts in.

    Args:
        text: The text that was parsed.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def of(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        """Return where a node begins and ends."""
        end = self._place(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self._place(node.lineno, node.col_offset), end

    def text(self, node: ast.expr | ast.keyword) -> str:
        """Return a node as it is written."""
        start, end = self.of(node)
        return self._text[start:end]

    def between(self, start: int, end: int) -> str:
        """Return a stretch of the text."""
        return self._text[start:end]

    def line_start(self, place: int) -> int:
        """Return where the line begins in which a character stands."""
        return self._text.rfind("\n", 0, place) + 1

    def _place(self, line: int, column: int) -> int:
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)


@dataclass(frozen=True, slots=True)
class Given:
    """A setting of some layer as it is now.

    Attributes:
        owner: Name of the module that the layer is a part of.
        line: The line that constructs the layer.
        value: The value of the setting.
    """

    owner: str
    line: int
    value: Any


def parameter_with(
    text: str, line: int, name: str, wanted: Mapping[str, Any], given: Iterable[Given]
) -> str | None:
    """Return the parameter that is right for a setting in all layers that a line constructs; None if none is.

    What a parameter is in each block is known from the other layers of the block that are given it.

    Args:
        text: The file.
        line: The line that constructs the layers.
        name: The setting.
        wanted: Its right values, by the module that the layer is a part of.
        given: The same setting of all layers that the file constructs.
    """
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_on(node, line)]
    if not functions:
        return None
    function = max(functions, key=lambda node: node.lineno)  # the innermost
    free = parameters_of(function) - assigned_names(function)
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or _is_on(call, line):
            continue
        for keyword in call.keywords:
            if keyword.arg != name or not isinstance(keyword.value, ast.Name) or keyword.value.id not in free:
                continue
            known: dict[str, list[Any]] = {}
            for one in given:
                if _is_on(call, one.line):
                    known.setdefault(one.owner, []).append(one.value)
            if all(_agree(known.get(owner, []), value) for owner, value in wanted.items()):
                return keyword.value.id
    return None


def is_same_setting(a: Any, b: Any) -> bool:
    """Return whether two values mean the same for each axis: one number stands for all.

    >>> is_same_setting([2, 2], 2), is_same_setting((1, 2), [1, 2]), is_same_setting(1, True)
    (True, True, False)
    """
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_same_setting, a, b))
    if isinstance(a, list | tuple):
        a, b = b, a
    if isinstance(b, list | tuple):
        return bool(b) and all(is_same_setting(a, one) for one in b)
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _agree(values: list[Any], wanted: Any) -> bool:
    """Return whether there are values, and all of them are the one that is wanted."""
    return bool(values) and all(is_same_setting(value, wanted) for value in values)


def _is_on(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


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
"""Expressions that are no returned tensor."""


def output_changes(tree: ast.Module, line: int, edit: Edit, places: Places) -> list[Replacement]:
    """Return the changes that put an output of the ``return`` at a line into the call of a function.

    Raises:
        NotAppliedError: The line does not return as many outputs one by one, or nothing that the file imports
            has the function.
    """
    wanted = _VALUE.fullmatch(edit.value)
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return) and node.lineno == line]
    if wanted is None or len(returns) != 1 or returns[0].value is None:
        raise NotAppliedError(
            f"line {line} does not return what the net computes; it is not the file compared"
        )
    output = _output(returns[0].value, int(wanted["place"]), int(wanted["count"]), line)
    owner = _owner_of_functions(tree, returns[0], wanted["name"])
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
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _holds_python_returns(node, returned)
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
    ranked: list[tuple[int, str]] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch" and alias.asname is None:
                    ranked.append((0, "torch"))
                elif alias.name in _RANKS and alias.asname is not None:
                    rank, inside = _RANKS[alias.name]
                    ranked.append((rank, alias.asname + inside))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if (module := f"{node.module}.{alias.name}") in _RANKS:
                    rank, inside = _RANKS[module]
                    ranked.append((rank, (alias.asname or alias.name) + inside))
    return [owner for _, owner in sorted(ranked)]


_RANKS = {"torch": (0, ""), "torch.nn.functional": (1, ""), "torch.nn": (2, ".functional")}
"""Modules from which PyTorch's functions are reached, and how, the shortest first."""


def _holds_python_returns(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in ast.walk(outer))


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


def edit_python(text: str, line: int, layer: str, edits: Sequence[Edit]) -> str:
    """Return a text with arguments of the call at a line changed.

    Raises:
        NotAppliedError: The file is no Python, or which call makes the layer is not clear.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NotAppliedError(f"the file is no Python that can be changed: {error}") from error
    places = Places(text)
    moved = [edit for edit in edits if edit.name in {OPERATOR, INPUT_ORDER, OUTPUT}]
    if moved:
        if len(edits) > 1:
            raise NotAppliedError("what is called or joined, and settings besides: change one by hand")
        return replaced(text, _call_changes(tree, line, layer, moved[0], places))
    call = find_call(tree, line, layer, edits)
    changed = replaced(text, argument_changes(call, edits, places))
    if _is_python(changed):
        return changed
    raise NotAppliedError(f"the arguments at line {line} are written in a way that cannot be changed safely")


def edit_all_calls(text: str, line: int, kind: str, edits: Sequence[Edit]) -> str:
    """Return a text with all calls of a kind at a line changed, as they all make layers that are to change.

    Args:
        text: The text.
        line: The line.
        kind: The layers' type, which is the class that is called, or ends in the function.
        edits: What changes.

    Raises:
        NotAppliedError: There is no such call, or one does not take the arguments.
    """
    places = Places(text)
    calls = [call for call in _calls_at(ast.parse(text), line) if callee(call) == kind.rpartition(".")[2]]
    are_operators = [edit.name for edit in edits] == [OPERATOR]
    is_known = are_operators or all(takes_argument(call, edit.name) for call in calls for edit in edits)
    if (
        not calls
        or not is_known
        or any(_holds_python_source(call, other) for call in calls for other in calls)
    ):
        raise NotAppliedError(f"line {line} has several calls, which are not all of {kind or 'one kind'}")
    if are_operators:
        return replaced(
            text, [row for call in calls for row in operator_changes([call], "", edits[0], places)]
        )
    return replaced(text, [row for call in calls for row in argument_changes(call, edits, places)])


def _call_changes(tree: ast.Module, line: int, layer: str, edit: Edit, places: Places) -> list[Replacement]:
    """Return the changes of what a line calls or returns, or of the order of what it gives."""
    if edit.name == OUTPUT:
        return output_changes(tree, line, edit, places)
    calls = _calls_at(tree, line)
    if edit.value in ARITHMETIC:
        return arithmetic_changes(tree, line, edit, places)
    if edit.name == INPUT_ORDER:
        return order_changes(tree, calls, line, edit, places)
    return operator_changes(calls, layer, edit, places)


def _calls_at(tree: ast.Module, line: int) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def find_call(tree: ast.Module, line: int, layer: str, edits: Sequence[Edit]) -> ast.Call:
    """Return the innermost call at a line that takes the arguments.

    Raises:
        NotAppliedError: There is none, or which one makes the layer is not clear.
    """
    calls = _calls_at(tree, line)
    taking = [call for call in calls if all(takes_argument(call, edit.name) for edit in edits)]
    names = ", ".join(edit.name for edit in edits)
    if not taking or any(_is_call_of(call, _attribute(layer)) for call in calls):
        # the line is that of the call in forward; the settings stand where the module is made
        made = _module(tree, layer)
        taking = [made] if made is not None and all(takes_argument(made, edit.name) for edit in edits) else []
    if not taking:
        raise NotAppliedError(f"no call at line {line} is known to take {names}")
    inner = [call for call in taking if not any(_holds_python_source(call, other) for other in taking)]
    assigned = [
        call for call in inner if layer.rpartition(".")[2] in _targets(tree, call) or is_named(call, layer)
    ]
    made = _module(tree, layer) if not assigned else None
    chosen = inner if len(inner) == 1 else assigned or [call for call in inner if call is made]
    if len(chosen) != 1:
        raise SeveralCallsError(f"line {line} has {len(inner)} calls that take {names}")
    return chosen[0]


def _module(tree: ast.Module, layer: str) -> ast.Call | None:
    """Return the call whose value is the module of a name: ``conv1``, or ``features.3`` in a Sequential.

    None if there is none, or several, as in classes of blocks with the same names.
    """
    place, attribute = layer.rpartition(".")[2], _attribute(layer)
    made = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(isinstance(target, ast.Attribute) and target.attr == attribute for target in node.targets)
    ]
    if len(made) != 1:
        return None
    (call,) = made
    assert isinstance(call, ast.Call)
    if not place.isdecimal():
        return call
    inner = call.args[int(place)] if int(place) < len(call.args) else None
    return inner if isinstance(inner, ast.Call) and callee(call) == "Sequential" else None


def _is_call_of(call: ast.Call, attribute: str) -> bool:
    """Return whether a call is ``self.ATTRIBUTE(...)``."""
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == attribute
        and isinstance(function.value, ast.Name)
        and function.value.id == "self"
    )


def _attribute(layer: str) -> str:
    """Return the attribute that holds the module of a name, or the Sequential that it stands in."""
    owner, _, place = layer.rpartition(".")
    return (owner.rpartition(".")[2] if place.isdecimal() else place) or layer


def _holds_python_source(outer: ast.Call, inner: ast.Call) -> bool:
    return outer is not inner and any(node is inner for node in ast.walk(outer))


def _targets(tree: ast.Module, call: ast.Call) -> set[str]:
    """Return the names that the value of a call is given: ``conv1`` in ``self.conv1 = ...``."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(inner is call for inner in ast.walk(node.value)):
            names |= {t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", "") for t in node.targets}
    return names
