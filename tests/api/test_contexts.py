"""``context=[cpu(0), cpu(1)]`` and ``kvstore=``: against MXNet 1.9.1, and one context on the whole batch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from netweave import symbol as sym
from netweave.api.models import BatchEnd, Module
from netweave.errors import RunError, UsageError
from netweave.training import latest
from netweave.training.parallel.launcher import Launcher
from tests.api.dist_fit import MODES, whole_fit
from tests.api.fits import BATCH, CONTEXTS, EPOCHS, FITS, first_values, records

EXPECTED = json.loads((Path(__file__).parents[1] / "golden" / "mxnet_contexts.json").read_text())


def cpus(count):
    return [netweave.cpu(number) for number in range(count)]


def fitted(fit, contexts, *, net=None, seen=None, **settings):
    """Fit a net from given first values; return all arrays."""
    data, labels = records(fit)
    with sym.NameManager():
        module = Module(fit.make(sym) if net is None else net, context=contexts, **settings.pop("module", {}))
    module.bind(data=(BATCH, *fit.shape), softmax_label=(BATCH,), seed=0)
    learnt, states = module.get_params()
    start = first_values({key: array.shape for key, array in {**learnt, **states}.items()})

    def note(event):
        if isinstance(event, BatchEnd) and seen is not None:
            seen.extend(event.metrics.values())

    module.fit(
        data,
        labels,
        **{"num_epoch": EPOCHS, "batch_size": BATCH, "eval_metric": fit.metric, **settings},
        optimizer=fit.optimizer,
        optimizer_params=fit.settings,
        arg_params={key: start[key] for key in learnt},
        aux_params={key: start[key] for key in states},
        callbacks=[note],
    )
    return module, {**module.get_params()[0], **module.get_params()[1]}


def largest_difference(a, b):
    assert a.keys() == b.keys()
    return max(float(np.abs(a[key].astype(np.float64) - b[key]).max()) for key in a)


@pytest.mark.parametrize(("name", "count", "kvstore"), CONTEXTS)
def test_several_contexts_fit_as_mxnets(name, count, kvstore):
    """Same start and batches, split by MXNet's rule: batch statistics are those of each context's part."""
    fit, expected = FITS[name], EXPECTED[f"{name}, {count} contexts, {kvstore}"]
    seen: list[float] = []
    module, left = fitted(fit, cpus(count), kvstore=kvstore, seen=seen)
    np.testing.assert_allclose(seen, expected["metric"], rtol=0, atol=1e-4)
    (score,) = module.score(*records(fit), eval_metric=fit.metric, batch_size=BATCH).values()
    assert score == pytest.approx(expected["score"], abs=1e-3)
    for key, (total, squares) in expected["arrays"].items():
        if name == "fixed" and key == "bn1_gamma":
            continue  # MXNet's store gives back what it was given; its operator computes with 1, as here
        assert left[key].astype(np.float64).sum() == pytest.approx(total, abs=2e-3), key
        assert (left[key].astype(np.float64) ** 2).sum() == pytest.approx(squares, abs=2e-3, rel=1e-3), key


def valid(sym):
    """Labels of class 4 are ignored, and gradients are divided by the number of the others."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=7, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=5, name="fc2")
    return sym.SoftmaxOutput(net, use_ignore=True, ignore_label=4, normalization="valid", name="softmax")


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("make", [FITS["rows"].make, valid])
def test_several_contexts_end_as_one_on_the_whole_batch(make, count):
    fit = FITS["rows"]
    with sym.NameManager():
        net = make(sym)
    seen: list[list[float]] = [[], []]
    _, expected = fitted(fit, cpus(1), net=net, seen=seen[0])
    _, found = fitted(fit, cpus(count), net=net, seen=seen[1])
    assert largest_difference(found, expected) < 1e-6
    np.testing.assert_allclose(*seen, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "fixed"])
def test_synchronised_batch_statistics_are_those_of_one_context(name):
    _, expected = fitted(FITS[name], cpus(1))
    _, found = fitted(FITS[name], cpus(3), sync_batch_norm=True)
    _, apart = fitted(FITS[name], cpus(3))
    assert largest_difference(found, expected) < 2e-5
    assert largest_difference(apart, expected) > 1e-2


def test_the_same_fit_twice_ends_with_the_same_bits():
    _, first = fitted(FITS["sgd"], cpus(3))
    _, second = fitted(FITS["sgd"], cpus(3), kvstore="device")
    assert largest_difference(first, second) == 0


