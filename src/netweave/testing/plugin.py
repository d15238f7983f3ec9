"""The pytest plugin: what is shown of a failed ``assert_same_net``, and the properties of its report."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr

from netweave.testing import assertions

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

    from netweave.api import Comparison


class Failure(TerminalRepr):
    """The representation of a failure in pytest: the text, below the line of the test that asserts."""

    def __init__(self, text: str, path: str, line: int) -> None:
        self.text = text
        self.reprcrash = ReprFileLocation(path, line, text.partition("\n")[0])

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write it."""
        tw.line(f"{self.reprcrash.path}:{self.reprcrash.lineno}: assert_same_net", bold=True)
        for line in self.text.splitlines():
            tw.line(line, red=line.startswith(("different", "not decidable")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget what earlier tests compared."""
    assertions.compared.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add properties of what a test compared, and show a failed assertion about nets by its text."""
    if call.when == "call":
        for comparison in assertions.compared:
            item.user_properties.extend(_properties(comparison))
    report = yield
    error = call.excinfo
    if error is not None and isinstance(error.value, assertions.DifferentNetsError):
        own = [
            entry for entry in error.traceback if "__tracebackhide__" not in entry.frame.code.raw.co_varnames
        ]
        last = own[-1] if own else error.traceback[-1]
        report.longrepr = Failure(str(error.value), _relative(item, str(last.path)), last.lineno + 1)
    return report


def _relative(item: pytest.Item, path: str) -> str:
    folder = str(item.config.rootpath)
    return path.removeprefix(folder).lstrip("/") if path.startswith(folder + "/") else path


def _properties(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the properties of a comparison, which ``--junitxml`` writes."""
    yield "netweave.verdict", comparison.verdict.value
    yield "netweave.sentence", comparison.sentence
    if comparison.coverage is not None:
        yield "netweave.exercised", str(comparison.coverage)
    effective = [finding for finding in comparison.findings if not finding.latent]
    if not comparison.equal and effective:
        first = effective[0]
        yield "netweave.place", first.place_b or first.place_a
        yield "netweave.cause", first.cause
        yield "netweave.fix", first.fix
