"""Models: how they are built, what they refuse, how they learn, and what they tell."""

from __future__ import annotations

import csv
import struct

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from netweave import keras
from netweave.errors import RunError, UsageError
from netweave.keras import layers
from tests.keras.examples import first_weights
from tests.keras.masks import REDUCTIONS, tagger, words


def data(count=60):
    x = np.random.default_rng(0).normal(size=(count, 6)).astype(np.float32)
    return x, x[:, :3].argmax(1)


def small(optimizer="adam", **settings):
    model = keras.Sequential([keras.Input((6,)), layers.Dense(5, "tanh"), layers.Dense(3, "softmax")])
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"], **settings)
    return model


@pytest.mark.parametrize("limit", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_a_limit_of_zero_is_none(limit):
    """Keras: ``if self.clipnorm and self.clipnorm > 0``."""
    found, first = [], small().get_weights()
    for settings in ({}, {limit: 0}):
        model = small(keras.optimizers.SGD(0.1, **settings))
        model.set_weights(first)
        model.fit(*data(), epochs=2, verbose=0, shuffle=False)
        found.append(model.get_weights())
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_former_names_are_the_same_classes():
    assert netweave.Sequential is keras.Sequential
    assert netweave.EarlyStopping is keras.callbacks.EarlyStopping


def test_a_history_has_keras_names():
    x, y = data()
    history = small().fit(x, y, epochs=3, initial_epoch=1, validation_split=0.25, verbose=0)
    assert list(history.history) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert history.epoch == [1, 2]
    assert len(history.history["val_loss"]) == 2


def test_a_seed_decides_all_that_is_drawn():
    x, y = data()

    def losses(seed):
        keras.utils.set_random_seed(seed)
        model = keras.Sequential([layers.Dense(5, "relu"), layers.Dropout(0.3), layers.Dense(3, "softmax")])
        model.compile("adam", loss="sparse_categorical_crossentropy")
        keras.utils.clear_session()
        return model.fit(x, y, epochs=2, verbose=0).history["loss"]

    keras.utils.clear_session()
    first = losses(1)
    assert losses(1) == first
    assert losses(2) != first


def test_weights_of_records_and_of_classes():
    """A weight of 2 for a class is the same as its records twice; a weight of 0 leaves a record out."""
    x, y = data(12)
    weights = np.where(y == 1, 2.0, 1.0)
    model = small()
    start = model.get_weights()
    by_class = model.fit(x, y, class_weight={1: 2.0}, batch_size=12, shuffle=False, verbose=0).history["loss"]
    model = small()
    model.set_weights(start)
    by_record = model.fit(x, y, sample_weight=weights, batch_size=12, shuffle=False, verbose=0).history[
        "loss"
    ]
    assert by_class == pytest.approx(by_record)
    model = small()
    model.set_weights(start)
    p = model.predict(x)
    expected = np.mean(-np.log(p[np.arange(12), y]) * weights)
    assert by_class[0] == pytest.approx(expected, rel=1e-5)


def test_steps_that_a_mask_leaves_out_do_not_count():
    """The mean over the words that count, of loss and metrics, weighted and not; no such word makes 0."""
    ids, labels, weights = words()
    model = tagger(keras, "sum_over_batch_size", metrics=["accuracy"], weighted_metrics=["acc"])
    p = model.predict(ids).astype(np.float64)
    counts = ids != 0
    losses = -np.log(np.take_along_axis(p, labels[..., None].astype(int), -1))[..., 0]
    right = p.argmax(-1) == labels
    expected = [
        (losses * weights)[counts].mean(),
        right[counts].mean(),
        np.average(right[counts], weights=weights[counts]),
    ]
    found = model.evaluate(ids, labels, sample_weight=weights, batch_size=10, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for reduction in REDUCTIONS:
        assert tagger(keras, reduction).train_on_batch(ids * 0, labels) == 0.0


def test_a_mask_is_followed_through_models_inside_and_ends_where_keras_ends_it():
    """A pooled sentence has no mask any more: the loss is the mean over all sentences."""
    ids, _, _ = words()
    x = keras.Input((5,))
    encoder = keras.Model(x, layers.Embedding(9, 3, mask_zero=True)(x))
    tokens = keras.Model(x, layers.Dense(1)(encoder(x)))
    pooled = keras.Model(x, layers.Dense(1)(layers.GRU(2)(encoder(x))))
    for model, counts in ((tokens, ids[..., None] != 0), (pooled, np.ones((10, 1), bool))):
        model.compile("sgd", loss="mse")
        p = model.predict(ids)
        assert model.evaluate(ids, p * 0, verbose=0) == pytest.approx((p[counts] ** 2).mean(), rel=1e-5)


@pytest.mark.parametrize(
    "change",
    [lambda e: e * 2, lambda e: e + e, lambda e: -e, lambda e: keras.ops.tanh(e)],
)
def test_arithmetic_on_a_tensor_ends_its_mask(change):
    """As in Keras, whose operations, unlike its layers, pass no mask on."""
    ids = np.array([[0, 0, 3, 4, 5], [1, 2, 0, 0, 0], [0, 1, 0, 2, 0]], np.float32)

    def predicted(mask_zero, inside):
        x = keras.Input((5,))
        e = inside(keras.layers.Embedding(9, 3, mask_zero=mask_zero)(x))
        model = keras.Model(x, keras.layers.LSTM(4)(e))
        model.set_weights(first_weights(model))
        return model.predict(ids, verbose=0)

    np.testing.assert_array_equal(predicted(True, change), predicted(False, change))
    own = keras.layers.Activation("relu")  # a layer passes it on
    assert np.abs(predicted(True, own) - predicted(False, own)).max() > 1e-3


def test_batches_of_a_generator_and_of_an_object():
    x, y = data(32)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return x[index * 8 : index * 8 + 8], y[index * 8 : index * 8 + 8]

    def endless():
        while True:
            yield from (Batches()[number] for number in range(4))

    model = small()
    start = model.get_weights()
    expected = model.fit(x, y, batch_size=8, shuffle=False, epochs=2, verbose=0).history
    for given, steps in ((Batches(), None), (endless(), 4)):
        model = small()
        model.set_weights(start)
        found = model.fit(given, steps_per_epoch=steps, shuffle=False, epochs=2, verbose=0).history
        for name, row in expected.items():
            np.testing.assert_allclose(found[name], row, rtol=1e-5)


def test_a_frozen_layer_stays_and_normalises_by_its_statistics():
    x, y = data()
    inputs = keras.Input((6,))
    frozen = layers.BatchNormalization(trainable=False)
    model = keras.Model(inputs, layers.Dense(3, "softmax")(frozen(layers.Dense(4)(inputs))))
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    before = frozen.get_weights()
    model.fit(x, y, verbose=0)
    for old, new in zip(before, frozen.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert len(model.trainable_weights) == 4
    assert [one.shape for one in model.non_trainable_weights] == [(4,)] * 4


def test_a_shared_layer_is_one_in_all_models():
    """An encoder inside an autoencoder learns with it."""
    x, _ = data()
    inputs = keras.Input((6,))
    code = layers.Dense(2, name="code")(inputs)
    encoder, both = keras.Model(inputs, code), keras.Model(inputs, layers.Dense(6)(code))
    both.compile("adam", loss="mse")
    before = encoder.predict(x)
    both.fit(x, x, verbose=0)
    after = encoder.predict(x)
    assert np.abs(after - before).max() > 1e-4
    kernel, bias = both.get_layer("code").get_weights()
    np.testing.assert_allclose(after, x @ kernel + bias, rtol=1e-5, atol=1e-6)


def test_callbacks_are_told_everything_in_keras_order():
    x, y = data(16)
    told = []

    class Note(keras.callbacks.Callback):
        def __getattribute__(self, name):
            if name.startswith("on_") and not name.startswith("on_batch"):
                told.append(name)
            return super().__getattribute__(name)

    model = small()
    model.fit(x, y, batch_size=8, validation_data=(x, y), callbacks=[Note()], verbose=0)
    batch = ["on_train_batch_begin", "on_train_batch_end"]
    judged = ["on_test_begin", *["on_test_batch_begin", "on_test_batch_end"] * 2, "on_test_end"]
    order = ["on_train_begin", "on_epoch_begin", *batch * 2, *judged, "on_epoch_end", "on_train_end"]
    assert told[-len(order) :] == order


def test_the_rate_follows_the_scheduler_and_the_plateau():
    x, y = data()
    model = small("sgd")
    rates = []
    seen = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: rates.append(model.optimizer.learning_rate)
    )
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.5 / (epoch + 1))
    model.fit(x, y, epochs=3, callbacks=[schedule, seen], verbose=0)
    assert rates == pytest.approx([0.5, 0.25, 0.5 / 3])
    plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=100)
    model.optimizer.learning_rate = 0.1
    rates.clear()
    model.fit(x, y, epochs=3, callbacks=[plateau, seen], verbose=0)
    assert rates == pytest.approx([0.1, 0.05, 0.025])
    assert model.optimizer.learning_rate == pytest.approx(0.025)


