"""Small nets of Keras and the same as frozen graphs of TensorFlow, written by TensorFlow itself.

::

    python -m benchmarks.faults.keras_zoo FOLDER

Writes ``NAME.keras``, ``NAME.pb`` and ``NAME.json``: the input's size, and the layer and variable of every
array in the ``.keras`` file. Run by an interpreter that has TensorFlow 2.21 and Keras 3.
"""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from math import prod, sqrt
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import h5py
import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tests.oracles import recipe

L = keras.layers


def classic(x: Any) -> Any:
    """Convolutions that pad, both poolings, a flatten and dense layers."""
    x = L.Conv2D(8, 5, padding="same", activation="relu", name="conv1")(x)
    x = L.MaxPooling2D(3, 2, padding="same", name="pool1")(x)
    x = L.Conv2D(12, 3, strides=2, padding="same", activation="tanh", name="conv2")(x)
    x = L.AveragePooling2D(2, 2, name="pool2")(x)
    x = L.Flatten(name="flat")(x)
    x = L.Dense(16, activation="relu", name="fc1")(x)
    return L.Dense(10, activation="softmax", name="fc2")(x)


def residual(x: Any) -> Any:
    """Blocks with a sum, normalised."""
    x = L.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="stem")(x)
    x = L.ReLU(name="stem_relu")(L.BatchNormalization(name="stem_bn")(x))
    for number, width in ((1, 8), (2, 16)):
        y = L.Conv2D(width, 3, strides=number, padding="same", use_bias=False, name=f"b{number}_conv1")(x)
        y = L.ReLU(name=f"b{number}_relu1")(L.BatchNormalization(name=f"b{number}_bn1")(y))
        y = L.Conv2D(width, 3, padding="same", use_bias=False, name=f"b{number}_conv2")(y)
        y = L.BatchNormalization(name=f"b{number}_bn2")(y)
        if number > 1:
            x = L.Conv2D(width, 1, strides=number, name=f"b{number}_short")(x)
        x = L.ReLU(name=f"b{number}_relu2")(L.Add(name=f"b{number}_add")([x, y]))
    return L.Dense(10, name="fc")(L.GlobalAveragePooling2D(name="pool")(x))


def mobile(x: Any) -> Any:
    """Convolutions by channel, bounded rectifiers, a padding layer."""
    x = L.ZeroPadding2D(((0, 1), (0, 1)), name="stem_pad")(x)
    x = L.Conv2D(8, 3, strides=2, use_bias=False, name="stem")(x)
    x = L.ReLU(6.0, name="stem_relu")(L.BatchNormalization(epsilon=1e-3, name="stem_bn")(x))
    for number, width, step in ((1, 12, 1), (2, 16, 2)):
        x = L.DepthwiseConv2D(3, strides=step, padding="same", use_bias=False, name=f"dw{number}")(x)
        x = L.ReLU(6.0, name=f"dw{number}_relu")(L.BatchNormalization(name=f"dw{number}_bn")(x))
        x = L.Conv2D(width, 1, use_bias=False, name=f"pw{number}")(x)
        x = L.LeakyReLU(negative_slope=0.2, name=f"pw{number}_relu")(
            L.BatchNormalization(name=f"pw{number}_bn")(x)
        )
    x = L.AveragePooling2D(3, 2, padding="same", name="pool")(x)
    return L.Dense(10, activation="sigmoid", name="fc")(L.Flatten(name="flat")(x))


def fire(x: Any) -> Any:
    """Branches that are joined, a dilated and a transposed convolution, a resize."""
    x = L.Conv2D(8, 3, strides=2, activation="relu", name="stem")(x)
    x = L.MaxPooling2D(3, 2, name="pool1")(x)
    x = L.Conv2D(6, 1, activation="elu", name="squeeze")(x)
    small = L.Conv2D(8, 1, activation="relu", name="expand1")(x)
    large = L.Conv2D(8, 3, padding="same", dilation_rate=2, activation="relu", name="expand3")(x)
    x = L.Concatenate(name="join")([small, large])
    x = L.PReLU(shared_axes=[1, 2], name="prelu")(x)
    x = L.UpSampling2D(2, interpolation="bilinear", name="up")(x)
    x = L.Conv2DTranspose(8, 3, strides=2, padding="same", name="deconv")(x)
    x = L.Conv2D(10, 1, name="scores")(x)
    return L.Softmax(name="prob")(L.GlobalAveragePooling2D(name="gap")(x))


