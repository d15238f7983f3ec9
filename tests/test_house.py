"""House rules that no tool checks: what is loaded when, sizes of files, the form of decision notes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from shutil import copy

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py"))
NOTES = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
NET = ROOT / "examples" / "padding" / "leaves.prototxt"

FRAMEWORKS = ("onnxruntime", "torch", "tensorflow", "jax", "mxnet", "caffe", "chainer", "django")


def loaded_after(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after a statement."""
    script = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    return set(output_of(script).split())


def output_of(script: str) -> str:
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=paths
    )
    assert not done.stderr
    return done.stdout


def test_import_loads_nothing_but_netweave_and_the_standard_library():
    bare = loaded_after("pass")
    assert loaded_after("import netweave") - bare - set(sys.stdlib_module_names) == {"netweave"}


@pytest.mark.timing
def test_import_takes_under_a_fifth_of_a_second():
    script = "import time; start = time.process_time(); import netweave; print(time.process_time() - start)"
    assert min(float(output_of(script)) for _ in range(3)) < 0.2


def test_reading_a_net_loads_no_framework():
    assert not loaded_after(f"import netweave\nnetweave.load({str(NET)!r})") & set(FRAMEWORKS)


def test_comparing_nets_of_known_images_loads_neither_torch_nor_sympy(tmp_path):
    """The batch is open. Modules of sympy may be there unexecuted; what sympy imports is not.

    Beside its weights, which ``make demo`` writes, MXNet's net is first read without sizes: it names none.
    """
    port = copy(NET.with_name("leaves-symbol.json"), tmp_path)
    command = ["netweave", "compare", str(NET), port]
    loaded = loaded_after(
        f"import contextlib, io\nfrom netweave.cli import main\nsys.argv = {command}\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main()"
    )
    assert "onnxruntime" in loaded
    assert not loaded & {"mpmath", *FRAMEWORKS} - {"onnxruntime"}


def test_a_loop_of_the_users_own_loads_no_graph_beside_torch():
    """``netweave.exact`` and the ranks beneath it; what reads nets would double the time of a restart."""
    pytest.importorskip("torch")
    loaded = loaded_after("import netweave.exact, netweave.training.parallel.world")
    beside = loaded - loaded_after("import torch") - set(sys.stdlib_module_names)
    assert beside == {"netweave", "ml_dtypes"}


MIRRORED = {"keras/utils.py", "mxnet/util.py", "mxnet/gluon/utils.py"}
"""Modules that scripts import by the name that Keras or MXNet gave them."""


def test_what_the_type_checker_must_overlook_has_a_reason():
    """``# type: ignore[code]  # reason``: a reader cannot tell a gap of the types from a mistake."""
    sources = [path for path in SOURCES if path.is_relative_to(ROOT / "src")]
    lines = [(path, line) for path in sources for line in path.read_text().splitlines()]
    overlooked = [(path, line) for path, line in lines if "# type: " + "ignore" in line]
    assert overlooked
    reasoned = re.compile(r"# type: ignore\[[a-z,-]+\]  # \w")
    assert not [f"{path}: {line}" for path, line in overlooked if not reasoned.search(line)]


MIN_LINES, MAX_LINES = 40, 700
"""Of a file in src: with less it is a part of a subject, with more it has two."""

SHORT = {
    "*__init__.py": "the surface of a package",
    "__main__.py": "the entry point of python -m",
    "comparison/stopwatch.py": "imported on three floors of comparison",
    "formats/*/dialect.py": "a plain table of words",
    "formats/*/registry.py": "a table that its modules fill when they are imported",
    "formats/mxnet/training.py": "an entry of the table of formats",
    "formats/onnx/writer.py": "an entry of the table of formats",
    "graph/naming.py": "imported by readers that load no graph",
    "graph/opset.py": "constants on the lowest floor",
    "keras/*.py": "a module whose name is Keras'",
    "mxnet/*.py": "a module whose name is MXNet's",
    "runtime/engine/malloc.py": "imported by training and comparison, without the engine",
    "web/*.py": "a module whose name or place Django expects, or one page",
}
"""The files that may be shorter, by path in src/netweave, each with its reason."""


