"""``context=[cpu(0), cpu(1)]`` and ``kvstore=``: against MXNet 1.9.1, and one context on the whole batch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from netweave.errors import UsageError
from netweave.training import latest
from netweave.training.parallel.launcher import Launcher
from tests.mxnet.dist_fit import MODES, whole_fit
from tests.mxnet.fits import BATCH, CONTEXTS, FITS, records
from tests.mxnet.test_fits import assert_as_mxnet, fitted

EXPECTED = json.loads((Path(__file__).parents[1] / "golden" / "mxnet_contexts.json").read_text())


def cpus(count):
    return [mx.cpu(number) for number in range(count)]


def largest_difference(a, b):
    assert a.keys() == b.keys()
    return max(float(np.abs(a[key].astype(np.float64) - b[key]).max()) for key in a)


@pytest.mark.parametrize(("name", "count", "kvstore"), CONTEXTS)
def test_several_contexts_fit_as_mxnets(name, count, kvstore):
    """Same start and batches, split by MXNet's rule: batch statistics are those of each context's part."""
    fit, seen = FITS[name], []
    module, batches, left = fitted(fit, cpus(count), kvstore=kvstore, seen=seen)
    score = module.score(batches, fit.metric)[0][1]
    # MXNet's store gives back the fixed gamma that it was given; its operator computes with 1, as here
    but = ("bn1_gamma",) if name == "fixed" else ()
    assert_as_mxnet(EXPECTED[f"{name}, {count} contexts, {kvstore}"], seen, score, left, but=but)


def valid(sym):
    """Labels of class 4 are ignored, and gradients are divided by the number of the others."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=7, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=5, name="fc2")
    return sym.SoftmaxOutput(net, use_ignore=True, ignore_label=4, normalization="null", name="softmax")


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("make", [FITS["rows"].make, valid])
def test_several_contexts_end_as_one_on_the_whole_batch(make, count):
    fit = FITS["rows"]
    with mx.sym.NameManager():
        net = make(mx.sym)
    seen: list[list[float]] = [[], []]
    _, _, expected = fitted(fit, cpus(1), net=net, seen=seen[0])
    _, _, left = fitted(fit, cpus(count), net=net, seen=seen[1])
    assert largest_difference(left, expected) < 1e-6
    np.testing.assert_allclose(*seen, rtol=0, atol=1e-6)


def test_the_same_fit_twice_ends_with_the_same_bits():
    *_, first = fitted(FITS["sgd"], cpus(3))
    *_, second = fitted(FITS["sgd"], cpus(3), kvstore="device")
    assert largest_difference(first, second) == 0


@pytest.mark.parametrize("interval", [None, 4])
def test_a_fit_with_codes_resumes_with_the_same_bits(tmp_path, interval):
    """What codes have left out, and the moving statistics of each context, are in the checkpoint."""
    options = {"module": {"compression_params": {"type": "2bit", "threshold": 0.05}}, "kvstore": "device"}
    *_, plain = fitted(FITS["sgd"], cpus(2))
    *_, expected = fitted(FITS["sgd"], cpus(2), **options)
    assert largest_difference(plain, expected) > 1e-4
    options |= {"checkpoint_prefix": tmp_path / "kept", "checkpoint_interval": interval}
    fitted(FITS["sgd"], cpus(2), **options, num_epoch=2, keep=2)
    checkpoint = latest(str(tmp_path / "kept"))[1]
    assert any(name.startswith("store:") for name in checkpoint.arrays)
    path = tmp_path / ("kept_iter_8.checkpoint" if interval else "kept_iter_12.checkpoint")
    *_, resumed = fitted(FITS["sgd"], cpus(2), **options, resume=path)
    assert largest_difference(resumed, expected) == 0


def test_a_callback_that_sets_arrays_sets_them_on_all_contexts():
    """A second context with an array of its own would move the sum of the gradients."""
    fit = FITS["rows"]
    ends = []
    for count in (1, 3):

        def halve(param):
            args, aux = param.locals["self"].get_params()
            param.locals["self"].set_params({**args, "fc1_weight": args["fc1_weight"] * 0.5}, aux)

        ends.append(fitted(fit, cpus(count), num_epoch=1, batch_end_callback=halve)[2])
    assert largest_difference(*ends) < 1e-6


WRONG = [
    ({"context": cpus(2)}, {"kvstore": "nonsense"}, "unknown key-value store 'nonsense'"),
    ({"context": cpus(2)}, {"batch": 1}, "a batch of 1 records cannot be split over 2 devices"),
    ({"context": cpus(1)}, {"kvstore": "dist_sync"}, "start them with: netweave launch"),
    (
        {"context": cpus(2), "compression_params": {"type": "2bit"}},
        {"kvstore": "local"},
        "a local store has nothing to compress",
    ),
]


