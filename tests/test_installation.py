"""The command that installs an extra is true for a clone, a wheel and an index."""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest

from netweave import installation
from netweave.installation import install_command

ROOT = Path(__file__).parent.parent

CLONE = "pip install --editable '.[torch,curves]' in the clone of Netweave"
WHEEL = "pip install './netweave-1.0-py3-none-any.whl[torch,curves]' where this file is"


class Installed(Distribution):
    """An installation with the record that pip keeps of where it came from."""

    def __init__(self, record: dict[str, object] | None) -> None:
        self.record = record

    def read_text(self, filename: str) -> str | None:
        assert filename == "direct_url.json"
        return None if self.record is None else json.dumps(self.record)

    def locate_file(self, path):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("record", "command"),
    [
        ({"url": "file:///home/me/netweave", "dir_info": {"editable": True}}, CLONE),
        ({"url": "file:///home/me/netweave", "dir_info": {}}, CLONE),
        ({"url": "file:///tmp/netweave-1.0-py3-none-any.whl", "archive_info": {}}, WHEEL),
        ({"url": "https://host.invalid/netweave-1.0%2Bcpu.tar.gz"},
         "pip install './netweave-1.0+cpu.tar.gz[torch,curves]' where this file is"),
        (None, "pip install 'netweave[torch,curves]'"),
    ],
)  # fmt: skip
def test_the_command_fits_where_netweave_came_from(monkeypatch, record, command):
    monkeypatch.setattr(installation, "distribution", lambda name: Installed(record))
    assert install_command("torch", "curves") == command


def test_sources_on_the_path_are_a_clone(monkeypatch):
    def distribution(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", distribution)
    assert install_command("torch", "curves") == CLONE


def test_nothing_says_to_install_netweave_from_an_index():
    """The name is not registered there; the one message for when it is stands in ``installation``."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    sources = [path for folder in ("src", "frontend/src", "examples") for path in (ROOT / folder).rglob("*")]
    texts = [path for path in sources if path.suffix in {".py", ".html", ".js", ".ts", ".md"}] + pages
    said = re.compile(r"pip install\s+['\"]?netweave(?![-\w./])")
    found = {path.relative_to(ROOT).as_posix() for path in texts if said.search(path.read_text())}
    assert found == {"src/netweave/installation.py"}
