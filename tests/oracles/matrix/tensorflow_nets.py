"""Nets in the words of TensorFlow 1, for what tf-slim does not have; variables are drawn afterwards."""

from __future__ import annotations

from math import prod
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
nn = v1.nn


def variable(name: str, *shape: int) -> Any:
    """Return a variable; what it begins with is of no account."""
    return v1.get_variable(name, shape, initializer=v1.zeros_initializer())


def conv(
    x: Any, name: str, size: int, filters: int, strides: int = 1, padding: Any = "SAME", relu: bool = True
) -> Any:
    """Return a convolution with a bias and mostly a rectifier."""
    with v1.variable_scope(name):
        kernel = variable("weights", size, size, x.shape[-1], filters)
        made = nn.bias_add(
            nn.conv2d(x, kernel, strides=strides, padding=padding), variable("biases", filters)
        )
        return nn.relu(made) if relu else made


def dense(x: Any, name: str, units: int) -> Any:
    """Return a dense layer on what is not yet flat."""
    with v1.variable_scope(name):
        flat = tf.reshape(x, [-1, prod(x.shape[1:])])
        return tf.matmul(flat, variable("weights", flat.shape[-1], units)) + variable("biases", units)


def up(
    x: Any, name: str, size: int, strides: int, filters: int, padding: str = "SAME", bias: bool = False
) -> Any:
    """Return a transposed convolution to a size that is computed from the input's."""
    with v1.variable_scope(name):
        kernel = variable("transposed/weights", size, size, filters, x.shape[-1])
        extra = 0 if padding == "SAME" else size - strides
        shape = tf.shape(x)
        sizes = tf.stack([shape[0], shape[1] * strides + extra, shape[2] * strides + extra, filters])
        made = nn.conv2d_transpose(x, kernel, sizes, strides, padding)
        made.set_shape([None, None, None, filters])
        return nn.bias_add(made, variable("biases", filters)) if bias else made


def images(*sizes: int) -> Any:
    """Return the input."""
    return v1.placeholder(tf.float32, [None, *sizes], name="images")


def lenet() -> Any:
    """LeNet as MXNet's examples have it: tanh, and max pooling."""
    h = nn.tanh(conv(images(28, 28, 1), "conv1", 5, 20, 1, "VALID", False))
    h = nn.max_pool2d(h, 2, 2, "VALID")
    h = nn.max_pool2d(nn.tanh(conv(h, "conv2", 5, 50, 1, "VALID", False)), 2, 2, "VALID")
    h = nn.tanh(dense(h, "fc1", 500))
    return dense(h, "fc2", 1000)


def caffenet() -> Any:
    """CaffeNet: groups by split and concat, normalisation after pooling."""
    x = images(227, 227, 3)
    h = nn.max_pool2d(conv(x, "conv1", 11, 96, 4, "VALID"), 3, 2, "VALID")
    h = nn.lrn(h, depth_radius=2, alpha=2e-5, beta=0.75, bias=1.0)
    h = tf.concat([conv(part, f"conv2_{i}", 5, 128) for i, part in enumerate(tf.split(h, 2, axis=3))], 3)
    h = nn.lrn(nn.max_pool2d(h, 3, 2, "VALID"), depth_radius=2, alpha=2e-5, beta=0.75, bias=1.0)
    h = conv(h, "conv3", 3, 384)
    h = tf.concat([conv(part, f"conv4_{i}", 3, 192) for i, part in enumerate(tf.split(h, 2, axis=3))], 3)
    h = tf.concat([conv(part, f"conv5_{i}", 3, 128) for i, part in enumerate(tf.split(h, 2, axis=3))], 3)
    h = nn.max_pool2d(h, 3, 2, "VALID")
    for name in ("fc6", "fc7"):
        h = nn.dropout(nn.relu(dense(h, name, 4096)), rate=v1.placeholder_with_default(0.0, []))
    return nn.softmax(dense(h, "fc8", 1000), name="prob")


