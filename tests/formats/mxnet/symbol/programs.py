"""Nets built in Python, each a function of the module ``sym``: MXNet's own, or Netweave's.

``tests/oracles/mxnet_symbols.py`` runs them by MXNet. Nothing here imports either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Program:
    """A net, the sizes of its inputs, and element types to infer from."""

    make: Callable[[Any, Any], Any]
    shapes: dict[str, tuple[int, ...]]
    types: dict[str, str] = field(default_factory=dict)


PROGRAMS: dict[str, Program] = {}


def program(types: dict[str, str] | None = None, **shapes: tuple[int, ...]) -> Callable[[Any], Any]:
    """Enter a net in the table; ``make`` is given ``sym`` and a module with ``AttrScope`` and ``Prefix``."""

    def enter(make: Any) -> Any:
        PROGRAMS[make.__name__] = Program(make, shapes, types or {})
        return make

    return enter


@program(data=(32, 100), types={"data": "float16"})
def perceptron(sym, scopes):
    net = sym.Variable("data")
    net = sym.FullyConnected(net, num_hidden=64, name="fc1")
    net = sym.Activation(net, act_type="relu")
    net = sym.FullyConnected(data=net, num_hidden=10, no_bias=True)
    return sym.SoftmaxOutput(net, name="softmax")


@program(data=(4, 3, 16, 16), types={"data": "float16"})
def convolutions(sym, scopes):
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=8, pad=(1, 1), name="conv")
    net = sym.BatchNorm(net, fix_gamma=False, eps=1e-3)
    net = sym.LeakyReLU(net, act_type="prelu", name="prelu")
    net = sym.Pooling(net, kernel=(3, 3), stride=(2, 2), pool_type="max", pooling_convention="full")
    net = sym.LRN(net, nsize=5)
    net = sym.Deconvolution(net, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=4, name="up")
    net = sym.Dropout(net, p=0.5)
    return sym.Flatten(net)


@program(data=(2, 8, 9, 9))
def inception(sym, scopes):
    data = sym.Variable("data")
    with scopes.Prefix("mixed_"):
        a = sym.Convolution(data, num_filter=4, kernel=(1, 1), name="a")
        b = sym.Convolution(data, num_filter=6, kernel=(3, 3), pad=(1, 1), name="b")
        c = sym.Pooling(data, kernel=(3, 3), pad=(1, 1), pool_type="avg")
        return sym.Concat(a, b, c, name="out")


@program(a=(2, 3), b=(2, 3))
def signs(sym, scopes):
    a, b = sym.Variable("a"), sym.Variable("b")
    return sym.Group(
        [
            *(
                a + b,
                a - b,
                a * b,
                a / b,
                a % b,
                a**b,
                a + 1,
                1 + a,
                a - 1,
                1 - a,
                a * 2,
                2 * a,
                a / 2,
                2 / a,
            ),
            *(a % 2, 2 % a, a**2, -a, abs(a), a == b, a != b, a > b, a >= b, a < b, a <= b),
            *(a == 1, a != 1, a > 1, a >= 1, a < 1, a <= 1),
        ]
    )


@program(a=(2, 3), b=(2, 3))
def choosing(sym, scopes):
    a, b = sym.Variable("a"), sym.Variable("b")
    either = [sym.maximum(a, b), sym.maximum(a, 2), sym.minimum(2, b), sym.minimum(a, b), sym.hypot(a, b)]
    return sym.Group([*either, sym.pow(a, 3), sym.pow(a, b), a + sym.zeros((2, 3)), b * sym.ones((2, 3))])


@program(data=(2, 6, 5))
def parts(sym, scopes):
    x = sym.SliceChannel(sym.Variable("data"), num_outputs=3, name="cut")
    largest = sym.topk(x[2], k=2, ret_typ="both", name="best")
    return sym.Group([x[0] + x["cut_output1"], largest[0], largest[1], sym.concat(x[0], x[1], dim=2)])


@program(data=(7, 2, 4))
def recurrent(sym, scopes):
    return sym.RNN(
        sym.Variable("data"), state_size=3, num_layers=2, mode="lstm", state_outputs=True, name="rnn"
    )


@program(data=(4, 5), types={"data": "int32"})
def words(sym, scopes):
    table = sym.Variable("table", shape=(20, 6), lr_mult=0.5)
    x = sym.Embedding(sym.Variable("data"), weight=table, input_dim=20, output_dim=6, name="embed")
    x = sym.Reshape(x, shape=(0, -1))
    return sym.FullyConnected(x, num_hidden=3, name="fc")


@program(data=(4, 5))
def shared(sym, scopes):
    weight = sym.Variable("weight")
    a, b = sym.Variable("data"), sym.Variable("other")
    left = sym.FullyConnected(a, weight=weight, no_bias=True, num_hidden=5, name="left")
    right = sym.FullyConnected(left + 0, weight=weight, no_bias=True, num_hidden=5, name="right")
    return sym.LinearRegressionOutput(right, b, name="out")


@program(data=(4, 5))
def attributes(sym, scopes):
    with scopes.AttrScope(ctx_group="dev1", __stage__="1"):
        net = sym.FullyConnected(sym.Variable("data"), num_hidden=7, name="fc1", attr={"__lr_mult__": "2"})
        with scopes.AttrScope(ctx_group="dev2"):
            net = sym.FullyConnected(net, num_hidden=3, name="fc2")
    return sym.BatchNorm(net, name="bn")


@program(data=(4, 5))
def composed(sym, scopes):
    head = sym.FullyConnected(sym.Variable("features"), num_hidden=3, name="head")
    trunk = sym.Activation(
        sym.FullyConnected(sym.Variable("data"), num_hidden=7, name="trunk"), act_type="tanh"
    )
    return head(features=trunk, name="whole")


@program(data=(4, 5))
def inner(sym, scopes):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=7, name="fc1")
    net = sym.FullyConnected(sym.relu(net), num_hidden=3, name="fc2")
    return net.get_internals()["fc1_output"]


@program(data=(2, 3, 4, 4))
def enlarged(sym, scopes):
    near = sym.UpSampling(sym.Variable("data"), scale=2, sample_type="nearest")
    smooth = sym.UpSampling(near, scale=2, sample_type="bilinear", num_filter=3, name="smooth")
    return sym.Crop(smooth, near, name="crop")


@program(data=(3, 4), label=(3,))
def losses(sym, scopes):
    data, label = sym.Variable("data"), sym.Variable("label")
    p = sym.log_softmax(data)
    loss = sym.MakeLoss(0 - sym.pick(p, label), name="loss", normalization="batch")
    return sym.Group([sym.BlockGrad(p), loss, sym.add_n(p, data), sym.stack(p, data, axis=1)])


@program(data=(2, 3, 4))
def methods(sym, scopes):
    x = sym.Variable("data")
    y = x.transpose(axes=(0, 2, 1)).reshape(shape=(0, -1)).exp()
    return sym.Group([y.sum(axis=1), x.mean(), y.slice_axis(axis=1, begin=0, end=2), x.argmax(axis=2)])
