"""Callbacks of a fit: when they are called, and when ``EarlyStopping`` stops."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import keras
from netweave.errors import UsageError
from netweave.keras.epochs import BatchEnd, EpochEnd

EPOCHS, BATCHES = 3, 4


class Told:
    """Notes what it is told."""

    def __init__(self):
        self.calls = []

    def set_model(self, model):
        self.calls.append(("model", model.name))

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


def fit(callbacks):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(8 * BATCHES, 5)).astype(np.float32)
    y = x[:, :3].argmax(1)
    model = keras.Sequential([keras.layers.Dense(3, activation="softmax")], name="told")
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(
        x, y, batch_size=8, epochs=EPOCHS, validation_data=(x, y), callbacks=callbacks(model), verbose=0
    )
    return model, history


def test_objects_and_functions_are_told():
    told, events = Told(), []
    fit(lambda model: [told, events.append])
    names = ["accuracy", "loss"]
    expected = [("model", "told"), ("train begin",)]
    for epoch in range(EPOCHS):
        expected.append(("epoch begin", epoch))
        expected += [("batch", batch, names) for batch in range(BATCHES)]
        expected.append(("epoch end", epoch, [*names, "val_accuracy", "val_loss"]))
    assert told.calls == [*expected, ("train end",)]
    pairs = [(one.epoch, one.batch) for one in events if isinstance(one, BatchEnd)]
    assert pairs == [(epoch, batch) for epoch in range(EPOCHS) for batch in range(BATCHES)]
    assert [one.epoch for one in events if isinstance(one, EpochEnd)] == list(range(EPOCHS))


def test_a_callback_may_stop_and_change_arrays():
    events = []

    def callbacks(model):
        def stop_in_the_second(event):
            events.append(event)
            key = next(key for key in model.net.params if "bias" in key)
            model.net.params[key] = model.net.params[key].new_zeros(3)
            if isinstance(event, BatchEnd) and event.epoch == 1:
                model.stop()

        return [stop_in_the_second]

    model, history = fit(callbacks)
    pairs = [(one.epoch, one.batch) for one in events if isinstance(one, BatchEnd)]
    assert pairs == [*((0, batch) for batch in range(BATCHES)), (1, 0)]
    assert len(history.epochs) == 1
    assert not model.get_weights()[1].any()


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
        stopping, model = keras.callbacks.EarlyStopping(monitor, patience=1), Model()
        for epoch, value in enumerate(values):
            state = stopping.state()
            stopping = keras.callbacks.EarlyStopping(monitor, patience=1)  # as after a resume
            stopping.set_model(model)
            stopping.restore(state)
            stopping.on_epoch_end(epoch, {monitor: value})
            if model.stop_training:
                break
        assert stopping.stopped_epoch == expected
    with pytest.raises(UsageError, match="looks at 'val_loss', which is not measured; expected one of loss"):
        keras.callbacks.EarlyStopping().on_epoch_end(0, {"loss": 1.0})
