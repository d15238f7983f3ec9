"""Port to Keras 3: the tagger with the layers of Keras."""

import keras
import numpy as np
from keras import layers
from safetensors.numpy import load_file

WIDTH = 12
HIDDEN = 10
VOCABULARY = 53
TAGS = 7


def build():
    ids = keras.Input((None,), dtype="int32")
    x = layers.Embedding(VOCABULARY, WIDTH, name="embedding")(ids)
    x = layers.Bidirectional(layers.LSTM(HIDDEN, return_sequences=True), merge_mode="concat", name="both")(x)
    x = layers.GRU(HIDDEN, return_sequences=True, reset_after=True, name="gru")(x)
    x = layers.LayerNormalization(epsilon=1e-5, name="norm")(x)
    return keras.Model(ids, layers.Dense(TAGS, name="out")(x))


def lstm_weights(w, end):
    bias = w[f"lstm.bias_ih_{end}"] + w[f"lstm.bias_hh_{end}"]
    return [w[f"lstm.weight_ih_{end}"].T, w[f"lstm.weight_hh_{end}"].T, bias]


def update_first(x):
    """Return the gates in the order of Keras, (z, r, n), from (r, z, n)."""
    r, z, n = np.split(x, 3)
    return np.concatenate([z, r, n])


def load(path):
    w = load_file(path)
    model = build()
    model.get_layer("embedding").set_weights([w["embedding.weight"]])
    model.get_layer("both").set_weights([*lstm_weights(w, "l0"), *lstm_weights(w, "l0_reverse")])
    bias = np.stack([update_first(w["gru.bias_ih_l0"]), update_first(w["gru.bias_hh_l0"])])
    kernels = [update_first(w["gru.weight_ih_l0"]).T, update_first(w["gru.weight_hh_l0"]).T]
    model.get_layer("gru").set_weights([*kernels, bias])
    model.get_layer("norm").set_weights([w["norm.weight"], w["norm.bias"]])
    model.get_layer("out").set_weights([w["out.weight"].T, w["out.bias"]])
    return model


def run(model, ids):
    return np.asarray(model.predict_on_batch(ids.astype("int32")))
