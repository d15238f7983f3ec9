"""The error of a guarded child process, passed to its parent as a file."""

from __future__ import annotations

import json
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave import errors
from netweave.errors import CodeError, NetweaveError, SourceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.files.sandbox import Outcome

ERROR = "error.json"

ERRORS = {
    name: getattr(errors, name)
    for name in ("CodeError", "ReadError", "ShapeError", "UnsupportedError", "UsageError", "WeightError")
}
"""What a child may say that is wrong."""

MAX_BYTES = 1 << 20


def answer(work: Callable[[dict[str, Any]], object]) -> None:
    """Do a child's work with the request that it was given, and leave what goes wrong as a file.

    Args:
        work: What it does; its request is the program's first argument, as JSON, with ``net`` (the resolved
            file of code) and ``place`` (its name for messages); it may add ``beside``, the names of other
            resolved files of code.
    """
    asked = json.loads(sys.argv[1])
    try:
        work(asked)
    except MemoryError:
        raise
    except BaseException as error:  # noqa: BLE001 - a model's code may even exit
        made = as_error(error, asked)
        row = {
            "error": type(made).__name__,
            "message": made.message if isinstance(made, SourceError) else str(made),
            "place": made.place if isinstance(made, SourceError) else None,
            "open_inputs": made.open_inputs if isinstance(made, SourceError) else (),
            "unknown_inputs": made.unknown_inputs if isinstance(made, UsageError) else (),
        }
        Path(ERROR).write_text(json.dumps(row))
        sys.exit(1)


def as_error(error: BaseException, request: dict[str, Any]) -> NetweaveError:
    """Return an error of the model's code as one of Netweave's: line, kind and message."""
    names = {request["net"]: request["place"], **request.get("beside", {})}
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    found = [f"{names[file]}:{line}" for file, line in frames if file in names]
    place = found[-1] if found else request["place"]
    if isinstance(error, SourceError):
        open_inputs = error.open_inputs
        return error if error.place else type(error)(error.message, place=place, open_inputs=open_inputs)
    if isinstance(error, UsageError):
        return UsageError(f"{request['place']}: {error}", unknown_inputs=error.unknown_inputs)
    if isinstance(error, NetweaveError):
        return type(error)(f"{request['place']}: {error}")
    text = " ".join(str(error).split())[:300]
    advice = _advice(error, request)
    return CodeError(f"its code fails: {type(error).__name__}: {text}{advice}", place=place)


_LITERAL = re.compile(r"\b(list|tuple|dict|Settings|int|float|str|bool|NoneType)\b")
"""The type of an argument, in the message of code that cannot do anything with it."""


def _advice(error: BaseException, request: dict[str, Any]) -> str:
    """Return what helps against an error that comes from what the code was given, or from the sandbox."""
    if request.get("missing") and "Absent" in str(error):  # the type that stands for what is not there
        packages = ", ".join(request["missing"])
        return f"; 'Absent' is something of a package that is not installed here: install it ({packages})"
    is_of_literal = isinstance(error, AttributeError | TypeError) and _LITERAL.search(str(error))
    if request.get("arguments") and is_of_literal:
        return (
            "; its arguments are literals: where it takes an example of its input, give its sizes, such as "
            "torch.zeros(1, 3, 224, 224); where it takes modules or other objects, write a function that "
            "constructs it, and name that one"
        )
    if request.get("trusted_folder") or not isinstance(error, OSError | ModuleNotFoundError):
        return ""
    return (
        "; the sandbox hides the network, PYTHONPATH and all files but the modules that the code imports: "
        "--root FOLDER says where its imports start, and --trust runs code that you trust as you would"
    )


def failure(outcome: Outcome, place: str) -> NetweaveError:
    """Return the error that a child told of, or what is known of its end."""
    told = outcome.file(ERROR)
    row = _row(told) if told else None
    name = row.get("error") if isinstance(row, dict) else None
    if isinstance(row, dict) and isinstance(name, str) and name in ERRORS:
        kind, message = ERRORS[name], str(row.get("message"))
        where = str(row.get("place") or place)
        if kind is UsageError:
            return UsageError(message, unknown_inputs=_names(row.get("unknown_inputs")))
        made: NetweaveError = kind(message, place=where, open_inputs=_names(row.get("open_inputs")))
        return made
    last = outcome.report.strip().splitlines()[-1:] or ["without a word"]
    return CodeError(
        f"the process that read it ended with status {outcome.status}: {last[0][:300]}", place=place
    )


def _names(told: Any) -> tuple[str, ...]:
    """Return names that a child told of, which may have been made to say anything."""
    names = told if isinstance(told, list) else []
    return tuple(str(name)[:200] for name in names[:100])


def _row(path: Path) -> Any:
    if path.stat().st_size > MAX_BYTES:
        return None
    try:
        return json.loads(path.read_bytes())
    except (RecursionError, ValueError):
        return None
