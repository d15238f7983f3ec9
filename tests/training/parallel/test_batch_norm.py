"""Batch normalisation by each rank's part, as asked: against separate plain nets and Caffe's update rule."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.runtime.backends.torch import TorchNet  # noqa: E402 - after the check for torch
from netweave.runtime.engine import ThreadedEngine  # noqa: E402
from netweave.training.data.order import share_bounds  # noqa: E402
from netweave.training.loading import moving_states  # noqa: E402
from tests.training.parallel import nets  # noqa: E402
from tests.training.parallel.ranks import Case, alone, run  # noqa: E402
from tests.training.trainers import make_trainer  # noqa: E402

pytestmark = [pytest.mark.multi, pytest.mark.slow]

STEPS, RATE, MOMENTUM, DECAY = 8, 0.05, 0.9, 0.001


def separate_nets(folder, size):
    """Train by hand: a plain net for each part, and one update from the weighted sum of their gradients."""
    job = nets.job(nets.write(folder, "resnet", steps=STEPS))
    with ThreadedEngine() as engine:  # for first values, and for the batches that it takes
        trainer = make_trainer(job, engine=engine, data={"train": nets.records()}, dtype=torch.float64)
        first = {key: tensor.detach().clone() for key, tensor in trainer.nets["train"].params.items()}
        batches = [
            {key: tensor.clone() for key, tensor in trainer._loaders["train"].take()[0].items()}
            for _ in range(STEPS)
        ]
        trainer.close()
    graph = job.phases["train"].graph
    parts = [TorchNet(graph).to(torch.float64).train() for _ in range(size)]
    for net in parts:
        for key, value in first.items():
            net.params[key] = value
    velocity = {key: torch.zeros_like(tensor) for key, tensor in parts[0].params.items()}
    for step, batch in enumerate(batches):
        sums = {}
        for rank, net in enumerate(parts):
            start, stop = share_bounds(nets.BATCH, rank, size)
            net.zero_grad()
            net.draws.at(seed=job.seed, step=step, first=start, samples=stop - start)
            loss = net(**{key: tensor[start:stop] for key, tensor in batch.items()})["loss"]
            (loss * (stop - start) / nets.BATCH).backward()
            for key, gradient in net.grads.items():
                sums[key] = sums.get(key, 0) + gradient
        with torch.no_grad():
            for key, gradient in sums.items():
                parameter = graph.parameters[key]
                value = parts[0].params[key].clone()
                decayed = gradient + DECAY * parameter.decay_mult * value
                velocity[key] = MOMENTUM * velocity[key] + RATE * parameter.lr_mult * decayed
                for net in parts:
                    net.params[key] = value - velocity[key]
    with torch.no_grad():
        for tensors in zip(*(moving_states(net) for net in parts), strict=True):
            tensors[0].copy_(torch.stack(list(tensors)).mean(0))
    return {key: tensor.detach().numpy() for key, tensor in parts[0].params.items()}


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_that_normalise_their_parts_end_as_separate_nets(tmp_path, size):
    settings = {"net": "resnet", "steps": STEPS, "sync_batch_norm": False}
    cases = [
        Case("apart", **settings),
        Case("blocking", exchange="blocking", **settings),
        Case("first", **{**settings, "steps": 5}, snapshot=5, folder="kept"),
        Case("second", **settings, resume="kept_iter_5.checkpoint", folder="kept"),
        Case("saved", **settings, snapshot=5, folder="saved"),
    ]
    found = run(tmp_path, cases, size)
    expected = separate_nets(tmp_path / "separate", size)
    for key, array in expected.items():
        np.testing.assert_allclose(found["apart"][key], array, rtol=0, atol=1e-12, err_msg=key)
        assert np.array_equal(found["blocking"][key], found["apart"][key])
        # statistics are averaged where they are written, so a run with a checkpoint there is compared
        assert np.array_equal(found["second"][key], found["saved"][key])
    whole = alone(tmp_path / "alone", Case("whole", net="resnet", steps=STEPS))
    assert max(np.abs(found["apart"][key] - whole[key]).max() for key in expected) > 1e-3
