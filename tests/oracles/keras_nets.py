"""Models of Keras, saved by Keras 3 and by Keras 2 in each of their forms, and what they compute.

    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.keras_nets            # the small ones
    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.keras_nets FOLDER NAME ...   # Keras's applications

The first writes ``tests/golden/keras``: small models as ``.keras``, ``.h5``, ``.weights.h5`` with ``.json``,
SavedModels, and ``nets.json``. The second writes the applications, which are too large to keep, into a
folder: the tests marked ``oracle`` call it. ORACLE is an environment with ``tensorflow==2.21.0`` and
``tf-keras``; with ``TF_USE_LEGACY_KERAS=1`` the same script writes what Keras 2 writes (``NAME.keras2.h5``).
"""

from __future__ import annotations

import os
import sys
from math import prod, sqrt
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

from tests.oracles import golden, recipe

LEGACY = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
if LEGACY:
    import tf_keras as keras
else:
    import keras

L = keras.layers
GOLDEN = Path(__file__).parent.parent / "golden" / "keras"
VALUES = 64


def set_weights(model: Any) -> None:
    """Draw every array by its place in the model, so that activations neither die nor grow."""
    for number, variable in enumerate(model.weights):
        variable.assign(drawn(str(number), tuple(variable.shape), variable.name.split("/")[-1].split(":")[0]))

    for layer in model.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()