def test_the_best_weights_come_back():
    x, y = data()
    model = small(keras.optimizers.SGD(0.0))
    start = model.get_weights()

    class Spoil(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch:
                self.model.set_weights([one + epoch for one in start])

    stop = keras.callbacks.EarlyStopping("loss", patience=2, restore_best_weights=True)
    history = model.fit(x, y, epochs=9, callbacks=[Spoil(), stop], verbose=0)
    assert len(history.epoch) < 9
    best = int(np.argmin(history.history["loss"]))
    assert stop.best_epoch == best
    for now, then in zip(model.get_weights(), start, strict=True):
        np.testing.assert_allclose(now, then + best, rtol=1e-6)


def test_files_of_callbacks(tmp_path):
    x, y = data()
    model = small()
    saved = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch:02d}.weights.h5", save_weights_only=True)
    table = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    board = keras.callbacks.TensorBoard(tmp_path / "logs")
    history = model.fit(
        x, y, epochs=2, validation_split=0.2, callbacks=[saved, table, board], verbose=0
    ).history
    other = small()
    other.load_weights(tmp_path / "02.weights.h5")
    np.testing.assert_array_equal(other.predict(x), model.predict(x))
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [float(row["val_loss"]) for row in rows] == history["val_loss"]
    assert [row["epoch"] for row in rows] == ["0", "1"]
    content = next((tmp_path / "logs" / "train").iterdir()).read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    assert content[12 : 12 + length].endswith(b"brain.Event:2")
    assert b"epoch_loss" in content


