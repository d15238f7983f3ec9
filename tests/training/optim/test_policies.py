"""Caffe's learning-rate policies; MXNet's are held against MXNet itself in ``test_mxnet``."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import job
from netweave.errors import UsageError
from netweave.training.optim import POLICIES, make_policy

FORMULAS = [
    ("fixed", {}, lambda it: 0.5),
    ("step", {"gamma": 0.1, "stepsize": 10}, lambda it: 0.5 * 0.1 ** math.floor(it / 10)),
    ("exp", {"gamma": 0.99}, lambda it: 0.5 * 0.99**it),
    ("inv", {"gamma": 0.01, "power": 0.75}, lambda it: 0.5 * (1 + 0.01 * it) ** -0.75),
    ("poly", {"power": 2.0, "max_iter": 50}, lambda it: 0.5 * (1 - it / 50) ** 2.0),
    ("sigmoid", {"gamma": 0.2, "stepsize": 20}, lambda it: 0.5 * (1 / (1 + math.exp(-0.2 * (it - 20))))),
    ("sigmoid", {"gamma": -0.2, "stepsize": 20}, lambda it: 0.5 * (1 / (1 + math.exp(0.2 * (it - 20))))),
    ("sigmoid", {"gamma": 90.0, "stepsize": 20}, lambda it: 0.5 * (it > 20) + 0.25 * (it == 20)),
]


def make(kind, **settings):
    return make_policy(job.Policy(f"caffe.{kind}", 0.5, settings))


@pytest.mark.parametrize(("kind", "settings", "formula"), FORMULAS)
def test_formula(kind, settings, formula):
    policy = make(kind, **settings)
    found = [policy.rate(it) for it in range(51)]
    np.testing.assert_allclose(found, [formula(it) for it in range(51)], rtol=1e-14, atol=1e-38)


def test_multistep_takes_one_step_in_an_iteration():
    policy = make("multistep", gamma=0.1, stepvalue=[3, 3, 5])
    steps = []
    for it in range(8):
        policy.rate(it)
        steps.append(policy.current_step)
    assert steps == [0, 0, 0, 1, 2, 3, 3, 3]


def test_multistep_goes_on_from_a_checkpoint():
    policy, again = (make("multistep", gamma=0.5, stepvalue=[3, 3, 9]) for _ in range(2))
    for it in range(4):
        policy.rate(it)
    again.restore(json.loads(json.dumps(policy.state())))
    assert [again.rate(it) for it in range(4, 12)] == [policy.rate(it) for it in range(4, 12)]


def test_plateau_waits_for_a_minimum():
    """By hand, from the SSD fork's SGDSolver: windows of 3, then 2 iterations."""
    policy = make("plateau", gamma=0.1, plateau_winsize=[3, 2])
    losses = [5.0, 4.0, 4.5, 4.5, 4.5, 3.0, 3.0, 3.0, 3.0, 3.0]
    steps = []
    for it, loss in enumerate(losses):
        policy.rate(it, loss)
        steps.append(policy.current_step)
    # minimum at 1, step at 1 + 3; minimum at 5, step at 5 + 2; no window is left
    assert steps == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert policy.state() == {"current_step": 2, "minimum_loss": 3.0, "iter_last_event": 7}


def test_the_rate_of_older_mxnet_is_read_before_counting():
    settings = {"step": 5, "factor": 0.1}
    new = make_policy(job.Policy("mxnet.factor", 1.0, settings))
    old = make_policy(job.Policy("mxnet.factor", 1.0, {**settings, "first_update": 0}))
    assert [old.rate(it) for it in range(1, 30)] == [new.rate(it) for it in range(29)]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("caffe.linear", {}, "unknown learning-rate policy 'caffe.linear'; expected one of caffe.exp, "),
        ("caffe.step", {"gamma": 0.1}, "learning-rate policy 'caffe.step' needs: stepsize"),
        ("caffe.step", {"gamma": 0.1, "stepsize": 0}, "stepsize is 0, expected more than 0"),
        ("caffe.exp", {"gamma": -1.0}, "gamma is -1.0, expected at least 0"),
        ("caffe.fixed", {"gamma": 0.1}, "has no setting gamma; it has: base_rate"),
        ("mxnet.factor", {"step": 0}, "step is 0, expected at least 1"),
        ("mxnet.factor", {"step": 1, "factor": 2.0}, "factor is 2.0, expected at most 1"),
        ("mxnet.multifactor", {"step": [3, 3]}, r"step is \[3, 3\], expected numbers that rise"),
        ("mxnet.cosine", {"max_update": 9, "warmup_begin_lr": 2.0}, "is 2.0, expected at most 1.0"),
        ("mxnet.poly", {"max_update": 9, "warmup_mode": "exp"}, "'exp', expected linear or constant"),
    ],
)
def test_wrong_settings_are_named(kind, settings, message):
    with pytest.raises(UsageError, match=message):
        make_policy(job.Policy(kind, 1.0, settings))


def test_every_policy_is_tried():
    caffe = {f"caffe.{row[0]}" for row in FORMULAS} | {"caffe.multistep", "caffe.plateau"}
    mxnet = {f"mxnet.{name}" for name in ("fixed", "factor", "multifactor", "poly", "cosine")}
    singa = {
        kind for kind in POLICIES if kind.startswith(("darknet.", "keras.", "singa."))
    }  # in test_singa and tests/keras
    assert set(POLICIES) == caffe | mxnet | singa
