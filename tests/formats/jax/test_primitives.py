"""JAX's primitives: what the graph of a function computes, against what JAX computes of the same input."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import UnsupportedError

jax = pytest.importorskip("jax")

from jax import lax, nn  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from netweave.formats.jax.lowering import Lowering  # noqa: E402
from netweave.formats.jax.primitives import RULES  # noqa: E402
from netweave.graph.passes.windows import join_counted_means  # noqa: E402

ROWS, IMAGE = (4, 6), (3, 8, 9)
KERNEL = np.random.default_rng(1).normal(size=(5, 3, 3, 2)).astype(np.float32)
PLACES = np.array([[2, 0], [3, 3]])


def conv(x, numbers, w, **settings):
    settings = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0))} | settings
    return lax.conv_general_dilated(x, jnp.asarray(w), dimension_numbers=numbers, **settings)


def window(x, start, combine, sizes, steps, pads):
    return lax.reduce_window(x, start, combine, (1, 1, *sizes), (1, 1, *steps), ((0, 0), (0, 0), *pads))


def looped(x):
    def step(carry, row):
        carry = jnp.tanh(carry * 0.5 + row)
        return carry, carry * 2

    return jax.vmap(lambda rows: lax.scan(step, jnp.zeros(rows.shape[1]), rows))(x)


CASES = {
    "arithmetic": (lambda x: (x + 1) * x - x / (2 + jnp.abs(x)), ROWS),
    "a row is broadcast": (lambda x: x + jnp.arange(6.0), ROWS),
    "a column is broadcast": (lambda x: x * jnp.arange(4.0)[:, None], ROWS),
    "sizes of two are broadcast": (lambda x: x.mean(1, keepdims=True) * x.mean(2, keepdims=True), ROWS),
    "a broadcast value is summed": (lambda x: jnp.broadcast_to(x[:, :1], x.shape).sum(1), ROWS),
    "powers": (lambda x: (x**2, x**3, jnp.abs(x) ** 0.3, jnp.exp2(x)), ROWS),
    "exponentials": (lambda x: (jnp.expm1(x), jnp.log1p(jnp.abs(x)), lax.rsqrt(jnp.abs(x) + 1)), ROWS),
    "activations": (lambda x: (nn.relu(x), nn.silu(x), nn.gelu(x), nn.gelu(x, approximate=False)), ROWS),
    "more activations": (lambda x: (nn.softplus(x), nn.elu(x), nn.leaky_relu(x), nn.hard_swish(x)), ROWS),
    "softmax": (lambda x: (nn.softmax(x, 1), nn.log_softmax(x, -1)), ROWS),
    "variance": (lambda x: (x.var(-1), x.std(1, ddof=1)), ROWS),
    "rounding": (lambda x: (jnp.floor(x), jnp.ceil(x), jnp.round(x * 3), lax.round(x * 2)), ROWS),
    "remainder": (lambda x: (lax.rem(x * 5, jnp.full_like(x, 2.0)), jnp.mod(x * 5, 2.0)), ROWS),
    "choices": (lambda x: jnp.where((x > 0) & (x < 1) | ~(x != 2), x, -x), ROWS),
    "bounds": (lambda x: (jnp.clip(x, -0.5, 0.5), nn.relu6(x * 9)), ROWS),
    "the number of examples": (lambda x: x.sum() / x.shape[0] + jnp.zeros((x.shape[0], 2)), ROWS),
    "a mask of steps": (
        lambda x: jnp.where(jnp.arange(4)[:, None] >= jnp.arange(6), x, -jnp.inf).max(-1),
        ROWS,
    ),
    "largest": (lambda x: (x.max(1), x.min(-1), x.argmax(-1), jnp.any(x > 1, 1)), ROWS),
    "in order": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, -1), lax.top_k(x, 2)), ROWS),
    "running sums": (lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 2, reverse=True)), ROWS),
    "parts": (
        lambda x: (x[:, 1:3], x[:, ::2], x[:, :, -1], x[:, ::-1], lax.dynamic_slice_in_dim(x, 3, 2, 1)),
        ROWS,
    ),
    "joined": (
        lambda x: (jnp.concatenate([x, x[:, :2]], 1), jnp.stack([x, -x], 2), jnp.tile(x, (1, 2, 1))),
        ROWS,
    ),
    "taken apart": (lambda x: jnp.split(x, [2, 5], 2), ROWS),
    "padded": (
        lambda x: (
            jnp.pad(x, ((0, 0), (1, 2), (0, 1))),
            jnp.pad(x, ((0, 0), (1, 1), (0, 0)), mode="reflect"),
        ),
        ROWS,
    ),
    "rows of a table": (lambda x: jnp.asarray(KERNEL)[jnp.argmax(x, -1) % 5].sum((-1, -2)), ROWS),
    "repeated": (lambda x: jnp.repeat(x, 3, axis=1), ROWS),
    "elements along an axis": (lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), ROWS),
    "elements by two indices": (lambda x: x[:, PLACES[:, 0], PLACES[:, 1]], ROWS),
    "written anew": (lambda x: lax.dynamic_update_slice_in_dim(x, x[:, :2] * 2, 1, 1), ROWS),
    "matrices": (lambda x: (x @ KERNEL[0, 0].T @ KERNEL[0, 0], x @ x.swapaxes(1, 2)), (4, 2)),
    "sums of products": (
        lambda x: (jnp.einsum("ntd,nsd->nts", x, x), jnp.einsum("ntd,hde->nhte", x, KERNEL[0])),
        (4, 3),
    ),
    "products over two axes": (lambda x: jnp.einsum("nchw,ochw->no", x[:, :, :3, :2], KERNEL), IMAGE),
    "one loop": (looped, ROWS),
    "a loop backwards": (
        lambda x: lax.scan(lambda c, r: (c + r, c), x[:, 0] * 0, x.swapaxes(0, 1), reverse=True),
        ROWS,
    ),
    "convolution": (
        lambda x: conv(x, ("NCHW", "OIHW", "NCHW"), KERNEL, window_strides=(2, 1), padding=((1, 2), (0, 1))),
        IMAGE,
    ),
    "channels last": (
        lambda x: conv(
            x.transpose(0, 2, 3, 1),
            ("NHWC", "HWIO", "NHWC"),
            KERNEL.transpose(2, 3, 1, 0),
            rhs_dilation=(2, 3),
        ),
        IMAGE,
    ),
    "groups": (
        lambda x: conv(
            x, ("NCHW", "OIHW", "NCHW"), KERNEL.transpose(1, 0, 2, 3)[:, :1], feature_group_count=3
        ),
        IMAGE,
    ),
    "a negative padding": (
        lambda x: conv(x, ("NCHW", "OIHW", "NCHW"), KERNEL, padding=((-1, 0), (1, -2))),
        IMAGE,
    ),
    "transposed convolution": (
        lambda x: lax.conv_transpose(x, KERNEL, (2, 3), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
        IMAGE,
    ),
    "windows": (
        lambda x: (
            window(x, -jnp.inf, lax.max, (3, 2), (2, 2), ((1, 1), (0, 1))),
            window(x, jnp.inf, lax.min, (3, 3), (1, 1), ((0, 0), (0, 0))),
        ),
        IMAGE,
    ),
    "sums of windows": (lambda x: window(x, 0.0, lax.add, (3, 3), (2, 2), ((1, 1), (1, 1))), IMAGE),
    "windows with channels last": (
        lambda x: lax.reduce_window(
            x.transpose(0, 2, 3, 1), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
        ),
        IMAGE,
    ),
    "windows of several axes without": (
        lambda x: lax.reduce_window(
            x[:, None].repeat(2, 1), -jnp.inf, lax.max, (1, 1, 1, 2, 3), (1, 1, 1, 2, 1), "VALID"
        ),
        IMAGE,
    ),
    "compiled apart": (lambda x: jax.jit(lambda y: y * 2)(x) + jax.checkpoint(jnp.sin)(x), ROWS),
}


def lowered(function, given):
    jaxpr = jax.make_jaxpr(function)(given)
    lowering = Lowering("net.py", files={}, place="net.py")
    x = lowering.input("x", jaxpr.in_avals[0].shape, str(jaxpr.in_avals[0].dtype))
    return lowering.finish(lowering.run(jaxpr.jaxpr, jaxpr.consts, [x]))


def opened(shape):
    return jax.ShapeDtypeStruct((*jax.export.symbolic_shape("N"), *shape), np.float32)


@pytest.mark.parametrize("case", CASES)
def test_a_graph_computes_what_jax_computes(case):
    function, shape = CASES[case]
    graph = lowered(function, opened(shape))
    for count in (2, 3):
        x = np.random.default_rng(count).normal(size=(count, *shape)).astype(np.float32)
        expected = jax.tree_util.tree_leaves(function(x))
        made = list(netweave.run(graph, {"x": x}).values())
        assert len(made) == len(expected)
        for a, b in zip(made, expected, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-5)


def counted(ones, pads, steps=(2, 2)):
    """Means of windows as JAX has them: a sum divided by a sum of ones, with the channels last."""

    def sums(x):
        x = lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, *steps, 1), ((0, 0), *pads, (0, 0)))
        return x.transpose(0, 3, 1, 2)

    return lambda x: sums(x.transpose(0, 2, 3, 1)) / sums(ones(x.transpose(0, 2, 3, 1)))


@pytest.mark.parametrize(
    ("function", "is_joined"),
    [
        (counted(jnp.ones_like, ((1, 1), (0, 1))), True),
        (counted(lambda x: jnp.ones((1, *x.shape[1:3], 1)), ((1, 0), (1, 1))), True),
        (counted(lambda x: jnp.ones((1, *x.shape[1:])), ((2, 1), (0, 0)), (1, 3)), True),
        (counted(lambda x: 2 * jnp.ones((1, *x.shape[1:3], 1)), ((1, 0), (1, 1))), False),
        (lambda x: window(x, 0.0, lax.add, (3, 3), (2, 2), ((1, 1), (1, 1))) / 8, False),
    ],
)
def test_a_sum_over_windows_by_the_number_of_elements_is_a_mean_without_padding(function, is_joined):
    graph = lowered(function, opened(IMAGE))
    x = np.random.default_rng(0).normal(size=(2, *IMAGE)).astype(np.float32)
    before = netweave.run(graph, {"x": x}).values()
    join_counted_means.edit(graph)
    kinds = [node.op_type for node in graph.model.graph]
    assert ("Div" not in kinds) is is_joined
    for a, b, c in zip(before, netweave.run(graph, {"x": x}).values(), [function(x)], strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
        np.testing.assert_allclose(b, c, atol=2e-5)


def test_numbers_of_no_input_are_computed_while_reading():
    graph = lowered(lambda x: x * jnp.cumsum(jnp.arange(6.0) ** 2), opened(ROWS))
    assert [node.op_type for node in graph.model.graph if node.op_type != "Shape"] == ["Mul"]


def test_a_layer_is_a_call_of_jax_and_knows_its_line():
    files = {__file__: "net.py"}
    jaxpr = jax.make_jaxpr(lambda x: nn.silu(x) + 1)(opened(ROWS))
    lowering = Lowering("net.py", files=files, place="net.py")
    x = lowering.input("x", jaxpr.in_avals[0].shape, "float32")
    graph = lowering.finish(lowering.run(jaxpr.jaxpr, jaxpr.consts, [x]))
    kinds = [layer.type for layer in graph.layers.values()]
    assert kinds == ["silu", "add"]
    assert all(layer.origin.line for layer in graph.layers.values())


UNREAD = {
    "while": lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda y: y, lambda y: -y, x),
    "erf_inv": lax.erf_inv,
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_primitive_without_a_rule_is_named_with_a_way_out(name):
    assert name not in RULES
    with pytest.raises(UnsupportedError, match=rf"JAX's primitive {name}.*compare a dump of its tensors"):
        lowered(UNREAD[name], opened(ROWS))


@pytest.mark.parametrize(
    ("form", "function"),
    {
        "padding between elements": lambda x: lax.pad(x, 0.0, [(0, 0, 0), (0, 0, 1), (0, 0, 0)]),
        "a part of the batch": lambda x: x[1:],
        "a choice by number": lambda x: lax.select_n(x.astype(int), x, x, x),
    }.items(),
)  # fmt: skip
def test_a_form_that_is_not_read_is_named(form, function):
    with pytest.raises(UnsupportedError, match=form):
        lowered(function, opened(ROWS))
