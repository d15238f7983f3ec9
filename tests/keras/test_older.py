"""Scripts for Keras 1 and 2 of which no line is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from netweave import keras
from netweave.errors import UsageError
from netweave.keras import layers
from netweave.keras.hook import spelling

SCRIPT = """
import sys
import numpy as np
import keras, tensorflow as tf
from keras import backend as K
from keras.layers.core import Dense, Flatten
from keras.layers.convolutional import Convolution2D
from keras.engine.topology import Model
from keras.utils import np_utils
from keras.utils.np_utils import to_categorical
from keras.models import Sequential
from tensorflow.keras.optimizers import SGD
from tensorflow.python.keras.layers import Dropout

assert tf.keras is keras and keras.__name__ == "netweave.keras" and K.image_dim_ordering() == "tf"
tf.random.set_seed(1)
tf.set_random_seed(1)
model = Sequential()
model.add(Convolution2D(4, 3, 5, border_mode="same", input_shape=(6, 6, 1), init="uniform"))
model.add(Flatten())
model.add(Dense(output_dim=2, activation="softmax"))
model.compile(optimizer=SGD(lr=0.1, decay=1e-6), loss="categorical_crossentropy", metrics=["accuracy"])
x = np.ones((8, 6, 6, 1), "float32")
fitted = model.fit(x, np_utils.to_categorical([0, 1] * 4, 2), nb_epoch=2, batch_size=4, verbose=0)
print(sys.argv[1:], __name__, model.get_weights()[0].shape, len(fitted.history["acc"]))
print(model.predict_classes(x).shape)
"""


def output(*arguments, folder):
    command = [sys.executable, "-m", "netweave.keras", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(netweave.__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_script_for_keras_1_runs_unchanged(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = output("train.py", "--gpu", "0", folder=tmp_path)
    expected = ["['--gpu', '0'] __main__ (3, 5, 1, 4) 2", "(8,)"]
    assert (done.stdout.splitlines(), done.returncode) == (expected, 0), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import keras.nothing", "ModuleNotFoundError: netweave.keras has no keras.nothing"),
        ("import tensorflow as tf\ntf.Session()", "answers tensorflow.keras and not tensorflow.Session"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, text, message):
    (tmp_path / "train.py").write_text(text)
    done = output("train.py", folder=tmp_path)
    assert message in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("name", "module"),
    [("layers.recurrent", "layers"), ("engine.training", "models"), ("utils.np_utils", "utils"), ("", "")],
)
def test_modules_of_older_versions_have_one_here(name, module):
    assert spelling(name) == module


@pytest.mark.parametrize(
    ("older", "now"),
    [
        (lambda: layers.LSTM(output_dim=3, inner_activation="hard_sigmoid", dropout_W=0.5),
         lambda: layers.LSTM(3, recurrent_activation="hard_sigmoid", dropout=0.5)),
        (lambda: layers.Embedding(9, 4, input_length=7, init="normal"),
         lambda: layers.Embedding(9, 4, embeddings_initializer="random_normal")),
        (lambda: layers.Dropout(p=0.3), lambda: layers.Dropout(0.3)),
        (lambda: layers.MaxPooling1D(pool_length=3, stride=2), lambda: layers.MaxPooling1D(3, strides=2)),
        (lambda: layers.Convolution2D(8, (3, 3), padding="same"),
         lambda: layers.Conv2D(8, 3, padding="same")),
        (lambda: layers.Convolution2D(8, 3, 3, subsample=(2, 2), dim_ordering="th", bias=False),
         lambda: layers.Conv2D(8, (3, 3), strides=2, data_format="channels_first", use_bias=False)),
    ],
)  # fmt: skip
def test_arguments_of_keras_1_are_those_of_keras_3(older, now):
    def settings(layer):
        found = layer.get_config()
        del found["name"]
        return {key: [value] * 2 if isinstance(value, int) and key in {"kernel_size", "strides"} else value
                for key, value in found.items()}  # fmt: skip

    assert settings(older()) == settings(now())


def test_rates_of_older_versions():
    assert keras.optimizers.Adam(lr=0.01, epsilon=None, decay=0.0).learning_rate == 0.01
    assert keras.optimizers.adam is keras.optimizers.Adam
    rate = keras.optimizers.SGD(lr=0.1, decay=0.5).learning_rate
    assert [rate(step) for step in range(3)] == pytest.approx(
        [0.1, 0.1 / 1.5, 0.1 / 2]
    )  # 0.1 / (1 + decay·step)
    with pytest.raises(UsageError, match="has a schedule and decay; leave out decay"):
        keras.optimizers.SGD(rate, decay=0.1)
    with pytest.raises(UsageError, match="SGD has no argument 'lrr'"):
        keras.optimizers.SGD(lrr=0.1)


def dense_pair():
    keras.utils.set_random_seed(0)
    judge = keras.Sequential([keras.Input((3,)), layers.Dense(1, "sigmoid", name="judge")])
    maker = keras.Sequential([keras.Input((2,)), layers.Dense(3, name="maker")])
    return judge, maker


def test_two_models_share_layers_that_one_of_them_freezes():
    judge, maker = dense_pair()
    judge.compile("sgd", "binary_crossentropy")
    judge.trainable = False  # as Keras says, for what is compiled from now on
    noise = keras.Input((2,))
    both = keras.Model(input=noise, output=judge(maker(noise)))
    both.compile("sgd", "binary_crossentropy")
    x, z, ones = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
    for _step in range(2):
        before = [model.get_weights()[0].copy() for model in (judge, maker)]
        judge.train_on_batch(x, ones)
        assert np.abs(judge.get_weights()[0] - before[0]).max() > 1e-4
        np.testing.assert_array_equal(maker.get_weights()[0], before[1])
        judged = judge.get_weights()[0].copy()
        both.train_on_batch(z, ones)
        np.testing.assert_array_equal(judge.get_weights()[0], judged)
        assert np.abs(maker.get_weights()[0] - before[1]).max() > 1e-5


class Drawn:
    """Batches that are other ones in each epoch, as those of Keras' ImageDataGenerator are."""

    batch_size = 4
    taken = ()

    def __init__(self):
        self.number = 0

    def reset(self):
        self.number = 0

    def __len__(self):
        return 2

    def __getitem__(self, index):
        self.taken = [*self.taken, index]
        return self.__next__()

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        return np.full((4, 2), self.number, np.float32), np.zeros((4, 1), np.float32)


