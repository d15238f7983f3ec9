"""Nets by TensorFlow's own quantiser, and faults planted in its files by editing their tables.

    ORACLE/bin/python -m benchmarks.precision.tflite_files FOLDER [NET ...]

ORACLE is an environment with TensorFlow 2.21. Writes for each net ``NAME.keras`` and ``NAME FORM.tflite``;
and for each planted fault a file, with ``planted.json`` (``run`` reads it). The
tables are read and written by TensorFlow's own ``flatbuffer_utils``.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.lite.tools import flatbuffer_utils

NUM_SAMPLES = 32
UINT8 = 3
"""TensorType.UINT8 of the schema."""


def residual(*, spread: float = 1.0) -> Any:
    """Return a small residual net: the one of ``nets.float_net`` with a BatchNorm.

    Args:
        spread: How many times larger the largest filter of a layer is than the smallest.
    """
    layers = tf.keras.layers
    x = inputs = layers.Input((24, 24, 3), name="x")
    x = layers.BatchNormalization(name="norm1")(
        layers.Conv2D(16, 3, padding="same", use_bias=False, name="conv1")(x)
    )
    x = pool = layers.MaxPooling2D(2, name="pool1")(layers.ReLU(name="relu1")(x))
    x = layers.ReLU(name="relu2")(layers.Conv2D(16, 3, padding="same", name="conv2")(x))
    x = layers.Conv2D(16, 3, padding="same", name="conv3")(x)
    x = layers.ReLU(name="relu3")(layers.Add(name="add")([x, pool]))
    x = layers.ReLU(name="relu4")(layers.Conv2D(32, 3, strides=2, padding="same", name="conv4")(x))
    x = layers.GlobalAveragePooling2D(name="gap")(x)
    model = tf.keras.Model(inputs, layers.Dense(10, name="fc")(x))
    _draw(model, spread=spread)
    return model


def separable() -> Any:
    """Return a net of depthwise convolutions with ReLU6, branches, and a softmax at its end."""
    layers = tf.keras.layers
    x = inputs = layers.Input((32, 32, 3), name="x")
    x = layers.ReLU(6.0, name="relu1")(layers.Conv2D(16, 3, strides=2, padding="same", name="conv1")(x))
    for number, channels in enumerate((24, 32), 2):
        x = layers.DepthwiseConv2D(3, padding="same", use_bias=False, name=f"depthwise{number}")(x)
        x = layers.ReLU(6.0, name=f"relu{number}a")(layers.BatchNormalization(name=f"norm{number}")(x))
        x = layers.ReLU(6.0, name=f"relu{number}b")(layers.Conv2D(channels, 1, name=f"point{number}")(x))
    both = [layers.AveragePooling2D(2, name="average")(x), layers.MaxPooling2D(2, name="max")(x)]
    x = layers.Conv2D(32, 3, activation="tanh", name="conv4")(layers.Concatenate(name="concat")(both))
    x = layers.Dense(48, activation="sigmoid", name="hidden")(layers.Flatten(name="flat")(x))
    model = tf.keras.Model(inputs, layers.Dense(10, activation="softmax", name="scores")(x))
    _draw(model)
    return model


def mobilenet() -> Any:
    """Return Keras' MobileNet v2 at a width of 0.35, with drawn weights."""
    model = tf.keras.applications.MobileNetV2((96, 96, 3), alpha=0.35, weights=None, classes=100)
    _draw(model)
    return model


NETS: dict[str, Callable[[], Any]] = {
    "keras residual": residual,
    "keras separable": separable,
    "keras MobileNet v2": mobilenet,
}


def _draw(model: Any, *, spread: float = 1.0) -> None:
    """Draw weights, and let the statistics of BatchNorms be those of drawn images."""
    generator = np.random.default_rng(3)
    for weight in model.weights:
        shape = tuple(weight.shape)
        if weight.path.endswith("kernel"):
            is_depthwise = "depthwise" in weight.path.lower()
            fan_in = np.prod(shape[:2]) if is_depthwise else np.prod(shape[:-1])
            factors = np.geomspace(1, 1 / spread, shape[-1]) * (0.25 if "predictions" in weight.path else 1.0)
            weight.assign(generator.standard_normal(shape) * (2 / fan_in) ** 0.5 * factors)
        elif weight.path.endswith("gamma") and "project" in weight.path:
            weight.assign(np.full(shape, 0.3))  # branches of trained residual nets change little
        elif weight.path.endswith("bias"):
            weight.assign(0.1 * generator.standard_normal(shape))
    norms = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    model(images(model), training=True)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum


