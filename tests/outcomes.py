"""A pytest plugin: the threads of a run, what it left out and how to get it, and which tests passed.

Every run writes its outcomes to ``.pytest_cache/outcomes.json``; ``--except-passed FILE`` leaves out what
passed in the run that wrote FILE, ``--except-alike FILE`` only those of them that would also pass with other
packages installed (tests/alike.py).
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import alike

RECORD = Path(".pytest_cache", "outcomes.json")
"""Where the outcomes of the latest run lie, in the root of the clone."""

RETRIED = {"browser", "timing"}
"""Marks of tests that a busy machine can fail: tools/retry runs them once more.

A failure of ``within`` (tests/time_limits.py) counts as one of ``timing``.
"""

TOOLS = (
    ("bubblewrap", r"bubblewrap", "apt install bubblewrap"),
    ("Chromium", r"chromium", "apt install chromium"),
    ("Node 20", r"Node 20|front end|axe-core", "install Node 20 with npm, then run make frontend"),
    ("the corpus of real nets", r"corpus", "NETWEAVE_CORPUS=FOLDER make test"),
)
"""What a machine may lack: its name, the reasons of skipped tests that speak of it, and how to install it."""

EXTRAS = {
    "cv2": "opencv",
    "django": "web",
    "fsspec": "data",
    "h5py": "hdf5",
    "jax": "jax",
    "jsonschema": "mcp",
    "keras": "keras",
    "lmdb": "data",
    "matplotlib": "curves",
    "onnxscript": "torch",
    "openvino": "openvino",
    "playwright": "dev",
    "pycocotools": "boxes",
    "safetensors": "torch",
    "scipy": "examples",
    "sklearn": "examples",
    "tensorboard": "curves",
    "torch": "torch",
}
"""The extra that brings a module which tests import."""


@dataclass(slots=True)
class Outcomes:
    """What became of the tests of a run, by node id."""

    passed: set[str] = field(default_factory=set)
    looked_further: set[str] = field(default_factory=set)  # what they show may depend on other packages
    failed: dict[str, list[str]] = field(default_factory=dict)  # with its marks among RETRIED
    skipped: dict[str, str] = field(default_factory=dict)  # with the reason
    files: dict[str, str] = field(default_factory=dict)  # that cannot be imported, with the reason

    def add(self, report: pytest.TestReport) -> None:
        """Take in the report of the setup, the call or the teardown of a test."""
        if getattr(report, "looked_further", False):
            self.looked_further.add(report.nodeid)
        if report.failed:
            self.passed.discard(report.nodeid)
            marks = {"timing"} if "TooSlowError: " in cause(report) else RETRIED & set(report.keywords)
            self.failed[report.nodeid] = sorted(marks)
        elif report.skipped and not hasattr(report, "wasxfail"):
            self.skipped[report.nodeid] = reason(report)
        elif report.when == "call":
            self.passed.add(report.nodeid)

    def left_out(self) -> list[str]:
        """Return a line for each missing thing: its name, how many tests need it, how to install it."""
        tests = Counter(missing(why) for why in self.skipped.values())
        files = Counter(missing(why) for why in self.files.values())
        rows = []
        for name, command in sorted(tests.keys() | files.keys()):
            key = (name, command)
            counts = [
                f"{number} {unit}{'s' if number > 1 else ''}"
                for number, unit in ((tests[key], "test"), (files[key], "file"))
                if number
            ]
            rows.append((name, " and ".join(counts), command))
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        return [f"{name:{widths[0]}}  {count:{widths[1]}}  {command}" for name, count, command in rows]


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test or a file was skipped."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def cause(report: pytest.TestReport) -> str:
    """Return the first line of the exception that failed a test."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message.partition("\n")[0] if crash is not None else ""


def missing(why: str) -> tuple[str, str]:
    """Return what a skipped test needs, and the command that installs it.

    >>> missing("Skipped: needs bubblewrap")
    ('bubblewrap', 'apt install bubblewrap')
    >>> missing("Skipped: could not import 'sklearn': No module named 'sklearn'")
    ('sklearn', 'tools/environment examples')
    """
    for name, pattern, command in TOOLS:
        if re.search(pattern, why, re.IGNORECASE):
            return name, command
    if match := re.search(r"could not import '(\w+)", why):
        module = match[1]
        installs = f"tools/environment {EXTRAS[module]}" if module in EXTRAS else f"pip install {module}"
        return module, installs
    return "something else", "tools/test -rs names it"


OUTCOMES = pytest.StashKey[Outcomes]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("outcomes")
    group.addoption("--except-passed", metavar="FILE", help="leave out what passed in a recorded run")
    group.addoption(
        "--except-alike",
        metavar="FILE",
        help="leave out what passed there and would pass here, whatever is here",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = Outcomes()
    config.pluginmanager.register(Collector(config), "outcomes of this run")
    config.pluginmanager.register(alike, "tests that behave alike")


class Collector:
    """The hooks that fill the outcomes; with pytest-xdist, in the workers and in their parent."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes = config.stash[OUTCOMES]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.outcomes.add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.outcomes.files[report.nodeid] = reason(report)

    def pytest_sessionfinish(self) -> None:
        output = getattr(self.config, "workeroutput", None)
        if output is not None:  # a worker: its parent hears of tests, but not of files
            output["skipped_files"] = self.outcomes.files

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        self.outcomes.files.update(getattr(node, "workeroutput", {}).get("skipped_files", {}))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    """Skip a file that cannot be imported because the package of an extra is not installed."""
    report = yield
    absent = re.search(r"No module named '(\w+)", str(report.longrepr)) if report.failed else None
    if absent and absent[1] in EXTRAS and find_spec(absent[1]) is None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, f"Skipped: could not import {absent[1]!r}")
    return report


def pytest_report_header(config: pytest.Config) -> str:
    number = getattr(config.option, "numprocesses", None)
    processes = f"{number} processes" if number else "one process"
    threads = os.environ.get("OMP_NUM_THREADS") or ("1" if number else f"{os.cpu_count()}, one for each core")
    return f"threads: {processes}; threads of torch in each: {threads} (OMP_NUM_THREADS sets their number)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = set()
    if record := config.getoption("except_passed"):
        passed |= set(json.loads(Path(record).read_text())["passed"])
    if record := config.getoption("except_alike"):
        there = json.loads(Path(record).read_text())
        if there["versions"].items() <= alike.versions().items():
            passed |= set(there["passed"]) - set(there["looked_further"])
    if passed:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    lines = config.stash[OUTCOMES].left_out()
    if lines:
        terminalreporter.section("left out: what is not on this machine", sep="-")
        terminalreporter.write("".join(f"{line}\n" for line in lines))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        outcomes = config.stash[OUTCOMES]
        text = json.dumps(
            {
                "passed": sorted(outcomes.passed),
                "failed": outcomes.failed,
                "skipped": outcomes.skipped,
                "looked_further": sorted(outcomes.looked_further),
                "versions": alike.versions(),
            }
        )
        file = config.rootpath / RECORD
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
