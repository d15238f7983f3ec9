"""The tools for a machine that has nothing, and of a release: what they call wrong, and what they refuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import version_matrix, whole_page

ROOT = Path(__file__).parent.parent

PAGE = (
    '<!doctype html><html><body><script type="application/json" id="document">{document}</script>'
    "<script>{script}</script></body></html>\n"
)
DOCUMENT = json.dumps({"groups": {"count": 9}})
SCRIPT = "x" * 200_000


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (PAGE.format(document=DOCUMENT, script=SCRIPT), []),
        (PAGE.format(document="{}", script=SCRIPT), ["has no document with groups of layers"]),
        (PAGE.format(document=DOCUMENT[:-1], script=SCRIPT), ["has no document with groups of layers"]),
        (PAGE.format(document=DOCUMENT, script=""), ["has no script of the viewer"]),
        (PAGE.format(document=DOCUMENT, script=SCRIPT)[:-8], ["is cut off"]),
        ('<link href="https://a.invalid/b.css">' + PAGE.format(document=DOCUMENT, script=SCRIPT),
         ["loads something from elsewhere"]),
    ],
)  # fmt: skip
def test_a_page_that_is_not_whole_is_told(text, wrong):
    assert whole_page.wrong_parts(text) == wrong


def test_a_page_that_draws_nothing_is_told():
    assert whole_page.wrong_drawing('<div class="nw-viewer" data-boxes="12">') == []
    assert whole_page.wrong_drawing('<div class="nw-viewer" data-boxes="0">') == ["shows no boxes of layers"]


def test_a_version_without_a_build_for_cpus_is_not_tried(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (absent,) = version_matrix.rows_of("3.14")
    assert (absent["outcome"], absent["details"]) == ("not tried", "this Python is not on the machine")
    tried = version_matrix.row("3.11", "2.13.0", "passed", "5 passed")
    text = version_matrix.page({"date": "2026-11-24", "system": "Linux", "rows": [tried, absent]})
    assert "| 3.11 | 2.13.0 | passed | 5 passed |\n" in text
    assert "| 3.14 | any | not tried | this Python is not on the machine |\n" in text
    assert version_matrix.cpu_build("2.13.0", ["2.15.0", "2.13.0+cpu"], "linux") == "2.13.0+cpu"
    assert version_matrix.cpu_build("2.15.0", ["2.15.0", "2.13.0+cpu"], "linux") == ""
    assert version_matrix.cpu_build("2.15.0", ["2.15.0"], "darwin") == "2.15.0"


def test_the_record_of_versions_is_the_page():
    record = json.loads(version_matrix.RECORD.read_text())
    assert version_matrix.PAGE.read_text() == version_matrix.page(record)


def test_an_unknown_part_is_named():
    done = subprocess.run([ROOT / "tools" / "bare", "all"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tools/bare: unknown part 'all', expected full, core or wheel\n"


@pytest.fixture
def clone(tmp_path):
    """A clone with nothing but what a release looks at first."""
    for name in ("tools/release", "src/netweave/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = {
        f"GIT_{role}_{what}": "a@b.invalid" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **who}, check=True, capture_output=True
    )


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")


def refused(folder: Path) -> str:
    done = subprocess.run([folder / "tools" / "release"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    return done.stderr


def test_a_release_needs_a_clean_clone_its_section_and_a_new_tag(clone):
    assert "CHANGELOG.md has no section '## 0.1.0'" in refused(clone)
    (clone / "CHANGELOG.md").write_text("## [0.1.0] - 2026-11-24\n")
    assert "commit or remove your changes first" in refused(clone)
    commit(clone)
    git(clone, "tag", "-a", "v0.1.0", "-m", "x")
    assert "the tag v0.1.0 exists" in refused(clone)