def test_a_fit_with_codes_resumes_with_the_same_bits(tmp_path):
    """What codes have left out is in the checkpoint."""
    codes = {"compression_params": {"type": "2bit", "threshold": 0.05}}
    options = {"module": codes, "kvstore": "device"}
    _, plain = fitted(FITS["sgd"], cpus(2))
    # moving statistics are averaged where they are written, which rounds them
    whole = {**options, "module": dict(codes), "checkpoint_prefix": tmp_path / "whole"}
    _, expected = fitted(FITS["sgd"], cpus(2), **whole)
    assert largest_difference(plain, expected) > 1e-4
    prefix = tmp_path / "kept"
    fitted(FITS["sgd"], cpus(2), **{**options, "module": dict(codes)}, num_epoch=2, checkpoint_prefix=prefix)
    assert any(name.startswith("store:") for name in latest(str(prefix))[1].arrays)
    settings = {"checkpoint_prefix": prefix, "resume": True, "num_epoch": EPOCHS}
    _, found = fitted(FITS["sgd"], cpus(2), **{**options, "module": dict(codes)}, **settings)
    assert largest_difference(found, expected) == 0


def test_a_callback_that_changes_arrays_changes_them_on_all_contexts():
    """A second context with an array of its own would move the sum of the gradients."""
    fit = FITS["rows"]
    data, labels = records(fit)
    found = []
    for count in (1, 3):
        with sym.NameManager():
            module = Module(fit.make(sym), context=cpus(count))

        def halve(event, module=module):
            module.net.params["fc1_weight"] = 0.5 * module.net.params["fc1_weight"].detach()

        module.fit(data, labels, num_epoch=1, batch_size=BATCH, seed=3, callbacks=[halve])
        found.append(module.get_params()[0])
    assert largest_difference(*found) < 1e-6


def test_an_error_of_one_context_is_raised_and_nobody_waits(monkeypatch):
    """The other context waits for the first one's batch statistics when it fails."""
    fit = FITS["sgd"]
    data, labels = records(fit)
    data = data.copy()
    data[40] = np.inf  # the first context's part of the third batch
    with sym.NameManager():
        net = fit.make(sym)
    module = Module(sym.MakeLoss(sym.sum(net), name="loss"), context=cpus(2), label_names=["softmax_label"])
    with pytest.raises(RunError, match="the loss is nan in iteration 2"):
        module.fit(
            data, labels, num_epoch=1, batch_size=BATCH, sync_batch_norm=True, seed=0, eval_metric="loss"
        )


WRONG = [
    ({"context": [netweave.cpu(), netweave.cpu()]}, {}, "context cpu:0 is named twice"),
    ({"context": ["tpu:0"]}, {}, "'tpu:0' is no device; expected cpu:0"),
    ({"context": []}, {}, "the list of contexts is empty"),
    ({"context": "cpu", "device": "cpu"}, {}, "give only one"),
    ({"context": cpus(2)}, {"kvstore": None}, "would train each context by itself"),
    ({"context": cpus(2)}, {"kvstore": "nccl"}, "unknown key-value store 'nccl'"),
    ({"context": cpus(2)}, {"batch_size": 1}, "a batch of 1 cannot be split over 2 devices"),
    ({"context": cpus(1)}, {"kvstore": "dist_sync"}, "start them with: torchrun"),
    (
        {"context": cpus(2), "compression_params": {"type": "2bit"}},
        {"kvstore": "local"},
        "a local store has nothing to compress",
    ),
]


@pytest.mark.parametrize(("module", "settings", "message"), WRONG)
def test_wrong_contexts_and_stores_are_refused(module, settings, message):
    fit = FITS["rows"]
    data, labels = records(fit)
    with sym.NameManager(), pytest.raises(UsageError, match=message):
        Module(fit.make(sym), **module).fit(data, labels, **{"num_epoch": 1, "batch_size": BATCH, **settings})


@pytest.mark.multi
@pytest.mark.slow
def test_workers_with_codes_resume_with_the_same_bits(tmp_path):
    """What the codes of each worker have left out is in the checkpoint that the first one writes."""
    command = [sys.executable, "-m", "tests.api.dist_fit", str(tmp_path), "codes"]
    assert Launcher(command, ["cpu"] * 3, 0, print).run() == 0
    found = {path.stem: dict(np.load(path)) for path in tmp_path.glob("*.npz")}
    for worker in range(3):
        assert largest_difference(found[f"resumed-{worker}"], found["whole-0"]) == 0
    assert largest_difference(found["forgetful-0"], found["whole-0"]) > 0
    arrays = latest(str(tmp_path / "whole"))[1].arrays
    rows = [arrays[f"store:0:0:{worker}"] for worker in range(3)]
    assert not np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[1], rows[2])


@pytest.mark.multi
@pytest.mark.slow
def test_workers_of_a_dist_sync_store_end_as_one_process_on_all_records(tmp_path):
    """Each worker has records of its own; with one context and with two each, and from different starts."""
    command = [sys.executable, "-m", "tests.api.dist_fit", str(tmp_path)]
    assert Launcher(command, ["cpu"] * 3, 0, print).run() == 0
    expected = whole_fit(3)
    for mode in MODES:
        found = [dict(np.load(tmp_path / f"{mode}-{worker}.npz")) for worker in range(3)]
        for one in found[1:]:
            assert largest_difference(one, found[0]) == 0
        assert largest_difference(found[0], expected) < 1e-6, mode
