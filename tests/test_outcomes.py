"""The plugin of every test run: what was left out or passed elsewhere; and the second try of flaky tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each starts pytest

ROOT = Path(__file__).parent.parent

TESTS = {
    "test_some.py": """
import pytest

def test_that_passes():
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_in_the_sandbox(number):
    pytest.skip("needs bubblewrap")

def test_of_a_net():
    pytest.skip("the corpus is not here: set NETWEAVE_CORPUS to its folder")
""",
    "test_other.py": "import pytest\npytest.importorskip('sklearn_that_nobody_has')\n",
    "test_curves.py": """
import sys
import pytest

sys.modules["matplotlib"] = None
pytest.importorskip("matplotlib", exc_type=ImportError)
""",
}

BLOCK = """
-- left out: what is not on this machine --
bubblewrap               2 tests  apt install bubblewrap
matplotlib               1 file   tools/environment curves
sklearn_that_nobody_has  1 file   pip install sklearn_that_nobody_has
the corpus of real nets  1 test   NETWEAVE_CORPUS=FOLDER make test
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  timing\n  browser\n")
    return tmp_path


def run(folder: Path, *arguments: str, module: str = "pytest", **variables: str) -> tuple[int, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "OMP", "FLAKY"))
    }
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin -p tests.outcomes"}
    environment = {**kept, "PYTHONPATH": str(ROOT), **plugins, **variables}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_ends_with_what_was_left_out_and_how_to_get_it(folder, processes):
    for name, text in TESTS.items():
        (folder / name).write_text(text)
    status, out = run(folder, "--numprocesses", processes)
    assert status == 0
    block = re.sub(r"-{3,}", "--", out[out.index("left out:") - 30 :])
    assert BLOCK.strip() in block
    record = json.loads((folder / ".pytest_cache" / "outcomes.json").read_text())
    assert record["passed"] == ["test_some.py::test_that_passes"]


def test_nothing_is_said_where_nothing_is_left_out(folder):
    (folder / "test_all.py").write_text("def test_that_passes():\n    pass\n")
    assert "left out" not in run(folder)[1]


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        ((), {"OMP_NUM_THREADS": "16"}, "one process; threads of torch in each: 16 "),
        (("--numprocesses", "2"), {}, "2 processes; threads of torch in each: 1 "),
        (("--numprocesses", "2"), {"OMP_NUM_THREADS": "4"}, "2 processes; threads of torch in each: 4 "),
    ],
)
def test_a_run_says_its_threads(folder, arguments, variables, said):
    (folder / "test_all.py").write_text("def test_that_passes():\n    pass\n")
    assert said in run(folder, *arguments, **variables)[1]


def test_what_passed_elsewhere_is_not_run_again(folder):
    for name, text in TESTS.items():
        (folder / name).write_text(text)
    run(folder)
    record = (folder / ".pytest_cache" / "outcomes.json").rename(folder / "elsewhere.json")
    _, out = run(folder, "--except-passed", str(record))
    assert re.search(r"\b5 skipped, 1 deselected\b|\b1 deselected\b", out)
    assert json.loads((folder / ".pytest_cache" / "outcomes.json").read_text())["passed"] == []


TWICE = """
import pathlib
import pytest

@pytest.mark.{mark}
def test_that_fails_first():
    tried = pathlib.Path("tried")
    was_tried = tried.exists()
    tried.touch()
    assert was_tried {more}

def test_that_passes():
    pass
"""


def test_a_failed_test_of_times_is_tried_again_and_named(folder):
    (folder / "test_twice.py").write_text(TWICE.format(mark="timing", more=""))
    status, out = run(folder, "test_twice.py", module="tools.retry", FLAKY=str(folder / "flaky"))
    line = "flaky: test_twice.py::test_that_fails_first failed, and passed alone\n"
    assert (status, (folder / "flaky").read_text()) == (0, line)
    assert line in out
    record = json.loads((folder / ".pytest_cache" / "outcomes.json").read_text())
    assert record["passed"] == ["test_twice.py::test_that_passes", "test_twice.py::test_that_fails_first"]


@pytest.mark.parametrize(("mark", "more"), [("timing", "and False"), ("skipif(False, reason='')", "")])
def test_what_fails_twice_or_measures_nothing_fails(folder, mark, more):
    (folder / "test_twice.py").write_text(TWICE.format(mark=mark, more=more))
    status, out = run(folder, "test_twice.py", module="tools.retry", FLAKY=str(folder / "flaky"))
    assert status == 1
    assert not (folder / "flaky").exists()
    assert ("once more, alone" in out) == (mark == "timing")


DRAWN = """
import pathlib
from hypothesis import given, strategies
from tests.time_limits import TooSlowError

was_tried = pathlib.Path("tried").exists()
pathlib.Path("tried").touch()

@given(strategies.integers())
def test_that_fails_first(number):
    if not was_tried:
        {failure}
"""


@pytest.mark.parametrize(
    ("failure", "status"), [("raise TooSlowError('it took 3 s')", 0), ("assert number is None", 1)]
)
def test_a_drawn_test_is_tried_again_only_if_it_was_slow(folder, failure, status):
    (folder / "test_drawn.py").write_text(DRAWN.format(failure=failure))
    assert run(folder, "test_drawn.py", module="tools.retry")[0] == status


def test_a_file_whose_package_is_missing_is_left_out_and_a_wrong_import_fails(folder):
    (folder / "conftest.py").write_text(
        "from tests import outcomes\noutcomes.EXTRAS['of_an_extra'] = 'curves'\n"
    )
    (folder / "test_wrong.py").write_text("import of_nothing\n")
    (folder / "test_training.py").write_text(
        "try:\n    import of_an_extra\nexcept ImportError as error:\n    raise RuntimeError from error\n"
    )
    status, out = run(folder)
    assert status == 2
    assert "ERROR test_wrong.py" in out
    assert "ERROR test_training.py" not in out
    assert "of_an_extra  1 file  tools/environment curves" in out


FURTHER = {
    "test_plain.py": "def test_plain():\n    import json\n    assert json.dumps(1) == '1'\n",
    "test_further.py": """
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from multiprocessing import get_context

import pytest

@pytest.fixture(scope="module")
def shared():
    return find_spec("package_that_nobody_has")

def test_a_package():
    assert find_spec("package_that_nobody_has") is None

def test_an_import():
    with pytest.raises(ImportError):
        import package_that_nobody_has.inner

def test_a_finder():
    assert PathFinder.find_spec("package_that_nobody_has") is None

def test_a_process():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_a_spawned_process():
    process = get_context("spawn").Process(target=int)
    process.start()
    process.join()

def test_what_prepares(shared):
    pass

def test_what_shares(shared):
    pass
""",
}


def test_what_looks_no_further_is_not_run_again_with_other_packages(folder):
    for name, text in FURTHER.items():
        (folder / name).write_text(text)
    assert run(folder, "--numprocesses", "2")[0] == 0
    first = json.loads((folder / ".pytest_cache" / "outcomes.json").read_text())
    assert set(first["passed"]) - set(first["looked_further"]) == {"test_plain.py::test_plain"}
    record = folder / "elsewhere.json"
    record.write_text(json.dumps(first))
    assert "7 passed, 1 deselected" in run(folder, "--except-alike", str(record))[1]
    record.write_text(json.dumps({**first, "versions": {**first["versions"], "pytest": "0.1"}}))
    assert "8 passed" in run(folder, "--except-alike", str(record))[1]
