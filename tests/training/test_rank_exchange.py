"""Which batches several ranks may share."""

from __future__ import annotations

import pytest

from netweave.errors import UnsupportedError
from netweave.graph import DOMAIN, GraphBuilder
from netweave.job import DataSource, Job, Phase, Policy, Schedule, Solver
from netweave.training.rank_exchange import check_parts


def job_of(loss: str, batch: int) -> Job:
    builder = GraphBuilder("net", format="test")
    x, y = (builder.input(name, [batch, 4]) for name in "xy")
    if loss == "EuclideanLoss":
        made = builder.add(loss, [x, y], domain=DOMAIN, outputs="loss")
    else:
        made = builder.add(loss, [builder.add("Sub", [x, y])], {"keepdims": 0}, outputs="loss")
    source = DataSource("arrays", outputs=("x", "y"), batch_size=batch)
    phase = Phase(builder.finish([made]), (source,), losses={"loss": 1.0})
    solver = Solver("caffe.sgd", Policy("caffe.fixed", 0.1, {}), {})
    return Job(name="job", phases={"train": phase}, solver=solver, schedule=Schedule(max_iterations=1))


@pytest.mark.parametrize(("loss", "batch"), [("EuclideanLoss", 10), ("ReduceMean", 9)])
def test_parts_of_one_size_and_losses_that_weight_them_are_taken(loss, batch):
    check_parts(job_of(loss, batch), 3)


def test_a_loss_that_cannot_weight_uneven_parts_is_refused():
    message = r"a batch of 10 does not split evenly over 3 ranks, and the loss 'loss' \(ReduceMean\)"
    with pytest.raises(UnsupportedError, match=message):
        check_parts(job_of("ReduceMean", 10), 3)
