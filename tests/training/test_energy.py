"""Contrastive divergence against enumeration; stacks of machines that become an autoencoder."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.errors import ReadError, UnsupportedError  # noqa: E402 - after the check for torch
from tests.formats.singa.nets import layer  # noqa: E402
from tests.training.singa_jobs import GAUSSIAN, arrays_of, job, params, product, run  # noqa: E402

VISIBLE, HIDDEN, RATE = 6, 4, 0.5
SAMPLES = 40_000
ZERO = "wd_scale: 0 init { type: kConstant value: 0 }"


def records(width: int, batch: int) -> str:
    return (
        'layer { name: "data" type: kRecordInput store_conf { backend: "kvfile" path: "x" '
        f"batchsize: {batch} shape: {width} has_label: false }} }}\n"
    )


def machine(hidden: int, *, source: str = "data", at: int = 1, settings: str = "") -> str:
    """The two layers of an RBM; its parameters end with its number."""
    text = f"rbm_conf {{ hdim: {hidden} {settings} }}"
    visible = params(**{f"w{at}": "init { type: kGaussian std: 0.3 }", f"b{at}1": ZERO})
    above = params(**{f"w{at}_": f'share_from: "w{at}"', f"b{at}2": ZERO})
    return layer("kRBMVis", f"{visible} {text}", sources=f"{source} hid", name="vis") + layer(
        "kRBMHid", f"{above} {text}", sources="vis", name="hid"
    )


def energy_job(folder, net, *, more, k=1, rate=RATE, updater=""):
    rule = f"type: kSGD {updater} learning_rate {{ type: kFixed base_lr: {rate} }}"
    return job(folder, net, alg=f"kCD cd_conf {{ cd_k: {k} }}", updater=rule, more=more)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def states(count):
    return np.array(list(itertools.product([0.0, 1.0], repeat=count)))


def statistics(v, h):
    """Return what the gradients of the matrix and of both biases are made of."""
    return np.outer(h, v), v, h


def end_of_chain(v, arrays, k):
    """Return the mean statistics after k steps, over all states of all hidden samples."""
    w, c, b = arrays
    h = sigmoid(w @ v + b)
    total = [np.zeros_like(array) for array in arrays]
    for sample in states(HIDDEN):
        chance = np.prod(np.where(sample == 1, h, 1 - h))
        after = sigmoid(sample @ w + c)
        row = statistics(after, sigmoid(w @ after + b)) if k == 1 else end_of_chain(after, arrays, k - 1)
        total = [sum_ + chance * part for sum_, part in zip(total, row, strict=True)]
    return total


def machine_arrays(trainer):
    found = arrays_of(trainer)
    return [found["w1"], found["b11"], found["b12"]]


@pytest.mark.parametrize("k", [1, 2])
def test_the_mean_gradient_is_that_of_enumeration(k, tmp_path):
    """The same record many times in one batch; the matrix takes half, since two layers share it."""
    net = records(VISIBLE, SAMPLES) + machine(HIDDEN)
    v = np.array([1.0, 0.0, 0.3, 1.0, 0.8, 0.0])
    data = {"data": np.tile(v, (SAMPLES, 1))}
    first = machine_arrays(run(energy_job(tmp_path, net, k=k, more="train_steps: 0"), data)[0])
    after = machine_arrays(run(energy_job(tmp_path, net, k=k, more="train_steps: 1"), data)[0])
    w, _, b = first
    positive, negative = statistics(v, sigmoid(w @ v + b)), end_of_chain(v, first, k)
    rows = zip(first, after, positive, negative, (0.5, 1.0, 1.0), strict=True)
    for old, new, up, down, share in rows:
        assert np.abs(up - down).max() > 0.05
        # a statistic lies between 0 and 1, so that its mean over the samples deviates by 1 / (2 sqrt(n))
        np.testing.assert_allclose((old - new) / RATE / share, down - up, atol=4 * 0.5 / SAMPLES**0.5)


def test_hidden_units_that_are_linear(tmp_path):
    """By quadrature over the two normal states; the gradient is that of the means, not of the samples."""
    net = records(3, SAMPLES) + machine(2, settings="gaussian: true")
    v = np.array([0.9, 0.1, 0.4])
    data = {"data": np.tile(v, (SAMPLES, 1))}
    first = machine_arrays(run(energy_job(tmp_path, net, more="train_steps: 0"), data)[0])
    after = machine_arrays(run(energy_job(tmp_path, net, more="train_steps: 1"), data)[0])
    w, c, b = first
    points, weights = np.polynomial.hermite_e.hermegauss(24)
    mean, total = w @ v + b, [np.zeros_like(array) for array in first]
    for (x, p), (y, q) in itertools.product(zip(points, weights, strict=True), repeat=2):
        end = sigmoid((mean + np.array([x, y])) @ w + c)
        row = statistics(end, w @ end + b)
        total = [sum_ + p * q / (2 * np.pi) * part for sum_, part in zip(total, row, strict=True)]
    rows = zip(first, after, statistics(v, mean), total, (0.5, 1.0, 1.0), strict=True)
    for old, new, up, down, share in rows:
        np.testing.assert_allclose((old - new) / RATE / share, down - up, atol=4 * 0.5 / SAMPLES**0.5)


def log_likelihood(arrays, rows):
    """Return the mean log-likelihood of binary records, with the partition function by enumeration."""
    w, c, b = arrays

    def negative_free_energy(v):
        return v @ c + np.log1p(np.exp(v @ w.T + b)).sum(axis=1)

    everything = negative_free_energy(states(VISIBLE))
    peak = everything.max()
    return negative_free_energy(rows).mean() - peak - np.log(np.exp(everything - peak).sum())


@pytest.mark.slow
def test_the_likelihood_rises_and_nears_that_of_the_data(tmp_path):
    net = records(VISIBLE, 20) + machine(HIDDEN)
    patterns = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0]], float)
    data = {"data": patterns[np.random.default_rng(0).integers(3, size=200)]}
    found = []
    for steps in (0, 100, 1500):
        trainer, _ = run(energy_job(tmp_path, net, more=f"train_steps: {steps}"), data)
        found.append(log_likelihood(machine_arrays(trainer), patterns))
    assert found == sorted(found)
    assert found[0] < -6 * np.log(2) + 0.5  # nothing is known: 64 states are alike
    assert found[-1] > np.log(1 / 3) - 1.0  # the data: three patterns alike


def test_layers_below_a_machine_are_left_alone(tmp_path):
    """``CDWorker`` updates the layers of RBMs only, and decays nothing else either."""
    below = product("in", 5, params(w0="init { type: kGaussian }", b0=ZERO), source="data")
    net = records(VISIBLE, 4) + below + layer("kSigmoid", sources="in", name="s")
    net += machine(3, source="s")
    data = {"data": np.random.default_rng(0).random((9, VISIBLE))}
    decay = {"updater": "momentum: 0.5 weight_decay: 0.1"}
    first = arrays_of(run(energy_job(tmp_path, net, more="train_steps: 0", **decay), data)[0])
    after = arrays_of(run(energy_job(tmp_path, net, more="train_steps: 4", **decay), data)[0])
    for key, array in first.items():
        assert np.array_equal(after[key], array) == (key in {"w0", "b0"}), key


def test_the_reconstruction_is_tested_and_the_ways_share_what_was_trained(tmp_path):
    net = records(VISIBLE, 4) + machine(HIDDEN)
    data = {"data": np.random.default_rng(0).random((9, VISIBLE))}
    more = "train_steps: 3 test_freq: 2 test_steps: 2 disp_freq: 1"
    trainer, events = run(energy_job(tmp_path, net, more=more), data)
    names = [tuple(event.outputs) for event in events if hasattr(event, "outputs")]
    assert names == [("vis/squared_error",)] * 5
    assert set(trainer.nets) == {"train", "up", "down", "test"}
    w, c, b = machine_arrays(trainer)
    v = torch.tensor(data["data"][:2])
    h = trainer.nets["up"](data=v)["hid"]
    np.testing.assert_allclose(h.detach(), sigmoid(v.numpy() @ w.T + b), rtol=1e-12)
    down = trainer.nets["down"](hid=h)["vis"]
    np.testing.assert_allclose(down.detach(), sigmoid(h.detach().numpy() @ w + c), rtol=1e-12)


def test_what_contrastive_divergence_cannot_train(tmp_path):
    first = machine(3)
    second = machine(2, at=2).replace('"vis"', '"vis2"').replace('"hid"', '"hid2"')
    second = second.replace('srclayers: "data"', 'srclayers: "hid"')
    with pytest.raises(UnsupportedError, match=r"has 2 RBMs \(vis, vis2\), expected one"):
        energy_job(tmp_path, records(VISIBLE, 4) + first + second, more="")
    with pytest.raises(ReadError, match="has no kRBMVis with a kRBMHid, which the algorithm kCD trains"):
        energy_job(
            tmp_path, records(VISIBLE, 4) + product("y", 2, params(w="", b=""), source="data"), more=""
        )
    with pytest.raises(ReadError, match=r"job\.conf:2: 'cd_k' is 0, expected 1 or more"):
        energy_job(tmp_path, records(VISIBLE, 4) + first, k=0, more="")


SIZES = (64, 40, 24, 10)
"""Units of the stack, from the pixels of a digit up."""


def encoder(depth):
    """The layers below the machine of a depth: products with what the machines before have learnt."""
    text, source = records(SIZES[0], 50), "data"
    for at in range(1, depth):
        arrays = params(**{f"w{at}": GAUSSIAN, f"b{at}2": ZERO})
        text += product(f"up{at}", SIZES[at], arrays, source=source)
        text += layer("kSigmoid", sources=f"up{at}", name=f"s{at}")
        source = f"s{at}"
    return text, source


def autoencoder():
    """The stack unrolled: the way up, and the way down with the same matrices."""
    text, source = encoder(len(SIZES))
    for at in range(len(SIZES) - 1, 0, -1):
        arrays = params(**{f"v{at}": f'share_from: "w{at}"', f"b{at}1": ZERO})
        text += product(f"down{at}", SIZES[at - 1], arrays, source=source, settings="transpose: true")
        text += layer("kSigmoid", sources=f"down{at}", name=f"r{at}")
        source = f"r{at}"
    return text + layer("kEuclideanLoss", sources=f"{source} data", name="loss")


@pytest.mark.slow
def test_a_stack_of_machines_is_a_good_beginning_for_the_autoencoder(tmp_path):
    """Four files that hand checkpoints on, as SINGA's examples do; same steps with and without."""
    datasets = pytest.importorskip("sklearn.datasets")
    data = {"data": datasets.load_digits().images.reshape(-1, SIZES[0]) / 16}
    handed: list[str] = []
    for depth in range(1, len(SIZES)):
        text, source = encoder(depth)
        folder = tmp_path / f"rbm{depth}"
        folder.mkdir()
        net = text + machine(SIZES[depth], source=source, at=depth)
        more = "train_steps: 300 " + " ".join(handed[-1:])
        run(energy_job(folder, net, more=more, rate=0.1, updater="momentum: 0.8 weight_decay: 0.0002"), data)
        handed.append(f'checkpoint_path: "{folder}/checkpoint/step300-worker0"')
    errors = {}
    for name, paths in (("pretrained", reversed(handed)), ("fresh", ())):
        more = f"train_steps: 101 test_freq: 100 test_steps: 36 {' '.join(paths)}"
        rule = "type: kAdaGrad learning_rate { type: kFixed base_lr: 0.01 }"
        _, events = run(job(tmp_path, autoencoder(), updater=rule, more=more), data)
        errors[name] = [event.outputs["loss"][0] for event in events if hasattr(event, "phase")]
    assert errors["pretrained"][0] < 0.8 * errors["fresh"][0]
    assert errors["pretrained"][1] < 0.8 * errors["fresh"][1]
    assert errors["pretrained"][1] < errors["pretrained"][0]
