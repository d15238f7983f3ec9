"""Kernels of a training: recorded in checkpoints, so that a run that is resumed ends with the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.errors import ReadError  # noqa: E402 - after the check for torch
from netweave.runtime.backends.torch import kernels  # noqa: E402
from netweave.runtime.backends.torch.kernels import ATEN, ONEDNN, PLAIN, TriedKernels  # noqa: E402
from netweave.runtime.engine import SerialEngine  # noqa: E402
from netweave.training import latest, write_checkpoint  # noqa: E402
from netweave.training.checkpoint_file import read_run  # noqa: E402
from tests.training.small import SOLVER  # noqa: E402
from tests.training.test_trainer import data, job_of  # noqa: E402
from tests.training.trainers import make_trainer  # noqa: E402

pytestmark = pytest.mark.skipif(not kernels._has_onednn(), reason="this torch has no oneDNN")


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    monkeypatch.setattr(kernels, "MIN_MULTIPLY_ADDS", 1)


def trials_end_with(monkeypatch, name):
    """Have all trials end with a candidate, whatever is remembered."""
    monkeypatch.setattr(TriedKernels, "_try", lambda tried, candidates: name)
    monkeypatch.setattr("netweave.runtime.backends.trials.Choices.get", lambda choices, question: None)


def checkpoint_after(folder, *, stop_at=None, resume=None):
    folder.mkdir(exist_ok=True)
    job = job_of(folder, SOLVER.replace("kept/linear", str(folder / "kept/linear")))
    if stop_at is not None:
        job = replace(job, schedule=replace(job.schedule, max_iterations=stop_at))
    with SerialEngine() as engine:
        trainer = make_trainer(job, engine=engine, data=data(), resume=resume)
        assert trainer.run()
        trainer.close()
        assert all(net.module.kernels is PLAIN for net in trainer.nets.values())
    return latest(job.checkpoints.prefix)


def test_a_run_that_is_resumed_keeps_its_kernels(tmp_path, monkeypatch):
    trials_end_with(monkeypatch, ONEDNN)
    _, whole = checkpoint_after(tmp_path / "whole")
    place, first = checkpoint_after(tmp_path / "stopped", stop_at=8)
    (choices,) = first.state["kernels"]
    assert set(choices.values()) == {ONEDNN}
    trials_end_with(monkeypatch, ATEN)
    _, other = checkpoint_after(tmp_path / "other")
    _, found = checkpoint_after(tmp_path / "stopped", resume=place)
    assert found.state == whole.state
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    assert set(other.state["kernels"][0].values()) == {ATEN}


def test_a_checkpoint_from_before_trials_goes_on_with_torchs_kernels(tmp_path, monkeypatch):
    trials_end_with(monkeypatch, ONEDNN)
    place, first = checkpoint_after(tmp_path / "run", stop_at=8)
    state = {name: value for name, value in first.state.items() if name != "kernels"}
    write_checkpoint(place, replace(first, state=state))
    _, last = checkpoint_after(tmp_path / "run", resume=place)
    assert "kernels" not in last.state


@pytest.mark.parametrize("options", [{"same_bits": 1}, {"memory": "1GB"}])
def test_promised_bits_and_planned_memory_are_of_torchs_kernels(tmp_path, options):
    with SerialEngine() as engine:
        trainer = make_trainer(job_of(tmp_path), engine=engine, data=data(), **options)
        assert all(net.module.kernels is PLAIN for net in trainer.nets.values())
        trainer.close()


@pytest.mark.parametrize("rows", [{}, [1], [{"4x6 by 6x5": 1}]])
def test_damaged_choices_are_refused(tmp_path, rows):
    place, first = checkpoint_after(tmp_path / "run", stop_at=2)
    write_checkpoint(Path(place), replace(first, state={**first.state, "kernels": rows}))
    with pytest.raises(ReadError, match="kernels"):
        read_run(Path(place))
