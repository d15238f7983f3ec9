"""The clusters of ``examples/singa/clusters``: what they are, and that they train."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave import api
from netweave.training import Ended, Note, Updated
from netweave.training.cluster.topology import plan_topology, trained_sizes

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "singa"

PROCESSES = {"all_reduce": 3, "sandblaster": 5, "downpour": 6, "hogwild": 3, "diloco": 3}


def job_with(name, folder):
    """Read the example's job.conf, with the cluster written into it."""
    text = (FOLDER / "clusters" / f"{name}.conf").read_text()
    inside = re.search(r"cluster \{(.*)\}", text, re.DOTALL)[1]
    whole = (FOLDER / "job.conf").read_text()
    alone = "cluster {\n  nworker_groups: 1\n  nserver_groups: 1\n"
    assert alone in whole
    path = folder / "job.conf"
    path.write_text(whole.replace(alone, f"cluster {{ {inside}"))
    return netweave.load_job(path)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_cluster_is_the_same_in_a_job_and_in_its_own_file(name, tmp_path):
    cluster = api.load_cluster(FOLDER / "clusters" / f"{name}.conf")
    job = job_with(name, tmp_path)
    assert replace(job.cluster, file="") == replace(cluster, file="")
    assert f"--devices cpu:{PROCESSES[name]}" in (FOLDER / "clusters" / f"{name}.conf").read_text()
    topology = plan_topology(cluster, trained_sizes(job.phases["train"].graph))
    assert len(topology.roles) == PROCESSES[name]
    assert topology.is_all_reduce == (name == "all_reduce")
    assert topology.imbalance < 1.2
    assert not list(cluster.without_effect())


@pytest.mark.slow
@pytest.mark.multi
@pytest.mark.parametrize(
    "name", ["hogwild", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in PROCESSES)]
)
def test_a_job_trains_on_its_cluster(name, tmp_path):
    job = job_with(name, tmp_path)
    job = replace(
        job,
        phases={"train": job.phases["train"]},
        schedule=replace(job.schedule, max_iterations=30),
        checkpoints=replace(job.checkpoints, at_start=False, interval=0, prefix=str(tmp_path / "step")),
    )
    generator = np.random.default_rng(0)
    labels = generator.integers(10, size=640)
    images = generator.normal(size=(10, 784))[labels] + generator.normal(size=(640, 784))
    names = [value.name for value in job.phases["train"].graph.inputs]
    arrays = dict(zip(names, (images, labels.astype(float)), strict=True))
    events = []
    netweave.train(job, devices=f"cpu:{PROCESSES[name]}", data={"train": arrays}, seed=1, watch=events.append)
    losses = [event.loss for event in events if isinstance(event, Updated)]
    notes = [event.text for event in events if isinstance(event, Note)]
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < 0.5 * losses[0]
    assert isinstance(events[-1], Note | Ended)
    assert sum(text.startswith("process ") for text in notes) == PROCESSES[name]