def nin() -> Any:
    """Network in Network, as its authors' prototxt has it."""
    h = images(227, 227, 3)
    widths = ((96, 11, 4, "VALID"), (256, 5, 1, "SAME"), (384, 3, 1, "SAME"), (1024, 3, 1, "SAME"))
    for block, (width, size, strides, padding) in enumerate(widths, start=1):
        last = 1000 if block == len(widths) else width
        h = conv(h, f"conv{block}", size, width, strides, padding)
        h = conv(conv(h, f"cccp{block}_1", 1, width), f"cccp{block}_2", 1, last)
        if block < len(widths):
            h = nn.max_pool2d(h, 3, 2, "VALID")
    return nn.softmax(tf.reduce_mean(h, [1, 2]), name="prob")


def squeezenet() -> Any:
    """SqueezeNet 1.0."""
    h = conv(images(224, 224, 3), "conv1", 7, 96, 2, "VALID")
    h = nn.max_pool2d(h, 3, 2, "VALID")
    for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        with v1.variable_scope(f"fire{number}"):
            s = conv(h, "squeeze", 1, squeezed)
            h = tf.concat([conv(s, "expand1", 1, 4 * squeezed), conv(s, "expand3", 3, 4 * squeezed)], 3)
        if number in {4, 8}:
            h = nn.max_pool2d(h, 3, 2, "VALID")
    return tf.reduce_mean(conv(h, "conv10", 1, 1000), [1, 2], name="logits")


def fcn8s() -> Any:
    """FCN-8s with SAME padding, as ports to TensorFlow had it: sizes are those of other tensors."""
    h, pools = images(96, 128, 3), []
    for block, (depth, width) in enumerate(
        zip((2, 2, 3, 3, 3), (64, 128, 256, 512, 512), strict=True), start=1
    ):
        for number in range(1, depth + 1):
            h = conv(h, f"conv{block}_{number}", 3, width)
        h = nn.max_pool2d(h, 2, 2, "SAME")
        pools.append(h)
    h = conv(conv(h, "fc6", 7, 4096), "fc7", 1, 4096)
    h = up(conv(h, "score_fr", 1, 21, relu=False), "upscore2", 4, 2, 21)
    h = up(h + conv(pools[3], "score_pool4", 1, 21, relu=False), "upscore_pool4", 4, 2, 21)
    h = up(h + conv(pools[2], "score_pool3", 1, 21, relu=False), "upscore8", 16, 8, 21)
    return tf.identity(h, name="score")


def unet() -> Any:
    """U-Net with padding."""
    h, skips, widths = images(96, 128, 3), [], (64, 128, 256, 512)
    for level, width in enumerate(widths):
        h = conv(conv(h, f"down{level}_1", 3, width), f"down{level}_2", 3, width)
        skips.append(h)
        h = nn.max_pool2d(h, 2, 2, "VALID")
    h = conv(conv(h, "bottom_1", 3, 1024), "bottom_2", 3, 1024)
    for level, width in reversed(list(enumerate(widths))):
        h = tf.concat([skips[level], up(h, f"up{level}", 2, 2, width, bias=True)], 3)
        h = conv(conv(h, f"left{level}_1", 3, width), f"left{level}_2", 3, width)
    return conv(h, "score", 1, 2, relu=False)


def language_model() -> Any:
    """Two layers of LSTM cells, as ptb_word_lm.py wrote them: gates i, j, f, o in one product, unrolled."""
    words = v1.placeholder(tf.int32, [None, 7], name="words")
    inputs = tf.unstack(nn.embedding_lookup(variable("embedding/weights", 200, 64), words), axis=1)
    for layer in range(2):
        with v1.variable_scope(f"cell_{layer}"):
            kernel, bias = variable("kernel", 128, 256), variable("bias", 256)
        state = tf.zeros([tf.shape(words)[0], 64])
        out, outputs = state, []
        for step in inputs:
            gates = nn.bias_add(tf.matmul(tf.concat([step, out], 1), kernel), bias)
            i, j, f, o = tf.split(gates, 4, axis=1)
            state = state * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            out = tf.tanh(state) * tf.sigmoid(o)
            outputs.append(out)
        inputs = outputs
    flat = tf.reshape(tf.stack(inputs, axis=1), [-1, 64])
    scores = tf.matmul(flat, variable("softmax/weights", 64, 200)) + variable("softmax/biases", 200)
    return tf.reshape(scores, [-1, 7, 200])
