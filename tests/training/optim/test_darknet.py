"""Darknet's updates and rates against transcriptions from network.c and convolutional_layer.c."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave import job  # noqa: E402 - after the check for torch
from netweave.errors import UsageError  # noqa: E402
from netweave.training.optim import POLICIES, Trained, Updater, make_policy  # noqa: E402
from netweave.training.optim.first_values import fill  # noqa: E402

STEPS, IMAGES, PASSES = 40, 8, 2
SHAPES = {"weights": (6, 5), "biases": (5,)}
DECAYS = {"weights": 1.0, "biases": 0.0}

FORMULAS = [
    ("constant", {}, lambda n: 0.5),
    ("step", {"step": 7, "scale": 0.1}, lambda n: 0.5 * 0.1 ** (n // 7)),
    (
        "steps",
        {"steps": [10, 20, 20], "scales": [0.1, 10.0, 0.5]},
        lambda n: 0.5 if n < 10 else 0.05 if n < 20 else 0.25,
    ),
    ("exp", {"gamma": 0.9}, lambda n: 0.5 * 0.9**n),
    ("poly", {"max_batches": 40, "power": 2.0}, lambda n: 0.5 * (1 - n / 40) ** 2),
    ("sigmoid", {"gamma": 0.3, "step": 20}, lambda n: 0.5 / (1 + math.exp(0.3 * (n - 20)))),
    (
        "sgdr",
        {"sgdr_cycle": 10, "sgdr_mult": 2, "learning_rate_min": 0.1},
        lambda n: (
            0.1
            + 0.2
            * (
                1
                + math.cos(
                    math.pi * ((n - 10) / 20 if 10 < n <= 30 else n / 10 if n <= 10 else (n - 30) / 40)
                )
            )
        ),
    ),
]


@pytest.mark.parametrize(("kind", "settings", "formula"), FORMULAS)
@pytest.mark.parametrize("burn_in", [0, 6])
def test_rates_are_those_of_the_update_counted_from_one(kind, settings, formula, burn_in):
    policy = make_policy(job.Policy(f"darknet.{kind}", 0.5, {**settings, "burn_in": burn_in}))
    power = settings.get("power", 4.0)
    expected = [0.5 * (n / burn_in) ** power if n < burn_in else formula(n) for n in range(1, STEPS + 1)]
    np.testing.assert_allclose([policy.rate(n) for n in range(STEPS)], expected, rtol=1e-12, atol=1e-15)


def test_every_policy_has_a_formula():
    assert {f"darknet.{kind}" for kind, _, _ in FORMULAS} == {k for k in POLICIES if k.startswith("darknet.")}


def test_steps_without_as_many_scales_are_an_error():
    with pytest.raises(UsageError, match="2 steps for 1 scales, expected one for each"):
        make_policy(job.Policy("darknet.steps", 0.1, {"steps": [1, 2], "scales": [0.1]}))


def image_gradient(step, number, key, w):
    """The gradient of one image: a shallow bowl with noise."""
    noise = np.random.default_rng([step, number, len(key)]).normal(size=w.shape)
    return 0.2 * w + noise


def sgd(weights, rates, momentum, decay):
    """update_convolutional_layer: sums over images, negative, decay times the batch, rate over the batch."""
    updates = {key: np.zeros_like(w) for key, w in weights.items()}
    for step, rate in enumerate(rates):
        for key, w in weights.items():
            u = updates[key]
            for number in range(IMAGES):
                u -= image_gradient(step, number, key, w)
            u -= decay * DECAYS[key] * IMAGES * w
            weights[key] = w + rate / IMAGES * u
            u *= momentum
    return weights


def adam(weights, rates, decay, *, b1, b2, eps):
    """adam_update_gpu: its rate is not divided by the batch."""
    kept = {key: (np.zeros_like(w), np.zeros_like(w)) for key, w in weights.items()}
    for t, rate in enumerate(rates, 1):
        for key, w in weights.items():
            m, v = kept[key]
            d = -sum(image_gradient(t - 1, number, key, w) for number in range(IMAGES))
            d = d - decay * DECAYS[key] * IMAGES * w
            m, v = b1 * m + (1 - b1) * d, b2 * v + (1 - b2) * d * d
            kept[key] = m, v
            weights[key] = w + rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return weights


def first(dtype):
    rng = np.random.default_rng(5)
    return {key: rng.normal(size=shape).astype(dtype) for key, shape in SHAPES.items()}


def by_updater(kind, settings, dtype):
    """Run the updater as the trainer does: means over passes, summed over the passes of an update."""
    policy = job.Policy("darknet.steps", 0.05, {"steps": [15], "scales": [0.1], "burn_in": 5})
    tensors = {key: torch.tensor(w, requires_grad=True) for key, w in first(dtype).items()}
    trained = [Trained(key, tensor, 1.0, DECAYS[key]) for key, tensor in tensors.items()]
    updater = Updater(job.Solver(kind, policy, settings, accumulate=PASSES), trained)
    each = IMAGES // PASSES
    for step in range(STEPS):
        for key, tensor in tensors.items():
            w = tensor.detach().numpy()
            means = [
                sum(image_gradient(step, number, key, w) for number in range(part * each, (part + 1) * each))
                / each
                for part in range(PASSES)
            ]
            tensor.grad = torch.tensor(sum(means).astype(dtype))
        updater.step()
    return {key: tensor.detach().numpy() for key, tensor in tensors.items()}


RATES = [0.05 * (n / 5) ** 4 if n < 5 else 0.05 if n < 15 else 0.005 for n in range(1, STEPS + 1)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_sgd_is_darknets(dtype, tolerance):
    found = by_updater("darknet.sgd", {"momentum": 0.9, "weight_decay": 0.01}, dtype)
    for key, expected in sgd(first(np.float64), RATES, 0.9, 0.01).items():
        np.testing.assert_allclose(found[key], expected, rtol=0, atol=tolerance, err_msg=key)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_adam_is_darknets(dtype, tolerance):
    settings = {"B1": 0.9, "B2": 0.99, "eps": 1e-3, "weight_decay": 0.01, "images": IMAGES}
    found = by_updater("darknet.adam", settings, dtype)
    for key, expected in adam(first(np.float64), RATES, 0.01, b1=0.9, b2=0.99, eps=1e-3).items():
        np.testing.assert_allclose(found[key], expected, rtol=0, atol=tolerance, err_msg=key)


def test_weights_of_a_convolution_have_the_variance_of_two_over_fan_in():
    drawn = fill("darknet.normal", (64, 32, 3, 3), {"fan_in": 288}, key="w", seed=1)
    assert drawn.var() == pytest.approx(2 / 288, rel=0.03)
