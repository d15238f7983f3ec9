"""``Module.fit(monitor=...)``: what a monitor sees, in MXNet's order of things."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx

BATCH = 4


class Recorder:
    """``mx.mon.Monitor`` written down from its documentation: every second batch, whole arrays kept."""

    def __init__(self, interval, pattern):
        self.interval, self.pattern = interval, re.compile(pattern)
        self.step, self.activated, self.nets = 0, False, []
        self.queue, self.shown = [], []

    def install(self, exe):
        exe.set_monitor_callback(self.take, False)
        self.nets.append(exe)

    def take(self, name, array):
        if self.activated and self.pattern.match(name):
            self.queue.append((self.step, name, array.asnumpy()))

    def tic(self):
        if self.step % self.interval == 0:
            self.queue, self.activated = [], True
        self.step += 1

    def toc_print(self):
        if not self.activated:
            return
        self.activated = False
        for net in self.nets:
            for name, array in {**net.arg_dict, **net.aux_dict}.items():
                if self.pattern.match(name):
                    self.queue.append((self.step, name, array.asnumpy()))
        self.shown += self.queue


def net():
    x = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn", fix_gamma=False)
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def fit(monitor, context=None):
    generator = np.random.default_rng(0)
    x, labels = generator.normal(size=(20, 6)).astype(np.float32), generator.integers(3, size=20)
    module = mx.mod.Module(net(), context=context)
    mx.random.seed(7)
    settings = {"learning_rate": 0.3, "momentum": 0.9}
    batches = mx.io.NDArrayIter(x, labels, BATCH)
    module.fit(batches, num_epoch=2, optimizer_params=settings, monitor=monitor)
    return module


def test_a_monitor_sees_outputs_of_the_batch_and_arrays_after_its_update():
    monitor = Recorder(1, ".*")
    module = fit(monitor)
    seen = {(step, name): value for step, name, value in monitor.shown}
    assert {step for step, _ in seen} == set(range(1, 11))  # MXNet counts before it looks
    names = [name for step, name, _ in monitor.shown if step == 1]
    assert names[:3] == ["bn_output", "fc_output", "softmax_output"]
    assert {"fc_weight", "fc_bias", "bn_gamma", "bn_moving_mean"} <= set(names)
    for step in range(2, 11):  # outputs come from the arrays that the update before left
        product = seen[step, "bn_output"] @ seen[step - 1, "fc_weight"].T + seen[step - 1, "fc_bias"]
        np.testing.assert_allclose(seen[step, "fc_output"], product, rtol=1e-5, atol=1e-6)
        assert not np.array_equal(seen[step, "fc_weight"], seen[step - 1, "fc_weight"])
        shifted = np.exp(seen[step, "fc_output"])
        expected = shifted / shifted.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(seen[step, "softmax_output"], expected, rtol=1e-5)
    for name, array in module.get_params()[0].items():
        np.testing.assert_array_equal(seen[10, name], array.asnumpy())


def test_the_interval_and_the_pattern_are_the_monitors():
    monitor = Recorder(4, "fc_.*weight")
    fit(monitor)
    assert [(step, name) for step, name, _ in monitor.shown] == [(n, "fc_weight") for n in (1, 5, 9)]


@pytest.mark.parametrize("monitor", [Recorder(1, ".*"), mx.mon.Monitor(3)], ids=["own", "MXNet's"])
def test_a_monitor_changes_no_bit(monitor):
    plain, watched = fit(None), fit(monitor)
    for name, array in plain.get_params()[0].items():
        np.testing.assert_array_equal(watched.get_params()[0][name].asnumpy(), array.asnumpy())


def test_several_contexts():
    monitor = Recorder(1, "fc_output|fc_weight")
    fit(monitor, [mx.cpu(0), mx.cpu(1)])
    first = [(name, value.shape) for step, name, value in monitor.shown if step == 1]
    # those of each context
    assert first == [("fc_output", (BATCH // 2, 3))] * 2 + [("fc_weight", (3, 6))] * 2
