"""Checkpoints with a right checksum and other contents: a run resumes, or there is one typed error."""

from __future__ import annotations

import copy
import json
import random
from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.hostile.mutations.json_values import edit_value
from netweave.errors import NetweaveError, ReadError, UsageError
from netweave.formats.caffe.job import read_solver
from netweave.runtime.engine import SerialEngine
from netweave.training.checkpoint_file import Checkpoint, read_checkpoint, write_checkpoint
from tests.hostile.test_mutations import limited
from tests.training import small
from tests.training.trainers import make_trainer

SHAPES = {"data": (5, small.NUM_FEATURES), "label": (5,)}

SOLVER = small.SOLVER.replace('lr_policy: "inv"', 'lr_policy: "multistep" stepvalue: 2')


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write solver and net into the working folder."""
    monkeypatch.chdir(tmp_path)
    return small.write(tmp_path, SOLVER.replace("max_iter: 20", "max_iter: 4"))


def train(path, *, iterations, resume=None):
    job = read_solver(path, input_shapes=SHAPES)
    x, labels = small.records()
    with SerialEngine() as engine:
        trainer = make_trainer(
            job, engine=engine, data={"train": {"data": x, "label": labels}}, resume=resume
        )
        try:
            if iterations:
                trainer.run()
        finally:
            trainer.close()
    return trainer


@cache
def checkpoint_of_four_iterations():
    """Train in a folder of its own; return what the checkpoint holds."""
    import os
    import tempfile
    from pathlib import Path

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            train(small.write(Path(folder), SOLVER.replace("max_iter: 20", "max_iter: 4")), iterations=4)
            return read_checkpoint(Path(folder) / "kept/linear_iter_4.checkpoint")
        finally:
            os.chdir(before)


def resumed(files, tmp_path, *, state=None, arrays=None):
    """Resume from a checkpoint whose checksum is right."""
    whole = checkpoint_of_four_iterations()
    path = tmp_path / "x_iter_4.checkpoint"
    write_checkpoint(path, Checkpoint(state or whole.state, arrays or whole.arrays, whole.origin))
    return train(files, iterations=0, resume=path)


def test_the_unchanged_checkpoint_is_resumed_from(files, tmp_path):
    assert resumed(files, tmp_path).iteration == 4


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (["seed"], "x", "'seed' is"),
        (["seed"], 2**70, "'seed' is 1180591620717411303424, expected less than"),
        (["losses"], [0.5, "x"], "'losses' is 'x', expected a number"),
        (["solver", "iteration"], -1, "'solver.iteration' is -1, expected at least 0"),
        (["solver", "iteration"], 2**60, "'solver.iteration' is 1152921504606846976, expected less than"),
        (["solver", "iteration"], True, "'solver.iteration' is"),
        (["solver", "policy"], {"current_step": []}, r"'solver.policy.current_step' is \[\], expected a"),
        (["solver"], [], "'solver' is"),
        (["feeds", "train"], [{"batch": -1}], "'feeds.train.batch' is -1"),
        (["feeds", "train"], [{"batch": 2**63}], "'feeds.train.batch' is 9223372036854775808"),
        (["feeds", "train"], [3], "'feeds.train' is 3, expected an object"),
        (["feeds", "train"], [], "is damaged"),  # as many as there are sources
        (["history", "curves"], {"a": {"points": [[1]]}}, r"'history.curves.a.points' is \[1\]"),
        (["history", "curves"], {"a": {"points": [], "stride": 0, "count": 0}}, "stride' is 0, expected"),
        (["displayed batches"], -2, "'displayed batches' is -2"),
    ],
)  # fmt: skip
def test_values_that_no_run_has(files, tmp_path, path, value, reason):
    state = json.loads(json.dumps(checkpoint_of_four_iterations().state))
    inner = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ReadError, match=rf"^{tmp_path}/x_iter_4\.checkpoint: .*{reason}"):
        resumed(files, tmp_path, state=state)


def test_a_policy_remembers_nothing_else(files, tmp_path):
    """A checkpoint changes neither the settings nor the methods of a policy."""
    state = json.loads(json.dumps(checkpoint_of_four_iterations().state))
    for name in ("base_rate", "rate", "__class__"):
        state["solver"]["policy"] = {name: 7}
        with pytest.raises(UsageError, match=f"the checkpoint remembers '{name}', that of the Job does not"):
            resumed(files, tmp_path, state=state)


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros((4, 7)), "belongs to another net|does not match"),
        (np.zeros((4, 6), complex), "is an array of complex128, expected numbers"),
        (np.full((4, 6), b"x"), "is an array of .S1, expected numbers"),
        (np.zeros((4, 6), ">f4"), "is an array of >f4, expected numbers"),
        (np.zeros((4, 6), np.longdouble), "is an array of (float128|longdouble), expected numbers"),
    ],
)
def test_arrays_that_no_run_has(files, tmp_path, array, error):
    whole = checkpoint_of_four_iterations()
    for name in [name for name, kept in whole.arrays.items() if kept.shape == (4, 6)]:
        with pytest.raises(NetweaveError, match=error):
            resumed(files, tmp_path, arrays={**whole.arrays, name: array})


@pytest.mark.slow
def test_any_other_content_is_resumed_from_or_refused(files, tmp_path):
    whole = checkpoint_of_four_iterations()
    outcomes = []
    for number in range(400):
        rng = random.Random(number)
        holder = [json.loads(json.dumps(whole.state))]
        arrays = dict(whole.arrays)
        for _ in range(rng.choice((1, 1, 2, 3))):
            if rng.random() < 0.7:
                edit_value(rng, holder)
                continue
            name = rng.choice(sorted(arrays))
            array = copy.copy(arrays.pop(name))
            change = rng.choice(
                (
                    lambda a: a[:0],
                    lambda a: a.T,
                    lambda a: a.astype("i8"),
                    lambda a: a * np.nan,
                    lambda a: a[None],
                )
            )
            arrays[rng.choice((name, "x", "solver:x", "memory:x:0:1", "residual:y", "display:x"))] = change(
                array
            )
        state = holder[0] if holder and isinstance(holder[0], dict) else {"x": 1}
        try:
            with limited():
                resumed(files, tmp_path, state=state, arrays=arrays)
            outcomes.append("resumed")
        except NetweaveError as error:
            outcomes.append(type(error).__name__)
    assert {"resumed", "ReadError", "UsageError"} <= set(outcomes)
