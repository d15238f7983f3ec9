"""Fitting symbols: MXNet 1.9.1's own Module.fit, and the forms of data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import symbol as sym
from netweave.api.models import BatchEnd, EpochEnd, Module
from netweave.api.reading import load, run, to_inference
from netweave.api.weights import save_weights
from netweave.errors import RunError, UsageError
from netweave.formats.mxnet.symbol.training import FitConfig, TrainingGraph, mxnet_solver
from netweave.job import Checkpoints
from netweave.runtime.engine import SerialEngine
from netweave.training import latest
from netweave.training.data.sources.arrays import Arrays
from tests.api.fits import BATCH, EPOCHS, FITS, first_values, records
from tests.training.trainers import make_trainer

EXPECTED = json.loads((Path(__file__).parents[1] / "golden" / "mxnet_fits.json").read_text())


@pytest.mark.parametrize("name", FITS)
def test_fits_as_mxnet(name):
    """Same start and batches: every batch's metric within 1e-4, and what is left at the end."""
    fit, expected = FITS[name], EXPECTED[name]
    data, labels = records(fit)
    with sym.NameManager():
        net = fit.make(sym)
    module = Module(net).bind(data=(BATCH, *fit.shape), softmax_label=(BATCH,), seed=0)
    learnt, states = module.get_params()
    start = first_values({key: array.shape for key, array in {**learnt, **states}.items()})
    seen: list[float] = []

    def note(event):
        if isinstance(event, BatchEnd):
            seen.extend(event.metrics.values())

    module.fit(
        data,
        labels,
        num_epoch=EPOCHS,
        batch_size=BATCH,
        optimizer=fit.optimizer,
        optimizer_params=fit.settings,
        arg_params={key: start[key] for key in learnt},
        aux_params={key: start[key] for key in states},
        eval_metric=fit.metric,
        callbacks=[note],
    )
    np.testing.assert_allclose(seen, expected["metric"], rtol=0, atol=1e-4)
    (score,) = module.score(data, labels, eval_metric=fit.metric, batch_size=BATCH).values()
    assert score == pytest.approx(expected["score"], abs=1e-3)
    left = {**module.get_params()[0], **module.get_params()[1]}
    for key, (total, squares) in expected["arrays"].items():
        assert left[key].astype(np.float64).sum() == pytest.approx(total, abs=2e-3), key
        assert (left[key].astype(np.float64) ** 2).sum() == pytest.approx(squares, abs=2e-3, rel=1e-3), key


def small():
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    return sym.SoftmaxOutput(net, name="softmax")


def toy(count=48):
    generator = np.random.default_rng(0)
    data = generator.normal(size=(count, 6)).astype(np.float32)
    return data, data[:, :3].argmax(1).astype(np.float32)


FAST = {"num_epoch": 3, "batch_size": 8, "optimizer_params": {"learning_rate": 0.5}, "seed": 0}


def test_all_forms_of_records_train_the_same():
    data, labels = toy()
    pairs = list(zip(data, labels, strict=True))

    class Own:
        def __len__(self):
            return len(pairs)

        def __getitem__(self, index):
            return pairs[index]

    source = Arrays(data, labels)
    forms = [(data, labels), ({"data": data, "softmax_label": labels}, None), ((data, labels), None)]
    forms += [(source, None), (source, None), (pairs, None), (Own(), None)]
    found = [Module(small()).fit(x, y, **FAST)["accuracy"] for x, y in forms]
    found.append(Module(small()).fit(iter(pairs * 3), steps_per_epoch=6, **FAST)["accuracy"])
    assert all(row == found[0] for row in found)
    assert found[0][-1] > found[0][0]


def test_a_second_fit_goes_on_as_one_long_fit_would():
    """Momentum and all: two and one epochs are three."""
    data, labels = toy()
    settings = {**FAST, "optimizer_params": {"learning_rate": 0.1, "momentum": 0.9}}
    once = Module(small())
    once.fit(data, labels, **settings)
    twice = Module(small())
    twice.fit(data, labels, **{**settings, "num_epoch": 2})
    twice.fit(data, labels, **{**settings, "num_epoch": 1}, eval_metric=["ce", "accuracy"])
    for key, array in once.get_params()[0].items():
        np.testing.assert_array_equal(twice.get_params()[0][key], array)