def images(model: Any) -> np.ndarray:
    """Return what a net is calibrated on."""
    generator = np.random.default_rng(11)
    return generator.standard_normal((NUM_SAMPLES, *model.input_shape[1:])).astype(np.float32)


def forms(model: Any) -> dict[str, bytes]:
    """Return a net in every precision that the converter knows."""
    data = images(model)

    def representative() -> Any:
        for image in data:
            yield [image[None]]

    sets = tf.lite.OpsSet
    calibrated = {"optimizations": [tf.lite.Optimize.DEFAULT], "representative_dataset": representative}
    settings: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "float": ({}, {}),
        "float16": ({"optimizations": [tf.lite.Optimize.DEFAULT]}, {"supported_types": [tf.float16]}),
        "dynamic range": ({"optimizations": [tf.lite.Optimize.DEFAULT]}, {}),
        "int8, per channel": (calibrated, {"supported_ops": [sets.TFLITE_BUILTINS_INT8]}),
        "int8, per tensor": (
            calibrated | {"_experimental_disable_per_channel": True},
            {"supported_ops": [sets.TFLITE_BUILTINS_INT8]},
        ),
        "int8, uint8 inputs": (
            calibrated | {"inference_input_type": tf.uint8, "inference_output_type": tf.uint8},
            {"supported_ops": [sets.TFLITE_BUILTINS_INT8]},
        ),
        "int16 x int8": (
            calibrated,
            {"supported_ops": [sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]},
        ),
    }
    return {name: _converted(model, *each) for name, each in settings.items()}


def _converted(model: Any, own: dict[str, Any], of_target: dict[str, Any]) -> bytes:
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    for name, value in own.items():
        setattr(converter, name, value)
    for name, value in of_target.items():
        setattr(converter.target_spec, name, value)
    content: bytes = converter.convert()
    return content


class File:
    """A file's tables, to be edited.

    Args:
        content: The file.
        net: The Keras net that it was made from.
    """

    def __init__(self, content: bytes, net: Any) -> None:
        self.net = net
        self.model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
        self.graph = self.model.subgraphs[0]

    def weights(self, number: int, operand: int = 1) -> Any:
        """Return the tensor of the filters (or the bias, 2) of the n-th convolution or dense layer."""
        products = [op for op in self.graph.operators if self._code(op) in {3, 4, 9}]
        return self.graph.tensors[products[number].inputs[operand]]

    def made_by(self, code: int, number: int = 0) -> Any:
        """Return the tensor that the n-th operator of a kind makes."""
        made = [op for op in self.graph.operators if self._code(op) == code]
        return self.graph.tensors[made[number].outputs[0]]

    def array(self, tensor: Any) -> np.ndarray:
        """Return the integers of a tensor; they are changed in place."""
        buffer = self.model.buffers[tensor.buffer]
        buffer.data = np.array(buffer.data, np.uint8)
        integers: np.ndarray = buffer.data.view(np.int8).reshape(tensor.shape)
        return integers

    def content(self) -> bytes:
        """Return the file."""
        return bytes(flatbuffer_utils.convert_object_to_bytearray(self.model))

    def _code(self, operator: Any) -> int:
        code = self.model.operatorCodes[operator.opcodeIndex]
        return max(code.builtinCode, code.deprecatedBuiltinCode)


ADD, CONV, MEAN = 0, 3, 40
"""Numbers of operators in the schema."""


def _one_filter(file: File) -> None:
    file.weights(1).quantization.scale[3] *= 4


def _zero_point(file: File) -> None:
    quantization = file.weights(2).quantization
    quantization.zeroPoint = np.full(len(quantization.scale), 9, np.int64)


def _axis(file: File) -> None:
    file.weights(1).quantization.quantizedDimension = 3


def _clipped(file: File) -> None:
    file.made_by(ADD).quantization.scale[:] /= 4


