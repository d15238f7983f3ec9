"""Layers in a row: Keras 3's own losses on the same start and batches, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.api.models import BatchEnd, Sequential  # noqa: E402 - after the check for torch
from netweave.errors import UsageError  # noqa: E402
from netweave.symbol.layers import (  # noqa: E402
    Activation,
    AveragePooling2D,
    BatchNormalization,
    Conv2D,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePooling2D,
    MaxPooling2D,
    Reshape,
)
from tests.api.keras_fits import BATCH, CASES, EPOCHS, first_values, records  # noqa: E402

EXPECTED = json.loads((Path(__file__).parents[1] / "golden" / "keras_fits.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_fits_as_keras(name):
    """Every batch's loss and metric within 1e-4 (relative), the last batch being short."""
    case, expected = CASES[name], EXPECTED[name]
    x, y = records(case)
    layers = [Dense(7, "tanh"), BatchNormalization(), Dropout(0.0), Dense(case.outputs, case.last)]
    model = Sequential(layers)
    model.compile(case.ours, loss=case.loss, metrics=[case.metric])
    seen: list[list[float]] = []

    def note(event):
        if isinstance(event, BatchEnd):
            seen.append(list(event.metrics.values()))

    model.bind((6,))
    for key, array in first_values(case).items():
        model.net.params[key] = model.net.params[key].new_tensor(array)
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, callbacks=[note])
    np.testing.assert_allclose(seen, expected["batches"], rtol=2e-4, atol=1e-4)
    judged = list(model.evaluate(x, y, batch_size=BATCH).values())
    np.testing.assert_allclose(judged, expected["judged"], rtol=1e-3, atol=1e-4)


def test_every_layer_makes_the_sizes_of_keras():
    """Keras's rules by hand: valid and same padding, means over channels."""
    layers = [
        Conv2D(4, 3, padding="same", activation="relu", input_shape=(2, 11, 9)),
        MaxPooling2D(2),
        Conv2D(6, (3, 1), strides=(2, 1), use_bias=False),
        AveragePooling2D((1, 2), strides=1),
        Activation("elu"),
    ]
    graph = Sequential([*layers, GlobalAveragePooling2D()]).graph()
    shapes = {row.type: str(graph.values()[row.outputs[0]].shape) for row in graph.layers.values()}
    assert shapes["Pooling"] == "[N,6,2,3]"
    assert shapes["mean"] == "[N,6]"
    assert str(Sequential([*layers, Flatten(), Reshape((6, 6))]).graph().outputs[0].shape) == "[N,6,6]"
    assert str(Sequential([Embedding(10, 3)]).graph((4,)).outputs[0].shape) == "[N,4,3]"
    assert str(Sequential([Dense(3, input_shape=(5, 4))]).graph().outputs[0].shape) == "[N,5,3]"


SAME = {
    "convolution": (Conv2D, lambda window, ones: window.sum()),
    "max": (MaxPooling2D, lambda window, ones: window[ones].max()),
    "mean": (AveragePooling2D, lambda window, ones: window[ones].mean()),
}