def test_judging_counts_each_record_once():
    """37 records in batches of 8: the mean is over 37."""
    data, labels = toy(37)
    module = Module(small())
    history = module.fit(data, labels, eval_data=(data, labels), **FAST)
    prediction = module.predict(data, batch_size=8)
    assert prediction.shape == (37, 3)
    right = float((prediction.argmax(1) == labels).mean())
    assert history["val_accuracy"][-1] == pytest.approx(right)
    assert module.score(data, labels, batch_size=5)["accuracy"] == pytest.approx(right)


def test_metrics_are_those_of_numpy():
    data, labels = toy(37)
    module = Module(small())
    module.fit(data, labels, **FAST)
    p = module.predict(data)
    found = module.score(data, labels, eval_metric=["accuracy", "ce"], batch_size=37)
    assert found["accuracy"] == pytest.approx((p.argmax(1) == labels).mean())
    chosen = p[np.arange(37), labels.astype(int)]
    assert found["ce"] == pytest.approx(-np.log(chosen).mean(), rel=1e-5)


def test_a_metric_of_the_users_own():
    def largest(prediction, label):
        return sym.max(prediction)

    data, labels = toy()
    module = Module(small())
    history = module.fit(data, labels, eval_metric=["accuracy", largest], eval_data=(data, labels), **FAST)
    found = history["val_largest"][-1]
    mean = np.mean([module.predict(part).max() for part in np.split(data, len(data) // 8)])
    assert found == pytest.approx(mean, rel=1e-5)


def test_callbacks_are_told_and_may_stop():
    data, labels = toy()
    module, events = Module(small()), []

    def stop_in_the_second(event):
        events.append(event)
        if isinstance(event, BatchEnd) and event.epoch == 1:
            module.stop()

    history = module.fit(data, labels, callbacks=[stop_in_the_second], **FAST)
    batches = [(e.epoch, e.batch) for e in events if isinstance(e, BatchEnd)]
    assert batches == [*((0, n) for n in range(6)), (1, 0)]
    assert [e.epoch for e in events if isinstance(e, EpochEnd)] == [0]
    assert len(history.epochs) == 1


def test_a_callback_may_change_arrays():
    data, labels = toy()
    module = Module(small())

    def freeze(event):
        module.net.params["fc_bias"] = module.net.params["fc_bias"].new_zeros(3)

    module.fit(data, labels, callbacks=[freeze], **FAST)
    assert not module.get_params()[0]["fc_bias"].any()


def test_schedulers_and_first_values_by_name():
    """Against a run with the rates by hand: a factor of 0.5 every 6 updates."""
    data, labels = toy()
    settings = {"learning_rate": 0.4, "lr_scheduler": {"kind": "factor", "step": 6, "factor": 0.5}}
    module = Module(small()).bind(
        data=(8, 6), softmax_label=(8,), initializer=sym.Initializer("constant", value=0.25), seed=0
    )
    assert (module.get_params()[0]["fc_weight"] == 0.25).all()
    assert not module.get_params()[0]["fc_bias"].any()
    module.fit(data, labels, **{**FAST, "num_epoch": 2, "optimizer_params": settings})
    weight, bias = np.full((3, 6), 0.25), np.zeros(3)
    for step in range(12):
        x, t = data[step % 6 * 8 :][:8], labels[step % 6 * 8 :][:8].astype(int)
        scores = x @ weight.T + bias
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(8), t] -= 1
        rate = 0.4 if step + 1 <= 6 else 0.2
        weight, bias = weight - rate * p.T @ x / 8, bias - rate * p.sum(0) / 8
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"], weight, atol=1e-5)


WRONG = {
    "optimizer": ({"optimizer": "sdg"}, UsageError, "unknown update rule 'mxnet.sdg'"),
    "setting": ({"optimizer_params": {"momentun": 0.9}}, UsageError, "no setting momentun"),
    "scheduler": ({"optimizer_params": {"lr_scheduler": 3}}, UsageError, "lr_scheduler is 3, expected"),
    "metric": ({"eval_metric": "acuracy"}, UsageError, "unknown metric 'acuracy'; expected one of acc"),
    "array": ({"arg_params": {"fc_weigth": np.zeros(3)}}, UsageError, "no array 'fc_weigth'"),
    "size": ({"arg_params": {"fc_bias": np.zeros(4)}}, UsageError, r"shape \(4,\), expected \(3,\)"),
    "batch": ({"batch_size": 100}, UsageError, "there are 48 records, fewer than the 100"),
    "initializer": ({"initializer": sym.Initializer("xavir")}, UsageError, "unknown filler 'mxnet.xavir'"),
    "rate": ({"optimizer_params": {"learning_rate": 3e38}}, RunError, "is nan|is inf"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case):
    settings, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        Module(small()).fit(*toy(), **{**FAST, **settings})


def test_wrong_records_are_named():
    data, labels = toy()
    with pytest.raises(UsageError, match="have \\[48, 40\\] records"):
        Module(small()).fit(data, labels[:40], **FAST)
    with pytest.raises(UsageError, match="1 arrays given for the inputs data, softmax_label"):
        Module(small()).fit(data, **FAST)
    with pytest.raises(UsageError, match="no array given for softmax_label"):
        Module(small()).fit({"data": data}, **FAST)
    with pytest.raises(UsageError, match="its length is unknown"):
        Module(small()).fit(iter(list(zip(data, labels, strict=True))), **FAST)
    with pytest.raises(UsageError, match="records are of type int"):
        Module(small()).fit(3, **FAST)
    with pytest.raises(UsageError, match="the net is not bound to input sizes yet"):
        Module(small()).predict(data)
    with pytest.raises(UsageError, match="no argument 'dat'"):
        Module(small(), data_names=["dat"])


def normalised():
    """A net whose gamma is an argument that MXNet takes as 1: BatchNorm's default, ``fix_gamma=True``."""
    net = sym.Convolution(sym.Variable("data"), num_filter=4, kernel=(3, 3), name="conv")
    net = sym.FullyConnected(sym.Flatten(sym.BatchNorm(net, name="bn")), num_hidden=3, name="fc")
    return sym.SoftmaxOutput(net, name="softmax")


def pictures():
    generator = np.random.default_rng(1)
    data = generator.normal(size=(24, 2, 6, 6)).astype(np.float32)
    return data, data[:, 0, 0, :3].argmax(1).astype(np.float32)


def test_a_fixed_gamma_is_listed_and_stays_one(tmp_path):
    """Whatever it starts from, under weight decay, saved as MXNet's files, and in a net that reads them."""
    data, labels = pictures()
    module = Module(normalised())
    settings = {**FAST, "optimizer_params": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}}
    module.fit(data, labels, arg_params={"bn_gamma": np.array([0.5, 2, 3, 4])}, **settings)
    learnt, states = module.get_params()
    assert list(learnt) == ["conv_weight", "conv_bias", "bn_gamma", "bn_beta", "fc_weight", "fc_bias"]
    np.testing.assert_array_equal(learnt["bn_gamma"], np.ones(4))
    assert np.abs(learnt["bn_beta"]).min() > 0
    predicted = module.predict(data)

    graph = module.symbol.graph(arrays={**learnt, **states}, data=(8, 2, 6, 6), softmax_label=(8,))
    module.symbol.save(tmp_path / "net-symbol.json")
    save_weights(graph, tmp_path / "net-0000.params")
    net = load(
        tmp_path / "net-symbol.json", tmp_path / "net-0000.params", input_shapes={"data": (8, 2, 6, 6)}
    )
    (read,) = run(to_inference(net), {"data": data}).values()
    np.testing.assert_allclose(read, predicted, atol=1e-6)

    again = Module(normalised()).bind(data=(8, 2, 6, 6), softmax_label=(8,), seed=5)
    again.set_params(learnt, states)
    np.testing.assert_array_equal(again.predict(data), predicted)
    with pytest.raises(UsageError, match=r"'bn_gamma' has the shape \(5,\), expected \(4,\)"):
        again.set_params({"bn_gamma": np.ones(5)})


def test_a_checkpoint_keeps_a_fixed_gamma(tmp_path):
    """A run that stops after 3 of 6 updates and resumes ends as one that does not stop."""
    net = TrainingGraph(normalised(), ("data", "softmax_label"))
    graph, _, heads = net.graph({"data": (8, 2, 6, 6), "softmax_label": (8,)})
    solver = mxnet_solver("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}, rescale_grad=1 / 8)

    def trained(folder, count, resume=None):
        config = FitConfig(batch_size=8, max_iterations=count, solver=solver, seed=3)
        job = replace(config.job(graph, net.inputs, heads), checkpoints=Checkpoints(str(tmp_path / folder)))
        with SerialEngine() as engine:
            data = {"train": {"data": Arrays(*pictures())}}
            trainer = make_trainer(job, engine=engine, data=data, resume=resume)
            assert trainer.run()
            trainer.close()
        return latest(job.checkpoints.prefix)

    _, whole = trained("whole", 6)
    place, half = trained("halves", 3)
    np.testing.assert_array_equal(half.arrays["param:bn_gamma"], np.ones(4))
    _, resumed = trained("halves", 6, resume=place)
    assert resumed.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[name], array, err_msg=name)
