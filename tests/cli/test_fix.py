"""Fixes on the command line: a patch, or a copy of the port that is compared again."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from netweave import cli

PADDING = Path(__file__).parents[2] / "examples" / "padding"
NAMES = ("leaves.prototxt", "leaves-symbol.json")


def main(words: list[str]) -> int:
    """Run a command and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    return int(ended.value.code or 0)


@pytest.fixture
def pair(tmp_path, monkeypatch):
    for name in NAMES:
        shutil.copy(PADDING / name, tmp_path)
    runpy.run_path(str(PADDING / "make_weights.py"))["write"](tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_patch_is_printed_and_applies(pair, capsys):
    before = (pair / NAMES[1]).read_bytes()
    assert main(["fix", *NAMES]) == 0
    patch = capsys.readouterr().out
    assert (pair / NAMES[1]).read_bytes() == before
    subprocess.run(["git", "apply", "-p1", "-"], input=patch, text=True, cwd=pair, check=True)
    assert main(["compare", *NAMES]) == 0


@pytest.mark.parametrize("command", [["fix", "-o"], ["compare", "--fix"]])
def test_a_copy_is_written_and_compared(pair, capsys, command):
    before = (pair / NAMES[1]).read_bytes()
    assert main([command[0], *NAMES, command[1], "mended-symbol.json"]) == 0
    shown = capsys.readouterr().out
    assert "= identical" in shown
    assert (pair / NAMES[1]).read_bytes() == before
    again = next(line for line in shown.splitlines() if "compared again as" in line).split()[-1]
    assert again == "mended-symbol.json,leaves-0000.params"
    assert main(["compare", NAMES[0], again]) == 0


def test_nothing_is_overwritten_unasked(pair, capsys):
    before = (pair / NAMES[1]).read_bytes()
    assert main(["fix", *NAMES, "-o", NAMES[1]]) == 2
    assert "exists" in capsys.readouterr().err
    assert (pair / NAMES[1]).read_bytes() == before
    assert main(["fix", *NAMES, "-o", NAMES[1], "--overwrite"]) == 0
    assert main(["compare", *NAMES]) == 0


@pytest.mark.parametrize("command", [["fix", "-o"], ["compare", "--fix"]])
def test_a_file_that_exists_is_told_before_the_nets_are_read(pair, capsys, command):
    (pair / "mended.py").write_text("kept")
    assert main([command[0], "missing.prototxt", NAMES[1], command[1], "mended.py"]) == 2
    assert "mended.py exists; give another name, or overwrite it (--overwrite" in capsys.readouterr().err
    assert (pair / "mended.py").read_text() == "kept"


def test_compare_overwrites_when_asked(pair, capsys):
    (pair / "mended-symbol.json").write_text("old")
    assert main(["compare", *NAMES, "--overwrite"]) == 2
    assert "--fix FILE" in capsys.readouterr().err
    assert main(["compare", *NAMES, "--fix", "mended-symbol.json", "--overwrite"]) == 0
    assert "pooling_convention" in (pair / "mended-symbol.json").read_text()


def test_a_finding_is_chosen_by_its_number(pair, capsys):
    assert main(["fix", *NAMES, "--only", "1"]) == 0
    assert "pooling_convention" in capsys.readouterr().out
    assert main(["fix", *NAMES, "--only", "9"]) == 2
    assert "there is no finding 9" in capsys.readouterr().err


def test_what_is_no_text_says_why(pair, capsys):
    assert main(["convert", NAMES[1], "port.onnx"]) == 0
    capsys.readouterr()
    assert main(["fix", NAMES[0], "port.onnx"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "port.onnx was converted from leaves-symbol.json" in shown.err
    assert main(["fix", NAMES[0], "port.onnx", "-o", "mended.onnx"]) == 2
    assert not (pair / "mended.onnx").exists()


def test_nets_that_agree_need_no_fix(pair, capsys):
    assert main(["fix", NAMES[0], NAMES[0]]) == 0
    shown = capsys.readouterr()
    assert (shown.out, "nothing is to be fixed" in shown.err) == ("", True)
