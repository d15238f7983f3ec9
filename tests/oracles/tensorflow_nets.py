"""Nets that TensorFlow 1's own API builds and saves, and what they compute.

    cd REPOSITORY; ORACLE/bin/python -m tests.oracles.tensorflow_nets [NET ...]

Writes ``tests/golden/tensorflow``: for each net a frozen graph (``NAME.pb``, some as ``NAME.pbtxt``) and a
checkpoint with its MetaGraph (``NAME.meta``, ``NAME.index``, ``NAME.data-...``), and ``nets.json`` with the
outputs. ORACLE is an environment with tensorflow 2.21 (``pip install tensorflow==2.21.0 tf-keras``); its part
``tf.compat.v1`` writes what TensorFlow 1 wrote, with Switch and Merge for conditions.
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
from tensorflow.python.framework import function

from tests.oracles import golden, recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "tensorflow"
VALUES = 64
v1 = tf.compat.v1
nn = tf.compat.v1.nn


def variable(name: str, shape: tuple[int, ...], role: str = "filter") -> Any:
    """Return a variable whose first values are drawn from its name."""
    values = recipe.weight(
        f"{v1.get_variable_scope().name}/{name}", shape, "bias" if role == "filter" else role
    )
    if role == "filter":
        values = values * np.float32(10 * sqrt(2.0 / prod(shape[:-1])))
    return v1.get_variable(name, initializer=values)


def conv(
    x: Any, name: str, size: int, filters: int, *, strides: int = 1, padding: str = "SAME", **more: Any
) -> Any:
    """Return a convolution with a bias and a rectifier."""
    with v1.variable_scope(name):
        kernel = variable("weights", (size, size, x.shape[-1], filters))
        made = nn.conv2d(x, kernel, strides=[1, strides, strides, 1], padding=padding, **more)
        return nn.relu(nn.bias_add(made, variable("biases", (filters,), "bias")))


def dense(x: Any, name: str, units: int) -> Any:
    """Return a dense layer."""
    with v1.variable_scope(name):
        return tf.matmul(x, variable("weights", (x.shape[-1], units))) + variable("biases", (units,), "bias")


def batch_norm(x: Any, name: str, training: Any, *, fused: bool = True) -> Any:
    """Return a batch normalisation that a condition switches to training, as TF1's layers write it."""
    channels = x.shape[-1]
    with v1.variable_scope(name):
        gamma, beta = variable("gamma", (channels,), "scale"), variable("beta", (channels,), "bias")
        mean, variance = (
            variable("moving_mean", (channels,), "bias"),
            variable("moving_variance", (channels,), "scale"),
        )
        if fused:
            made = tf.cond(
                training,
                lambda: nn.fused_batch_norm(x, gamma, beta, epsilon=1e-3, is_training=True)[0],
                lambda: nn.fused_batch_norm(x, gamma, beta, mean, variance, epsilon=1e-3, is_training=False)[
                    0
                ],
            )
        else:
            own = tf.cond(
                training, lambda: nn.moments(x, [0, 1, 2]), lambda: (tf.identity(mean), tf.identity(variance))
            )
            made = nn.batch_normalization(x, own[0], own[1], beta, gamma, 1e-3)
    return made


def lenet() -> Any:
    """LeNet with dropout by a placeholder, as the tutorials of TensorFlow 1 had it."""
    x = v1.placeholder(tf.float32, [None, 784], name="x")
    keep = v1.placeholder(tf.float32, [], name="keep_prob")
    image = tf.reshape(x, [-1, 28, 28, 1])
    h = nn.max_pool2d(conv(image, "conv1", 5, 4), 2, 2, "SAME")
    h = nn.max_pool2d(conv(h, "conv2", 5, 8), 2, 2, "SAME")
    h = nn.relu(dense(tf.reshape(h, [-1, 7 * 7 * 8]), "fc1", 16))
    h = nn.dropout(h, keep_prob=keep)
    logits = dense(h, "fc2", 10)
    labels = v1.placeholder(tf.float32, [None, 10], name="labels")
    loss = tf.reduce_mean(nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits), name="loss")
    v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return nn.softmax(logits, name="probabilities"), {"x": (2, 784)}


