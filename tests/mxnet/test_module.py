"""``mx.mod.Module`` against the trainer: two ways to the same numbers, and what files hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from netweave.errors import ReadError, UsageError
from netweave.formats.mxnet.symbol.training import mxnet_solver
from netweave.job import Checkpoints, DataSource, Job, Phase, Schedule
from netweave.runtime.engine import SerialEngine
from netweave.training.data.sources.arrays import Arrays
from tests.oracles.mxnet_api import arrays_of, net, numbers
from tests.training.trainers import make_trainer

RECORDS = 40


def data():
    return numbers(RECORDS, 2, 6, 6, seed=9), (np.arange(RECORDS) % 3).astype(np.float32)


def first_values():
    return arrays_of(mx, net(mx), data=(8, 2, 6, 6))


def mxnet_fit(**settings):
    images, labels = data()
    module = mx.mod.Module(net(mx))
    args, aux = first_values()
    batches = mx.io.NDArrayIter(images, labels, 8)
    module.fit(batches, arg_params=args, aux_params=aux, optimizer_params=settings, num_epoch=3)
    return module, batches


def trained(settings, updates):
    """Return the arrays that the trainer ends with, by the tasks of the engine."""
    arrays = {name: array.asnumpy() for kind in first_values() for name, array in kind.items()}
    graph = net(mx).graph(arrays=arrays, data=(8, 2, 6, 6), softmax_label=(8,))
    for key, parameter in graph.parameters.items():
        if not key.endswith(("_weight", "_gamma")):  # as MXNet
            graph.parameters[key] = replace(parameter, decay_mult=0.0)
    heads = [value.name for value in graph.outputs]
    source = DataSource("given", ("data", "softmax_label"), 8, order={"shuffle": False}, place="arrays")
    job = Job(
        "fit",
        {"train": Phase(graph, (source,), losses=dict.fromkeys(heads, 1.0))},
        mxnet_solver("sgd", settings, rescale_grad=1 / 8),
        Schedule(updates, display_at_end=False),
        checkpoints=Checkpoints(at_end=False),
    )
    with SerialEngine() as engine:
        trainer = make_trainer(job, engine=engine, data={"train": {"data": Arrays(*data())}})
        assert trainer.run()
        trainer.close()
    return {key: tensor.detach().numpy() for key, tensor in trainer.nets["train"].params.items()}


def test_fit_ends_where_the_trainer_ends():
    settings = {"learning_rate": 0.05, "momentum": 0.9, "wd": 1e-3}
    module, _ = mxnet_fit(**settings)
    wanted = trained(settings, 3 * RECORDS // 8)
    left = {name: array.asnumpy() for kind in module.get_params() for name, array in kind.items()}
    assert left.keys() == wanted.keys()
    for name, array in left.items():
        # MXNet lets the decay shrink a fixed gamma, which no net computes with, until the next forward
        atol = 1e-3 if name == "bn_gamma" else 1e-6
        np.testing.assert_allclose(array, wanted[name], rtol=1e-5, atol=atol, err_msg=name)


def test_two_devices_without_statistics_end_where_one_ends():
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    symbol = mx.sym.SoftmaxOutput(x, name="softmax")
    images = data()[0].reshape(RECORDS, -1)
    args, _ = arrays_of(mx, symbol, data=(8, 72))
    found = []
    for context in (mx.cpu(), [mx.cpu(0), mx.cpu(1)]):
        module = mx.mod.Module(symbol, context=context)
        module.fit(mx.io.NDArrayIter(images, data()[1], 8), arg_params=args, num_epoch=2)
        found.append(module.get_params()[0]["fc_weight"].asnumpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-7)
    assert np.abs(found[0] - args["fc_weight"].asnumpy()).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "nadam", "lbsgd"])
def test_a_module_resumes_where_it_was_saved(tmp_path, optimizer):
    settings = {"learning_rate": 0.01} | ({"momentum": 0.9} if optimizer == "sgd" else {})
    images, labels = data()
    batches = mx.io.NDArrayIter(images, labels, 8)

    def fit(module, begin, end, **given):
        module.fit(
            batches, optimizer=optimizer, optimizer_params=settings, begin_epoch=begin, num_epoch=end, **given
        )
        return module

    args, aux = first_values()
    whole = fit(mx.mod.Module(net(mx)), 0, 2, arg_params=args, aux_params=aux)
    half = fit(mx.mod.Module(net(mx)), 0, 1, arg_params=args, aux_params=aux)
    half.save_checkpoint(str(tmp_path / "net"), 1, save_optimizer_states=True)
    rest = fit(mx.mod.Module.load(str(tmp_path / "net"), 1, True), 1, 2)
    for one, other in zip(whole.get_params(), rest.get_params(), strict=True):
        for name, array in one.items():
            np.testing.assert_array_equal(array.asnumpy(), other[name].asnumpy(), err_msg=name)


@pytest.mark.slow
def test_a_bucketing_module_shares_its_arrays():
    def generate(length):
        x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=5, output_dim=4, name="embed")
        stack = mx.rnn.SequentialRNNCell()
        stack.add(mx.rnn.LSTMCell(4, prefix="l0_"))
        outputs, _ = stack.unroll(length, x, merge_outputs=True)
        x = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 4)), num_hidden=5, name="fc")
        label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
        return mx.sym.SoftmaxOutput(x, label, name="softmax"), ("data",), ("softmax_label",)

    sentences = [
        [(start + step) % 4 + 1 for step in range(length)] for length in (4, 6) for start in range(12)
    ]
    mx.random.seed(3)
    batches = mx.rnn.BucketSentenceIter(sentences, 4, buckets=[4, 6], invalid_label=0)
    module = mx.mod.BucketingModule(generate, batches.default_bucket_key)
    perplexity = mx.metric.Perplexity(0)
    module.fit(
        batches,
        eval_metric=perplexity,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.05},
        initializer=mx.init.Xavier(),
        num_epoch=25,
    )
    assert perplexity.get_global()[1] < 1.5  # the next word follows from the one before
    weights = [one.get_params()[0]["fc_weight"].asnumpy() for one in module._buckets.values()]
    assert len(weights) == 2
    np.testing.assert_array_equal(*weights)


def test_a_monitor_sees_outputs_and_arrays():
    images, labels = data()
    seen = []
    monitor = mx.mon.Monitor(2, lambda x: seen.append(x.shape) or x.sum(), pattern="fc.*", sort=True)
    module = mx.mod.Module(net(mx))
    module.bind([("data", (8, 2, 6, 6))], [("softmax_label", (8,))])
    module.install_monitor(monitor)
    args, aux = first_values()
    module.init_params(arg_params=args, aux_params=aux)
    names = []
    for _ in range(3):
        monitor.tic()
        module.forward(mx.io.DataBatch([mx.nd.array(images[:8])], [mx.nd.array(labels[:8])]), is_train=True)
        names.append([name for _, name, _ in monitor.toc()])
    assert names == [["fc_bias", "fc_output", "fc_weight"], [], ["fc_bias", "fc_output", "fc_weight"]]
    assert (8, 3) in seen


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.init_params(), "call bind before init_params"),
        (lambda m: m.update(), "there is no optimizer yet"),
        (lambda m: m.fit(mx.io.NDArrayIter(data()[0], data()[1], 8)), "fit needs num_epoch"),
        (lambda m: m.forward(None), "has no sizes or no values yet"),
    ],
)
def test_steps_in_the_wrong_order(call, message):
    with pytest.raises(mx.MXNetError, match=message):
        call(mx.mod.Module(net(mx)))


def test_values_of_other_sizes_are_named():
    module = mx.mod.Module(net(mx))
    module.bind([("data", (8, 2, 6, 6))], [("softmax_label", (8,))])
    args, aux = first_values()
    with pytest.raises(mx.MXNetError, match=r"array 'fc_bias' has the shape \(4,\), expected \(3,\)"):
        module.init_params(arg_params={**args, "fc_bias": mx.nd.zeros((4,))}, aux_params=aux)


def test_a_file_without_states_is_no_state_of_an_optimizer(tmp_path):
    module, _ = mxnet_fit(learning_rate=0.05)
    module.save_params(str(tmp_path / "net.params"))
    with pytest.raises(ReadError, match="holds no states of an optimizer"):
        module.load_optimizer_states(str(tmp_path / "net.params"))


@pytest.mark.parametrize(
    ("is_train", "count", "message"),
    [(False, 1, r"needs a forward\(is_train=True\)"), (True, 2, "got 2 gradients, expected at most 1")],
)
def test_backward_without_what_it_needs(is_train, count, message):
    executor = (2 * mx.sym.Variable("x")).simple_bind(mx.cpu(), x=(3,))
    executor.forward(is_train=is_train, x=mx.nd.ones((3,)))
    with pytest.raises(UsageError, match=message):
        executor.backward([mx.nd.ones((3,))] * count)