def test_batches_that_are_drawn_anew_are_taken_one_after_another():
    drawn = Drawn()
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit_generator(drawn, samples_per_epoch=8, nb_epoch=3, verbose=0)
    assert len(history.epoch) == 3
    assert drawn.number >= 6
    assert not drawn.taken  # a batch by its number is the same in each epoch
    judged = Drawn()
    history = model.fit_generator(
        drawn, samples_per_epoch=4, nb_epoch=2, validation_data=judged, nb_val_samples=8, verbose=0
    )
    assert list(history.history) == ["loss", "val_loss"]
    assert {0, 1} == set(judged.taken)
    assert model.evaluate(judged, verbose=0) >= 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
def test_data_and_nets_of_an_installed_keras(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    pytest.importorskip("keras")
    padded = keras.utils.pad_sequences([[1, 2], [3]], maxlen=3)
    np.testing.assert_array_equal(padded, [[0, 1, 2], [0, 0, 3]])
    build = keras.applications.MobileNet
    ours = build(weights=None, input_shape=(32, 32, 3), classes=3, alpha=0.25)
    assert isinstance(ours, keras.Model)
    from netweave.keras.originals import original

    theirs = original("applications").MobileNet(weights=None, input_shape=(32, 32, 3), classes=3, alpha=0.25)
    theirs.set_weights(ours.get_weights())
    x = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype(np.float32)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x, verbose=0), atol=1e-5)