@pytest.mark.parametrize(("module", "settings", "message"), WRONG)
def test_wrong_contexts_and_stores_are_refused(module, settings, message):
    fit, settings = FITS["rows"], dict(settings)
    batches = mx.io.NDArrayIter(*records(fit), settings.pop("batch", BATCH))
    with mx.sym.NameManager(), pytest.raises(UsageError, match=message):
        mx.mod.Module(fit.make(mx.sym), **module).fit(batches, num_epoch=1, **settings)


@pytest.mark.multi
@pytest.mark.slow
def test_workers_with_codes_resume_with_the_same_bits(tmp_path):
    """What the codes of each worker have left out is in its checkpoints."""
    command = [sys.executable, "-m", "tests.mxnet.dist_fit", str(tmp_path), "codes"]
    assert Launcher(command, ["cpu"] * 3, 0, print).run() == 0
    found = {path.stem: dict(np.load(path)) for path in tmp_path.glob("*.npz")}
    for worker in range(3):
        assert largest_difference(found[f"resumed-{worker}"], found["whole-0"]) == 0
    assert largest_difference(found["forgetful-0"], found["whole-0"]) > 0
    arrays = [latest(str(tmp_path / f"whole-worker{worker}"))[1].arrays for worker in range(3)]
    rows = [one["store:0:0"] for one in arrays]
    assert not np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[1], rows[2])


@pytest.mark.multi
@pytest.mark.slow
def test_workers_of_a_dist_sync_store_end_as_one_process_on_all_records(tmp_path):
    """Each worker has records of its own; with one context and with two each, and from different starts."""
    command = [sys.executable, "-m", "tests.mxnet.dist_fit", str(tmp_path)]
    assert Launcher(command, ["cpu"] * 3, 0, print).run() == 0
    expected = whole_fit(3)
    for mode in MODES:
        found = [dict(np.load(tmp_path / f"{mode}-{worker}.npz")) for worker in range(3)]
        for one in found[1:]:
            assert largest_difference(one, found[0]) == 0
        assert largest_difference(found[0], expected) < 1e-6, mode


def in_groups():
    """Return a net of two groups of layers."""
    with mx.AttrScope(ctx_group="first"):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=7, name="fc1")
    with mx.AttrScope(ctx_group="second"):
        net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=5, name="fc2")
        return mx.sym.SoftmaxOutput(net, name="softmax")


def test_groups_on_contexts_of_one_device_compute_as_without():
    draw = np.random.default_rng(0)
    net, places = in_groups(), {"first": mx.cpu(0), "second": mx.cpu(1), "absent": mx.gpu(7)}
    x = mx.nd.array(draw.normal(size=(4, 6)))
    bound = [net.simple_bind(mx.cpu(), group2ctx=groups, data=(4, 6)) for groups in (places, None)]
    for one in bound:
        one.arg_dict["fc1_weight"][:] = np.linspace(-1, 1, 42).reshape(7, 6)
        one.arg_dict["fc2_weight"][:] = np.linspace(1, -1, 35).reshape(5, 7)
    first, second = (one.forward(data=x)[0].asnumpy() for one in bound)
    np.testing.assert_array_equal(first, second)
    assert first.std() > 0.01


@pytest.mark.parametrize(
    ("bind", "net_on"),
    [
        (lambda net, groups: net.simple_bind(mx.cpu(), group2ctx=groups, data=(4, 6)), 0),
        (lambda net, groups: net.bind(mx.cpu(), {}, group2ctx=groups), 0),
        (lambda net, groups: bound(net, mx.cpu(), [groups]), 0),
        (lambda net, groups: bound(net, cpus(2), {"second": [mx.cpu(), mx.gpu(1)]}), 1),
    ],
)
def test_a_group_on_another_device_is_refused_by_name(bind, net_on):
    message = rf"group 'second' \(.*fc2_weight.*\) on gpu\(1\), and the net is on cpu\({net_on}\); .* leave"
    with pytest.raises(UsageError, match=message):
        bind(in_groups(), {"first": mx.cpu(), "second": mx.gpu(1)})


def bound(net, context, groups):
    module = mx.mod.Module(net, context=context, group2ctxs=groups)
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])


def test_groups_for_another_number_of_contexts_are_refused():
    with pytest.raises(
        UsageError, match="group2ctxs has 3 entries, and the module 2 contexts; give one for each"
    ):
        mx.mod.Module(in_groups(), context=cpus(2), group2ctxs={"first": cpus(3)})