def separable(x: Any) -> Any:
    """Separable convolutions beside shortcuts that are summed, activations as layers of their own."""
    x = L.Conv2D(8, 3, strides=2, use_bias=False, name="stem")(x)
    x = L.Activation("relu", name="stem_act")(L.BatchNormalization(name="stem_bn")(x))
    for number, width in ((1, 12), (2, 16)):
        short = L.Conv2D(width, 1, strides=2, padding="same", use_bias=False, name=f"short{number}")(x)
        short = L.BatchNormalization(name=f"short{number}_bn")(short)
        y = L.SeparableConv2D(width, 3, padding="same", use_bias=False, name=f"sep{number}_a")(x)
        y = L.BatchNormalization(name=f"sep{number}_a_bn")(y)
        y = L.Activation("swish", name=f"sep{number}_act")(y)
        y = L.SeparableConv2D(width, 3, padding="same", name=f"sep{number}_b")(y)
        y = L.BatchNormalization(name=f"sep{number}_b_bn")(y)
        y = L.MaxPooling2D(3, 2, padding="same", name=f"pool{number}")(y)
        x = L.Add(name=f"add{number}")([y, short])
    x = L.Dropout(0.2, name="drop")(L.GlobalAveragePooling2D(name="gap")(x))
    return L.Dense(10, activation="softmax", name="predictions")(x)


def mixed(x: Any) -> Any:
    """Modules of branches with unlike windows, average pooling in one of them."""
    x = L.Conv2D(8, 5, strides=2, padding="same", activation="relu", name="conv1")(x)
    x = L.MaxPooling2D(3, 2, padding="same", name="pool1")(x)
    for number, step in ((1, 1), (2, 2)):
        one = L.Conv2D(6, 1, strides=step, activation="relu", name=f"mix{number}_1x1")(x)
        two = L.Conv2D(4, 1, activation="relu", name=f"mix{number}_reduce")(x)
        two = L.Conv2D(6, (1, 3), padding="same", activation="relu", name=f"mix{number}_1x3")(two)
        two = L.Conv2D(6, (3, 1), strides=step, padding="same", name=f"mix{number}_3x1")(two)
        two = L.LeakyReLU(negative_slope=0.1, name=f"mix{number}_leaky")(two)
        three = L.AveragePooling2D(3, step, padding="same", name=f"mix{number}_pool")(x)
        three = L.Conv2D(4, 1, activation="elu", name=f"mix{number}_proj")(three)
        x = L.Concatenate(name=f"mix{number}")([one, two, three])
    x = L.BatchNormalization(epsilon=1e-3, name="bn")(x)
    x = L.Flatten(name="flat")(x)
    x = L.Dense(12, activation="tanh", name="fc1")(x)
    return L.Dense(10, name="fc2")(x)


NETS = {
    "classic": (classic, (28, 28, 1)),
    "residual": (residual, (32, 32, 3)),
    "mobile": (mobile, (32, 32, 3)),
    "fire": (fire, (33, 33, 3)),
    "separable": (separable, (48, 48, 3)),
    "mixed": (mixed, (32, 32, 3)),
}


def main(folder: Path) -> None:
    """Write every net."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (build, shape) in NETS.items():
        keras.backend.clear_session()
        data = L.Input(shape, name="data")
        model = keras.Model(data, build(data), name=name)
        for number, variable in enumerate(model.weights):
            role = variable.path.split("/")[-1]
            variable.assign(drawn(f"{name} {number}", tuple(variable.shape), role))
        model.save(folder / f"{name}.keras")
        traced = tf.function(lambda data, model=model: model(data, training=False))
        whole = traced.get_concrete_function(tf.TensorSpec([None, *shape], tf.float32, name="data"))
        graph = convert_variables_to_constants_v2(whole).graph.as_graph_def()
        (folder / f"{name}.pb").write_bytes(graph.SerializeToString())
        described = {"shape": shape, "arrays": owners(folder / f"{name}.keras", model)}
        (folder / f"{name}.json").write_text(json.dumps(described))


def drawn(key: str, shape: tuple[int, ...], role: str) -> np.ndarray:
    """Return an array by its role."""
    values = recipe.uniform(key, shape)
    if role in {"gamma", "moving_variance"}:
        return np.float32(1) + np.float32(0.25) * values
    if role == "kernel" and len(shape) > 1:
        depthwise = len(shape) == 4 and shape[-1] == 1
        return values * np.float32(sqrt(2.0 / prod(shape[:-2] if depthwise else shape[:-1])))
    return np.float32(0.2) * values


def owners(path: Path, model: keras.Model) -> dict[str, tuple[str, str]]:
    """Return the layer and the variable of every array of a ``.keras`` file, told by its values."""
    known = [(layer.name, v.name, np.asarray(v)) for layer in model.layers for v in layer.weights]
    found = {}
    with zipfile.ZipFile(path) as archive, h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as stored:

        def visit(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                values = item[()]
                found[name] = next(
                    (n, v) for n, v, x in known if x.shape == values.shape and (x == values).all()
                )

        stored.visititems(visit)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
