"""What Chainer's functions and links take, as a golden file.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.chainer_signatures

Writes ``tests/golden/chainer_signatures.json``: one line for each, without annotations. Where Chainer takes
``**kwargs`` and looks into it (``argument.parse_kwargs``), the keywords that it knows stand in their place.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden" / "chainer_signatures.json"


def main() -> None:
    """Write the golden file."""
    import chainer.functions
    import chainer.links

    functions = {
        name: signature_text(each)
        for name, each in vars(chainer.functions).items()
        if inspect.isfunction(each)
    }
    links = {name: each for name, each in vars(chainer.links).items() if inspect.isclass(each)}
    found = {
        "functions": functions,
        "links": {name: signature_text(each.__init__) for name, each in links.items()},
        "calls": {
            name: signature_text(call)
            for name, each in links.items()
            if inspect.isfunction(call := getattr(each, "forward", each.__call__))
        },
    }
    ordered = {kind: dict(sorted(rows.items())) for kind, rows in found.items()}
    GOLDEN.write_text(json.dumps(ordered, indent=0) + "\n")


def signature_text(function: Any) -> str:
    """Return what a function takes, without annotations."""
    signature = inspect.signature(function)
    rows = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    known = _known_keywords(inspect.unwrap(function))
    if known is not None:
        rows = [each for each in rows if each.kind is not each.VAR_KEYWORD] + known
    rows = [
        each.replace(default=_Text(each.default)) if each.default is not each.empty else each for each in rows
    ]
    return str(inspect.Signature(rows))


class _Text:
    """A default as text: functions and types by their names."""

    def __init__(self, value: Any) -> None:
        self._text = getattr(value, "__name__", None) or repr(value)

    def __repr__(self) -> str:
        return self._text


def _known_keywords(function: Any) -> list[inspect.Parameter] | None:
    """Return the keywords that a function takes out of its ``**kwargs``; None if it does not look there."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return None
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"parse_kwargs", "assert_kwargs_empty"}
    ]
    if not calls:
        return None
    rows = [row.elts for call in calls for row in call.args[1:] if isinstance(row, ast.Tuple)]
    set_before = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        inspect.Parameter(
            ast.literal_eval(name),
            inspect.Parameter.KEYWORD_ONLY,
            default=value.value if isinstance(value, ast.Constant) else set_before[value.id],
        )
        for name, value in rows
    ]


if __name__ == "__main__":
    main()
