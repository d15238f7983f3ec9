"""Django set up for the tests: a workbench in this process, on a folder of its own.

The root's ``conftest.py`` imports this before anything is collected: set up in the middle of a collection,
Django leaves pytest without its captured streams.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from netweave.web.options import DATA, FILE, make_data_folder

TEST_DATABASE = "NETWEAVE_TEST_DATABASE_URL"
"""An empty database in place of SQLite (``test_postgres``)."""

os.environ[DATA] = tempfile.mkdtemp(prefix="netweave-tests-")


@atexit.register
def remove_data(folder: str = os.environ[DATA], process: int = os.getpid()) -> None:
    """Remove the folder at the end of this process, and not of those that it forks."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


os.environ["DJANGO_SETTINGS_MODULE"] = "netweave.web.settings"
os.environ.pop("DATABASE_URL", None)
if TEST_DATABASE in os.environ:
    os.environ["DATABASE_URL"] = os.environ[TEST_DATABASE]
make_data_folder(Path(os.environ[DATA]))
# under a host name each browser is a visitor of its own; without one all are one person (decision 0148)
(Path(os.environ[DATA]) / FILE).write_text('hosts = ["workbench.example"]\n')

import django  # noqa: E402

django.setup()
