"""Pytest, with a second try for tests that a busy machine can fail.

``python -m tools.retry ARGUMENT...`` runs pytest with these arguments. If all tests that fail drive a browser
or assert a time (the marks in tests/outcomes.py), it runs these tests once more, alone, and names those
that then pass as flaky, also in the file ``$FLAKY`` if that is set. A test that fails twice fails the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

RECORD = Path(".pytest_cache", "outcomes.json")
"""Where tests/outcomes.py writes what became of each test."""

TESTS_FAILED = 1
"""Pytest's exit status when all tests were collected and run, and some of them failed."""


def main(arguments: list[str]) -> int:
    """Run pytest and return its exit status: that of the second try, if there was one."""
    RECORD.unlink(missing_ok=True)
    status = _pytest(*arguments)
    if status != TESTS_FAILED or not RECORD.exists():
        return status
    first = json.loads(RECORD.read_text())
    failed = list(first["failed"])
    if not failed or not all(first["failed"].values()):
        return status
    print(f"Trying {len(failed)} failed tests of browsers or times once more, alone", flush=True)
    status = _pytest(*failed)
    if not status:
        _report([f"flaky: {name} failed, and passed alone" for name in failed])
        RECORD.write_text(json.dumps(first | {"passed": first["passed"] + failed, "failed": {}}))
    return status


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _report(lines: list[str]) -> None:
    print(*lines, sep="\n", flush=True)
    if "FLAKY" in os.environ:
        with Path(os.environ["FLAKY"]).open("a") as file:
            print(*lines, sep="\n", file=file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