def alexnet() -> Any:
    """An AlexNet in small: LRN, groups by split and concat, VALID and SAME."""
    x = v1.placeholder(tf.float32, [None, 67, 67, 3], name="images")
    h = conv(x, "conv1", 11, 8, strides=4, padding="VALID")
    h = nn.lrn(h, depth_radius=2, alpha=2e-5, beta=0.75, bias=1.0)
    h = nn.max_pool2d(h, 3, 2, "VALID")
    halves = [conv(part, f"conv2_{i}", 5, 6) for i, part in enumerate(tf.split(h, 2, axis=3))]
    h = nn.max_pool2d(tf.concat(halves, 3), 3, 2, "SAME")
    h = conv(h, "conv3", 3, 8)
    h = tf.reshape(h, [-1, prod(h.shape[1:])])
    h = nn.dropout(nn.relu(dense(h, "fc6", 16)), rate=v1.placeholder_with_default(0.0, []))
    return nn.softmax(dense(h, "fc8", 10), name="prob"), {"images": (2, 67, 67, 3)}


def residual() -> Any:
    """Residual blocks with fused and unfused batch normalisation behind a condition."""
    x = v1.placeholder(tf.float32, [None, 17, 17, 3], name="images")
    training = v1.placeholder(tf.bool, [], name="is_training")
    h = conv(x, "stem", 3, 8, strides=2)
    for i in range(2):
        with v1.variable_scope(f"block{i}"):
            r = nn.relu(batch_norm(h, "bn1", training, fused=not i))
            r = nn.conv2d(r, variable("w1", (3, 3, 8, 8)), strides=1, padding="SAME")
            r = nn.relu6(batch_norm(r, "bn2", training, fused=bool(i)))
            r = nn.depthwise_conv2d(r, variable("w2", (3, 3, 8, 1)), strides=[1, 1, 1, 1], padding="SAME")
            h = h + r
    h = tf.reduce_mean(h, axis=[1, 2], name="pool")
    return dense(h, "logits", 5), {"images": (2, 17, 17, 3)}


def language_model() -> Any:
    """Two layers of LSTM cells over words, as ptb_word_lm.py wrote them: gates i, j, f, o in one product."""
    words = v1.placeholder(tf.int32, [None, 6], name="words")
    table = variable("embedding", (20, 8), "bias")
    inputs = tf.unstack(
        nn.dropout(nn.embedding_lookup(table, words), keep_prob=v1.placeholder_with_default(1.0, [])), axis=1
    )
    for layer in range(2):
        with v1.variable_scope(f"cell_{layer}"):
            kernel, bias = variable("kernel", (16, 32)), variable("bias", (32,), "bias")
        state = tf.zeros([tf.shape(words)[0], 8])
        out, outputs = state, []
        for step in inputs:
            i, j, f, o = tf.split(nn.bias_add(tf.matmul(tf.concat([step, out], 1), kernel), bias), 4, axis=1)
            state = state * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            out = tf.tanh(state) * tf.sigmoid(o)
            outputs.append(out)
        inputs = outputs
    flat = tf.reshape(tf.concat(inputs, 1), [-1, 8])
    return nn.softmax(dense(flat, "softmax", 20), name="words_probability"), {"words": (3, 6, "integers 20")}


def gru() -> Any:
    """GRU cells as TensorFlow 1 wrote them: r and u in one product, the candidate in another."""
    x = v1.placeholder(tf.float32, [None, 5, 4], name="sequence")
    with v1.variable_scope("gates"):
        w, b = variable("kernel", (12, 16)), variable("bias", (16,), "bias")
    with v1.variable_scope("candidate"):
        wc, bc = variable("kernel", (12, 8)), variable("bias", (8,), "bias")
    state = tf.zeros([tf.shape(x)[0], 8])
    for step in tf.unstack(x, axis=1):
        r, u = tf.split(tf.sigmoid(nn.bias_add(tf.matmul(tf.concat([step, state], 1), w), b)), 2, axis=1)
        candidate = tf.tanh(nn.bias_add(tf.matmul(tf.concat([step, r * state], 1), wc), bc))
        state = u * state + (1 - u) * candidate
    return tf.identity(state, name="state"), {"sequence": (2, 5, 4)}


def fcn() -> Any:
    """A fully convolutional net: two transposed convolutions to sizes read from other tensors, and a sum."""
    x = v1.placeholder(tf.float32, [None, 30, 22, 3], name="images")
    first = nn.max_pool2d(conv(x, "conv1", 3, 4), 2, 2, "SAME")
    second = nn.max_pool2d(conv(first, "conv2", 3, 6), 2, 2, "SAME")
    score = conv(second, "score", 1, 4)
    up = nn.conv2d_transpose(
        score, variable("up1", (4, 4, 4, 4)), tf.shape(first), [1, 2, 2, 1], padding="SAME"
    )
    shape = tf.shape(x)
    size = tf.stack([shape[0], shape[1], shape[2], 3])
    out = nn.conv2d_transpose(up + first, variable("up2", (4, 4, 3, 4)), size, [1, 2, 2, 1], padding="SAME")
    return tf.argmax(out, axis=3, name="classes"), {"images": (2, 30, 22, 3)}, out


