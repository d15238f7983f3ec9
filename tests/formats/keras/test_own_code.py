"""Layers and models of the code's own: their ``call`` is followed, and computes what Keras computes."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import UnsupportedError
from netweave.files.sandbox import has_guard
from tests.parity.test_keras_layers import OF_CODE

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")

CODE = '''
import keras
import numpy as np
from keras import layers, ops

TABLE = ops.convert_to_tensor(np.linspace(-1, 1, 6, dtype="float32"))

EXPRESSIONS = [
    lambda x, w: ops.relu(x) + ops.relu6(3 * x) - ops.silu(x),
    lambda x, w: ops.leaky_relu(x) + ops.elu(x, 0.5) + ops.selu(x) + ops.celu(x, 2.0),
    lambda x, w: ops.hard_sigmoid(x) + ops.hard_silu(x) + ops.softsign(x) + ops.hard_tanh(x),
    lambda x, w: ops.stop_gradient(ops.convert_to_tensor(x)) * TABLE,
    lambda x, w: ops.max_pool(x, 2, padding="same") - ops.average_pool(x, 2, 2, "same"),
    lambda x, w: ops.average_pool(x, (3, 2), strides=1),
    lambda x, w: ops.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], mode="reflect"),
    lambda x, w: ops.conv(x, ops.reshape(w, (1, 1, 6, 6)), strides=2, padding="same"),
    lambda x, w: ops.depthwise_conv(x, ops.reshape(w, (3, 2, 6, 1)), padding="valid"),
    lambda x, w: ops.einsum("bhwc,cd->bdhw", x, w),
    lambda x, w: x @ w[:, ::2] + w[0, 1],
    lambda x, w: ops.repeat(ops.swapaxes(x, 1, -1), 2, axis=2),
    lambda x, w: ops.moveaxis(x, [1, 2], [3, 1]) - ops.moveaxis(x, 1, -1)[:, :, :1],
    lambda x, w: ops.var(x, axis=[1, 2], keepdims=True) + ops.std(x, axis=-1, keepdims=True),
    lambda x, w: ops.cumsum(x, axis=1) + ops.floor(x) + ops.abs(x) + (x // 0.3),
    lambda x, w: ops.norm(x, axis=-1, keepdims=True) * ops.amax(x, axis=1, keepdims=True),
    lambda x, w: ops.tril(x) + ops.triu(x, k=1),
    lambda x, w: ops.top_k(x, 3)[0],
    lambda x, w: ops.unstack(x, axis=2)[1],
    lambda x, w: ops.layer_normalization(x, w[0], w[1], epsilon=1e-3),
    lambda x, w: ops.rms_normalization(x, w[2]),
    lambda x, w: ops.dot_product_attention(x, x[:, :, :1], x[:, :, 1:2], is_causal=True),
    lambda x, w: ops.dot_product_attention(x, x, x, bias=ops.reshape(w[:5, :5], (1, 1, 5, 5)), scale=0.2),
    lambda x, w: ops.where(x > 0, x, ops.zeros_like(x)) + ops.broadcast_to(w[3], (1, 5, 4, 6)),
    lambda x, w: ops.reshape(x, (ops.shape(x)[0], -1, 3)),
    lambda x, w: ops.pad(x, [[0, 0], [1, 1], [0, 1], [0, 0]], mode="symmetric"),
    lambda x, w: layers.Activation(lambda v: keras.activations.gelu(v, approximate=True))(x),
    lambda x, w: ops.copy(x) - ops.amin(x, axis=1, keepdims=True) + ops.tanh_shrink(x),
    lambda x, w: ops.outer(x[0, 0, 0], x[0, 1, 1]) * ops.broadcast_to(x[0, 0, 0], (6, 6)),
    lambda x, w: ops.cast(ops.convert_to_tensor(x, dtype="float16"), "float32"),
    lambda x, w: ops.softmax(x * 2.0, axis=1) + ops.gelu(x) + ops.log_softmax(x),
    lambda x, w: ops.pad(x, [[0, 0], [2, 1], [0, 3], [0, 0]], mode="symmetric"),
]


class Own(layers.Layer):
    def __init__(self, number, **settings):
        super().__init__(**settings)
        self.number = number

    def build(self, shape):
        self.kernel = self.add_weight(shape=(6, 6), name="kernel", initializer="glorot_uniform")

    def call(self, x):
        return EXPRESSIONS[self.number](x, self.kernel)


def all_expressions():
    keras.utils.set_random_seed(3)
    x = keras.Input((5, 4, 6), name="x")
    return keras.Model(x, [Own(number, name=f"own{number}")(x) for number in range(len(EXPRESSIONS))])


class Block(layers.Layer):
    """Layers of Keras with the same names in every block, one of them called twice."""

    def __init__(self, width):
        super().__init__()
        self.norm = layers.LayerNormalization(name="norm")
        self.up = layers.Dense(2 * width, activation="gelu", name="up")
        self.down = layers.Dense(width, name="down")

    def call(self, x, training=True):
        if training:
            return x
        x = x + self.down(self.up(self.norm(x)))
        return x + self.down(self.up(x))


class Tokens(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(20, 8)
        self.position = self.add_weight(shape=(7, 8), name="position", initializer="glorot_uniform")
        self.blocks = [Block(8) for _ in range(2)]
        self.stack = keras.Sequential([layers.Dense(4), Block(4)])
        self.head = layers.Dense(3)

    def call(self, tokens):
        n, t = ops.shape(tokens)
        x = self.table(tokens) + self.position[:t]
        x = ops.reshape(ops.reshape(x, (n, t, 2, 4)), (n, t, 8))
        for block in self.blocks:
            x = block(x)
        return self.head(self.stack(x))[:, -1]


def tokens():
    keras.utils.set_random_seed(4)
    model = Tokens()
    model(np.zeros((2, 7), "int32"))
    return model


class ClassToken(keras.Model):
    def __init__(self):
        super().__init__()
        self.token = self.add_weight(shape=(1, 1, 4), name="token")

    def call(self, x):
        token = ops.broadcast_to(self.token, (ops.shape(x)[0], 1, 4))
        return ops.concatenate([token, x], axis=1)


def class_token():
    keras.utils.set_random_seed(6)
    model = ClassToken()
    model(np.zeros((2, 3, 4), "float32"))
    return model


class Masked(layers.Layer):
    def call(self, x, mask=None):
        return x * ops.expand_dims(ops.cast(mask, "float32"), -1)


def masked():
    keras.utils.set_random_seed(7)
    x = keras.Input((None,), dtype="int32", name="tokens")
    return keras.Model(x, Masked(name="m")(layers.Embedding(9, 4, mask_zero=True)(x)))


class Causal(layers.Layer):
    """Rotated keys under a mask that is made from the number of steps."""

    def __init__(self, heads, **settings):
        super().__init__(**settings)
        self.heads = heads
        self.qkv = layers.Dense(48, name="qkv", use_bias=False)

    def call(self, x):
        batch, steps, width = ops.shape(x)
        q, k, v = ops.split(ops.reshape(self.qkv(x), (batch, steps, 3 * self.heads, -1)), 3, axis=2)
        angles = ops.cast(ops.arange(steps), "float32")[:, None] / ops.arange(1, 9, dtype="float32")
        k = k * ops.cos(angles)[None, :, None]
        scores = ops.einsum("bqhd,bkhd->bhqk", q, k)
        seen = ops.arange(steps)[:, None] >= ops.arange(steps)
        weights = ops.softmax(ops.where(seen, scores, -1e9))
        return ops.reshape(ops.einsum("bhqk,bkhd->bqhd", weights, v), (batch, steps, width))


def causal():
    keras.utils.set_random_seed(5)
    x = keras.Input((None, 16), name="x")
    return keras.Model(x, layers.Dense(3, name="head")(Causal(2, name="attention")(x)))


class Foreign(layers.Layer):
    def call(self, x):
        if x.sum() > 0:
            return x
        return -x


class NotFollowed(keras.Model):
    def __init__(self):
        super().__init__()
        self.own = Foreign()

    def call(self, x):
        return self.own(x)


def not_followed():
    model = NotFollowed()
    model(np.zeros((1, 3), "float32"))
    return model
'''


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    file = tmp_path_factory.mktemp("own") / "own.py"
    file.write_text(CODE)
    return file


def read(file: Path, function: str) -> netweave.Graph:
    return netweave.load(f"{file}:{function}", trust=not has_guard())


def computed_by_keras(file: Path, function: str, x: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of the model that a function makes, from another process."""
    np.save(file.with_name("x.npy"), x)
    script = f"""
import os; os.environ["KERAS_BACKEND"] = "torch"
import numpy as np, own
outputs = own.{function}()(np.load("x.npy"), training=False)
outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
np.savez("outputs.npz", *[each.detach().numpy() for each in outputs])
"""
    subprocess.run([sys.executable, "-c", script], cwd=file.parent, check=True, timeout=300)
    held = np.load(file.with_name("outputs.npz"))
    return [held[name] for name in held.files]


