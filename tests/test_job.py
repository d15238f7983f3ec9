"""The Job is data: it goes through JSON unharmed."""

from __future__ import annotations

import json

import onnx_ir as ir
import pytest

from netweave.graph import Graph
from netweave.graph.passes.partition import LayerCut
from netweave.job import Checkpoints, Cluster, DataSource, Job, Phase, Policy, Schedule, Solver


def empty_graph():
    return Graph(ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 22}), ir_version=10))


@pytest.fixture
def job():
    source = DataSource(
        "lmdb",
        ("data", "label"),
        64,
        settings={"path": "train_lmdb", "shape": [1, 28, 28]},
        transforms=({"kind": "crop", "size": 24}, {"kind": "scale", "factor": 0.00390625}),
        place="train.prototxt:3",
    )
    return Job(
        name="lenet",
        phases={
            "train": Phase(empty_graph(), (source,), losses={"loss": 1.0}),
            "test": Phase(empty_graph(), (source,), num_batches=100),
        },
        solver=Solver(
            "caffe.sgd",
            Policy("caffe.multistep", 0.01, {"gamma": 0.1, "stepvalue": [5000, 7000]}),
            {"momentum": 0.9},
            accumulate=2,
        ),
        schedule=Schedule(10_000, display_interval=100, test_interval=500),
        checkpoints=Checkpoints("lenet", 5000, formats=("caffemodel",), weights=("start.caffemodel",)),
        seed=7,
        cluster=Cluster(
            worker_groups=2,
            staleness=3,
            layers=(LayerCut("ip", 1, None, "job.conf:9"), LayerCut("loss", None, 0)),
            lines={"worker_groups": 4},
            file="job.conf",
        ),
        files=("solver.prototxt",),
        notes=("solver_mode is for the user to say",),
    )


def test_a_job_goes_through_json(job):
    text = json.dumps(job.to_json())
    graphs = {name: phase.graph for name, phase in job.phases.items()}
    assert Job.from_json(json.loads(text), graphs) == job


def test_another_version_is_refused(job):
    with pytest.raises(ValueError, match="a job of version 0, expected 1"):
        Job.from_json({**job.to_json(), "version": 0}, {})


def test_tests_are_the_phases_named_so(job):
    assert list(job.tests) == ["test"]