def unet() -> Any:
    """A U-Net in small, with each convention of resizing, mirrored padding and crops.

    TensorFlow reads cubic weights from a table of 1024 steps: only twice the size is exact.
    """
    x = v1.placeholder(tf.float32, [None, 16, 24, 3], name="images")
    a = conv(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT"), "down1", 3, 4, padding="VALID")
    b = conv(nn.max_pool2d(a, 2, 2, "VALID"), "down2", 3, 6)
    c = conv(nn.max_pool2d(b, 2, 2, "VALID"), "bottom", 3, 8)
    size = tf.shape(b)[1:3]
    up = v1.image.resize_bilinear(c, size, align_corners=True)
    b = conv(tf.concat([b, up], 3), "up2", 3, 6)
    up = v1.image.resize_nearest_neighbor(b, tf.shape(a)[1:3])
    a = conv(tf.concat([a, up], -1), "up1", 3, 4)
    half = v1.image.resize_bilinear(a, [20, 30], half_pixel_centers=True)
    old = v1.image.resize_bilinear(a, [20, 30])
    near = v1.image.resize_nearest_neighbor(a, [20, 30], half_pixel_centers=True)
    cubic = v1.image.resize_bicubic(a, [32, 48], half_pixel_centers=True)[:, :20, :30]
    return tf.concat([half, old, near[:, :, ::-1], cubic], 3, name="masks"), {"images": (2, 16, 24, 3)}


def dilated() -> Any:
    """A context net as TensorFlow 1 wrote it: dilated convolutions through SpaceToBatchND."""
    x = v1.placeholder(tf.float32, [None, 20, 20, 3], name="images")
    with v1.variable_scope("a"):
        w1 = variable("weights", (3, 3, 3, 6))
        h = nn.with_space_to_batch(
            x,
            [2, 2],
            "SAME",
            lambda y, n, p: nn.conv2d(y, w1, strides=1, padding="VALID"),
            filter_shape=[3, 3],
        )
        h = tf.nn.elu(h)
    with v1.variable_scope("b"):
        h = nn.leaky_relu(nn.atrous_conv2d(h, variable("weights", (3, 3, 6, 6)), 4, "SAME"), alpha=0.1)
    h = tf.nn.space_to_depth(h, 2)
    h = tf.transpose(tf.transpose(h, [0, 3, 1, 2]) * 2.0, [0, 2, 3, 1])
    return nn.avg_pool2d(h, 3, 2, "SAME", name="context"), {"images": (2, 20, 20, 3)}


def squeeze() -> Any:
    """Fire modules and a squeeze-and-excitation by reshape, channels first and last in one net."""
    x = v1.placeholder(tf.float32, [1, 18, 18, 3], name="images")
    h = conv(x, "conv1", 3, 8, strides=2, padding="VALID")
    s = conv(h, "fire/squeeze", 1, 4)
    h = tf.concat([conv(s, "fire/e1", 1, 6), conv(s, "fire/e3", 3, 6)], 3)
    gate = tf.reshape(tf.reduce_mean(h, [1, 2]), [-1, 1, 1, 12])
    gate = tf.sigmoid(nn.conv2d(gate, variable("gate", (1, 1, 12, 12)), strides=1, padding="SAME"))
    h = tf.maximum(h * gate, 0.05) ** 2.0 - tf.constant(np.linspace(0, 1, 12), tf.float32)
    h = nn.avg_pool2d(h, [1, 8, 8, 1], [1, 1, 1, 1], "VALID")
    return tf.squeeze(h, [1, 2], name="features"), {"images": (1, 18, 18, 3)}


def dynamic() -> Any:
    """``dynamic_rnn`` over each other and both ways: loops of TensorFlow 1 with arrays of tensors."""
    x = v1.placeholder(tf.float32, [None, 5, 4], name="sequence")
    cells = v1.nn.rnn_cell
    with v1.variable_scope("first"):
        h, _ = v1.nn.dynamic_rnn(cells.LSTMCell(6, use_peepholes=True, cell_clip=0.7), x, dtype=tf.float32)
    with v1.variable_scope("both"):
        pair, _ = v1.nn.bidirectional_dynamic_rnn(cells.GRUCell(3), cells.GRUCell(3), h, dtype=tf.float32)
    stacked = cells.MultiRNNCell([cells.BasicLSTMCell(4), cells.BasicRNNCell(3)])
    turned = tf.transpose(tf.concat(pair, 2), [1, 0, 2])
    h, state = v1.nn.dynamic_rnn(stacked, turned, dtype=tf.float32, time_major=True, scope="over")
    for variable in v1.global_variables():
        role = "bias" if variable.shape.rank == 1 else "filter"
        values = recipe.weight(variable.op.name, tuple(variable.shape), "bias") * np.float32(5)
        v1.add_to_collection("drawn", variable.assign(values if role == "filter" else values / 5))
    return tf.identity(h[-1] + state[1], name="last"), {"sequence": (2, 5, 4)}


def loops() -> Any:
    """``while_loop`` with a loop inside, a condition inside, and values that every iteration reads."""
    x = v1.placeholder(tf.float32, [None, 6], name="x")
    matrix = variable("matrix", (6, 6))

    def inner(j: Any, a: Any) -> Any:
        return j + 1, tf.tanh(tf.matmul(a, matrix)) + tf.cast(j, tf.float32)

    def body(i: Any, a: Any, total: Any) -> Any:
        _, a = tf.while_loop(lambda j, _: j < i, inner, (tf.constant(0), a))
        a = tf.cond(tf.equal(i, 1), lambda: a * 2.0, lambda: a + x)
        return i + 1, a, total + tf.reduce_sum(a, 1, keepdims=True)

    _, a, total = tf.while_loop(
        lambda i, *_: i < 4, body, (tf.constant(0), x, tf.zeros_like(x[:, :1])), maximum_iterations=10
    )
    return tf.concat([a, total], 1, name="joined"), {"x": (2, 6)}


def defun() -> Any:
    """A function of TensorFlow 1, which is called by a node of its name."""

    @function.Defun(tf.float32, func_name="gated")
    def gated(a: Any) -> Any:
        return a * tf.sigmoid(a)

    x = v1.placeholder(tf.float32, [None, 6], name="x")
    return tf.identity(gated(dense(x, "fc", 4)), name="y"), {"x": (2, 6)}


NETS = {
    "lenet": lenet,
    "alexnet": alexnet,
    "residual": residual,
    "language_model": language_model,
    "gru": gru,
    "fcn": fcn,
    "unet": unet,
    "dilated": dilated,
    "squeeze": squeeze,
    "dynamic": dynamic,
    "loops": loops,
    "defun": defun,
}

TEXTS = {"lenet", "gru", "loops"}
"""Nets whose frozen graph is kept as text as well."""


def build(name: str, folder: Path) -> dict[str, Any]:
    """Build one net, save it in both forms, and return what it computes."""
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        output, inputs, *more = NETS[name]()
        session.run(v1.global_variables_initializer())
        session.run(v1.get_collection("drawn"))
        feeds, drawn = {}, {}
        for key, (*shape, last) in inputs.items():
            sizes, kind = ((*shape, last), "normal") if isinstance(last, int) else (tuple(shape), last)
            drawn[key] = (sizes, kind)
            array = recipe.draw(key, sizes, kind)
            feeds[f"{key}:0"] = array.astype(graph.get_tensor_by_name(f"{key}:0").dtype.as_numpy_dtype)
        if name == "lenet":
            feeds["keep_prob:0"] = 1.0
        if name == "residual":
            feeds["is_training:0"] = False
        values = session.run([output, *more], feeds)
        v1.train.Saver().save(session, str(folder / name), write_state=False)
        ops = [output.op.name, *(tensor.op.name for tensor in more)]
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ops)
        tf.io.write_graph(frozen, str(folder), f"{name}.pb", as_text=False)
        if name in TEXTS:
            tf.io.write_graph(frozen, str(folder), f"{name}.pbtxt", as_text=True)
    return {
        "inputs": drawn,
        "outputs": [
            (op, golden.describe(np.asarray(value), VALUES)) for op, value in zip(ops, values, strict=True)
        ],
    }


def main(names: list[str]) -> None:
    """Write the files of every net, or of those that are named."""
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    GOLDEN.mkdir(parents=True, exist_ok=True)
    path = GOLDEN / "nets.json"
    records = json.loads(path.read_text()) if names else {}
    golden.write_json(path, records | {name: build(name, GOLDEN) for name in names or NETS})


if __name__ == "__main__":
    main(sys.argv[1:])