def test_a_loss_that_is_no_number_ends_a_fit_well_if_asked():
    x, y = data(32)
    x[20] = np.nan
    with pytest.raises(RunError, match="the loss is nan"):
        small().fit(x, y, batch_size=8, shuffle=False, epochs=2, verbose=0)
    stop = keras.callbacks.TerminateOnNaN()
    history = small().fit(x, y, batch_size=8, shuffle=False, epochs=2, callbacks=[stop], verbose=0)
    assert stop.stopped
    assert history.epoch == []


def test_batches_by_hand_are_the_fit():
    x, y = data(32)
    model, other = small(), small()
    other.set_weights(model.get_weights())
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    for start in range(0, 32, 8):
        other.train_on_batch(x[start : start + 8], y[start : start + 8])
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-7)
    other.reset_metrics()
    expected = other.evaluate(x, y, verbose=0)
    other.reset_metrics()
    assert other.test_on_batch(x, y) == pytest.approx(expected, rel=1e-5)
    assert set(other.test_on_batch(x, y, return_dict=True)) == {"loss", "accuracy"}


def test_the_summary_counts_as_keras_does():
    """Dense 6 to 7: 49; BatchNormalization: 28, of which 14 are not trained; Dense 7 to 3: 24."""
    model = keras.Sequential(
        [layers.Dense(7, "tanh", input_shape=(6,)), layers.BatchNormalization(), layers.Dense(3)]
    )
    printed = []
    model.summary(print_fn=printed.append)
    lines = printed[0].splitlines()
    assert lines[-3:] == ["Total params: 101", "Trainable params: 87", "Non-trainable params: 14"]
    assert [line.split()[-1] for line in lines[3:-4]] == ["0", "49", "28", "24"]


def _call(**settings):
    return lambda: small().compile(**settings)


WRONG = {
    "argument": (
        lambda: layers.Dense(3, activaton="relu"),
        "Dense has no argument 'activaton'; did you mean activation",
    ),
    "missing": (lambda: layers.Dense(), "missing a required argument: 'units'"),
    "optimizer": (_call(optimizer="adm", loss="mse"), "unknown optimizer 'adm'; did you mean adam"),
    "setting": (
        lambda: keras.optimizers.Adam(beta1=0.9),
        "Adam has no argument 'beta1'; did you mean beta_1",
    ),
    "loss": (_call(loss="msee"), "unknown loss 'msee'; did you mean mse"),
    "metric": (_call(loss="mse", metrics=["acuracy"]), "unknown metric 'acuracy'; did you mean accuracy"),
    "initializer": (lambda: layers.Dense(3, kernel_initializer="he_norml"), "unknown initializer 'he_norml'"),
    "activation": (
        lambda: layers.Dense(3, "rel")(keras.Input((4,))),
        "the activation 'rel' is not supported",
    ),
    "clipping": (
        lambda: small(keras.optimizers.SGD(clipnorm=1.0, clipvalue=1.0)).fit(*data(), verbose=0),
        "clipnorm and clipvalue are both given",
    ),
    "no layers": (lambda: keras.Sequential().summary(), "a Sequential without layers"),
    "no sizes": (lambda: keras.Sequential([layers.Dense(1)]).summary(), "begin it with keras.Input"),
    "not compiled": (lambda: keras.Sequential([layers.Dense(1)]).fit(*data()), "not compiled; call compile"),
    "disconnected": (
        lambda: keras.Model(keras.Input((4,)), layers.Dense(2)(keras.Input((4,)))),
        "does not follow from the inputs",
    ),
    "arrays": (lambda: small().set_weights([]), "has 4 arrays, but 0 are given"),
    "labels": (lambda: small().fit(data()[0], verbose=0), "y is missing"),
    "ending": (lambda: small().save("model.h4"), "expected a name that ends in .keras or .h5"),
    "learning rate": (lambda: keras.optimizers.SGD("fast"), "learning_rate is 'fast', expected a number"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case):
    make, message = WRONG[case]
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    ("name", "shape", "deviation"),
    [
        ("glorot_uniform", (60, 40), np.sqrt(2 / 100)),
        ("he_normal", (3, 3, 8, 40), np.sqrt(2 / 72)),
        ("lecun_uniform", (60, 40), np.sqrt(1 / 60)),
        ("uniform", (60, 40), 0.05 / np.sqrt(3)),
        ("random_normal", (60, 40), 0.05),
    ],
)
def test_first_values_have_their_variance(name, shape, deviation):
    values = keras.initializers.get(name)(shape)
    assert values.std() == pytest.approx(deviation, rel=0.08)
    assert abs(values.mean()) < deviation / 10


