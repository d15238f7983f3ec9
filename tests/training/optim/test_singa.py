"""SINGA's updaters and rate changes against a transcription from its description, over 50 steps."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave import job  # noqa: E402 - after the check for torch
from netweave.errors import UsageError  # noqa: E402
from netweave.training.optim import POLICIES, RULES, Trained, Updater, make_policy, make_rule  # noqa: E402
from netweave.training.optim.first_values import FILLERS, fill  # noqa: E402
from tests.oracles import singa_updaters  # noqa: E402

STEPS = 50
SHAPES = {"w": (7, 5), "tied": (3, 8), "b": (5,)}
SCALES = {"w": (1.0, 1.0), "tied": (0.5, 2.0), "b": (2.0, 0.0)}
"""lr_scale and wd_scale."""

SHARES = {"tied": 3}
CLIP = {"clip_low": -0.4, "clip_high": 0.6}
BETAS = {"beta1": 0.9, "beta2": 0.99}

UPDATERS = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.01, **CLIP}),
    ("nesterov", {"momentum": 0.9, "weight_decay": 0.01, **CLIP}),
    ("adagrad", {"weight_decay": 0.01, **CLIP}),
    ("rmsprop", {"rho": 0.95, "weight_decay": 0.01, "delta": 1e-4, **CLIP}),
    ("adadelta", {"rho": 0.9, "weight_decay": 0.01, "delta": 1e-6}),
    ("adam", {**BETAS, "weight_decay": 0.01}),
    ("adammax", {**BETAS, "weight_decay": 0.01, "delta": 1e-3}),
]

RATES = [
    ("fixed", {}),
    ("step", {"gamma": 0.5, "change_freq": 7}),
    ("linear", {"final_lr": 0.01, "change_freq": 40}),
    ("exponential", {"change_freq": 9}),
    ("inverse", {"gamma": 0.1, "pow": 0.75}),
    ("inverse_t", {"final_lr": 20.0}),
    ("fixed_step", {"step": [3, 3, 4, 30], "step_lr": [0.05, 0.04, 0.02, 0.01]}),
]
BASE = 0.05


def gradient(step, key, w):
    """Of a shallow bowl, with noise: there rounding errors do not grow from step to step."""
    noise = np.random.default_rng([step, len(key)]).normal(size=w.shape)
    return (0.2 * w + noise.astype(w.dtype)).astype(w.dtype)


def start(dtype):
    rng = np.random.default_rng(1)
    return {key: rng.normal(size=shape).astype(dtype) for key, shape in SHAPES.items()}


def rates(kind, settings):
    """Yield the rate of each step as the transcription has it."""
    rule = singa_updaters.FixedStep() if kind == "fixed_step" else None
    rule = rule or getattr(singa_updaters, {"step": "step_"}.get(kind, kind))
    return [rule(step, BASE, **settings) for step in range(STEPS)]


def by_transcription(kind, settings, rate, dtype):
    settings = {name: dtype(value) for name, value in settings.items()}
    decay = settings.pop("weight_decay", 0.0)
    clip = {name: settings.pop(name) for name in CLIP if name in settings}
    weights, kept = start(dtype), {key: {} for key in SHAPES}
    for step, lr in enumerate(rates(*rate)):
        for key, w in weights.items():
            lr_scale, wd_scale = SCALES[key]
            g = singa_updaters.server_gradient(
                kind, w, gradient(step, key, w), decay * dtype(wd_scale), shares=SHARES.get(key, 1), **clip
            )
            weights[key] = getattr(singa_updaters, kind)(w, g, kept[key], dtype(lr * lr_scale), **settings)
            assert weights[key].dtype == dtype
    return weights


def by_updater(kind, settings, rate, dtype):
    tensors = {key: torch.tensor(w).requires_grad_() for key, w in start(dtype).items()}
    trained = [
        Trained(key, tensor, *SCALES[key], 1.0 / SHARES.get(key, 1)) for key, tensor in tensors.items()
    ]
    policy = job.Policy(f"singa.{rate[0]}", BASE, rate[1])
    updater = Updater(job.Solver(f"singa.{kind}", policy, settings), trained)
    for step in range(STEPS):
        for key, tensor in tensors.items():
            tensor.grad = torch.tensor(gradient(step, key, tensor.detach().numpy()))
        updater.step()
    return {key: tensor.detach().numpy() for key, tensor in tensors.items()}


TOLERANCE = {np.float32: 1e-6, np.float64: 1e-12}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rate", RATES, ids=lambda row: row[0])
@pytest.mark.parametrize(("kind", "settings"), UPDATERS)
def test_fifty_steps(kind, settings, rate, dtype):
    found, expected = by_updater(kind, settings, rate, dtype), by_transcription(kind, settings, rate, dtype)
    for key, w in expected.items():
        assert np.isfinite(w).all()
        assert np.abs(w - start(dtype)[key]).max() > 1e-4
        scale = np.abs(w).max()
        np.testing.assert_allclose(found[key], w, rtol=0, atol=TOLERANCE[dtype] * scale, err_msg=key)


@pytest.mark.parametrize(("kind", "settings"), RATES)
def test_rates(kind, settings):
    policy = make_policy(job.Policy(f"singa.{kind}", BASE, settings))
    np.testing.assert_allclose(
        [policy.rate(step) for step in range(STEPS)], rates(kind, settings), rtol=1e-15
    )


def test_a_linear_rate_goes_past_the_final_one():
    policy = make_policy(job.Policy("singa.linear", 0.1, {"final_lr": 0.0, "change_freq": 10}))
    assert policy.rate(20) == pytest.approx(-0.1)


def test_a_fixed_step_lags_behind_after_a_jump():
    """SINGA's index starts from 0 and catches up by one in each step; a checkpoint keeps it."""
    settings = {"step": [0, 2, 4, 6], "step_lr": [4.0, 3.0, 2.0, 1.0]}
    policy, again = (make_policy(job.Policy("singa.fixed_step", BASE, settings)) for _ in range(2))
    assert [policy.rate(step) for step in (9, 10, 11, 12)] == [3.0, 2.0, 1.0, 1.0]
    again.restore(policy.state())
    assert again.rate(13) == 1.0


