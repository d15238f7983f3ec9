"""A run that is stopped and goes on ends as one that was not, with what recurrent layers remember."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from netweave import api
from netweave.formats.caffe.job import read_solver
from netweave.runtime.engine import SerialEngine
from netweave.training import Checkpoint, Shown, Updated, latest, write_checkpoint
from tests.training import killed, small
from tests.training.trainers import make_trainer


def job_of(folder):
    folder.mkdir()
    killed.write(folder, "recurrent")
    net = folder / "net.prototxt"
    net.write_text(net.read_text().replace("num_output: 200", "num_output: 20"))
    return api.load_job(folder / "solver.prototxt", input_shapes=killed.SHAPES["recurrent"])


def stops(event, stop_at):
    return isinstance(event, Updated) and event.iteration + 1 == stop_at


def run(job, *, stop_at=None, resume=None, watch=lambda event: None):
    with SerialEngine() as engine:
        trainer = make_trainer(
            job,
            engine=engine,
            data={"train": killed.records("recurrent")},
            resume=resume,
            watch=lambda event: (watch(event), trainer.stop() if stops(event, stop_at) else None),
        )
        assert trainer.run() == (stop_at is None)
        trainer.close()
    return latest(job.checkpoints.prefix)


@pytest.mark.slow
def test_recurrent_memory_goes_on(tmp_path):
    _, whole = run(job_of(tmp_path / "whole"))
    job = job_of(tmp_path / "stopped")
    place, first = run(job, stop_at=7)
    assert first.state["iteration"] == 7
    place, second = run(job, stop_at=16, resume=place)
    assert second.state["iteration"] == 16
    _, found = run(job, resume=place)
    assert any(name.startswith("memory:train:") and array.any() for name, array in whole.arrays.items())
    assert found.state == whole.state
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)


@pytest.mark.slow
def test_without_its_memory_it_would_not(tmp_path):
    """So that the test above can fail."""
    _, whole = run(job_of(tmp_path / "whole"))
    job = job_of(tmp_path / "stopped")
    place, first = run(job, stop_at=7)
    kept = {name: array for name, array in first.arrays.items() if not name.startswith("memory:")}
    write_checkpoint(place, Checkpoint(first.state, kept))
    _, found = run(job, resume=place)
    assert found.state["losses"] != whole.state["losses"]


def test_a_checkpoint_of_the_version_before_slices_is_read(tmp_path):
    """Written by commit d8fb865 after 8 of 20 updates of the linear classifier, in float64."""
    x, labels = small.records()

    def end(resume):
        job = read_solver(small.write(tmp_path), input_shapes={"data": (5, 6), "label": (5,)})
        job = replace(job, checkpoints=replace(job.checkpoints, at_end=False))
        with SerialEngine() as engine:
            data = {"train": {"data": x, "label": labels}}
            trainer = make_trainer(job, engine=engine, data=data, dtype=torch.float64, resume=resume)
            assert trainer.iteration == (8 if resume else 0)
            trainer.run()
            trainer.close()
        return {key: tensor.detach().numpy() for key, tensor in trainer.nets["train"].params.items()}

    whole, resumed = end(None), end(Path(__file__).with_name("before_slices.checkpoint"))
    for key, array in whole.items():
        np.testing.assert_allclose(resumed[key], array, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_the_mean_that_is_displayed_next_goes_on(tmp_path):
    """SINGA displays means over all iterations since the last display, also those before a checkpoint."""

    def shown(job, **settings):
        events = []
        schedule = replace(job.schedule, display_interval=5, display_means=True)
        run(replace(job, schedule=schedule), watch=events.append, **settings)
        return {event.iteration: event.outputs for event in events if isinstance(event, Shown)}

    whole = shown(job_of(tmp_path / "whole"))
    job = job_of(tmp_path / "stopped")
    before = shown(job, stop_at=8)
    after = shown(job, resume=latest(job.checkpoints.prefix)[0])
    assert max(before) == 5
    assert min(after) == 10
    assert before | after == whole
