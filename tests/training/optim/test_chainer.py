"""Caffe's rules against Chainer 7.8.1, whose formulas are the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave import job  # noqa: E402 - after the check for torch
from netweave.training.optim import Trained, Updater  # noqa: E402
from tests.oracles import descent  # noqa: E402

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "chainer_optimizers.json").read_text())

RULES = {
    "SGD": ("sgd", {}),
    "MomentumSGD": ("sgd", {"momentum": "momentum"}),
    "AdaGrad": ("adagrad", {"eps": "delta"}),
    "RMSprop": ("rmsprop", {"alpha": "rms_decay", "eps": "delta"}),
    "AdaDelta": ("adadelta", {"rho": "momentum", "eps": "delta"}),
    "Adam": ("adam", {"beta1": "momentum", "beta2": "momentum2", "eps": "delta"}),
}
"""Caffe's solver for an optimizer of Chainer, and what its settings are called there."""


@pytest.mark.parametrize("row", GOLDEN, ids=[row["name"] for row in GOLDEN])
def test_optimizer(row):
    kind, names = RULES[row["name"]]
    settings = dict(row["settings"])
    rate = settings.pop("alpha" if kind == "adam" else "lr", 1.0)
    tensors = {key: torch.tensor(w).requires_grad_() for key, w in descent.start().items()}
    solver = job.Solver(
        f"caffe.{kind}",
        job.Policy("caffe.fixed", rate),
        {names[name]: value for name, value in settings.items()},
    )
    updater = Updater(solver, [Trained(key, tensor) for key, tensor in tensors.items()])
    for _ in range(descent.STEPS):
        for key, tensor in tensors.items():
            tensor.grad = torch.tensor(descent.gradient(key, tensor.detach().numpy()))
        updater.step()
    for key, tensor in tensors.items():
        expected = np.array(row["weights"][key]).reshape(descent.SHAPES[key])
        scale = np.sqrt(np.mean(expected**2))
        np.testing.assert_allclose(tensor.detach().numpy(), expected, rtol=1e-5, atol=1e-5 * scale)


def test_every_optimizer_is_tried():
    assert {row["name"] for row in GOLDEN} == set(RULES)
