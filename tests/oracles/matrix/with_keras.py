"""Models of Keras 3 on TensorFlow 2.21: its applications, and three of our own, as ``.keras``.

ORACLE/bin/python -m tests.oracles.matrix.with_keras FOLDER NET
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from tests.oracles.matrix.making import Made, Sources, draw_inputs, drawn, main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

L = keras.layers


def application(name: str) -> Any:
    """Return one of Keras's applications up to its logits, with drawn arrays."""
    model = getattr(keras.applications, name)(weights=None, classifier_activation=None)
    return draw(model)


def draw(model: Any) -> Any:
    """Draw every array by its path, and return the model."""
    for variable in model.weights:
        shape, path = tuple(variable.shape), variable.path
        is_depthwise = "depthwise" in path or "dw" in path
        fan_in = prod(shape[:2] if is_depthwise and len(shape) == 4 else shape[:-1])
        if "transpose" in path:
            fan_in = shape[-1]
        variable.assign(drawn(path, shape, fan_in=fan_in))
    return model


def made(model: Any, source: str, files: Sequence[str]) -> Made:
    """Run a model."""
    (tensor,) = model.inputs
    is_whole = "int" in str(tensor.dtype)
    name = tensor.name.split(":")[0]
    shape = (2 if is_whole else 1, *tensor.shape[1:])
    inputs = {name: (shape, "integers 200" if is_whole else "normal")}
    x = draw_inputs(inputs)[name].astype(tensor.dtype)
    return Made(source, files, inputs, {"output": np.asarray(model(x, training=False))})


def save(folder: Path, sources: Sources, build: Callable[[], Any], source: str) -> Made:
    """Build a model, save and run it."""
    model = build()
    model.save(folder / "net.keras")
    return made(model, source, ("net.keras",))


def zoo(name: str) -> Any:
    """Return the maker of one of Keras's applications."""
    return partial(save, build=partial(application, name), source=f"keras.applications.{name}")


def own(build: Callable[[], Any]) -> Any:
    """Return the maker of a model of our own."""
    return partial(save, build=lambda: draw(build()), source="a model of our own")


def lenet() -> Any:
    """LeNet as MXNet's examples have it: tanh, and max pooling."""
    layers = [
        keras.Input((28, 28, 1), name="data"),
        L.Conv2D(20, 5, activation="tanh", name="conv1"),
        L.MaxPooling2D(2, name="pool1"),
        L.Conv2D(50, 5, activation="tanh", name="conv2"),
        L.MaxPooling2D(2, name="pool2"),
        L.Flatten(name="flatten"),
        L.Dense(500, activation="tanh", name="fc1"),
        L.Dense(1000, name="fc2"),
    ]
    return keras.Sequential(layers, name="lenet")


def alexnet() -> Any:
    """AlexNet as torchvision and MXNet's zoo have it."""
    x = h = keras.Input((224, 224, 3), name="data")
    h = L.ZeroPadding2D(2)(h)
    h = L.MaxPooling2D(3, 2)(L.Conv2D(64, 11, 4, activation="relu", name="conv1")(h))
    h = L.MaxPooling2D(3, 2)(L.Conv2D(192, 5, padding="same", activation="relu", name="conv2")(h))
    for name, width in (("conv3", 384), ("conv4", 256), ("conv5", 256)):
        h = L.Conv2D(width, 3, padding="same", activation="relu", name=name)(h)
    h = L.Flatten()(L.MaxPooling2D(3, 2)(h))
    for name in ("fc6", "fc7"):
        h = L.Dense(4096, activation="relu", name=name)(L.Dropout(0.5)(h))
    return keras.Model(x, L.Dense(1000, name="fc8")(h), name="alexnet")


def squeezenet() -> Any:
    """SqueezeNet 1.0."""
    x = keras.Input((224, 224, 3), name="data")
    h = L.MaxPooling2D(3, 2)(L.Conv2D(96, 7, 2, activation="relu", name="conv1")(x))
    for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        s = L.Conv2D(squeezed, 1, activation="relu", name=f"fire{number}_squeeze")(h)
        a = L.Conv2D(4 * squeezed, 1, activation="relu", name=f"fire{number}_expand1")(s)
        b = L.Conv2D(4 * squeezed, 3, padding="same", activation="relu", name=f"fire{number}_expand3")(s)
        h = L.Concatenate()([a, b])
        if number in {4, 8}:
            h = L.MaxPooling2D(3, 2)(h)
    h = L.Conv2D(1000, 1, activation="relu", name="conv10")(L.Dropout(0.5)(h))
    return keras.Model(x, L.GlobalAveragePooling2D()(h), name="squeezenet")


def unet() -> Any:
    """U-Net with padding."""
    x = h = keras.Input((96, 128, 3), name="data")
    skips, widths = [], (64, 128, 256, 512)

    def block(h: Any, width: int, name: str) -> Any:
        for number in (1, 2):
            h = L.Conv2D(width, 3, padding="same", activation="relu", name=f"{name}_{number}")(h)
        return h

    for level, width in enumerate(widths):
        skips.append(block(h, width, f"down{level}"))
        h = L.MaxPooling2D(2)(skips[-1])
    h = block(h, 1024, "bottom")
    for level, width in reversed(list(enumerate(widths))):
        up = L.Conv2DTranspose(width, 2, 2, name=f"transpose{level}")(h)
        h = block(L.Concatenate()([skips[level], up]), width, f"left{level}")
    return keras.Model(x, L.Conv2D(2, 1, name="score")(h), name="unet")


def language_model() -> Any:
    """A language model of two layers of LSTM."""
    x = keras.Input((7,), dtype="int32", name="words")
    h = L.Embedding(200, 64)(x)
    for _ in range(2):
        h = L.LSTM(64, return_sequences=True)(h)
    return keras.Model(x, L.Dense(200)(h), name="language_model")


NETS = {
    "lenet": own(lenet),
    "alexnet": own(alexnet),
    "vgg16": zoo("VGG16"),
    "inception-v3": zoo("InceptionV3"),
    "resnet50": zoo("ResNet50"),
    "resnet50-v2": zoo("ResNet50V2"),
    "densenet121": zoo("DenseNet121"),
    "squeezenet": own(squeezenet),
    "mobilenet": zoo("MobileNet"),
    "mobilenet-v2": zoo("MobileNetV2"),
    "unet": own(unet),
    "lstm": own(language_model),
}

if __name__ == "__main__":
    main(f"Keras {keras.__version__}", NETS)