def test_every_file_has_one_subject():
    """House style: files of 40 to 700 lines, 500 in tests and tools; a file is never called ``utils.py``."""
    assert len(SOURCES) > 50
    lines = {path: len(path.read_text().splitlines()) for path in SOURCES}
    ours = {path: path.as_posix().partition("src/netweave/")[2] for path in SOURCES}
    most = {path: MAX_LINES if ours[path] else 500 for path in SOURCES}
    assert not [path for path in SOURCES if lines[path] > most[path]]
    short = [name for path, name in ours.items() if name and lines[path] < MIN_LINES]
    assert not [name for name in short if not any(fnmatch(name, pattern) for pattern in SHORT)]
    assert not [pattern for pattern in SHORT if not any(fnmatch(name, pattern) for name in short)]
    vague = [path for path in SOURCES if path.stem in {"utils", "util", "helpers", "common", "misc"}]
    assert {path.as_posix().partition("src/netweave/")[2] for path in vague} == MIRRORED


def header_lines(tree: ast.Module) -> int:
    """Return the last line of a file's docstring and imports."""
    last = 0
    for number, statement in enumerate(tree.body):
        match statement:
            case ast.Expr(value=ast.Constant(value=str())) if number == 0:
                pass
            case ast.Import() | ast.ImportFrom() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case _:
                break
        last = statement.end_lineno or last
    return last


def test_most_of_a_file_is_its_subject():
    """Files in src are few and full: of their lines at most 9 % are docstrings and imports at the head."""
    texts = [path.read_text() for path in SOURCES if path.is_relative_to(ROOT / "src")]
    assert len(texts) <= 900
    heads = sum(header_lines(ast.parse(text)) for text in texts)
    assert heads <= 0.09 * sum(len(text.splitlines()) for text in texts)


FRAMEWORK_NAMES = {
    *("caffe", "chainer", "darknet", "keras", "mxnet", "onnx", "openvino"),
    *("pytorch", "singa", "tensorflow", "tflite", "torch"),
}
SPELLED = {
    "comparison/fixes/python_source.py": "an editor of PyTorch's source",
    "files/python_code.py": "libraries whose arrays a setting may be",
    "graph/graph.py": "the format of a Graph that a program makes",
    "graph/ops/pooling.py": "a rounding rule by its origin",
    "runtime/backends/openvino.py": "a runtime by its name",
    "runtime/backends/runner.py": "the names of the runtimes",
    "runtime/images/preprocessing.py": "presets by the names that users know",
    "training/data/source.py": "modules of sources",
    "training/optim/rule.py": "modules of rules",
    "training/parallel/shards.py": "a library by its name",
}
"""Files outside formats, mxnet and keras that spell a framework's name, each with its reason."""


def test_what_frameworks_say_stands_with_their_formats():
    """How a framework spells or fills something is in its dialect; few other files name a framework."""
    spelling = set()
    for path in SOURCES:
        name = path.as_posix().partition("src/netweave/")[2]
        if not name or name.startswith(("formats/", "mxnet/", "keras/")):
            continue
        texts = (
            node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
        )
        if any(isinstance(text, str) and text.lower() in FRAMEWORK_NAMES for text in texts):
            spelling.add(name)
    assert spelling == SPELLED.keys()


def test_notes_have_numbers_of_their_own():
    numbers = [path.name[:4] for path in NOTES]
    assert numbers
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_a_decision_note_is_one_page_of_five_parts(path):
    text = path.read_text()
    assert re.match(rf"# {path.name[:4]} \S", text)
    parts = re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)
    assert parts == ["Context", "Choice", "Considered", "Price", "Undo"]
    assert len(text.splitlines()) <= 70
