"""Nets of TFLite as TensorFlow's converter writes them, with what its interpreter computes.

    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.tflite_nets

Writes ``tests/golden/tflite``: ``operators.tflite``, a net in which each output has the name of its operator,
with what is special about the case behind two underscores; ``small_FORM.tflite``, one convolutional net as
floats, with weights of 16 and 8 bits, and with integers throughout; ``lstm.tflite``; and ``outputs.npz`` with
inputs (``NET/in/NAME``) and outputs (``NET/out/NAME``), those of integers as the real numbers that they stand
for, with the step of their scale (``NET/step/NAME``). ``schema.json`` has the slot of every field of TFLite's
tables, from TensorFlow's generated code. ORACLE is an environment with tensorflow 2.21.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated

GOLDEN = Path(__file__).parent.parent / "golden" / "tflite"
random = np.random.default_rng(0)
raw = tf.raw_ops


def floats(*shape: int) -> Any:
    """Return a constant that stands for weights."""
    return tf.constant(0.5 * random.standard_normal(shape).astype(np.float32))


INPUTS = {
    "image": random.standard_normal((1, 8, 7, 4)).astype(np.float32),
    "matrix": random.standard_normal((3, 4)).astype(np.float32),
    "other": random.standard_normal((3, 4)).astype(np.float32),
    "positive": random.uniform(0.2, 2, (3, 4)).astype(np.float32),
    "volume": random.standard_normal((1, 4, 5, 4, 2)).astype(np.float32),
    "stack": random.standard_normal((2, 3, 4)).astype(np.float32),
}


def windows(image: Any, volume: Any) -> dict[str, Any]:
    """Return what operators with weights or windows make."""
    same, valid = "SAME", "VALID"
    conv = tf.nn.conv2d(image, floats(3, 3, 4, 5), 2, same)
    return {
        "CONV_2D": tf.nn.relu6(tf.nn.bias_add(conv, floats(5))),
        "CONV_2D__dilated": tf.nn.conv2d(image, floats(3, 2, 4, 3), 1, same, dilations=[2, 1]),
        "CONV_2D__groups": tf.nn.conv2d(image, floats(3, 3, 2, 6), 1, valid),
        "CONV_2D__tanh": tf.tanh(tf.nn.conv2d(image, floats(1, 1, 4, 3), [1, 2], valid)),
        "DEPTHWISE_CONV_2D": tf.nn.depthwise_conv2d(image, floats(3, 3, 4, 1), [1, 2, 2, 1], same),
        "DEPTHWISE_CONV_2D__twice": tf.nn.relu(
            tf.nn.depthwise_conv2d(image, floats(3, 2, 4, 2), [1, 1, 1, 1], valid) + floats(8)
        ),
        "TRANSPOSE_CONV": tf.nn.conv2d_transpose(image, floats(3, 3, 5, 4), [1, 16, 14, 5], 2, same),
        "TRANSPOSE_CONV__valid": tf.nn.conv2d_transpose(image, floats(3, 2, 5, 4), [1, 17, 14, 5], 2, valid)
        + floats(5),
        "CONV_3D": tf.nn.conv3d(volume, floats(2, 3, 3, 2, 3), [1, 1, 2, 1, 1], same) + floats(3),
        "MAX_POOL_2D": tf.nn.max_pool2d(image, 3, 2, same),
        "AVERAGE_POOL_2D": tf.nn.avg_pool2d(image, [3, 2], [2, 1], same),
        "FULLY_CONNECTED": tf.nn.relu(tf.reshape(image, [1, -1]) @ floats(8 * 7 * 4, 5) + floats(5)),
        "RESIZE_BILINEAR": tf.compat.v1.image.resize_bilinear(image, [12, 5], align_corners=True),
        "RESIZE_BILINEAR__half": tf.image.resize(image, [16, 21], "bilinear"),
        "RESIZE_BILINEAR__old": tf.compat.v1.image.resize_bilinear(image, [16, 14]),
        "RESIZE_NEAREST_NEIGHBOR": tf.image.resize(image, [12, 10], "nearest"),
        "RESIZE_NEAREST_NEIGHBOR__old": tf.compat.v1.image.resize_nearest_neighbor(image, [16, 14]),
        "LOCAL_RESPONSE_NORMALIZATION": tf.nn.local_response_normalization(image, 2, 1.0, 0.1, 0.75),
        "SPACE_TO_DEPTH": tf.nn.space_to_depth(image[:, :, :6], 2),
        "DEPTH_TO_SPACE": tf.nn.depth_to_space(image, 2),
        "SPACE_TO_BATCH_ND": tf.space_to_batch(image, [2, 2], [[0, 0], [1, 0]]),
        "BATCH_TO_SPACE_ND": tf.batch_to_space(tf.concat([image] * 4, 0), [2, 2], [[1, 0], [0, 1]]),
        "PRELU": tf.nn.relu(image) - floats(1, 1, 4) * tf.nn.relu(-image),
        "L2_NORMALIZATION": tf.nn.l2_normalize(image, -1),
    }


UNARY = "ABS CEIL COS ELU EXP FLOOR NEG RELU RELU6 ROUND SIGN SIN SQUARE TANH ZEROS_LIKE LOG_SOFTMAX"
POSITIVE = "LOG RSQRT SQRT"


def elements(m: Any, n: Any, positive: Any) -> dict[str, Any]:
    """Return what operators on elements make."""
    flags = m > n
    words = {"LOG_SOFTMAX": "LogSoftmax", "ZEROS_LIKE": "ZerosLike"}
    names = {name: words.get(name, name.title()) for name in (UNARY + " " + POSITIVE).split()}
    x = {name: positive if name in POSITIVE else m for name in names}
    outputs = {name: _raw(op, x[name]) for name, op in names.items()}
    whole = tf.cast(10 * m, tf.int32)
    return outputs | {
        "LOGISTIC": tf.sigmoid(m),
        "SOFTMAX": tf.nn.softmax(m),
        "LEAKY_RELU": tf.nn.leaky_relu(m, 0.3),
        "HARD_SWISH": m * tf.nn.relu6(m + 3.0) * (1 / 6),
        "GELU__tanh": tf.nn.gelu(m, approximate=True),
        "ADD": tf.nn.relu(m + n),
        "SUB": m - n,
        "MUL": m * n,
        "DIV": m / positive,
        "MAXIMUM": tf.maximum(m, n),
        "MINIMUM": tf.minimum(m, n),
        "POW": positive**m,
        "FLOOR_DIV": m // positive,
        "FLOOR_MOD": tf.math.floormod(m, positive),
        "SQUARED_DIFFERENCE": tf.math.squared_difference(m, n),
        "EQUAL": tf.cast(tf.equal(whole, 3), tf.float32),
        "NOT_EQUAL": tf.cast(tf.not_equal(whole, 3), tf.float32),
        "GREATER": tf.cast(flags, tf.float32),
        "GREATER_EQUAL": tf.cast(m >= n, tf.float32),
        "LESS": tf.cast(m < n, tf.float32),
        "LESS_EQUAL": tf.cast(m <= n, tf.float32),
        "LOGICAL_AND": tf.cast(flags & (m > 0), tf.float32),
        "LOGICAL_OR": tf.cast(flags | (m > 0), tf.float32),
        "LOGICAL_NOT": tf.cast(~flags, tf.float32),
        "SELECT_V2": tf.where(flags, m, 2.0),
        "ADD_N": tf.add_n([m, n, positive]),
        "CAST": tf.cast(whole, tf.float32),
        "FAKE_QUANT": tf.quantization.fake_quant_with_min_max_args(m, -1.0, 1.5),
    }


def _raw(op: str, x: Any) -> Any:
    make = getattr(raw, op)
    for name in ("x", "features", "logits"):
        try:
            return make(**{name: x})
        except TypeError:
            continue
    raise ValueError(op)


def shapes(m: Any, n: Any, stack: Any, image: Any) -> dict[str, Any]:
    """Return what operators that move elements or reduce axes make."""
    boxes = tf.abs(tf.concat([m, m + 1.0], 1))[:, :4]
    return {
        "RESHAPE": tf.reshape(stack, [4, 6]),
        "TRANSPOSE": tf.transpose(stack, [2, 0, 1]),
        "CONCATENATION": tf.concat([m, n], 1),
        "PACK": tf.stack([m, n], 1),
        "UNPACK": tf.unstack(stack, axis=1)[1],
        "SPLIT": tf.split(stack, 2, 2)[1],
        "SPLIT_V": tf.split(stack, [1, 3], 2)[1],
        "STRIDED_SLICE": stack[:, ::-2, 1:3],
        "STRIDED_SLICE__shrink": stack[1, :, tf.newaxis, -1],
        "SLICE": tf.slice(stack, [0, 1, 1], [-1, 2, 2]),
        "SQUEEZE": tf.squeeze(image[:, :1], [0, 1]),
        "EXPAND_DIMS": tf.expand_dims(m, 1) * 2.0,
        "PAD": tf.pad(stack, [[0, 1], [1, 0], [2, 2]]),
        "PADV2": tf.pad(stack, [[0, 1], [1, 0], [2, 2]], constant_values=3.0),
        "MIRROR_PAD": tf.pad(stack, [[0, 0], [1, 1], [2, 2]], "REFLECT"),
        "MIRROR_PAD__symmetric": tf.pad(stack, [[1, 1], [0, 2], [0, 0]], "SYMMETRIC"),
        "TILE": tf.tile(m, [2, 1]),
        "BROADCAST_TO": tf.broadcast_to(m, [2, 3, 4]),
        "GATHER": tf.gather(stack, [2, 0], axis=1),
        "GATHER__batch": tf.gather(stack, [[1, 0], [2, 2]], axis=1, batch_dims=1),
        "GATHER_ND": tf.gather_nd(stack, [[0, 1], [1, 2]]),
        "SCATTER_ND": tf.scatter_nd([[1], [4]], m[:2], [5, 4]),
        "REVERSE_V2": tf.reverse(stack, [1]),
        "REVERSE_SEQUENCE": tf.reverse_sequence(stack, [2, 3], seq_axis=1, batch_axis=0),
        "MEAN": tf.reduce_mean(image, [1, 2]),
        "MEAN__keep": tf.reduce_mean(image, [1, 2], keepdims=True),
        "SUM": tf.reduce_sum(stack, [0, 2]),
        "REDUCE_MAX": tf.reduce_max(stack, [1]),
        "REDUCE_MIN": tf.reduce_min(stack, [1]),
        "REDUCE_PROD": tf.reduce_prod(stack, [1]),
        "REDUCE_ANY": tf.cast(tf.reduce_any(stack > 1, [1]), tf.float32),
        "REDUCE_ALL": tf.cast(tf.reduce_all(stack > -1, [1]), tf.float32),
        "ARG_MAX": tf.cast(tf.argmax(stack, 2), tf.float32),
        "ARG_MIN": tf.cast(tf.argmin(stack, 1, output_type=tf.int32), tf.float32),
        "TOPK_V2": tf.math.top_k(stack, 2)[0],
        "CUMSUM": tf.cumsum(stack, 1, exclusive=True, reverse=True),
        "ONE_HOT": tf.one_hot(tf.cast(tf.abs(m), tf.int32), 3, 2.0, -1.0),
        "BATCH_MATMUL": tf.matmul(stack, stack, transpose_b=True),
        "EMBEDDING": tf.nn.embedding_lookup(floats(6, 3), tf.cast(tf.abs(m), tf.int32)),
        "RANGE": tf.cast(tf.range(2, 8, 2), tf.float32) + m[0, 0],
        "FILL": tf.fill([2, 2], m[0, 0]),
        "SHAPE": tf.cast(tf.shape(boxes), tf.float32) + m[:1, :2],
        "WHILE": tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 0.5 + 1.0), [0, m])[1],
    }


def operators() -> bytes:
    """Return the net with all operators."""
    specs = [tf.TensorSpec(x.shape, tf.float32, name) for name, x in INPUTS.items()]

    @tf.function(input_signature=specs, autograph=False)
    def net(image: Any, matrix: Any, other: Any, positive: Any, volume: Any, stack: Any) -> dict[str, Any]:
        return {
            **windows(image, volume),
            **elements(matrix, other, positive),
            **shapes(matrix, other, stack, image),
        }

    module = tf.Module()
    module.net = net
    return _converted(tf.lite.TFLiteConverter.from_concrete_functions([net.get_concrete_function()], module))


def small() -> Any:
    """Return a convolutional net with the layers of a classifier."""
    layers = tf.keras.layers
    x = inputs = layers.Input((24, 20, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="stem")(x)
    x = y = layers.ReLU(6.0)(layers.BatchNormalization(name="norm")(x))
    x = layers.DepthwiseConv2D(3, padding="same", name="depthwise")(x)
    x = layers.Add()([layers.Conv2D(8, 1, activation="relu", name="pointwise")(x), y])
    x = layers.Concatenate()([x, layers.MaxPooling2D(3, 1, padding="same")(x)])
    x = layers.AveragePooling2D(2)(layers.ZeroPadding2D(1)(x))
    x = layers.Conv2DTranspose(24, 3, strides=2, padding="same", name="up")(x)
    x = layers.Activation("tanh")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Dense(64, activation="relu", name="hidden")(layers.Flatten()(x))
    x = layers.Dense(5, activation="softmax", name="scores")(x)
    model = tf.keras.Model(inputs, x)
    for weight in model.weights:
        values = 0.4 * random.standard_normal(weight.shape)
        weight.assign(np.abs(values) + 0.5 if "variance" in weight.path else values)
    return model


def forms(model: Any, samples: np.ndarray) -> dict[str, bytes]:
    """Return a model in every precision that the converter knows."""

    def converter(**settings: Any) -> Any:
        made = tf.lite.TFLiteConverter.from_keras_model(model)
        for name, value in settings.items():
            setattr(made, name, value)
        return made

    def representative() -> Any:
        for sample in samples:
            yield [sample[None]]

    default, integers = [tf.lite.Optimize.DEFAULT], tf.lite.OpsSet.TFLITE_BUILTINS_INT8
    full = {"optimizations": default, "representative_dataset": representative}
    made = {
        "float": converter(),
        "float16": converter(optimizations=default),
        "dynamic": converter(optimizations=default),
        "int8": converter(**full),
        "uint8_io": converter(**full, inference_input_type=tf.uint8, inference_output_type=tf.uint8),
        "int8_per_tensor": converter(**full, _experimental_disable_per_channel=True),
    }
    made["float16"].target_spec.supported_types = [tf.float16]
    for name in ("int8", "uint8_io"):
        made[name].target_spec.supported_ops = [integers]
    return {name: _converted(each) for name, each in made.items()}


def lstm() -> bytes:
    """Return a recurrent net."""
    layers = tf.keras.layers
    inputs = layers.Input((5, 4), batch_size=1, name="steps")
    x = layers.LSTM(6, return_sequences=True, unroll=False)(inputs)
    model = tf.keras.Model(inputs, layers.Dense(3)(x))
    for weight in model.weights:
        weight.assign(0.5 * random.standard_normal(weight.shape))
    return _converted(tf.lite.TFLiteConverter.from_keras_model(model))


def _converted(converter: Any) -> bytes:
    content: bytes = converter.convert()
    return content


def outputs(content: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what the interpreter makes of some inputs, by ``out/NAME``, ``step/NAME`` and ``in/NAME``."""
    # XNNPACK, the default, sums in another order
    resolver = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = tf.lite.Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    runner = interpreter.get_signature_runner()
    details = runner.get_input_details()
    fed = {name: _quantised(inputs[name], details[name]) for name in details}
    made = runner(**fed)
    kept = {f"in/{name}": inputs[name] for name in details}
    for name, detail in runner.get_output_details().items():
        scale, zero = detail["quantization"]
        real = (made[name].astype(np.float32) - zero) * np.float32(scale) if scale else made[name]
        kept[f"out/{name}"] = np.asarray(real)
        kept[f"step/{name}"] = np.asarray(scale, np.float32)
    return kept


