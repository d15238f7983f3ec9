"""Cache of what children made of code: what is kept, and what makes it out of date."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netweave.files import python_code, reading_cache
from netweave.files.python_code import run_reader
from netweave.files.sandbox import has_guard
from netweave.files.source import Source

CHILD = """
from pathlib import Path
from netweave.files.seccomp import answer
def work(request):
    text = Path(request["net"]).read_text()
    exec(text)
    Path("made").write_text(text + repr(request["input_shapes"]))
answer(work)
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """A function that reads a file in a child and says whether one ran."""
    child, net, weights = tmp_path / "child.py", tmp_path / "net.py", tmp_path / "weights"
    child.write_text(CHILD)
    net.write_text("1")
    weights.write_bytes(b"w")
    ran = []
    run = python_code.run_guarded
    monkeypatch.setattr(python_code, "run_guarded", lambda *args, **kw: ran.append(1) or run(*args, **kw))

    def read(**settings):
        ran.clear()
        source = Source(net, weights, **settings)
        with run_reader(source, child, ["made"]) as (made,):
            return made.read_text(), bool(ran)

    return read


@pytest.mark.multi
@pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed")
def test_what_was_read_is_kept_until_something_changes(read, tmp_path):
    assert read() == ("1{}", True)
    assert read() == ("1{}", False)
    assert read(input_shapes={"x": (1, 2)}) == ("1{'x': [1, 2]}", True)
    assert read() == ("1{}", False)
    (tmp_path / "weights").write_bytes(b"v")
    assert read() == ("1{}", True)
    (tmp_path / "net.py").write_text("2")
    assert read() == ("2{}", True)
    (tmp_path / "net.py").write_text("1")
    assert read() == ("1{}", False)


@pytest.mark.multi
@pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed")
def test_a_module_that_was_imported_and_has_changed_is_read_again(read, own_cache):
    read()
    (stamps,) = own_cache.rglob(reading_cache.STAMPS)
    assert str(Path(python_code.__file__).with_name("seccomp.py")) in stamps.read_text()
    size = Path(reading_cache.__file__).stat().st_size
    stamps.write_text(stamps.read_text().replace(f"[{size},", f"[{size + 1},"))
    assert read()[1]


@pytest.mark.multi
def test_trusted_code_is_never_kept(read, own_cache):
    assert read(trust=True)[1]
    assert read(trust=True)[1]
    assert not own_cache.exists()


def test_arrays_count_and_their_place_does_not(tmp_path):
    program = tmp_path / "child.py"
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, text in zip(paths, "xxy", strict=True):
        path.write_text(text)
    keys = [reading_cache.key_of(program, {}, [], path) for path in paths]
    assert keys[0] == keys[1] != keys[2]
    assert reading_cache.key_of(program, {}, paths[:1], None) != reading_cache.key_of(
        program, {}, paths[1:2], None
    )


def test_a_folder_counts_by_all_its_files_and_a_large_one_has_no_key(tmp_path, monkeypatch):
    inside = tmp_path / "net" / "part"
    inside.mkdir(parents=True)
    (inside / "x").write_text("1")
    first = reading_cache.key_of(tmp_path, {}, [tmp_path / "net"], None)
    (inside / "y").write_text("2")
    assert first != reading_cache.key_of(tmp_path, {}, [tmp_path / "net"], None) is not None
    monkeypatch.setattr(reading_cache, "MOST_FILES", 1)
    assert reading_cache.key_of(tmp_path, {}, [tmp_path / "net"], None) is None


def test_answers_used_longest_ago_are_removed(tmp_path, monkeypatch, own_cache):
    monkeypatch.setattr(reading_cache, "MOST_BYTES", 250)
    made, imported = tmp_path / "made", tmp_path / "imported"
    made.write_bytes(bytes(100))
    imported.write_text("[]")
    for age, key in enumerate(("first", "second", "third")):
        reading_cache.keep(key, [made], imported)
        if age < 2:
            os.utime(reading_cache.folder() / key, (age, age))
    kept = {path.name for path in (own_cache / "netweave" / "readings").iterdir()}
    assert kept == {"second", "third"}
    assert reading_cache.found("first", ["made"]) is None
    assert reading_cache.found("third", ["made"]) == [reading_cache.folder() / "third" / "made"]


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path, own_cache):
    own_cache.write_text("a file")
    made, imported = tmp_path / "made", tmp_path / "imported"
    made.write_text("")
    imported.write_text("[]")
    reading_cache.keep("key", [made], imported)
    assert reading_cache.found("key", ["made"]) is None
    own_cache.unlink()