def test_operations_compute_what_keras_computes(code):
    x = np.random.default_rng(0).standard_normal((1, 5, 4, 6), np.float32)
    graph = read(code, "all_expressions")
    assert {layer.type for layer in graph.layers.values()} >= OF_CODE
    outputs = [*netweave.run(graph, {"x": x}).values()]
    expected = computed_by_keras(code, "all_expressions", x)
    assert len(outputs) == len(expected) > 20
    # Keras on PyTorch repeats the last element here, and mirrors on other backends, as NumPy does
    expected[-1] = np.pad(x, [(0, 0), (2, 1), (0, 3), (0, 0)], mode="symmetric")
    for number, (ours, theirs) in enumerate(zip(outputs, expected, strict=True)):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=f"expression {number}")


def test_a_model_of_its_own_class_is_read_with_the_lines_of_its_calls(code):
    x = np.random.default_rng(0).integers(0, 20, (3, 7)).astype(np.int32)
    graph = read(code, "tokens")
    (ours,) = netweave.run(graph, {"tokens": x}).values()
    (theirs,) = computed_by_keras(code, "tokens", x)
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    lines = CODE.splitlines()
    line = {layer.name: lines[(layer.origin.line or 1) - 1].strip() for layer in graph.layers.values()}
    assert line["block.up"] == 'self.up = layers.Dense(2 * width, activation="gelu", name="up")'
    assert "x = self.table(tokens) + self.position[:t]" in line.values()
    assert "block_1.up" in line


