"""``tools/environment`` installs what it is asked for, and keeps what is there; pip is a stand-in here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "tools" / "environment"

STAND_IN = """#!/usr/bin/env bash
case "$*" in
  --version) echo "Python 3.11.0" ;;
  -c*) exit 0 ;;
  "-m venv"*) mkdir -p .venv/bin .venv/lib; cp "$0" .venv/bin/python ;;
  *"install"*) echo "$@" >>installed ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """A folder like a clone, whose Python notes what pip is asked for."""
    (tmp_path / "tools").mkdir()
    shutil.copy(SCRIPT, tmp_path / "tools")
    (tmp_path / "pyproject.toml").write_text("")
    os.utime(tmp_path / "pyproject.toml", (1e9, 1e9))
    python = tmp_path / "python-stand-in"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    return tmp_path


def make(clone, *extras: str) -> str:
    environment = {**os.environ, "PYTHON": str(clone / "python-stand-in")}
    command = [str(clone / "tools" / "environment"), *extras]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def installed(clone) -> list[set[str]]:
    file = clone / "installed"
    lines = file.read_text().splitlines() if file.exists() else []
    return [set(re.search(r"\.\[(.*)\]", line)[1].split(",")) for line in lines]


def test_the_page_gets_what_it_needs_and_no_framework(clone):
    said = make(clone, "web", "hdf5")
    assert installed(clone) == [{"web", "hdf5"}]
    assert "Installing packages" in said
    assert make(clone, "web", "hdf5") == ""
    assert len(installed(clone)) == 1


def test_more_is_added_to_what_is_there_and_nothing_taken_away(clone):
    make(clone, "web", "hdf5")
    make(clone)
    assert {"web", "hdf5", "torch", "tensorflow", "dev"} <= installed(clone)[1]
    os.utime(clone / "pyproject.toml", (4e9, 4e9))
    make(clone, "web")
    assert installed(clone)[2] == installed(clone)[1]
