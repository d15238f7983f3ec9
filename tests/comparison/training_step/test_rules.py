"""Update rules beside PyTorch's own optimizers."""

import numpy as np
import pytest
import torch

from netweave.comparison.training_step.rules import completed, rates, updated

OPTIMIZERS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True},
    ],
    "Adam": [{"lr": 0.01}, {"lr": 0.01, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}],
    "AdamW": [{"lr": 0.01, "weight_decay": 0.1}],
    "RMSprop": [
        {"lr": 0.01},
        {"lr": 0.01, "alpha": 0.9, "centered": True, "momentum": 0.9, "weight_decay": 0.1},
    ],
    "Adagrad": [{"lr": 0.1}, {"lr": 0.1, "initial_accumulator_value": 0.1, "lr_decay": 0.01, "eps": 1e-3}],
}


def stated(kind, settings):
    names = {"betas": None, "initial_accumulator_value": "initial"}
    rule = {names.get(key, key): value for key, value in settings.items() if key != "betas"}
    if "betas" in settings:
        rule["beta1"], rule["beta2"] = settings["betas"]
    return {**rule, "kind": "Adam" if kind == "AdamW" else kind, "is_decoupled": kind == "AdamW"}


@pytest.mark.parametrize(("kind", "settings"), [(k, s) for k, rows in OPTIMIZERS.items() for s in rows])
def test_a_rule_is_that_of_pytorch(kind, settings):
    generator = np.random.default_rng(0)
    weight, gradients = generator.normal(size=(4, 3)), generator.normal(size=(5, 4, 3))
    p = torch.nn.Parameter(torch.tensor(weight))
    optimizer = getattr(torch.optim, kind)([p], **settings)
    expected = []
    for gradient in gradients:
        p.grad = torch.tensor(gradient)
        optimizer.step()
        expected.append(p.detach().numpy().copy())
    rule = completed(stated(kind, settings))
    np.testing.assert_allclose(updated(rule, weight, list(gradients)), expected, rtol=1e-10, atol=1e-12)


def test_rates_of_a_schedule_are_found():
    generator = np.random.default_rng(1)
    weight, gradients = generator.normal(size=6), list(generator.normal(size=(3, 6)))
    p = torch.nn.Parameter(torch.tensor(weight))
    optimizer = torch.optim.SGD([p], lr=1.0, momentum=0.9, weight_decay=0.01)
    weights = [weight]
    for gradient, rate in zip(gradients, (0.1, 0.2, 0.05), strict=True):
        optimizer.param_groups[0]["lr"] = rate
        p.grad = torch.tensor(gradient)
        optimizer.step()
        weights.append(p.detach().numpy().copy())
    rule = completed({"kind": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01})
    assert rates(rule, weights, gradients, 1e-9) == [0.1, 0.2, 0.05]
    assert rates({**rule, "momentum": 0.5}, weights, gradients, 1e-9) == []


def test_a_kind_without_formula_has_no_rule():
    assert completed({"kind": "Lion", "lr": 0.1}) is None
