"""A short form of ``benchmarks/hostile``: damaged files of every reader and source, of another seed."""

from __future__ import annotations

import sys

import pytest

from benchmarks.hostile.fork import run_batch
from benchmarks.hostile.readers import readers
from benchmarks.hostile.worker import make_case

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


def test_a_case_is_the_same_again():
    for name in ("caffe.caffemodel", "pytorch.state", "keras.json", "data.hdf5"):
        seeds = readers()[name].make_seeds()
        assert [make_case(seeds, name, 1, n) for n in range(20)] == [
            make_case(readers()[name].make_seeds(), name, 1, n) for n in range(20)
        ]