def drawn(key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return an array by its name's role."""
    values = recipe.uniform(f"keras {key}", shape or (1,)).reshape(shape)
    if name in {"gamma", "moving_variance", "variance"}:
        return np.float32(1) + np.float32(0.25) * values
    if name in {"kernel", "depthwise_kernel", "pointwise_kernel"} and len(shape) > 1:
        depthwise = name == "depthwise_kernel" or (len(shape) == 4 and shape[-1] == 1)
        fan_in = prod(shape[:-2]) if depthwise else prod(shape[:-1])
        return values * np.float32(sqrt(2.0 / max(fan_in, 1)))
    return np.float32(0.2) * values


def convolutions() -> Any:
    """Every convolution and pooling, SAME and VALID."""
    x = keras.Input((19, 17, 3), name="image")
    h = L.ZeroPadding2D(((1, 0), (2, 1)))(x)
    h = L.Conv2D(6, 3, strides=2, padding="same", activation="relu")(h)
    h = L.BatchNormalization()(h)
    h = L.SeparableConv2D(8, 3, padding="same", depth_multiplier=2)(h)
    h = L.DepthwiseConv2D(3, strides=2, padding="same", use_bias=False)(h)
    h = L.BatchNormalization(scale=False, epsilon=1e-2)(h)
    h = L.Activation("swish")(h)
    h = L.Conv2D(8, 3, dilation_rate=2, padding="same", groups=2)(h)
    h = L.LeakyReLU()(h)
    h = L.Conv2DTranspose(6, 3, strides=2, padding="same")(h)
    h = L.PReLU(shared_axes=[1, 2])(h)
    h = L.Cropping2D(((1, 0), (0, 1)))(h)
    a = L.MaxPooling2D(3, 2, padding="same")(h)
    b = L.AveragePooling2D(3, 2, padding="same")(h)
    h = L.Concatenate()([a, b])
    h = L.Conv2DTranspose(4, 2, strides=3)(h)
    h = L.ELU()(h)
    h = L.UpSampling2D((2, 1), interpolation="bilinear")(h)
    h = L.UpSampling2D(2)(h)
    return keras.Model(x, L.GlobalAveragePooling2D(name="features")(h), name="convolutions")


def lenet() -> Any:
    """LeNet as a chain: a flatten whose order matters."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1), name="digits"),
            L.Conv2D(4, 5, padding="same", activation="tanh"),
            L.AveragePooling2D(2),
            L.Conv2D(6, 5, activation="tanh"),
            L.AveragePooling2D(2),
            L.Flatten(),
            L.Dense(16, activation="tanh"),
            L.Dropout(0.5),
            L.Dense(10, activation="softmax"),
        ],
        name="lenet",
    )


def unet() -> Any:
    """A U-Net: skips, concatenations, transposed convolutions; its blocks are models of their own."""

    def block(filters: int, channels: int) -> Any:
        inner = keras.Input((None, None, channels))
        h = L.Conv2D(filters, 3, padding="same", use_bias=False)(inner)
        h = L.BatchNormalization()(h)
        return keras.Model(inner, L.ReLU(6.0)(h), name=f"block{filters}_{channels}")

    x = keras.Input((16, 16, 3), name="image")
    a = block(4, 3)(x)
    b = block(6, 4)(L.MaxPooling2D()(a))
    c = block(8, 6)(L.MaxPooling2D()(b))
    c = L.Conv2DTranspose(6, 2, strides=2)(c)
    b = block(6, 12)(L.Concatenate()([b, c]))
    b = L.Conv2DTranspose(4, 2, strides=2)(b)
    a = block(4, 8)(L.Concatenate()([a, b]))
    return keras.Model(x, L.Conv2D(2, 1, activation="sigmoid", name="mask")(a), name="unet")


def shared() -> Any:
    """Two inputs through one tower, and arithmetic between what comes out."""
    tower = L.Conv2D(4, 3, name="tower")
    a, b = keras.Input((9, 9, 2), name="a"), keras.Input((9, 9, 2), name="b")
    p, q = tower(a), tower(b)
    h = L.Add()([p, L.Subtract()([p, q])])
    h = L.Multiply()([h, L.Maximum()([p, q])])
    h = L.Average()([h, p, q])
    h = L.Permute((3, 1, 2))(h)
    h = L.Reshape((4, 49))(h)
    h = L.LayerNormalization()(h)
    one = L.Dense(3, name="first")(h)
    two = L.GlobalMaxPooling1D(name="second")(h)
    return keras.Model([a, b], [one, two], name="shared")


def words() -> Any:
    """A language model: an embedding, an LSTM for every step, a dense layer on every step."""
    x = keras.Input((7,), dtype="int32", name="words")
    h = L.Embedding(20, 6)(x)
    h = L.LSTM(8, return_sequences=True)(h)
    h = L.LSTM(5, return_sequences=True, recurrent_activation="hard_sigmoid", go_backwards=True)(h)
    h = L.TimeDistributed(L.Dense(9, activation="relu"))(h)
    return keras.Model(x, L.Dense(20, activation="softmax", name="next")(h), name="words")


def sequences() -> Any:
    """Every recurrent layer, both ways of a GRU, states in and out, and convolutions over time."""
    x = keras.Input((9, 4), name="sequence")
    h = L.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="relu")(x)
    h = L.Bidirectional(L.GRU(5, return_sequences=True))(h)
    h = L.MaxPooling1D(2, padding="same")(h)
    h, state, cell = L.LSTM(4, return_sequences=True, return_state=True)(h)
    h = L.LSTM(4, return_sequences=True)(h, initial_state=[state, cell])
    h = L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="sum")(h)
    h = L.GRU(4, return_sequences=True, reset_after=False)(h)
    last = L.SimpleRNN(3)(h)
    return keras.Model(x, L.Dense(2, name="scores")(L.Concatenate()([last, state])), name="sequences")


def rectifiers() -> Any:
    """A rectifier with every setting, alone and as the activation of another layer."""
    x = keras.Input((4, 5, 3), name="image")
    h = [
        L.ReLU()(x),
        L.ReLU(max_value=1.0, negative_slope=0.25)(x),
        L.ReLU(threshold=0.5)(x),
        L.ReLU(max_value=1.25, threshold=0.5)(x),
        L.ReLU(negative_slope=0.25, threshold=0.5)(x),
        L.ReLU(max_value=1.25, negative_slope=0.25, threshold=0.5)(x),
        L.Conv2D(3, 1, activation=L.ReLU(max_value=0.75, negative_slope=0.5))(x),
    ]
    return keras.Model(x, L.Concatenate()(h), name="rectifiers")


SMALL = {
    "convolutions": convolutions,
    "lenet": lenet,
    "unet": unet,
    "shared": shared,
    "words": words,
    "sequences": sequences,
    "rectifiers": rectifiers,
}

APPLICATIONS = {
    "VGG16": 32,
    "ResNet50": 64,
    "ResNet50V2": 64,
    "InceptionV3": 75,
    "DenseNet121": 64,
    "MobileNet": 64,
    "MobileNetV2": 64,
    "MobileNetV3Small": 64,
    "Xception": 71,
    "EfficientNetB0": 64,
    "NASNetMobile": 64,
    "ConvNeXtTiny": 32,
}
"""Keras's applications, and the size of the image that each is given."""


def application(name: str) -> Any:
    """Return one of Keras's applications for small images and ten classes."""
    size = APPLICATIONS[name]
    settings = {"weights": None, "input_shape": (size, size, 3), "classes": 10, "classifier_activation": None}
    return getattr(keras.applications, name)(**settings)


def inputs_of(model: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return sizes and kinds of a model's inputs, by name."""
    found = {}
    for tensor in model.inputs:
        kind = "integers 20" if "int" in str(tensor.dtype) else "normal"
        found[tensor.name.split(":")[0]] = ((2, *tensor.shape[1:]), kind)
    return found


def record(model: Any) -> dict[str, Any]:
    """Return what a model computes on drawn inputs."""
    inputs = inputs_of(model)
    arrays = [recipe.draw(name, shape, kind) for name, (shape, kind) in inputs.items()]
    arrays = [
        a.astype(t.dtype if isinstance(t.dtype, str) else t.dtype.name)
        for a, t in zip(arrays, model.inputs, strict=True)
    ]
    made = model(arrays if len(arrays) > 1 else arrays[0], training=False)
    made = made if isinstance(made, (list, tuple)) else [made]
    return {
        "inputs": inputs,
        "outputs": [golden.describe(np.asarray(value), VALUES) for value in made],
    }


def save(model: Any, folder: Path, name: str) -> None:
    """Save a model in every form."""
    if LEGACY:
        model.save(folder / f"{name}.keras2.h5")
        return
    model.save(folder / f"{name}.keras")
    model.save(folder / f"{name}.h5")


def freeze(model: Any, folder: Path, name: str) -> None:
    """Save a model as a frozen graph, by TensorFlow's own converter."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name.split(":")[0]) for tensor in model.inputs]
    traced = tf.function(lambda *args: model(list(args) if len(args) > 1 else args[0], training=False))
    frozen = convert_variables_to_constants_v2(traced.get_concrete_function(*specs))
    tf.io.write_graph(frozen.graph.as_graph_def(), str(folder), f"{name}.pb", as_text=False)


def small() -> None:
    """Write the small models."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    records = {}
    for name, build in SMALL.items():
        keras.backend.clear_session()
        model = build()
        set_weights(model)
        save(model, GOLDEN, name)
        records[name] = record(model)
        if name == "unet" and not LEGACY:
            model.save_weights(GOLDEN / f"{name}.weights.h5")
            (GOLDEN / f"{name}.json").write_text(model.to_json())
            model.export(GOLDEN / "unet_saved_model", verbose=False)
            freeze(model, GOLDEN, name)
        if name == "words" and not LEGACY:
            model.export(GOLDEN / "words_saved_model", verbose=False)
    golden.write_json(GOLDEN / f"{'keras2' if LEGACY else 'nets'}.json", records)


def large(folder: Path, names: list[str]) -> None:
    """Write some applications in every form, and what they compute."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        keras.backend.clear_session()
        model = application(name)
        set_weights(model)
        save(model, folder, name)
        if not LEGACY:
            model.export(folder / f"{name}_saved_model", verbose=False)
            freeze(model, folder, name)
        golden.write_json(folder / f"{name}.json", record(model))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        large(Path(sys.argv[1]), sys.argv[2:])
    else:
        small()
