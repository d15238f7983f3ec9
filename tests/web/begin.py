"""Django set up for the tests: a workbench in this process, on a folder of its own.

The root's ``conftest.py`` imports this before anything is collected: set up in the middle of a collection,
Django leaves pytest without its captured streams.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from netweave.web.options import DATA, make_data_folder

os.environ[DATA] = tempfile.mkdtemp(prefix="netweave-tests-")
os.environ["DJANGO_SETTINGS_MODULE"] = "netweave.web.settings"
os.environ.pop("DATABASE_URL", None)
make_data_folder(Path(os.environ[DATA]))

import django  # noqa: E402

django.setup()
