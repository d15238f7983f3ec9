"""The assertion that a port is the same net, and the failure that says where it is not."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from netweave.api import Comparison

CURRENT_TEST = "PYTEST_CURRENT_TEST"
"""The variable in which pytest says what it runs: the test's id and its phase."""

compared: list[Comparison] = []
"""Comparisons of the running test; the pytest plugin empties the list before each test."""


class DifferentNetsError(AssertionError):
    """Two nets are not the same; the text says where and why in at most twelve lines.

    Attributes:
        comparison: The comparison that shows it.
    """

    def __init__(self, text: str, comparison: Comparison) -> None:
        super().__init__(text)
        self.comparison = comparison


def assert_same_net(
    a: Any, b: Any, *, strict: bool = False, require_weights: bool = True, **options: Any
) -> Comparison:
    """Compare two nets, and fail unless they are shown to be the same.

    Nets for which the comparison cannot decide fail as well.

    Args:
        a: The original: a file as for ``netweave.load``, a Graph, or a PyTorch module in memory.
        b: The port, likewise.
        strict: Fail also if something differs without effect on the inputs tried, or was not exercised.
        require_weights: Fail also if a net has no weights, so that only the structures were compared.
        options: Further options of ``netweave.compare``, such as ``tolerance`` and ``input_shapes``.

    Returns:
        The comparison.

    Raises:
        DifferentNetsError: They are not, or that cannot be shown; an ``AssertionError``.
        NetweaveError: A net cannot be read or run.
    """
    __tracebackhide__ = True
    from netweave import api

    try:
        comparison = api.compare(a, b, strict=strict, **options)
    except NetweaveError as error:
        raise error.with_traceback(None) from None  # its message says all; our frames are not the test's
    compared.append(comparison)
    if comparison.equal or (comparison.same_structure and not require_weights):
        return comparison
    lines = api.summary_lines(comparison, command=_command(a, b, strict=strict, options=options))
    raise DifferentNetsError("\n".join(lines), comparison)


_FLAGS = {"tolerance": "--tolerance", "probe": "--probe", "first": "--from", "last": "--to", "root": "--root"}
"""Options that are a flag of ``netweave compare`` with a value."""


def _command(a: Any, b: Any, *, strict: bool, options: dict[str, Any]) -> str:
    """Return the command line that compares the same again; of nets in memory, that of the running test."""
    shapes = options.get("input_shapes") or {}
    values = {name: value for name, value in options.items() if name not in {"input_shapes", "trust"}}
    files = isinstance(a, str | Path) and isinstance(b, str | Path)
    if not files or not all(
        name in _FLAGS and isinstance(value, str | float | Path) for name, value in values.items()
    ):
        test = os.environ.get(CURRENT_TEST, "").rpartition(" (")[0]
        return shlex.join(["pytest", test]) if test else ""
    words = ["netweave", "compare", str(a), str(b), *["--strict"] * strict]
    words += ["--trust"] * bool(options.get("trust"))
    for name, sizes in shapes.items():
        words += ["--input-shape", f"{name}={'x'.join(map(str, sizes))}"]
    for name, value in values.items():
        words += [_FLAGS[name], str(value)]
    return shlex.join(words)