def test_orthogonal_first_values():
    values = keras.initializers.Orthogonal(gain=2.0)((4, 10))
    np.testing.assert_allclose(values @ values.T, 4 * np.eye(4), atol=1e-5)


def test_a_fit_goes_on_when_the_rate_was_set_by_hand():
    """Adam's averages and count stay, as they do in Keras and between steps by hand."""
    x = np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)
    y = np.arange(16) % 3
    models = []
    for _ in range(2):
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, "softmax")])
        model.compile(keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy")
        model.set_weights([np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3), np.zeros(3)])
        models.append(model)
    fitted, stepped = models
    for rate in (0.01, 0.001):
        for model in models:
            model.optimizer.learning_rate = rate
        fitted.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0)
        for step in range(12):
            part = slice(step % 4 * 4, step % 4 * 4 + 4)
            stepped.train_on_batch(x[part], y[part])
    np.testing.assert_allclose(fitted.get_weights()[0], stepped.get_weights()[0], rtol=1e-5)


def test_a_class_of_ones_own_is_built_by_its_records_and_written_as_a_functional_model(tmp_path):
    class Two(keras.Model):
        def __init__(self):
            super().__init__()
            self.join = keras.layers.Concatenate()
            self.out = keras.layers.Dense(2)

        def call(self, inputs):
            return self.out(self.join([inputs["left"], inputs["right"] * 2]))

    x = {"left": np.ones((4, 2), np.float32), "right": np.arange(12, dtype=np.float32).reshape(4, 3)}
    model = Two()
    with pytest.raises(UsageError, match=r"sizes of the input of 'two.*' are not known"):
        model.get_weights()
    found = model.predict(x, verbose=0)
    kernel, bias = model.get_weights()
    joined = np.concatenate([x["left"], x["right"] * 2], axis=1)
    np.testing.assert_allclose(found, joined @ kernel + bias, rtol=1e-5, atol=1e-6)
    assert [layer.name for layer in model.layers] == [model.join.name, model.out.name]
    model.save(tmp_path / "two.keras")
    loaded = keras.models.load_model(tmp_path / "two.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), found)


def test_a_lambda_is_a_layer():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x**2 + 1, name="square")])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(model.predict(x, verbose=0), x**2 + 1)
    assert model.get_layer("square").count_params() == 0


def test_steps_of_ones_own_are_refused():
    class Own(keras.Model):
        def call(self, inputs):
            return inputs

        def train_step(self, data):
            return {}

    with pytest.raises(UsageError, match=r"Own\.train_step is not supported.*call train_on_batch in a loop"):
        Own()

    class Nothing(keras.Model):
        def call(self, inputs):
            return 3

    with pytest.raises(UsageError, match=r"call\(\) of 'nothing.*' returns no tensor"):
        Nothing().predict(np.ones((2, 3)), verbose=0)


def test_a_batch_is_measured_by_itself():
    """As in Keras 3.15: not since the last reset."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), loss="mse")
    model.set_weights([np.ones((1, 1)), np.zeros(1)])
    for act in (model.train_on_batch, model.test_on_batch):
        assert [float(act(np.array([[k]]), np.array([[0.0]]))) for k in (1.0, 2.0, 3.0)] == [1.0, 4.0, 9.0]