def test_all_of_them_have_a_case():
    assert {name for name in RULES if name.startswith("singa.")} == {f"singa.{name}" for name, _ in UPDATERS}
    assert {name for name in POLICIES if name.startswith("singa.")} == {f"singa.{name}" for name, _ in RATES}


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("rmsprop", {}, "'singa.rmsprop' needs: rho"),
        ("rmsprop", {"rho": 1.0}, "rho is 1, expected 0 or more and less than 1"),
        ("adam", {"beta2": -0.5}, "beta2 is -0.5"),
        ("sgd", {"weight_decay": -1.0}, "weight_decay is -1, expected at least 0"),
        ("adam", {"clip_low": 1.0}, "has no setting clip_low"),
    ],
)
def test_settings_out_of_range(kind, settings, message):
    with pytest.raises(UsageError, match=message):
        make_rule(f"singa.{kind}", settings)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("step", {"gamma": 0.5, "change_freq": 0}, "change_freq is 0, expected more than 0"),
        ("inverse_t", {"final_lr": 0.0}, "final_lr is 0, expected more than 0"),
        ("fixed_step", {"step": [0], "step_lr": []}, "1 step for 0 step_lr, expected one for each"),
    ],
)
def test_rates_out_of_range(kind, settings, message):
    with pytest.raises(UsageError, match=message):
        make_policy(job.Policy(f"singa.{kind}", BASE, settings))


SHAPE = (300, 200)
NORMAL = {"mean": 0.5, "std": 2.0, "value": 3.0}
RANGE = {"low": -0.5, "high": 1.5, "value": 3.0}
"""Moments of the latter: mean 0.5, deviation 2 / sqrt(12)."""

INITS = [
    ("kConstant", {"value": 0.25}, 0.25, 0.0),
    ("kConstant", {}, 1.0, 0.0),
    ("kGaussian", NORMAL, 1.5, 6.0),
    ("kGaussian", {"value": 0.0}, 0.0, 0.0),
    ("kUniform", RANGE, 1.5, 6 / 12**0.5),
    ("kGaussianSqrtFanIn", NORMAL, 1.5 / 200**0.5, 6.0 / 200**0.5),
    ("kUniformSqrtFanIn", RANGE, 1.5 * (3 / 200) ** 0.5, 6 / 12**0.5 * (3 / 200) ** 0.5),
    ("kUniformSqrtFanInOut", RANGE, 1.5 / 500**0.5, 6 / 12**0.5 / 500**0.5),
]


@pytest.mark.parametrize(("kind", "settings", "mean", "deviation"), INITS)
def test_first_values_have_the_moments_that_singa_draws(kind, settings, mean, deviation):
    drawn = fill(f"singa.{kind}", SHAPE, settings, key="w", seed=3).astype(np.float64)
    assert drawn.mean() == pytest.approx(mean, abs=max(1e-7, 5 * deviation / drawn.size**0.5))
    assert drawn.std() == pytest.approx(deviation, rel=0.02, abs=1e-7)


def test_every_init_has_a_case():
    assert {name for name in FILLERS if name.startswith("singa.")} == {f"singa.{row[0]}" for row in INITS}


def test_the_inputs_of_a_unit_are_the_columns_of_a_matrix():
    with pytest.raises(UsageError, match=r"parameter 'b': .*the shape is \(5,\), expected 2 axes"):
        fill("singa.kUniformSqrtFanIn", (5,), {}, key="b", seed=0)
