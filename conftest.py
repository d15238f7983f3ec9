"""What holds for every test, those in docstrings too: its environment, and what is not collected."""

from __future__ import annotations

import gc
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Set before torch is loaded, which reads them once. There is a worker for each core, and one thread in each.
# Where there are several, since nobody or the caller said otherwise, they sleep while they wait: awake they
# keep other processes from computing, and take ten times as long beside these. Tests about threads set their
# number themselves.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["tests.outcomes"]

# Workers inherit them from pytest, where readline sets them; tests expect the width of a pipe.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

collect_ignore_glob = [
    "tests/formats/chainer/nets/*",
    "tests/formats/pytorch/nets/*",
]  # read as somebody's files
if not find_spec("django"):
    collect_ignore_glob.append("tests/web/*")
collect_ignore_glob.append("src/netweave/formats/*/child.py")  # programs of their own, which nothing imports
collect_ignore_glob.append("src/netweave/formats/keras/functional.py")  # of such a program alone
collect_ignore_glob.append("src/netweave/formats/keras/traced.py")  # likewise
collect_ignore_glob.append("tests/files/sandbox_attack.py")  # likewise
collect_ignore_glob.append("src/netweave/web/*")  # Django's modules cannot be imported before it is set up

if find_spec("django"):
    import tests.web.begin  # noqa: F401 (sets Django up)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without searching for cycles in what is collected, then or while the tests run.

    While they run, cycles are searched for less often: it took a seventh of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.set_threshold(20_000, 50, 20)
        gc.enable()
        gc.freeze()