@pytest.mark.parametrize("kind", SAME)
@pytest.mark.parametrize(("size", "stride"), [(3, 2), (2, 2), (2, 1), (4, 3), (1, 2), (3, 1)])
def test_same_padding_by_its_definition(kind, size, stride):
    """ceil(size / stride) windows; the first one begins half of the missing elements before the image."""
    make, reduce = SAME[kind]
    image = np.random.default_rng(0).uniform(-2.0, -1.0, (1, 1, 8, 7)).astype(np.float32)
    settings = {"strides": stride, "padding": "same", "input_shape": (1, 8, 7)}
    layer = make(1, size, use_bias=False, **settings) if make is Conv2D else make(size, **settings)
    model = Sequential([layer])
    model.compile("sgd", loss="mse")
    model.bind((1, 8, 7))
    for key in model.net.params:
        model.net.params[key] = torch.ones_like(model.net.params[key])
    counts = [-(-extent // stride) for extent in image.shape[2:]]
    short = [
        max((n - 1) * stride + size - extent, 0) for n, extent in zip(counts, image.shape[2:], strict=True)
    ]
    widths = [(0, 0), (0, 0), *((total // 2, total - total // 2) for total in short)]
    padded, ones = np.pad(image, widths)[0, 0], np.pad(np.ones_like(image, bool), widths)[0, 0]
    corners = [[(y * stride, x * stride) for x in range(counts[1])] for y in range(counts[0])]
    windows = [[np.s_[y : y + size, x : x + size] for y, x in row] for row in corners]
    expected = [[reduce(padded[window], ones[window]) for window in row] for row in windows]
    np.testing.assert_allclose(model.predict(image)[0, 0], expected, rtol=1e-5)


def test_the_summary_counts_as_keras_does():
    """Dense 6 to 7: 49; BatchNormalization: 28, of which 14 are not trained; Dense 7 to 3: 24."""
    model = Sequential([Dense(7, "tanh", input_shape=(6,)), BatchNormalization(), Dense(3, name="last")])
    lines = [line.split() for line in model.summary().splitlines()]
    assert [line[-1] for line in lines[1:]] == ["49", "0", "28", "24", "101"]
    assert lines[-2][:3] == ["last", "FullyConnected", "Nx3"]


def test_labels_may_stand_in_a_column_and_splits_are_judged():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 6)).astype(np.float32)
    y = x[:, :3].argmax(1)
    histories = []
    for labels in (y, y[:, None]):
        model = Sequential([Dense(3, "softmax")])
        model.compile("sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        histories.append(model.fit(x, labels, epochs=2, validation_split=0.25, seed=4))
    assert histories[0].epochs == histories[1].epochs
    assert set(histories[0].epochs[0]) == {"loss", "accuracy", "val_loss", "val_accuracy"}


def test_shuffling_follows_the_seed():
    x = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)

    def losses(seed, shuffle):
        model = Sequential([Dense(1)])
        model.compile("sgd", loss="mse")
        return model.fit(x, x[:, :1], epochs=2, seed=seed, shuffle=shuffle)["loss"]

    assert losses(1, True) == losses(1, True)
    assert losses(1, True) != losses(2, True)
    assert losses(1, True) != losses(1, False)


def test_compiling_anew_keeps_the_arrays():
    x = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)
    model = Sequential([Dense(1)])
    model.compile("sgd", loss="mse")
    model.fit(x, x[:, :1], epochs=1, seed=0)
    before = model.predict(x)
    model.compile("adam", loss="mae", metrics=["rmse"])
    np.testing.assert_array_equal(model.predict(x), before)
    found = model.evaluate(x, x[:, :1])
    assert found["loss"] == pytest.approx(np.abs(before - x[:, :1]).mean(), rel=1e-5)


X = np.zeros((10, 6), np.float32)

WRONG = {
    "not compiled": (lambda: Sequential([Dense(1)]).fit(X, X), "not compiled; call compile"),
    "loss": (
        lambda: Sequential([Dense(1)]).compile(loss="msee"),
        "unknown loss 'msee'; expected one of sparse_",
    ),
    "optimizer": (lambda: Sequential([Dense(1)]).compile("adm", loss="mse"), "unknown optimizer 'adm'"),
    "metric": (
        lambda: Sequential([Dense(1)]).compile("adam", loss="mse", metrics=["acuracy"]),
        "unknown metric 'acuracy'",
    ),
    "activation": (lambda: Sequential([Dense(1, "rel")]).graph((6,)), "unknown activation 'rel'"),
    "padding": (lambda: Sequential([Conv2D(1, 3, padding="sam")]).symbol, "padding is 'sam', expected"),
    "no layers": (lambda: Sequential().symbol, "a Sequential without layers"),
    "no size": (lambda: Sequential([Dense(1)]).summary(), "give the first layer an input_shape"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case):
    call, message = WRONG[case]
    with pytest.raises(UsageError, match=message):
        call()


def test_a_layer_too_late_is_refused():
    model = Sequential([Dense(1, input_shape=(6,))])
    model.compile(loss="mse")
    model.bind()
    with pytest.raises(UsageError, match="the net already has arrays"):
        model.add(Dense(2))
