"""Update rules against their NumPy transcriptions, over many steps of a problem with curvature."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave import job  # noqa: E402 - after the check for torch
from netweave.errors import UsageError  # noqa: E402
from netweave.training.optim import (  # noqa: E402
    RULES,
    Trained,
    Updater,
    rule,
)
from netweave.training.optim import updater as updater_module  # noqa: E402
from tests.oracles import descent  # noqa: E402
from tests.training.optim import reference  # noqa: E402

STEPS = 50
SHAPES = {"a_weight": (7, 5), "b_weight": (3, 4, 2, 2), "c_bias": (5,)}
MULTIPLIERS = {"a_weight": (1.0, 1.0), "b_weight": (0.5, 2.0), "c_bias": (2.0, 0.0)}

CASES = {
    "caffe.sgd": [
        {},
        {"momentum": 0.9, "weight_decay": 0.01},
        {"momentum": 0.9, "weight_decay": 0.01, "regularization_type": "L1"},
    ],
    "caffe.nesterov": [{"momentum": 0.9, "weight_decay": 0.01}],
    "caffe.adagrad": [{"weight_decay": 0.01}],
    "caffe.rmsprop": [{"weight_decay": 0.01, "rms_decay": 0.95}],
    "caffe.adadelta": [{"momentum": 0.95, "weight_decay": 0.01, "delta": 1e-6}],
    "caffe.adam": [
        {"momentum": 0.9, "weight_decay": 0.01, "momentum2": 0.99},
        {"momentum": 0.9, "weight_decay": 0.01, "regularization_type": "L1", "delta": 0.01},
    ],
    "mxnet.sgd": [
        {"wd": 0.01},
        {"momentum": 0.9, "wd": 0.01, "rescale_grad": 0.25, "clip_gradient": 0.2},
    ],
    "mxnet.nag": [{"wd": 0.01}, {"momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5}],
    "mxnet.nag-0.9": [{"momentum": 0.9, "wd": 0.01, "rescale_grad": 0.5}],
    "mxnet.signum": [{"momentum": 0.9, "wd": 0.01, "wd_lh": 0.1}, {"momentum": 0.0, "wd": 0.01}],
    "mxnet.dcasgd": [{"momentum": 0.9, "wd": 0.01, "lamda": 0.5}, {"wd": 0.01}],
    "mxnet.adam": [{"wd": 0.01, "clip_gradient": 0.5, "rescale_grad": 0.5}, {"wd": 0.01, "epsilon": 0.01}],
    "mxnet.adam-0.7": [{"wd": 0.01, "clip_gradient": 0.5}],
    "mxnet.adagrad": [{"wd": 0.01}],
    "mxnet.rmsprop": [
        {"wd": 0.01, "gamma1": 0.95},
        {"wd": 0.01, "centered": True, "epsilon": 1e-4},
        {"wd": 0.01, "clip_weights": 0.7, "epsilon": 0.01},
    ],
    "mxnet.adadelta": [{"wd": 0.001}],
    "mxnet.ftrl": [{"wd": 0.01, "lamda1": 0.05}],
    "mxnet.adamax": [{"wd": 0.01}],
    "mxnet.nadam": [{"wd": 0.01}],
    "mxnet.ftml": [{"wd": 0.01}],
    "mxnet.lars": [{"wd": 0.01, "momentum": 0.9, "eta": 0.1}],
    "mxnet.lbsgd": [
        {"wd": 0.01},
        {"wd": 0.01, "momentum": 0.9, "batch_scale": 2, "updates_per_epoch": 4, "clip_gradient": 0.5},
        {"momentum": 0.9, "batch_scale": 3, "updates_per_epoch": 5, "warmup_strategy": "power2"},
        {"batch_scale": 2, "updates_per_epoch": 3, "begin_epoch": 1, "warmup_strategy": "sqrt"},
        {"wd": 0.01, "momentum": 0.5, "batch_scale": 2, "warmup_strategy": "lars", "rescale_grad": 0.5},
    ],
    "mxnet.groupadagrad": [{}, {"eps": 1e-3, "rescale_grad": 0.5, "clip_gradient": 0.2}],
    "mxnet.lamb": [{"wd": 0.01}, {"bias_correction": False, "lower_bound": 0.5, "upper_bound": 2.0}],
}
ALL = [(kind, settings) for kind, rows in CASES.items() for settings in rows]
ids = [f"{kind}-{index}" for kind, rows in CASES.items() for index in range(len(rows))]


def gradient(key, w):
    """Of a bowl that is steeper along some elements, with waves on it."""
    steep = np.linspace(0.2, 2.0, w.size).reshape(w.shape)
    return steep * (w - 0.3) + 0.3 * np.sin(5 * w + len(key))


def start(dtype, kind=""):
    rng = np.random.default_rng(1)
    return {key: rng.normal(size=shape).astype(dtype) for key, shape in shapes_of(kind).items()}


def rate_of(iteration):
    return 0.05 * 0.5 ** (iteration // 20)


def shapes_of(kind):
    """GroupAdaGrad is for matrices only."""
    return {key: shape for key, shape in SHAPES.items() if kind != "mxnet.groupadagrad" or len(shape) == 2}


def by_reference(kind, settings, steps=STEPS):
    name = kind.replace(".", "_").replace("-", "_")
    settings = dict(settings)
    decay = settings.pop("weight_decay" if kind.startswith("caffe") else "wd", 0.0)
    if kind == "mxnet.nadam":
        settings["common"] = {}
    weights, kept = start(np.float64, kind), {key: {} for key in SHAPES}
    for iteration in range(steps):
        for key, w in weights.items():
            lr_mult, decay_mult = MULTIPLIERS[key]
            update, own = getattr(reference, name), settings
            if kind == "mxnet.lars":
                update, own = lars_of(key, iteration, settings)
            lags = kind == "mxnet.lbsgd" and key == next(iter(SHAPES)) and iteration
            weights[key] = update(
                w,
                gradient(key, w),
                kept[key],
                rate_of(iteration - 1 if lags else iteration) * lr_mult,
                decay * decay_mult,
                iteration + 1,
                **own,
            )
    return weights


def lars_of(key, iteration, settings):
    """LARS leaves biases to SGD, and corrects the momentum of the first parameter at a new rate."""
    own = dict(settings)
    if key == next(iter(SHAPES)) and iteration:
        own["momentum"] *= rate_of(iteration) / rate_of(iteration - 1)
    if key.endswith("bias"):
        return reference.mxnet_sgd, {"momentum": own["momentum"]}
    return reference.mxnet_lars, own


def updater(kind, settings, tensors, **solver):
    policy = job.Policy("caffe.step", 0.05, {"gamma": 0.5, "stepsize": 20})
    trained = [Trained(key, tensor, *MULTIPLIERS[key]) for key, tensor in tensors.items()]
    return Updater(job.Solver(kind, policy, settings, **solver), trained)


def by_updater(kind, settings, dtype, steps=STEPS, layout=lambda tensor: tensor):
    tensors = {key: layout(torch.tensor(w)).requires_grad_() for key, w in start(dtype, kind).items()}
    made = updater(kind, settings, tensors)
    for _ in range(steps):
        for key, tensor in tensors.items():
            tensor.grad = torch.tensor(gradient(key, tensor.detach().numpy()).astype(dtype))
        made.step()
    return {key: tensor.detach().numpy() for key, tensor in tensors.items()}


def assert_close(found, expected, rtol):
    for key in expected:
        assert np.isfinite(expected[key]).all()
        np.testing.assert_allclose(
            found[key], expected[key], rtol=rtol, atol=rtol * np.abs(expected[key]).max()
        )


@pytest.mark.parametrize(("kind", "settings"), ALL, ids=ids)
def test_float64(kind, settings):
    assert_close(by_updater(kind, settings, np.float64), by_reference(kind, settings), rtol=1e-9)


@pytest.mark.parametrize(("kind", "settings"), ALL, ids=ids)
def test_float32(kind, settings):
    if kind == "mxnet.signum":
        pytest.skip("a sign that hangs on the last bit flips whole steps")
    assert_close(by_updater(kind, settings, np.float32), by_reference(kind, settings), rtol=3e-5)


def test_every_rule_has_a_case():
    singa = {kind for kind in RULES if kind.startswith(("darknet.", "keras.", "singa."))}  # elsewhere
    assert set(RULES) == set(CASES) | {"mxnet.ccsgd", "mxnet.sgld"} | singa


@pytest.mark.parametrize(("kind", "settings"), ALL, ids=ids)
def test_blocks_change_nothing(kind, settings, monkeypatch):
    whole = by_updater(kind, settings, np.float64, steps=5)
    monkeypatch.setattr(rule, "BLOCK_ELEMENTS", 16)  # whole vectors, as the real one
    cut = by_updater(kind, settings, np.float64, steps=5)
    for key in whole:
        np.testing.assert_array_equal(cut[key], whole[key])


@pytest.mark.parametrize(("kind", "settings"), ALL, ids=ids)
def test_memory_layout_changes_nothing(kind, settings):
    def layout(tensor):
        if tensor.ndim == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor.mT.contiguous().mT if tensor.ndim == 2 else tensor

    assert_close(
        by_updater(kind, settings, np.float64, layout=layout), by_updater(kind, settings, np.float64), 1e-12
    )


def test_small_rates_take_the_long_way(monkeypatch):
    settings = {"momentum": 0.9, "weight_decay": 0.01}
    fused = by_updater("caffe.sgd", settings, np.float64)
    monkeypatch.setattr(updater_module, "FUSED_RATES", {})
    assert_close(by_updater("caffe.sgd", settings, np.float64), fused, 1e-12)


def test_gradients_stay_as_they_are():
    for kind, settings in ALL:
        tensors = {key: torch.tensor(w).requires_grad_() for key, w in start(np.float64, kind).items()}
        for key, tensor in tensors.items():
            tensor.grad = torch.tensor(gradient(key, tensor.detach().numpy()))
        before = {key: tensor.grad.clone() for key, tensor in tensors.items()}
        updater(kind, settings, tensors, accumulate=2).step()
        assert all(torch.equal(tensor.grad, before[key]) for key, tensor in tensors.items())


def test_clipping_goes_before_dividing_by_the_number_of_batches():
    tensors = {"a_weight": torch.zeros(2, dtype=torch.float64, requires_grad=True)}
    tensors["a_weight"].grad = torch.tensor([30.0, 40.0], dtype=torch.float64)
    updater("caffe.sgd", {"clip_gradients": 5.0}, tensors, accumulate=4).step()
    # the norm of 50 becomes 5, a quarter of that is taken, times the rate
    np.testing.assert_allclose(tensors["a_weight"].detach(), [-0.05 * 3.0 / 4, -0.05 * 4.0 / 4], rtol=1e-12)


def test_short_gradients_are_not_clipped():
    tensors = {"a_weight": torch.zeros(2, dtype=torch.float64, requires_grad=True)}
    tensors["a_weight"].grad = torch.tensor([3.0, 4.0], dtype=torch.float64)
    updater("caffe.sgd", {"clip_gradients": 5.0}, tensors).step()
    np.testing.assert_allclose(tensors["a_weight"].detach(), [-0.15, -0.2], rtol=1e-12)


def test_no_gradient_counts_as_zeros():
    tensors = {"a_weight": torch.ones(2, dtype=torch.float64, requires_grad=True)}
    updater("caffe.sgd", {"weight_decay": 0.1}, tensors).step()
    np.testing.assert_allclose(tensors["a_weight"].detach(), [1 - 0.05 * 0.1] * 2, rtol=1e-12)


def test_a_multiplier_of_zero_leaves_a_parameter_alone():
    tensor = torch.ones(2, requires_grad=True)
    tensor.grad = torch.ones(2)
    made = Updater(job.Solver("caffe.sgd", job.Policy("caffe.fixed", 0.1)), [Trained("w", tensor, 0.0)])
    made.step()
    assert torch.equal(tensor, torch.ones(2))
    assert made.state == {}


def test_sgld_adds_noise_of_the_rates_size():
    def run(seed):
        tensor = torch.zeros(20_000, dtype=torch.float64, requires_grad=True)
        tensor.grad = torch.ones(20_000, dtype=torch.float64)
        solver = job.Solver("mxnet.sgld", job.Policy("mxnet.fixed", 0.04))
        Updater(solver, [Trained("w", tensor)], seed=seed).step()
        return tensor.detach().numpy()

    drawn = run(3)
    assert drawn.mean() == pytest.approx(-0.02, abs=0.006)
    assert drawn.std() == pytest.approx(0.2, rel=0.03)
    np.testing.assert_array_equal(drawn, run(3))
    assert not np.array_equal(drawn, run(4))


@pytest.mark.parametrize(("kind", "settings"), [*ALL, ("mxnet.sgld", {})], ids=[*ids, "sgld"])
def test_resuming_goes_on_to_the_bit(kind, settings):
    def fresh():
        return {key: torch.tensor(w).requires_grad_() for key, w in start(np.float32, kind).items()}

    def run(made, tensors, steps):
        for _ in range(steps):
            for key, tensor in tensors.items():
                tensor.grad = torch.tensor(gradient(key, tensor.detach().numpy()).astype(np.float32))
            made.step()

    straight = fresh()
    run(updater(kind, settings, straight), straight, 30)
    first = fresh()
    made = updater(kind, settings, first)
    run(made, first, 13)
    second = {key: tensor.detach().clone().requires_grad_() for key, tensor in first.items()}
    again = updater(kind, settings, second)
    again.load_state_dict(made.state_dict())
    run(again, second, 17)
    assert all(torch.equal(second[key], straight[key]) for key in straight)


def test_a_state_that_does_not_fit_changes_nothing():
    tensors = {key: torch.tensor(w).requires_grad_() for key, w in start(np.float32).items()}
    made = updater("caffe.sgd", {"momentum": 0.9}, tensors)
    other = updater("caffe.adam", {"momentum": 0.9}, dict(list(tensors.items())[:2])).state_dict()
    with pytest.raises(UsageError, match=r"does not match .* a_weight: found {'m': \(7, 5\), .*c_bias: f"):
        made.load_state_dict(other)
    assert made.iteration == 0


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("caffe.lbfgs", {}, r"unknown update rule 'caffe.lbfgs'; expected one of caffe.adadelta, "),
        (
            "caffe.sgd",
            {"beta1": 0.9},
            r"'caffe.sgd' has no setting beta1; it has: weight_decay, ",
        ),
        ("caffe.adagrad", {"momentum": 0.9}, r"'caffe.adagrad': momentum is 0.9, and cannot be used"),
        ("caffe.rmsprop", {"rms_decay": 1.0}, r"rms_decay is 1.0, expected 0 <= rms_decay < 1"),
        ("mxnet.groupadagrad", {"wd": 0.1}, r"wd is 0.1, and cannot be used with this optimizer"),
        ("mxnet.lbsgd", {"batch_scale": 0}, r"batch_scale is 0, expected at least 1"),
        ("caffe.sgd", {"regularization_type": "L3"}, r"regularization_type is 'L3', expected L1 or L2"),
    ],
)
def test_wrong_settings_are_named(kind, settings, message):
    with pytest.raises(UsageError, match=message):
        updater(kind, settings, {})


def test_group_adagrad_is_for_matrices():
    with pytest.raises(UsageError, match=r"is for matrices; a parameter is \(5,\)"):
        updater("mxnet.groupadagrad", {}, {"c_bias": torch.zeros(5)})


def test_equal_keys_are_refused():
    tensor = torch.ones(2)
    with pytest.raises(UsageError, match="two trained parameters have the same key"):
        Updater(
            job.Solver("caffe.sgd", job.Policy("caffe.fixed", 0.1)),
            [Trained("w", tensor), Trained("w", tensor)],
        )


PYTORCHS = {
    "caffe.sgd": ({"momentum": 0.9, "weight_decay": 0.01}, "SGD", {"momentum": 0.9, "weight_decay": 0.01}),
    "caffe.nesterov": (
        {"momentum": 0.9, "weight_decay": 0.01},
        "SGD",
        {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    ),
    "caffe.adagrad": ({"delta": 1e-3}, "Adagrad", {"eps": 1e-3}),
    "caffe.rmsprop": ({"rms_decay": 0.9, "delta": 1e-3}, "RMSprop", {"alpha": 0.9, "eps": 1e-3}),
    "caffe.adadelta": ({"momentum": 0.9, "delta": 1e-4}, "Adadelta", {"rho": 0.9, "eps": 1e-4}),
}
"""Where a rule is PyTorch's own, at a rate that stays."""


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("kind", PYTORCHS)
def test_where_pytorch_has_the_rule(kind, dtype, rtol):
    settings, name, options = PYTORCHS[kind]
    first = descent.start()["a_weight"].astype(dtype)
    ours, theirs = (torch.tensor(first).requires_grad_() for _ in range(2))
    made = Updater(job.Solver(kind, job.Policy("caffe.fixed", 0.01), settings), [Trained("w", ours)])
    optimizer = getattr(torch.optim, name)([theirs], lr=0.01, **options)
    for _ in range(STEPS):
        for tensor in (ours, theirs):
            tensor.grad = torch.tensor(descent.gradient("w", tensor.detach().numpy()))
        made.step()
        optimizer.step()
    np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize(("kind", "settings"), [*ALL, ("mxnet.sgld", {})], ids=[*ids, "sgld"])
