"""Training by TensorFlow: ``tensorflow_worker.py LAYERS.json BATCH SIZE THREADS [bf16]``; see ``run.py``.

One ``tf.function`` is a step. With ``bf16`` values are in bfloat16, variables and losses in float32, as by
Keras's policy ``mixed_bfloat16``. Images are (N, height, width, channels), the only way of TensorFlow's on a
CPU.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np
import protocol
import tensorflow as tf


class Net(tf.Module):
    """The layers; variables are made when they are first met."""

    def __init__(self, layers: list[dict[str, Any]], kind: Any) -> None:
        super().__init__()
        self.layers = layers
        self.kind = kind
        self.made: dict[str, Any] = {}

    def variable(self, name: str, shape: tuple[int, ...], kind: str) -> Any:
        """Return a variable: a ``filter`` is drawn, a ``scale`` one, a ``shift`` zero."""
        if name not in self.made:
            fan_in = float(np.prod(shape[:-1]))
            first = {"scale": tf.ones(shape), "shift": tf.zeros(shape)}
            drawn = tf.random.normal(shape, stddev=(2.0 / fan_in) ** 0.5) if kind == "filter" else first[kind]
            self.made[name] = tf.Variable(drawn)
        return self.made[name]

    def __call__(self, data: Any, label: Any) -> Any:
        """Return the loss."""
        values, losses = {"data": tf.cast(data, self.kind), "label": label}, []
        for layer in self.layers:
            inputs = [values[name] for name in layer["inputs"] if name in values]
            output = self.one(layer["type"], inputs, layer["settings"], layer["name"])
            if layer["type"] == "SoftmaxWithLoss":
                losses.append(layer["settings"]["loss_weight"] * output)
            values.update(dict.fromkeys(layer["outputs"], output))
        return tf.add_n(losses)

    def one(self, kind: str, inputs: list[Any], settings: dict[str, Any], name: str) -> Any:
        """Return what a layer makes."""
        x = inputs[0]
        rows = {
            "Convolution": lambda: self.convolution(x, settings, name),
            "Pooling": lambda: pool(x, settings),
            "InnerProduct": lambda: self.dense(x, settings, name),
            "BatchNorm": lambda: self.normalised(x, name),
            "Scale": lambda: x,  # BatchNorm has it
            "ReLU": lambda: tf.nn.relu(x),
            "LRN": lambda: normalised_across_channels(x, settings),
            "Dropout": lambda: tf.nn.dropout(x, settings["dropout_ratio"]),
            "Concat": lambda: tf.concat(inputs, -1),
            "Eltwise": lambda: inputs[0] + inputs[1],
            "SoftmaxWithLoss": lambda: tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=inputs[1], logits=tf.cast(x, tf.float32)
                )
            ),
        }
        return rows[kind]()

    def convolution(self, x: Any, settings: dict[str, Any], name: str) -> Any:
        """Convolve; groups by themselves, since TensorFlow has no gradient of grouped ones on a CPU."""
        size, count, groups = settings["kernel_size"], settings["num_output"], settings.get("group", 1)
        pad, stride = settings.get("pad", 0), settings.get("stride", 1)
        padding = [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        found = []
        for number, part in enumerate(tf.split(x, groups, -1) if groups > 1 else [x]):
            w = self.variable(f"{name}/{number}", (size, size, part.shape[-1], count // groups), "filter")
            found.append(tf.nn.conv2d(part, tf.cast(w, self.kind), stride, padding))
        y = tf.concat(found, -1) if groups > 1 else found[0]
        if not settings.get("bias_term", True):
            return y
        return tf.nn.bias_add(y, tf.cast(self.variable(f"{name}/bias", (count,), "shift"), self.kind))

    def dense(self, x: Any, settings: dict[str, Any], name: str) -> Any:
        """Multiply."""
        rows = tf.reshape(x, (x.shape[0], -1))
        w = self.variable(f"{name}/w", (rows.shape[1], settings["num_output"]), "filter")
        bias = self.variable(f"{name}/bias", (settings["num_output"],), "shift")
        return tf.nn.bias_add(rows @ tf.cast(w, self.kind), tf.cast(bias, self.kind))

    def normalised(self, x: Any, name: str) -> Any:
        """Normalise by the batch, scale and shift; the statistics follow."""
        scale, shift = (self.variable(f"{name}/{kind}", (x.shape[-1],), kind) for kind in ("scale", "shift"))
        y, mean, var, *_ = tf.compat.v1.nn.fused_batch_norm(x, scale, shift, epsilon=1e-5)
        for key, value in (("mean", mean), ("var", var)):
            kept = self.variable(f"{name}/kept {key}", (x.shape[-1],), "shift")
            kept.assign(0.9 * kept + 0.1 * value)
        return y

    def trained(self) -> list[Any]:
        """Return what is trained."""
        return [variable for name, variable in self.made.items() if "/kept" not in name]


def normalised_across_channels(x: tf.Tensor, settings: dict[str, Any]) -> tf.Tensor:
    """Return local response normalisation, in float32, as TensorFlow has no kernel for bfloat16 on a CPU."""
    size = settings["local_size"]
    normalised = tf.nn.local_response_normalization(
        tf.cast(x, tf.float32), size // 2, 1.0, settings["alpha"] / size, settings["beta"]
    )
    return tf.cast(normalised, x.dtype)


def pool(x: Any, settings: dict[str, Any]) -> Any:
    """Pool; Caffe rounds the number of windows up."""
    size, stride, pad = settings["kernel_size"], settings.get("stride", 1), settings.get("pad", 0)
    if settings.get("pool", "MAX") != "MAX":
        return tf.nn.avg_pool2d(x, size, stride, "VALID")
    length = x.shape[1]
    count = -(-(length + 2 * pad - size) // stride) + 1
    sides = [pad, (count - 1) * stride + size - length - pad]
    return tf.nn.max_pool2d(x, size, stride, [[0, 0], sides, sides, [0, 0]])


def main() -> None:
    """Build the net and serve."""
    path, batch, size, threads = sys.argv[1], *map(int, sys.argv[2:5])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    with pathlib.Path(path).open() as file:
        net = Net(json.load(file), tf.bfloat16 if "bf16" in sys.argv[5:] else tf.float32)
    draw = np.random.default_rng(0)
    data = tf.constant(draw.normal(size=(batch, size, size, 3)), tf.float32)
    label = tf.constant(draw.integers(protocol.CLASSES, size=batch))
    net(data, label)
    variables = net.trained()
    velocities = [tf.Variable(tf.zeros_like(variable)) for variable in variables]

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = net(data, label)
        for w, v, g in zip(variables, velocities, tape.gradient(loss, variables), strict=True):
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=w.handle,
                accum=v.handle,
                lr=protocol.RATE,
                grad=g + protocol.DECAY * w,
                momentum=protocol.MOMENTUM,
            )
        return loss

    count = int(sum(np.prod(variable.shape) for variable in variables))
    protocol.serve(count, lambda: float(step()), name=f"TensorFlow {tf.__version__}")


if __name__ == "__main__":
    main()
