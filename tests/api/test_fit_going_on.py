"""Fits that are killed, or stopped, and go on: they end as one that was not, bit for bit."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.api.models import Module  # noqa: E402 - after the check for torch
from netweave.errors import UsageError  # noqa: E402
from netweave.formats.mxnet.symbol import registry  # noqa: E402
from netweave.graph import operators  # noqa: E402
from netweave.keras import EarlyStopping  # noqa: E402
from netweave.training.checkpoint_file import encode, kept, read_checkpoint  # noqa: E402
from tests.api import fit_killed  # noqa: E402
from tests.api.fit_killed import last  # noqa: E402


@pytest.fixture(autouse=True)
def tables():
    """The tables of operators stay as they are."""
    before = [(table, dict(table)) for table in (operators._OPERATORS, registry.READERS)]
    yield
    for table, rows in before:
        table.clear()
        table.update(rows)


def assert_equal(found, expected):
    assert found.state == expected.state
    assert list(found.arrays) == list(expected.arrays)
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)


@pytest.mark.slow
@pytest.mark.multi
def test_a_fit_that_is_killed_goes_on_bit_for_bit(tmp_path):
    """In small form; ``benchmarks.failures`` does it a hundred times and more."""
    expected, epochs, duration = fit_killed.whole(tmp_path / "whole")
    assert last(tmp_path / "whole")[0] == fit_killed.UPDATES
    assert expected.arrays["memory:train:offsets_Offsets_memory:at"][0] == fit_killed.UPDATES
    draw = random.Random(1)
    for number in range(2):
        place = tmp_path / f"run {number}"
        kills, _ = fit_killed.killed(place, expected, epochs, duration, draw, most=10)
        assert kills
        assert_equal(last(place)[1], expected)


def write_as_before_measures(folder):
    """Give the last checkpoint of a fit the form that it had when a fit knew means only."""
    (_, path), *_ = kept(str(folder / fit_killed.PREFIX))
    checkpoint = read_checkpoint(path)
    fit = dict(checkpoint.state["fit"])
    fit["sums"] = fit.pop("measures")["sums"]
    path.write_bytes(encode(replace(checkpoint, state={**checkpoint.state, "fit": fit})))


@pytest.mark.slow
@pytest.mark.parametrize(("stop_at", "old"), [(3, False), (8, False), (8, True), (20, False)])
def test_a_fit_that_is_stopped_goes_on_bit_for_bit(tmp_path, stop_at, old):
    _, history = fit_killed.fit(tmp_path / "whole")
    _, whole = last(tmp_path / "whole")
    seen = 0

    def stop(event):
        nonlocal seen
        seen += 1
        if seen == stop_at:
            models[0].stop()

    models = []
    plain = Module.bind

    def bound(model, **options):
        models.append(model)
        return plain(model, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Module, "bind", bound)
        fit_killed.fit(tmp_path / "stopped", callbacks=[stop])
    iteration, _ = last(tmp_path / "stopped")
    assert iteration < fit_killed.UPDATES
    if old:
        write_as_before_measures(tmp_path / "stopped")
    model, resumed = fit_killed.fit(tmp_path / "stopped", resume=True)
    _, found = last(tmp_path / "stopped")
    assert_equal(found, whole)
    assert resumed.epochs == history.epochs
    assert int(model.net.module.offsets_Offsets_memory.values["at"][0]) == fit_killed.UPDATES


class Told:
    """Keras's manner: notes what it is told."""

    def __init__(self):
        self.calls = []

    def set_model(self, model):
        self.calls.append(("model", type(model).__name__))

    def on_train_begin(self, logs=None):
        self.calls.append(("train begin",))

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("epoch begin", epoch))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch", batch, sorted(logs)))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch end", epoch, sorted(logs)))

    def on_train_end(self, logs=None):
        self.calls.append(("train end",))


def test_callbacks_in_all_manners(tmp_path):
    told, batches, epochs = Told(), [], []
    fit_killed.fit(
        tmp_path,
        callbacks=[told],
        batch_end_callback=lambda param: batches.append((param.epoch, param.nbatch, *param.eval_metric)),
        epoch_end_callback=[lambda *given: epochs.append(given)],
    )
    per_epoch = fit_killed.UPDATES // fit_killed.EPOCHS
    expected = [("model", "Module"), ("train begin",)]
    for epoch in range(fit_killed.EPOCHS):
        expected.append(("epoch begin", epoch))
        expected += [("batch", batch, ["accuracy"]) for batch in range(per_epoch)]
        expected.append(("epoch end", epoch, ["accuracy", "val_accuracy"]))
    assert told.calls == [*expected, ("train end",)]
    assert batches == [
        (epoch, batch, "accuracy") for epoch in range(fit_killed.EPOCHS) for batch in range(per_epoch)
    ]
    assert [given[0] for given in epochs] == list(range(fit_killed.EPOCHS))
    _, symbol, arguments, auxiliary = epochs[-1]
    assert set(arguments) | set(auxiliary) | {"data", "softmax_label"} == set(symbol.list_arguments())


def test_early_stopping_is_keras_rule():
    """Each row: what is monitored, the epoch after which Keras 3 stops (patience 1), 0 for none."""
    rows = [
        ("val_loss", [3, 2, 2, 2.5, 1], 2),
        ("val_loss", [3, 2, 1, 0.5], 0),
        ("val_accuracy", [0.1, 0.5, 0.4, 0.5, 0.9], 2),
        ("val_accuracy", [0.1, 0.2, 0.3], 0),
    ]

    class Model:
        stop_training = False

    for monitor, values, expected in rows:
        stopping, model = EarlyStopping(monitor, patience=1), Model()
        for epoch, value in enumerate(values):
            state = stopping.state()
            stopping = EarlyStopping(monitor, patience=1)  # as after a resume
            stopping.set_model(model)
            stopping.restore(state)
            stopping.on_epoch_end(epoch, {monitor: value})
            if model.stop_training:
                break
        assert stopping.stopped_epoch == expected
    with pytest.raises(UsageError, match="looks at 'val_loss', which is not measured; expected one of loss"):
        EarlyStopping().on_epoch_end(0, {"loss": 1.0})


def test_what_cannot_be_resumed_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"there is no checkpoint .*fit_iter_\*.checkpoint to go on from"):
        fit_killed.fit(tmp_path, resume=True)
    x = np.zeros((8, 5), np.float32)
    with pytest.raises(UsageError, match="resume=True needs checkpoint_prefix"):
        Module(fit_killed.net()).fit(x, x[:, 0], num_epoch=1, batch_size=8, resume=True)
