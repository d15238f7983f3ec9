"""A short form of ``benchmarks/hostile``: damaged files of every reader and source, of another seed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.hostile.fork import run_batch
from benchmarks.hostile.readers import Seed, readers
from benchmarks.hostile.results import Results, of_record
from benchmarks.hostile.worker import MAX_BYTES, MAX_SECONDS, Outcome, make_case
from netweave.errors import ReadError

SEED = 1000
SECONDS = 0.3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multi,
    pytest.mark.skipif(sys.platform != "linux", reason="measures by /proc"),
]


@pytest.mark.parametrize("name", readers())
def test_undamaged_seeds_are_read(name, tmp_path, monkeypatch):
    """Damage to a file that is refused as it is would only show that it is refused again."""
    seeds = readers()[name].make_seeds()
    assert seeds
    for number, seed in enumerate(seeds):
        folder = tmp_path / str(number)
        folder.mkdir()
        seed.write(folder)
        monkeypatch.chdir(folder)
        seed.read(folder)


@pytest.mark.parametrize("name", readers())
def test_damaged_files_are_read_or_refused_in_little_time_and_memory(name):
    seeds = readers()[name].make_seeds()
    outcomes = run_batch(seeds, name, SEED, 0, SECONDS)
    assert outcomes
    faults = {
        f"{name}:{SEED}:{number}": (outcome.faults, outcome.key)
        for number, outcome in outcomes
        if outcome.faults
    }
    assert faults == {}


NEVER_REFUSE = {"code.imports", "pytorch.container"}
"""Readers that say what a file is, and nothing of a file that is none."""


@pytest.mark.parametrize("name", sorted(readers().keys() - NEVER_REFUSE))
def test_damage_is_noticed(name):
    """A reader that refuses nothing reads something else than the damaged file, such as a cached answer."""
    outcomes = run_batch(readers()[name].make_seeds(), name, SEED, 0, 10.0, 40)
    assert "typed" in {outcome.kind for _, outcome in outcomes}


def test_a_case_is_the_same_again():
    for name in ("caffe.caffemodel", "pytorch.state", "keras.json", "data.hdf5"):
        seeds = readers()[name].make_seeds()
        assert [make_case(seeds, name, 1, n) for n in range(20)] == [
            make_case(readers()[name].make_seeds(), name, 1, n) for n in range(20)
        ]


def misbehave(how):
    """Do what a reader must not do."""
    match how:
        case b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"untyped":
            raise KeyError
        case b"slow":
            stop = time.process_time() + MAX_SECONDS + 0.2
            while time.process_time() < stop:
                pass
        case b"large":
            bytearray(MAX_BYTES)
        case b"typed":
            raise ReadError("x")
        case b"child":
            subprocess.run([sys.executable, "-c", f"bytearray({MAX_BYTES})"], check=True)


def test_a_case_that_crashes_hangs_or_fills_the_memory_is_counted():
    """What the counts rest on: a reader that misbehaves in a known way is caught in each way."""

    def read(folder):
        misbehave((folder / "x").read_bytes())

    kinds = (b"typed", b"untyped", b"crash", b"read", b"slow", b"large", b"child")
    seeds = [Seed({"x": b"whole"}, "x", lambda rng, whole, kind=kind: kind, read) for kind in kinds]
    found = {}
    number = 0
    while len(found) < len(kinds):
        for at, outcome in run_batch(seeds, "made", SEED, number, 60.0, 1):
            found[kinds[make_case(seeds, "made", SEED, at)[0]]] = (outcome.kind, outcome.faults)
            number = at + 1
    assert found == {
        b"typed": ("typed", []),
        b"untyped": ("untyped", ["untyped"]),
        b"crash": ("crashed", ["crashed"]),
        b"read": ("read", []),
        b"slow": ("read", ["slow"]),
        b"large": ("read", ["large"]),
        b"child": ("read", ["large"]),
    }


def test_findings_are_counted_until_they_are_mended():
    result = Results(1)
    slow, good = Outcome("typed", 3.0, 10**8), Outcome("typed", 0.1, 10**8)
    result.add("x", 0, slow, "old")
    result.add("x", 1, good, "old")
    again = of_record(json.loads(json.dumps(result.to_json())), 1)
    assert again == result
    assert (again.totals()["slow"], again.of("x").typed) == (1, 2)
    (finding,) = again.open_findings()
    assert finding.place == ("x", 1, 0)
    again.mend(finding, slow, Outcome("read", 0.2, 10**8), "new")
    assert (again.totals()["slow"], again.of("x").typed, again.of("x").read, again.totals()["cases"]) == (
        0,
        1,
        1,
        2,
    )
    assert (again.open_findings(), again.findings[0].mended, again.of("x").slowest_s) == ([], "new", 0.2)
