"""``Module.fit(monitor=...)``: what a monitor in MXNet's manner sees, in MXNet's order of things."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import cpu
from netweave import symbol as sym
from netweave.api.models import Module
from netweave.errors import UsageError
from netweave.training import Monitor

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
            self.queue.append((self.step, name, array.clone().numpy()))

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
                    self.queue.append((self.step, name, array.clone().numpy()))
        self.shown += self.queue


def module():
    x = sym.BatchNorm(sym.Variable("data"), name="bn", fix_gamma=False)
    x = sym.FullyConnected(x, num_hidden=3, name="fc")
    return Module(sym.SoftmaxOutput(x, name="softmax"))


def fit(monitor, model=None, **options):
    generator = np.random.default_rng(0)
    x, labels = generator.normal(size=(20, 6)).astype(np.float32), generator.integers(3, size=20)
    model = model or module()
    settings = {"learning_rate": 0.3, "momentum": 0.9}
    options = {"num_epoch": 2, "batch_size": BATCH, "optimizer_params": settings, "seed": 7, **options}
    model.fit(x, labels, monitor=monitor, **options)
    return model, x


def test_a_monitor_sees_outputs_of_the_batch_and_arrays_after_its_update():
    monitor = Recorder(1, ".*")
    model, _ = fit(monitor)
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
    for name, array in model.get_params()[0].items():
        np.testing.assert_array_equal(seen[10, name], array)


def test_the_interval_and_the_pattern_are_the_monitors():
    monitor = Recorder(4, "fc_.*weight")
    fit(monitor)
    assert [(step, name) for step, name, _ in monitor.shown] == [(n, "fc_weight") for n in (1, 5, 9)]


@pytest.mark.parametrize("monitor", [Recorder(1, ".*"), Monitor(3)], ids=["MXNet", "declared"])
def test_a_monitor_changes_no_bit(monitor):
    plain, x = fit(None)
    watched, _ = fit(monitor)
    for key, array in plain.get_params()[0].items():
        np.testing.assert_array_equal(watched.get_params()[0][key], array)
    batch = {"data": x[:BATCH], "softmax_label": np.zeros(BATCH)}
    assert len(watched.net.run(batch)) == len(plain.net.run(batch))  # nothing is left of what was tapped


def test_several_contexts(caplog):
    monitor = Recorder(1, "fc_output|fc_weight")
    fit(monitor, Module(module().symbol, context=[cpu(0), cpu(1)]))
    shapes = {name: value.shape for _, name, value in monitor.shown}
    assert shapes == {"fc_output": (BATCH // 2, 3), "fc_weight": (3, 6)}  # those of the first context


def test_a_declared_monitor_logs_as_mxnet_does(caplog):
    caplog.set_level(logging.INFO, "netweave.fit")
    fit(Monitor(4, lambda x: float(x.norm() / x.numel() ** 0.5), "fc_.*", sort=True), num_epoch=1)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Batch:")]
    assert [re.sub(r"[\d.]+$", "", line) for line in lines] == [
        f"Batch: {step:7d} {name:>30} " for step in (0, 4) for name in ("fc_bias", "fc_output", "fc_weight")
    ]


def test_a_pattern_that_matches_nothing():
    with pytest.raises(UsageError, match="the monitor's pattern 'conv' matches nothing; there are"):
        fit(Monitor(1, pattern="conv"))
