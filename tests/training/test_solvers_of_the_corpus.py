"""Every solver of the corpus that is read makes its first update and its first test on drawn records.

Which are read, and with what message the others are refused, is in ``tests/formats/caffe/solvers.tsv``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave.formats.caffe.job import read_solver
from netweave.graph.ops.multibox_loss import TRUTH_COLUMNS as DETECTION_COLUMNS
from netweave.runtime.engine import SerialEngine
from netweave.training import Evaluated, Shown
from netweave.training.metrics import make_metric
from tests.formats.caffe.solvers import TABLE, lay_out, sizes
from tests.time_limits import IN_CI
from tests.training.trainers import make_trainer

if TYPE_CHECKING:
    from netweave.job import Job

ROWS = dict(line.split("\t", 1) for line in TABLE.read_text().splitlines())
READ = [name for name, found in ROWS.items() if not found.partition(":")[0].endswith("Error")]
LARGE = {"caffe/branch-intel/models/default_vgg_16/solver.prototxt"}
"""138 million weights in layers that the smaller nets have as well: left out with CI."""

BATCH = 2
"""Enough for every net to go once forward and back; their own sizes take gigabytes."""


def test_the_table_has_both_sorts():
    assert len(ROWS) == len(READ) + sum(found.split(":")[0].endswith("Error") for found in ROWS.values())
    assert len(READ) > 40


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    place = tmp_path_factory.mktemp("corpus")
    assert lay_out(corpus, place) == sorted(ROWS)
    return place


def shortened(job: Job) -> Job:
    """Return a job of one update and one test of one batch each, which writes nothing."""
    phases = {
        name: replace(
            phase,
            data=tuple(replace(source, batch_size=BATCH) for source in phase.data),
            num_batches=phase.num_batches and 1,
        )
        for name, phase in job.phases.items()
    }
    schedule = replace(job.schedule, max_iterations=1, display_interval=1, test_interval=1)
    return replace(
        job,
        phases=phases,
        solver=replace(job.solver, accumulate=1),
        schedule=replace(schedule, test_at_start=True),
        checkpoints=replace(job.checkpoints, interval=0, at_end=False, weights=()),
        seed=1,
    )


def drawn(job: Job) -> dict[str, dict[str, np.ndarray]]:
    """Return records for each phase: noise for images, the first class for labels."""
    generator = np.random.default_rng(0)
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, phase in job.phases.items():
        arrays = found.setdefault(name, {})
        fed = {output for source in phase.data if source.kind != "filled" for output in source.outputs}
        for value in phase.graph.inputs:
            if value.name in fed:
                shape = tuple(size for size in value.shape[1:])
                noise = generator.random((2 * BATCH, *shape))
                if shape[-1:] == (DETECTION_COLUMNS,):  # a table without boxes
                    noise = np.full_like(noise, -1.0)
                arrays[value.name] = noise if len(shape) else np.zeros(2 * BATCH)
        metric = make_metric(phase)  # reads boxes, also where the net does not
        for beside in metric.inputs if metric is not None else ():
            arrays.setdefault(beside, np.full((2 * BATCH, 1, 4, DETECTION_COLUMNS), -1.0))
    return found


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("name", [name for name in READ if not (IN_CI and name in LARGE)])
@pytest.mark.usefixtures("memory_kept")
def test_a_solver_starts(folder, name):
    job = shortened(read_solver(folder / name, probe=sizes))
    events = []
    with SerialEngine() as engine:
        trainer = make_trainer(job, engine=engine, data=drawn(job), watch=events.append)
        before = {key: tensor.detach().clone() for key, tensor in trainer.nets["train"].params.items()}
        assert trainer.run()
        trainer.close()
    losses = [event.loss for event in events if isinstance(event, Shown)]
    assert losses
    assert all(map(math.isfinite, losses))
    assert sum(isinstance(event, Evaluated) for event in events) == 2 * len(job.tests)
    after = trainer.nets["train"].params
    assert any(not (before[key] == after[key]).all() for key in before)
