"""What a wheel and a source distribution of Netweave hold, and that none is built without its pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

pytest.importorskip("hatchling")

from hatch_build import PAGES, PagesBuildHook, description

ROOT = Path(__file__).parent.parent
BUILT = {"theme.js", "viewer.css", "viewer.js", "web.css", "web.js"}
STATIC = {name + end for name in BUILT for end in ("", ".br", ".gz")}


def hook(root: Path) -> PagesBuildHook:
    return PagesBuildHook(str(root), {}, None, None, "", "wheel")


def test_a_wheel_without_pages_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = r"viewer\.js is missing: .*Install Node 20 or newer with npm.*pip install --editable \."
    with pytest.raises(RuntimeError, match=said):
        hook(tmp_path).initialize("standard", {})
    hook(tmp_path).initialize("editable", {})


def test_where_node_is_the_pages_are_built(tmp_path, monkeypatch):
    (tmp_path / "tools").mkdir()
    for name in ("npm", "tools/frontend"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n/bin/mkdir -p {tmp_path / PAGES}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    hook(tmp_path).initialize("standard", {})
    assert (tmp_path / PAGES).exists()


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with a wheel and a source distribution of this clone."""
    if not (ROOT / PAGES).is_file() and shutil.which("npm") is None:
        pytest.skip("the front end needs Node 20 to be built")
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def tracked(*folders: str) -> set[str]:
    """Return the files that git knows in folders."""
    command = ["git", "ls-files", "-z", *folders]
    return set(
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    ) - {""}


@pytest.mark.slow
def test_a_wheel_holds_the_package_its_pages_and_nothing_else(built):
    (path,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(path).namelist() if ".dist-info/" not in name}
    package = {name.removeprefix("src/") for name in tracked("src")}
    samples = {f"netweave/web/{name}" for name in tracked("examples/padding")}
    assert names == package | samples | {f"netweave/viewer/static/{name}" for name in STATIC}


@pytest.mark.slow
def test_a_source_distribution_holds_what_builds_and_tests_it(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert not tracked("src", "tests", "frontend", "hatch_build.py", "README.md", "LICENSE") - names
    assert {f"src/netweave/viewer/static/{name}" for name in STATIC} <= names
    assert not {name for name in names if ".venv/" in name or "node_modules/" in name}


@pytest.mark.slow
def test_the_description_of_a_wheel_links_to_nothing_in_the_repository(built):
    (path,) = built.glob("*.whl")
    wheel = zipfile.ZipFile(path)
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = HeaderParser().parsestr(wheel.read(name).decode())
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload()
    assert text.startswith("# Netweave")
    assert "| Caffe |" in text
    assert "```python" in text
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", text)
    assert metadata.get_all("Classifier")


def test_links_to_files_become_words():
    readme = "![A page](docs/a.png)\n\nSee [the tutorial](docs/tutorial.md#a), [ONNX](https://onnx.ai).\n"
    assert description(readme) == "See the tutorial, [ONNX](https://onnx.ai).\n"
