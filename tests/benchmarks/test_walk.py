"""The walk of a command is counted: files, functions, depth, and the calls that go back up."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from benchmarks.walk import Watch

ABOVE = """
from walked.below.work import do

def start():
    return do(lambda: 0, finish)

def finish():
    return inner()

def inner():
    return 1
"""
BELOW = """
def do(ignored, call):
    helper()
    return call()

def helper():
    pass
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two layers; the upper one hands a function of its own down."""
    for name, text in (("above/face", ABOVE), ("below/work", BELOW)):
        file = tmp_path / "walked" / f"{name}.py"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "walked"
    for key in [key for key in sys.modules if key.partition(".")[0] == "walked"]:
        del sys.modules[key]


def test_a_function_handed_down_goes_up_again(package):
    watch = Watch(package)
    assert watch.run(import_module("walked.above.face").start) == 1
    assert watch.walk.to_json(["above", "below"]) == {
        "files": 2,
        "functions": 5,
        "depth": 4,
        "up": 1,
        "back": 1,
    }
    assert [str(function) for function in watch.walk.functions] == [
        "walked.above.face.start",
        "walked.below.work.do",
        "walked.below.work.helper",
        "walked.above.face.finish",
        "walked.above.face.inner",
    ]


def test_only_what_happens_inside_a_function_counts(package):
    watch = Watch(package, within="walked.above.face.finish")
    watch.run(import_module("walked.above.face").start)
    numbers = watch.walk.to_json(["above", "below"])
    assert numbers == {"files": 1, "functions": 2, "depth": 2, "up": 0, "back": 0}