def test_code_that_cannot_be_followed_is_named_with_its_line(code):
    line = CODE.splitlines().index("        if x.sum() > 0:") + 1
    with pytest.raises(
        UnsupportedError, match=rf"'NotFollowed' cannot be followed .*line {line}: .*keras.ops"
    ):
        read(code, "not_followed")


@pytest.mark.parametrize(
    ("function", "shape"), [("masked", (2, 5)), ("class_token", (4, 3, 4)), ("causal", (2, 9, 16))]
)
def test_what_cannot_be_followed_is_traced_on_pytorch(code, function, shape):
    """A mask that a layer reads, an array for each example, a size in a range; batch and length stay open."""
    drawn = np.random.default_rng(0)
    graph = read(code, function)
    ((name, declared),) = graph.declared.items()
    x = drawn.integers(0, 3, shape) if name == "tokens" else drawn.standard_normal(shape)
    x = x.astype(np.int32 if name == "tokens" else np.float32)
    assert [declared[0], len(declared)] == [None, x.ndim]
    (ours,) = netweave.run(graph, {name: x}).values()
    (theirs,) = computed_by_keras(code, function, x)
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def test_a_traced_model_has_the_layers_of_keras(code):
    graph = read(code, "causal")
    assert graph.format == "keras"
    assert graph.declared == {"x": (None, None, 16)}
    assert set(graph.parameters) == {"attention.qkv.kernel", "head.kernel", "head.bias"}
    layers = {layer.name: layer for layer in graph.layers.values()}
    assert (layers["head"].type, layers["head"].settings["units"]) == ("Dense", 3)
    lines = CODE.splitlines()
    assert "self.qkv = layers.Dense(48" in lines[(layers["attention.qkv"].definition.line or 1) - 1]
    at = {lines[(layer.origin.line or 1) - 1].strip() for layer in layers.values() if layer.origin}
    assert "k = k * ops.cos(angles)[None, :, None]" in at
