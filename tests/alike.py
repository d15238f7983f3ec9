"""Tests that behave alike whatever else is installed: nothing is missing to them, and they start no process.

What such a test shows without the extras it shows with them too, as long as the packages of both environments
have the same versions, so CI runs it once. Part of the plugin in tests/outcomes.py.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import distributions
from multiprocessing.process import BaseProcess

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
"""Audit events of processes: what these look for cannot be seen from here."""

TOOLS = {"pip", "setuptools", "netweave"}
"""Distributions whose version may differ."""


class Watch:
    """Notes in this process that a package is looked for in vain, or that a process is started."""

    def __init__(self) -> None:
        self.raised = False
        self.shared: set[str] = set()  # fixtures of several tests that raised it when they were set up
        self._installed = False

    def install(self) -> None:
        """Begin to watch; there is no end, since audit hooks stay."""
        if self._installed:
            return
        self._installed = True
        sys.addaudithook(self._hear)
        find, start = PathFinder.find_spec, BaseProcess.start

        def find_spec(name: str, path=None, target=None) -> ModuleSpec | None:
            spec = find(name, path, target)
            if spec is None and "." not in name:
                self.raised = True
            return spec

        def started(process: BaseProcess) -> None:
            self.raised = True  # spawned from C, without an event
            start(process)

        PathFinder.find_spec = find_spec  # also where it is asked directly, past sys.meta_path
        BaseProcess.start = started

    def _hear(self, event: str, _: tuple[object, ...]) -> None:
        if event in STARTS:
            self.raised = True

    def begin(self, item: pytest.Item) -> None:
        """Forget what earlier tests did, except in fixtures that this one shares with them."""
        self.raised = not self.shared.isdisjoint(item.fixturenames)


WATCH = Watch()
"""One for the process, as is the hook."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    WATCH.install()
    WATCH.begin(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    before, WATCH.raised = WATCH.raised, False
    try:
        return (yield)
    finally:
        if WATCH.raised and fixturedef.scope != "function":
            WATCH.shared.add(fixturedef.argname)
        WATCH.raised |= before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    report.looked_further = WATCH.raised  # xdist hands attributes on
    return report


def versions() -> dict[str, str]:
    """Return the version of every installed distribution that tests may behave by."""
    return {each.name: each.version for each in distributions() if each.name not in TOOLS}
