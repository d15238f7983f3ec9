"""A run that is stopped and goes on ends as one that was not, with what recurrent layers remember."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import api
from netweave.engine import SerialEngine
from netweave.training import Checkpoint, Updated, latest, write_checkpoint
from netweave.training.trainer import Trainer
from tests.training import killed


def job_of(folder):
    folder.mkdir()
    killed.write(folder, "recurrent")
    net = folder / "net.prototxt"
    net.write_text(net.read_text().replace("num_output: 200", "num_output: 20"))
    return api.load_job(folder / "solver.prototxt", input_shapes=killed.SHAPES["recurrent"])


def stops(event, stop_at):
    return isinstance(event, Updated) and event.iteration + 1 == stop_at


def run(job, *, stop_at=None, resume=None):
    with SerialEngine() as engine:
        trainer = Trainer(
            job,
            engine=engine,
            data={"train": killed.records("recurrent")},
            resume=resume,
            watch=lambda event: trainer.stop() if stops(event, stop_at) else None,
        )
        assert trainer.run() == (stop_at is None)
        trainer.close()
    return latest(job.checkpoints.prefix)


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


def test_without_its_memory_it_would_not(tmp_path):
    """So that the test above can fail."""
    _, whole = run(job_of(tmp_path / "whole"))
    job = job_of(tmp_path / "stopped")
    place, first = run(job, stop_at=7)
    kept = {name: array for name, array in first.arrays.items() if not name.startswith("memory:")}
    write_checkpoint(place, Checkpoint(first.state, kept))
    _, found = run(job, resume=place)
    assert found.state["losses"] != whole.state["losses"]