def test_slices_in_any_order_on_any_holder_change_nothing(kind, settings):
    """Two holders, of even and of odd slices: each measures and applies its own, the last one first."""

    def run(holders):
        tensors = {key: torch.tensor(w).requires_grad_() for key, w in start(np.float64, kind).items()}
        policy = job.Policy("caffe.step", 0.05, {"gamma": 0.5, "stepsize": 3})
        trained = [Trained(key, tensor, *MULTIPLIERS[key]) for key, tensor in tensors.items()]
        made = [
            Updater(job.Solver(kind, policy, settings), trained, slice_elements=64) for _ in range(holders)
        ]
        slices = range(len(made[0].layout.slices))
        assert len(slices) == len(tensors)
        for _ in range(8):
            for key, tensor in tensors.items():
                tensor.grad = torch.tensor(gradient(key, tensor.detach().numpy()))
            for updater in made:
                updater.advance()
            measured = None
            if made[0].rule.measures:
                measured = sum(one.measure(slices[number::holders]) for number, one in enumerate(made))
            updates = [one.begin(measured) for one in made]
            for number in reversed(slices):
                made[number % holders].apply(updates[number % holders], number)
        return {key: tensor.detach() for key, tensor in tensors.items()}

    alone, shared = run(1), run(2)
    for key in alone:
        torch.testing.assert_close(shared[key], alone[key], rtol=1e-13, atol=1e-15)
