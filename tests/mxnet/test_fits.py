"""``mx.mod.Module.fit`` against MXNet 1.9.1's, what is left at the end of it, and messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from netweave.api.reading import load, run, to_inference
from netweave.api.weights import save_weights
from netweave.errors import UsageError
from tests.mxnet.fits import BATCH, EPOCHS, FITS, first_values, records

EXPECTED = json.loads((Path(__file__).parents[1] / "golden" / "mxnet_fits.json").read_text())


def fitted(fit, contexts=None, *, net=None, seen=None, module=None, **settings):
    """Fit a net from given first values; return the module, its batches, and all arrays as NumPy's."""
    batches = mx.io.NDArrayIter(*records(fit), BATCH)
    with mx.sym.NameManager():
        made = mx.mod.Module(fit.make(mx.sym) if net is None else net, context=contexts, **(module or {}))
    made.bind(batches.provide_data, batches.provide_label)
    made.init_params(mx.init.Zero())
    args, aux = made.get_params()
    start = first_values({name: array.shape for name, array in {**args, **aux}.items()})

    def note(param):
        if seen is not None:
            seen.append(param.eval_metric.get()[1])
            param.eval_metric.reset()

    made.fit(
        batches,
        **{"num_epoch": EPOCHS, "eval_metric": fit.metric, "batch_end_callback": note, **settings},
        optimizer=fit.optimizer,
        optimizer_params=fit.settings,
        arg_params={name: mx.nd.array(start[name]) for name in args},
        aux_params={name: mx.nd.array(start[name]) for name in aux},
        force_init=True,
    )
    left = {name: array.asnumpy() for arrays in made.get_params() for name, array in arrays.items()}
    return made, batches, left


def assert_as_mxnet(expected, seen, score, left, *, but=()):
    """Every batch's metric within 1e-4, and what is left at the end."""
    np.testing.assert_allclose(seen, expected["metric"], rtol=0, atol=1e-4)
    assert score == pytest.approx(expected["score"], abs=1e-3)
    for name, (total, squares) in expected["arrays"].items():
        if name not in but:
            array = left[name].astype(np.float64)
            assert array.sum() == pytest.approx(total, abs=2e-3), name
            assert (array**2).sum() == pytest.approx(squares, abs=2e-3, rel=1e-3), name


@pytest.mark.parametrize("name", FITS)
def test_fits_as_mxnet(name):
    fit, seen = FITS[name], []
    module, batches, left = fitted(fit, seen=seen)
    score = module.score(batches, fit.metric)[0][1]
    assert_as_mxnet(EXPECTED[name], seen, score, left)


def small():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def toy(count=48):
    generator = np.random.default_rng(0)
    data = generator.normal(size=(count, 6)).astype(np.float32)
    return data, data[:, :3].argmax(1).astype(np.float32)


def test_judging_counts_each_record_once():
    """37 records in batches of 8: predictions are of 37; MXNet's score counts those that fill up the last."""
    data, labels = toy(37)
    module = mx.mod.Module(small())
    batches = mx.io.NDArrayIter(data, labels, 8)
    module.fit(batches, num_epoch=3, optimizer_params={"learning_rate": 0.5})
    prediction = module.predict(batches).asnumpy()
    assert prediction.shape == (37, 3)
    right = prediction.argmax(1) == labels
    filled = np.concatenate([right, right[:3]])
    assert module.score(batches, "acc")[0][1] == pytest.approx(filled.mean())


def test_a_callback_may_change_arrays():
    module = mx.mod.Module(small())

    def freeze(param):
        module.execs[0].arg_dict["fc_bias"][:] = 0

    module.fit(mx.io.NDArrayIter(*toy(), 8), num_epoch=3, batch_end_callback=freeze)
    assert not module.get_params()[0]["fc_bias"].asnumpy().any()


def test_schedulers_and_first_values_by_name():
    """Against a run with the rates by hand: a factor of 0.5 every 6 updates."""
    data, labels = toy()
    scheduler = mx.lr_scheduler.FactorScheduler(step=6, factor=0.5)
    module = mx.mod.Module(small())
    batches = mx.io.NDArrayIter(data, labels, 8)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Constant(0.25))
    module.fit(batches, num_epoch=2, optimizer_params={"learning_rate": 0.4, "lr_scheduler": scheduler})
    weight, bias = np.full((3, 6), 0.25), np.full(3, 0.25)
    for step in range(12):
        x, t = data[step % 6 * 8 :][:8], labels[step % 6 * 8 :][:8].astype(int)
        scores = x @ weight.T + bias
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(8), t] -= 1
        rate = 0.4 if step + 1 <= 6 else 0.2
        weight, bias = weight - rate * p.T @ x / 8, bias - rate * p.sum(0) / 8
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), weight, atol=1e-5)


WRONG = {
    "optimizer": ({"optimizer": "sdg"}, "unknown optimizer 'sdg'"),
    "setting": ({"optimizer_params": {"momentun": 0.9}}, "momentun"),
    "metric": ({"eval_metric": "acuracy"}, "unknown metric 'acuracy'; expected one of acc"),
    "array": (
        {"arg_params": {"fc_weigth": mx.nd.zeros((3,))}},
        "'fc_weight', and the net has no 'fc_weigth'; pass",
    ),
    "size": (
        {"arg_params": {"fc_bias": mx.nd.zeros((4,))}, "allow_missing": True},
        r"shape \(4,\), expected \(3,\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case):
    settings, message = WRONG[case]
    with pytest.raises(UsageError, match=message):
        mx.mod.Module(small()).fit(mx.io.NDArrayIter(*toy(), 8), **{"num_epoch": 1, **settings})


def normalised():
    """A net whose gamma is an argument that MXNet takes as 1: BatchNorm's default, ``fix_gamma=True``."""
    net = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=4, kernel=(3, 3), name="conv")
    net = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.BatchNorm(net, name="bn")), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def test_a_fixed_gamma_is_listed_and_counts_as_one(tmp_path):
    """Whatever it starts from, under weight decay, saved as MXNet's files, and in a net that reads them."""
    generator = np.random.default_rng(1)
    data = generator.normal(size=(24, 2, 6, 6)).astype(np.float32)
    batches = mx.io.NDArrayIter(data, data[:, 0, 0, :3].argmax(1), 8)
    module = mx.mod.Module(normalised())
    settings = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}
    gamma = {"bn_gamma": mx.nd.array([0.5, 2, 3, 4])}
    module.fit(batches, num_epoch=3, arg_params=gamma, allow_missing=True, optimizer_params=settings)
    learnt, states = module.get_params()
    assert list(learnt) == ["conv_weight", "conv_bias", "bn_gamma", "bn_beta", "fc_weight", "fc_bias"]
    assert np.abs(learnt["bn_beta"].asnumpy()).min() > 0
    predicted = module.predict(batches).asnumpy()
    arrays = {name: array.asnumpy() for name, array in {**learnt, **states}.items()}
    graph = module.symbol.graph(arrays=arrays, data=(8, 2, 6, 6), softmax_label=(8,))
    module.symbol.save(tmp_path / "net-symbol.json")
    save_weights(graph, tmp_path / "net-0000.params")
    net = load(
        tmp_path / "net-symbol.json", tmp_path / "net-0000.params", input_shapes={"data": (8, 2, 6, 6)}
    )
    (read,) = run(to_inference(net), {"data": data}).values()
    np.testing.assert_allclose(read, predicted, atol=1e-6)
