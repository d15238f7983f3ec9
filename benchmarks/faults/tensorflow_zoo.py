"""Small graphs as people froze them in TensorFlow 1, and what TensorFlow's own tool makes of them to predict.

::

    python -m benchmarks.faults.tensorflow_zoo FOLDER

Writes ``NAME.pb``, ``NAME.folded.pb`` with normalisation folded away, and ``NAME.json``: the input's size.
Run by an interpreter that has TensorFlow 2.21.
"""

from __future__ import annotations

import json
import os
import sys
from math import prod, sqrt
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.tools.optimize_for_inference_lib import optimize_for_inference

from tests.oracles import recipe

nn = tf.compat.v1.nn


def stored(name: str, shape: tuple[int, ...], role: str = "bias") -> Any:
    """Return an array as a frozen graph has it: a constant, read by an identity."""
    values = recipe.uniform(name, shape)
    if role == "filter":
        fan_in = prod(shape[:-2]) if shape[-1] == 1 else prod(shape[:-1])
        values = values * np.float32(sqrt(2.0 / fan_in))
    elif role == "scale":
        values = np.float32(1) + np.float32(0.25) * values
    else:
        values = np.float32(0.2) * values
    return tf.identity(tf.constant(values, name=name), name=f"{name}/read")


def conv(
    x: Any, name: str, width: int, size: int, step: int = 1, *, padding: str = "SAME", bias: bool = True
) -> Any:
    """Return a convolution, with a bias if there is no normalisation behind it."""
    weights = stored(f"{name}/weights", (size, size, int(x.shape[-1]), width), "filter")
    x = nn.conv2d(x, weights, strides=[1, step, step, 1], padding=padding, name=f"{name}/Conv2D")
    return nn.bias_add(x, stored(f"{name}/biases", (width,)), name=f"{name}/BiasAdd") if bias else x


def depthwise(x: Any, name: str, step: int) -> Any:
    """Return a convolution of each channel by itself."""
    weights = stored(f"{name}/depthwise_weights", (3, 3, int(x.shape[-1]), 1), "filter")
    return nn.depthwise_conv2d_native(x, weights, [1, step, step, 1], "SAME", name=f"{name}/depthwise")


def norm(x: Any, name: str) -> Any:
    """Return a fused batch normalisation."""
    width = int(x.shape[-1])
    roles = {"gamma": "scale", "beta": "bias", "moving_mean": "bias", "moving_variance": "scale"}
    arrays = [stored(f"{name}/{key}", (width,), role) for key, role in roles.items()]
    return nn.fused_batch_norm(x, *arrays, epsilon=1e-3, is_training=False, name=f"{name}/FusedBatchNorm")[0]


def atrous(x: Any) -> Any:
    """A net for segments: inverted blocks, a dilated convolution, pooling over the image, a resize."""
    x = nn.relu6(norm(conv(x, "stem", 8, 3, 2, bias=False), "stem/bn"), name="stem/Relu6")
    y = nn.relu6(norm(conv(x, "expand", 16, 1, bias=False), "expand/bn"), name="expand/Relu6")
    y = nn.relu6(norm(depthwise(y, "depth", 1), "depth/bn"), name="depth/Relu6")
    y = norm(conv(y, "project", 8, 1, bias=False), "project/bn")
    x = tf.add(x, y, name="add")
    x = nn.relu6(norm(depthwise(x, "depth2", 2), "depth2/bn"), name="depth2/Relu6")
    wide = tf.space_to_batch(x, [2, 2], [[2, 2], [2, 2]], name="aspp1/SpaceToBatchND")
    wide = conv(wide, "aspp1", 12, 3, padding="VALID", bias=False)
    wide = tf.batch_to_space(wide, [2, 2], [[0, 0], [0, 0]], name="aspp1/BatchToSpaceND")
    wide = nn.relu(norm(wide, "aspp1/bn"), name="aspp1/Relu")
    near = nn.relu(norm(conv(x, "aspp0", 12, 1, bias=False), "aspp0/bn"), name="aspp0/Relu")
    whole = tf.reduce_mean(x, [1, 2], keepdims=True, name="image_pooling")
    whole = nn.relu(conv(whole, "pooled", 12, 1), name="pooled/Relu")
    whole = tf.compat.v1.image.resize_bilinear(whole, [8, 8], align_corners=True, name="pooled/Resize")
    x = tf.concat([whole, near, wide], 3, name="concat")
    x = conv(x, "logits", 5, 1)
    return tf.compat.v1.image.resize_bilinear(x, [32, 32], align_corners=True, name="ResizeBilinear")


def grouped(x: Any) -> Any:
    """A net of the first years: windows that are not padded, normalisation across channels, two groups."""
    x = nn.relu(conv(x, "conv1", 8, 5, 2, padding="VALID"), name="conv1/Relu")
    x = nn.local_response_normalization(x, depth_radius=2, bias=1.0, alpha=0.2, beta=0.75, name="norm1")
    x = nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "VALID", name="pool1")
    left, right = tf.split(x, 2, axis=3, name="split")
    left, right = conv(left, "conv2_1", 6, 3), conv(right, "conv2_2", 6, 3)
    x = nn.relu(tf.concat([left, right], 3, name="conv2"), name="conv2/Relu")
    x = tf.pad(x, [[0, 0], [1, 0], [1, 0], [0, 0]], name="pad3/Pad")
    x = nn.elu(conv(x, "conv3", 12, 3, padding="VALID"), name="conv3/Elu")
    x = nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", name="pool3")
    x = tf.reshape(x, [-1, 3 * 3 * 12], name="flatten")
    weights = stored("fc/weights", (3 * 3 * 12, 10))
    x = nn.bias_add(tf.matmul(x, weights, name="fc/MatMul"), stored("fc/biases", (10,)), name="fc/BiasAdd")
    return nn.softmax(x, name="prob")


NETS = {"atrous": (atrous, (32, 32, 3)), "grouped": (grouped, (35, 35, 3))}


def main(folder: Path) -> None:
    """Write every net."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (build, shape) in NETS.items():
        with tf.Graph().as_default() as graph:
            data = tf.compat.v1.placeholder(tf.float32, [None, *shape], name="data")
            tf.identity(build(data), name="Identity")
            frozen = graph.as_graph_def()
        (folder / f"{name}.pb").write_bytes(frozen.SerializeToString())
        folded = optimize_for_inference(frozen, ["data"], ["Identity"], types_pb2.DT_FLOAT)
        (folder / f"{name}.folded.pb").write_bytes(folded.SerializeToString())
        (folder / f"{name}.json").write_text(json.dumps({"shape": shape}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