def _quantised(array: np.ndarray, detail: dict[str, Any]) -> np.ndarray:
    scale, zero = detail["quantization"]
    if not scale:
        return array
    limits = np.iinfo(detail["dtype"])
    return np.clip(np.round(array / scale) + zero, limits.min, limits.max).astype(detail["dtype"])


def slots() -> dict[str, dict[str, int]]:
    """Return the slot of every field of every table, by the names of the schema."""
    source = Path(schema_py_generated.__file__).read_text()
    tables = {}
    for name, body in re.findall(r"\nclass (\w+)\(object\):\n(.*?)(?=\nclass |\Z)", source, re.DOTALL):
        fields = re.findall(r"    def (\w+)\(self(?:, j)?\):\n        o = [^\n]*\.Offset\((\d+)\)\)", body)
        tables[name] = {_snake(field): (int(at) - 4) // 2 for field, at in fields}
    return {name: fields for name, fields in tables.items() if fields}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def main() -> None:
    """Write everything."""
    GOLDEN.mkdir(exist_ok=True)
    samples = random.standard_normal((32, 24, 20, 3)).astype(np.float32)
    nets = {f"small_{form}": content for form, content in forms(small(), samples).items()}
    nets |= {"operators": operators(), "lstm": lstm()}
    steps = random.standard_normal((1, 5, 4)).astype(np.float32)
    inputs = {"image": samples[:1], "steps": steps}
    kept = {}
    for name, content in nets.items():
        (GOLDEN / f"{name}.tflite").write_bytes(content)
        results = outputs(content, INPUTS if name == "operators" else inputs)
        kept |= {f"{name}/{key}": array for key, array in results.items()}
    np.savez_compressed(GOLDEN / "outputs.npz", **kept)
    (GOLDEN / "schema.json").write_text(json.dumps(slots(), indent=0, sort_keys=True) + "\n")
    for path in sorted(GOLDEN.iterdir()):
        print(path.name, path.stat().st_size)  # noqa: T201


if __name__ == "__main__":
    main()
