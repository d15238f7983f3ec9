"""The number of threads is found on a clock that is made up."""

from __future__ import annotations

import itertools

import pytest

from netweave.runtime.engine.threaded import num_cores
from netweave.training.data.loader import ThreadTuner


def run(tuner, batches, decode_s, step_s, cpus):
    """Let a training run with some seconds of decoding and of computing for each batch; say its threads."""
    history = []
    for _ in range(batches):
        made_s = decode_s / min(tuner.threads, cpus)
        elapsed_s = max(made_s, step_s)
        tuner.note(elapsed_s - step_s, elapsed_s)
        history.append(tuner.threads)
    return history


def test_threads_are_added_while_they_help():
    assert run(ThreadTuner(8), 1000, decode_s=0.5, step_s=0.1, cpus=8)[-1] == 5
    assert run(ThreadTuner(8), 1000, decode_s=2.0, step_s=0.1, cpus=8)[-1] == 8


def test_none_is_added_where_nobody_waits():
    assert set(run(ThreadTuner(8), 500, decode_s=0.1, step_s=0.1, cpus=8)) == {2}


def test_one_that_does_not_help_is_taken_back_and_tried_less_and_less():
    history = run(ThreadTuner(8), 3000, decode_s=1.0, step_s=0.1, cpus=3)
    assert history[-1] == 3
    tries = [at for at, (a, b) in enumerate(itertools.pairwise(history)) if (a, b) == (3, 4)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert len(gaps) >= 3
    assert gaps == sorted(gaps)
    assert gaps[-1] > 2 * gaps[0]


def test_a_short_run_changes_nothing():
    assert set(run(ThreadTuner(8), 15, decode_s=1.0, step_s=0.1, cpus=8)) == {2}
    assert set(run(ThreadTuner(8), 100, decode_s=0.002, step_s=0.001, cpus=8)) == {2}


@pytest.mark.parametrize("most", [1, None])
def test_no_more_than_processors(most):
    tuner = ThreadTuner(most)
    run(tuner, 2000, decode_s=100.0, step_s=0.1, cpus=1000)
    assert tuner.threads == (most or num_cores())
