"""What a hostile child leaves for its parent: files and errors that are made to harm whoever reads them."""

from __future__ import annotations

import json
import os
import resource

import pytest

from netweave.errors import MAX_MESSAGE, CodeError, NetweaveError, ReadError, UsageError
from netweave.files.sandbox import MAX_ANSWER_BYTES, Outcome
from netweave.files.seccomp import ERROR, as_error, failure


def told(folder, content: bytes | str | object) -> NetweaveError:
    """Return the error that a parent makes of a child's file."""
    if not isinstance(content, (bytes, str)):
        content = json.dumps(content)
    (folder / ERROR).write_bytes(content.encode() if isinstance(content, str) else content)
    return failure(Outcome(1, "the end of the report", folder), "model.py")


def test_an_honest_error_is_the_same_in_the_parent(tmp_path):
    error = told(tmp_path, {"error": "ReadError", "message": "is cut off", "place": "model.py:3"})
    assert isinstance(error, ReadError)
    assert str(error) == "model.py:3: is cut off"
    error = told(tmp_path, {"error": "UsageError", "message": "no input", "unknown_inputs": ["x"]})
    assert isinstance(error, UsageError)
    assert error.unknown_inputs == ("x",)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        "[" * 100_000,
        {"error": ["ReadError"]},
        {"error": {}},
        {"error": "SystemExit", "message": "x"},
        {"error": "NetweaveError"},
        [1, 2],
        None,
        '{"error": "ReadError"' + " " * 75_000_000 + "}",
    ],
    ids=["bytes", "nested", "a list", "an object", "another class", "the base", "no object", "null", "75 MB"],
)
def test_what_is_no_error_is_one_of_the_process(tmp_path, content):
    error = told(tmp_path, content)
    assert isinstance(error, CodeError)
    assert str(error) == "model.py: the process that read it ended with status 1: the end of the report"


def test_large_errors_are_cut_and_wrong_kinds_are_texts(tmp_path):
    error = told(
        tmp_path,
        {"error": "ReadError", "message": "x" * 900_000, "place": ["p"] * 1000, "open_inputs": {"a": 1}},
    )
    assert isinstance(error, ReadError)
    assert len(str(error)) < MAX_MESSAGE + 600
    error = told(tmp_path, {"error": "ReadError", "message": None, "open_inputs": [["x" * 900]] * 500})
    assert isinstance(error, ReadError)
    assert len(error.open_inputs) == 100
    assert max(map(len, error.open_inputs)) == 200


@pytest.mark.parametrize("kind", ["sparse", "too large", "a link", "a folder", "a pipe"])
def test_files_that_would_harm_their_reader_are_none(tmp_path, kind):
    path = tmp_path / "net.onnx"
    if kind in {"sparse", "too large"}:
        with path.open("wb") as file:
            file.truncate(1 << 30 if kind == "sparse" else MAX_ANSWER_BYTES + 1)
    elif kind == "a link":
        path.symlink_to("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert Outcome(0, "", tmp_path).file("net.onnx") is None


def test_an_error_of_gigabytes_is_not_read(tmp_path):
    """Written for real: a sparse file is refused for being one."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (tmp_path / ERROR).open("wb") as file:
        for _ in range(300):
            file.write(b"[" * (1 << 20))
    assert isinstance(failure(Outcome(1, "", tmp_path), "model.py"), CodeError)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KB


@pytest.mark.parametrize(
    ("error", "request_", "message"),
    [
        (TypeError("expected int, got Absent"), {"missing": ["yacs", "pytz"]}, "install it (yacs, pytz)"),
        (AttributeError("'list' object has no shape"), {"arguments": "[1]"}, "its arguments are literals"),
        (TypeError("unexpected argument 'stride'"), {"arguments": "[1, 2]"}, None),
        (FileNotFoundError("a.cfg"), {}, "--trust runs code that you trust"),
        (FileNotFoundError("a.cfg"), {"trusted_folder": "/"}, None),
        (ValueError("no"), {"arguments": "1", "missing": ["yacs"]}, None),
    ],
)
def test_advice_is_for_what_the_code_was_given(error, request_, message):
    text = str(as_error(error, {"net": "/m.py", "place": "m.py", **request_}))
    assert text.startswith(f"m.py: its code fails: {type(error).__name__}: {error}")
    assert message in text if message else ";" not in text
