"""MXNet's rules and schedulers against what MXNet 1.9.1 itself got to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave import job  # noqa: E402 - after the check for torch
from netweave.formats.mxnet.symbol.training import mxnet_solver  # noqa: E402
from netweave.training.optim import Trained, Updater, make_policy  # noqa: E402
from tests.oracles import descent  # noqa: E402

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "mxnet_optimizers.json").read_text())


def names(rows):
    return [f"{index}-{row['name']}" for index, row in enumerate(rows)]


@pytest.mark.parametrize("row", GOLDEN["optimizers"], ids=names(GOLDEN["optimizers"]))
def test_optimizer(row):
    tensors = {key: torch.tensor(w).requires_grad_() for key, w in descent.start(row["name"]).items()}
    policy = job.Policy("mxnet.factor", descent.RATE, {"step": descent.EVERY, "factor": descent.DROP})
    updater = Updater(
        job.Solver(f"mxnet.{row['name']}", policy, row["settings"]),
        [
            Trained(key, tensor, descent.LR_MULT[key], float(key.endswith("weight")))
            for key, tensor in tensors.items()
        ],
    )
    for _ in range(descent.STEPS):
        for key, tensor in tensors.items():
            tensor.grad = torch.tensor(descent.gradient(key, tensor.detach().numpy()))
        updater.step()
    for key, tensor in tensors.items():
        expected = np.array(row["weights"][key]).reshape(descent.SHAPES[key])
        scale = np.sqrt(np.mean(expected**2))
        np.testing.assert_allclose(tensor.detach().numpy(), expected, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("row", GOLDEN["schedulers"], ids=names(GOLDEN["schedulers"]))
def test_scheduler(row):
    policy = make_policy(job.Policy(f"mxnet.{row['name']}", descent.RATE, row["settings"]))
    found = [policy.rate(iteration) for iteration in range(50)]
    np.testing.assert_allclose(found, row["rates"], rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("row", GOLDEN["scheduled"], ids=names(GOLDEN["scheduled"]))
def test_the_rates_of_an_optimizer_that_has_a_scheduler(row):
    """An optimizer overwrites a part of its scheduler's ``base_lr``, and which part differs by optimizer."""
    settings = {**row["settings"], "lr_scheduler": row["scheduler"]}
    policy = make_policy(mxnet_solver(row["optimizer"], settings, rescale_grad=1.0).policy)
    rates = [policy.rate(iteration) for iteration in range(50)]
    np.testing.assert_allclose(rates, row["rates"], rtol=1e-12, atol=1e-18)


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAG", "RMSProp", "LBSGD"])
def test_an_optimizer_in_capitals_is_the_same(name):
    """MXNet looks its optimizers up in small letters; scripts write them as classes."""
    settings = {"learning_rate": 0.1, "wd": 1e-3, "multi_precision": False, "begin_num_update": 2}
    one, other = (mxnet_solver(row, settings, rescale_grad=0.5) for row in (name, name.lower()))
    assert one == other
