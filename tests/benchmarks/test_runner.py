"""The runner of the benchmarks, and the form of their results."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import OWN, benchmarks, main, module_of, parser_of, run, summary
from benchmarks.record import Record, option, read_results

ROOT = Path(__file__).parents[2]
RESULTS = sorted(path for path in (ROOT / "benchmarks").rglob("*.json") if '"about"' in path.read_text())
BY_HAND = {"other_people/result.json", "stranger/result.json", "versions/result.json"}
"""What scripts of other people did, what readers answered, and what ``tools/version_matrix.py`` writes."""

INPUTS = {"ports/pairs.json", "ports/skipped.json"}


def test_every_benchmark_has_a_name_and_a_line(capsys):
    main([])
    listed = capsys.readouterr().out
    assert {"faults", "hostile.flips", "fooling.rewrites", "ports"} <= set(benchmarks())
    for name, path in benchmarks().items():
        assert f"\n{name} " in listed
        assert summary(path)


@pytest.mark.parametrize("name", ["comparing", "failures", "matrix", "scale", "walk"])
def test_the_options_of_a_benchmark_are_read(name, capsys):
    if name == "failures":
        pytest.importorskip("h5py")
    path = benchmarks()[name]
    assert OWN in path.read_text()
    parser = parser_of(name, importlib.import_module(module_of(path)))
    with pytest.raises(SystemExit, match="0"):
        parser.parse_args(["--help"])
    shown = capsys.readouterr().out
    assert f"python -m benchmarks {name}" in shown
    assert "--json FILE" in shown


def test_an_unknown_name_is_told_with_what_is_near():
    with pytest.raises(SystemExit, match=r"no benchmark 'compring': did you mean comparing\?"):
        run("compring", [])
    with pytest.raises(SystemExit, match=r"no benchmark 'xyzzy': `python -m benchmarks` lists them all"):
        run("xyzzy", [])


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("benchmarks.faults.run", "run it with `python -m benchmarks faults`"),
        ("benchmarks.walk", "run it with `python -m benchmarks walk`"),
        ("benchmarks.faults.model", "`python -m benchmarks` lists the benchmarks"),
    ],
)
def test_a_module_that_is_no_program_says_how_it_is_run(module, hint):
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{module} is not a program: {hint}\n")


def test_a_result_says_what_measured_it(tmp_path):
    path = tmp_path / "result.json"
    record = Record.open("scale", ["--folder", str(tmp_path), "--runs", "2"], path)
    assert record.results == {}
    record.save({"seconds": 1.5})
    about = json.loads(path.read_text())["about"]
    assert about["benchmark"] == "scale"
    assert about["command"] == "python -m benchmarks scale --folder FOLDER --runs 2"
    assert about["commit"]
    assert about["machine"]["cores"] > 0
    assert about["versions"]["python"] == sys.version.partition(" ")[0]
    assert read_results(path) == Record.open("scale", [], path).results == {"seconds": 1.5}
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_without_a_file_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Record.open("scale", [], None).save({"seconds": 1.5})
    assert not list(tmp_path.iterdir())


def test_an_option_has_the_type_of_its_default():
    assert option("--rounds", default=3).settings == {"type": int, "default": 3}
    assert option("--deep", default=False).settings == {"action": "store_true", "default": False}
    assert option("--folder", default=Path("x")).settings["type"]("y") == Path("y")


def test_all_results_in_the_repository_have_one_form():
    found = {path.relative_to(ROOT / "benchmarks").as_posix() for path in RESULTS}
    every = {
        path.relative_to(ROOT / "benchmarks").as_posix() for path in (ROOT / "benchmarks").rglob("*.json")
    }
    assert every - found == BY_HAND | INPUTS
    for path in RESULTS:
        about = json.loads(path.read_text())["about"]
        assert set(about) == {"benchmark", "command", "commit", "machine", "versions"}, path
        assert about["benchmark"] in benchmarks()
        assert (
            about["command"].startswith(f"python -m benchmarks {about['benchmark']}")
            or " " in about["command"]
        )
        assert set(about["machine"]) == {"processor", "cores", "system"}, path
