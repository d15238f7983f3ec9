"""The arguments of Chainer's functions and links: those of its signatures, and no others."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.registry import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

REMOVED = frozenset({"deterministic", "test", "train", "use_bi_direction", "use_cudnn", "volatile", "wscale"})
"""Keywords of Chainer 1 that Chainer 7 refuses (``argument.check_unexpected_kwargs`` in its source)."""


class ArgumentsError(TypeError):
    """A function or link is given what it does not take, as Chainer's own TypeError says."""


def bind(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], *, name: str
) -> dict[str, Any]:
    """Return the arguments of a call by name, defaults included.

    Args:
        signature: What the function takes.
        args: Positional arguments.
        kwargs: Keyword arguments.
        name: The function's name, for messages.

    Raises:
        ArgumentsError: The function does not take them.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        removed = ", ".join(
            sorted(repr(key) for key in REMOVED & kwargs.keys() - signature.parameters.keys())
        )
        hint = (
            f"; {removed}: not supported any more since Chainer 2, use chainer.using_config"
            if removed
            else ""
        )
        raise ArgumentsError(f"{name}() {error}{hint}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def parse_signature(text: str) -> inspect.Signature:
    """Return a signature that is written as Chainer's documentation writes it.

    A name among the defaults is that of a recorded function.

    >>> parse_signature("ksize, stride=1, *, dilate=(1, 1)")
    <Signature (ksize, stride=1, *, dilate=(1, 1))>
    """
    (function,) = ast.parse(f"def f({text}): pass").body
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    required = [None] * (len(arguments.args) - len(arguments.defaults))
    rows = [
        *_rows(inspect.Parameter.POSITIONAL_OR_KEYWORD, arguments.args, [*required, *arguments.defaults]),
        *_rows(inspect.Parameter.VAR_POSITIONAL, [arguments.vararg] if arguments.vararg else [], [None]),
        *_rows(inspect.Parameter.KEYWORD_ONLY, arguments.kwonlyargs, arguments.kw_defaults),
    ]
    return inspect.Signature(rows)


def _rows(
    kind: inspect._ParameterKind, names: Sequence[ast.arg], defaults: Sequence[ast.expr | None]
) -> Iterator[inspect.Parameter]:
    for name, default in zip(names, defaults, strict=False):
        value: Any = inspect.Parameter.empty
        if default is not None:
            value = FUNCTIONS[default.id] if isinstance(default, ast.Name) else ast.literal_eval(default)
        yield inspect.Parameter(name.arg, kind, default=value)
