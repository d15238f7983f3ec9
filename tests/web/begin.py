"""Django set up for the tests: a workbench in this process, on a folder of its own.

The root's ``conftest.py`` imports this before anything is collected: set up in the middle of a collection,
Django leaves pytest without its captured streams.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from netweave.web.options import DATA, FILE, make_data_folder

TEST_DATABASE = "NETWEAVE_TEST_DATABASE_URL"
"""An empty database in place of SQLite (``test_postgres``)."""

os.environ[DATA] = tempfile.mkdtemp(prefix="netweave-tests-")
os.environ["DJANGO_SETTINGS_MODULE"] = "netweave.web.settings"
os.environ.pop("DATABASE_URL", None)
if TEST_DATABASE in os.environ:
    os.environ["DATABASE_URL"] = os.environ[TEST_DATABASE]
make_data_folder(Path(os.environ[DATA]))
# under a host name each browser is a visitor of its own; without one all are one person (decision 0148)
(Path(os.environ[DATA]) / FILE).write_text('hosts = ["workbench.example"]\n')

import django  # noqa: E402

django.setup()