def _swapped(file: File) -> None:
    one, other = file.weights(1).quantization, file.weights(2).quantization
    one.scale, other.scale = other.scale, one.scale


def _saturated(file: File) -> None:
    tensor = file.weights(3)
    tensor.quantization.scale[:] /= 4
    steps = np.asarray(tensor.quantization.scale, np.float32).reshape(-1, 1, 1, 1)
    kernel = file.net.get_layer("conv4").kernel.numpy().transpose(3, 0, 1, 2)
    file.array(tensor)[...] = np.clip(np.rint(kernel / steps), -127, 127)


def _bias_scale(file: File) -> None:
    file.weights(0, 2).quantization.scale[:] *= 16


def _sign(file: File) -> None:
    file.weights(2).type = UINT8


def _nothing(file: File) -> None:
    """The quantiser's own settings are the fault."""


def _other_range(file: File) -> None:
    mine, other = file.made_by(CONV, 3).quantization, file.made_by(MEAN).quantization
    mine.scale, mine.zeroPoint = other.scale.copy(), other.zeroPoint.copy()


def _doubled(file: File) -> None:
    file.weights(3).quantization.scale[:] *= 2


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault of quantisation.

    Attributes:
        name: What it is.
        change: Plants it.
        layers: Layers of the Keras net at which a finding is right.
        mismatches: What the finding may say.
        form: The form that it is planted in.
        spread: Of the net's filters (``residual``).
    """

    name: str
    change: Callable[[File], None]
    layers: tuple[str, ...]
    mismatches: tuple[str, ...]
    form: str = "int8, per channel"
    spread: float = 1.0


PLANTED = (
    Planted("scale of one filter", _one_filter, ("conv2",), ("quantised-scale",)),
    Planted("zero point", _zero_point, ("conv3",), ("quantised-zero-point",)),
    Planted("axis of the scales", _axis, ("conv2",), ("quantised-axis",), spread=8.0),
    Planted("clipped range", _clipped, ("add", "relu3"), ("quantised-range",)),
    Planted(
        "scales of two layers swapped",
        _swapped,
        ("conv2", "conv3"),
        ("quantised-scale-swapped",),
        form="int8, per tensor",
    ),
    Planted("weights saturated", _saturated, ("conv4",), ("quantised-saturation",)),
    Planted("scale of a bias", _bias_scale, ("conv1", "norm1"), ("quantised-scale",)),
    Planted("signed read as unsigned", _sign, ("conv3",), ("quantised-sign",), form="int8, per tensor"),
    Planted(
        "per tensor where per channel is needed",
        _nothing,
        ("conv1", "norm1", "conv2", "conv3", "conv4", "fc"),
        ("quantised-per-tensor",),
        form="int8, per tensor",
        spread=400.0,
    ),
    Planted("range of another layer", _other_range, ("conv4", "relu4"), ("quantised-range",)),
    Planted(
        "scale, with float activations", _doubled, ("conv4",), ("quantised-scale",), form="dynamic range"
    ),
)


def main(folder: Path, names: list[str]) -> None:
    """Write all files, or those of some nets."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in NETS.items():
        if names and name not in names:
            continue
        model = make()
        model.save(folder / f"{name}.keras")
        for form, content in forms(model).items():
            (folder / f"{name} {form}.tflite").write_bytes(content)
    if not names or "planted" in names:
        plant(folder)


def plant(folder: Path) -> None:
    """Write a file for each fault, and what is to be found in it."""
    rows: list[dict[str, Any]] = []
    made: dict[float, tuple[Any, dict[str, bytes]]] = {}
    for number, planted in enumerate(PLANTED):
        if planted.spread not in made:
            model = residual(spread=planted.spread)
            model.save(folder / f"planted {planted.spread}.keras")
            made[planted.spread] = model, forms(model)
        model, contents = made[planted.spread]
        file = File(contents[planted.form], model)
        planted.change(file)
        target = f"planted {number}.tflite"
        (folder / target).write_bytes(file.content())
        rows.append(
            {
                "name": planted.name,
                "plain": f"planted {planted.spread}.keras",
                "port": target,
                "layers": planted.layers,
                "mismatches": planted.mismatches,
            }
        )
    (folder / "planted.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
