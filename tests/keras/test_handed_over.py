"""Scripts with layers and training steps of their own, which Keras itself runs."""

from __future__ import annotations

from importlib import resources

import pytest

pytest.importorskip("torch")

from netweave import keras
from netweave.errors import UsageError
from netweave.keras.handing_over import reason_for_keras
from netweave.keras.originals import spec_of
from tests.keras.test_older import output

needs_keras = pytest.mark.skipif(spec_of("keras") is None, reason="Keras is not installed")

HEAD = "import keras\nfrom keras import layers\n"
REASONS = {
    "class Gate(layers.Layer):\n    def call(self, x): return x": "class Gate in line 3",
    "class GAN(keras.Model):\n    def train_step(self, data): return {}": "class GAN in line 3",
    "x = layers.RandomFlip('horizontal')": "RandomFlip in line 3",
    "keras.utils.get_custom_objects().update({})": "get_custom_objects in line 3",
    "x = layers.GRU(4, recurrent_dropout=rate)": "recurrent_dropout in line 3",
    "from keras import backend as K\nx = K.random_normal((2, 3))": "random_normal in line 4",
    "x = layers.GRU(4, recurrent_dropout=0.0)": None,
    "class Own(keras.losses.Loss):\n    def call(self, a, b): return a - b": None,
    "class Plain:\n    def call(self): return 1": None,
    "x = layers.Dense(3)": None,
    "this is no Python": None,
}


@needs_keras
@pytest.mark.parametrize("text", REASONS)
def test_what_a_script_needs_keras_itself_for(text):
    assert reason_for_keras(HEAD + text) == REASONS[text]


def test_a_script_without_keras_is_none_of_ours():
    assert reason_for_keras("import torch\nclass Net(torch.nn.Module):\n    def call(self): pass") is None


FLIP = 'layers.RandomFlip("horizontal"), '
SCRIPT = """
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from mine import Gate

x, y = np.ones((8, 6, 6, 1), "float32"), np.ones((8, 1), "float32")
model = keras.Sequential(
    [keras.Input((6, 6, 1)), layers.RandomFlip("horizontal"), layers.Flatten(), Gate(3), layers.Dense(1)]
)
model.compile("sgd", "mse")
model.fit(x, y, epochs=1, batch_size=8, verbose=0)
print(type(model).__module__.split(".")[0], model.count_params(), float(tf.reduce_sum(model(x))) != 0)
"""
MINE = """
import tensorflow as tf
from keras.layers import Layer

class Gate(Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units), name="kernel")

    def call(self, x):
        return tf.matmul(x, self.kernel) * tf.nn.sigmoid(tf.reduce_mean(x))
"""


@needs_keras
@pytest.mark.slow
def test_layers_of_a_script_s_own_are_run_by_keras(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "mine.py").write_text(MINE)
    done = output("train.py", folder=tmp_path)
    assert (done.stdout.split(), done.returncode) == (["keras", "112", "True"], 0), done.stderr
    assert "netweave.keras: RandomFlip in line 10: Keras itself runs this script, on torch" in done.stderr
    # what a script needs Keras for is read before it runs: this one ends before it imports any
    (tmp_path / "train.py").write_text(f"raise SystemExit\n{SCRIPT.replace(FLIP, '')}")
    again = output("train.py", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "netweave.keras: mine.py: class Gate in line 5: Keras itself runs" in again.stderr


def test_plot_model_is_a_page_of_the_viewer(tmp_path):
    if not resources.files("netweave.viewer").joinpath("static", "viewer.js").is_file():
        pytest.skip("the front end is not built")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="narrow")])
    path = keras.utils.plot_model(model, str(tmp_path / "net.png"), show_shapes=True, rankdir="LR")
    assert path == str(tmp_path / "net.html")
    assert "narrow" in (tmp_path / "net.html").read_text()
    with pytest.raises(UsageError, match="plot_model has no argument 'dpis'; did you mean dpi"):
        keras.utils.plot_model(model, dpis=3)
