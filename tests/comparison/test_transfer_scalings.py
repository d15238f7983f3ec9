"""Weights that are carried where BatchNorm is cut in another way, or taken into the convolution."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison.align.weights import are_scaled_alike, is_of_width
from netweave.comparison.weight_transfer import transfer_weights
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.oracles import recipe

EPSILON = 1e-3
"""Large enough that leaving it out once would show."""


class Residual:
    """A block of a residual net: two convolutions beside one of 1x1, summed up."""

    def __init__(self, seed):
        self.seed = seed
        self.builder = GraphBuilder("net", format="onnx")

    def array(self, key, *shape, role="bias"):
        return self.builder.parameter(Parameter(key, shape), recipe.weight(f"{key} {self.seed}", shape, role))

    def layer(self, name):
        return self.builder.layer(Layer(name, name, name))

    def build(self):
        add = self.builder.add
        with self.layer("input"):
            x = self.builder.input("data", (1, 3, 6, 8))
        x, shortcut = self.branches(x)
        with self.layer("sum"):
            x = add("Relu", [add("Add", [x, shortcut])])
        with self.layer("mean"):
            return self.builder.finish([add("GlobalAveragePool", [x])])

    def branches(self, x):
        shortcut = self.filters("down", x, 1)
        with self.layer("relu"):
            inner = self.builder.add("Relu", [self.filters("one", x, 3)])
        return self.filters("two", inner, 3), shortcut

    def filters(self, name, x, side):
        with self.layer(name):
            inputs = [x, self.array(f"{name}/w", 4, x.shape[1], side, side, role="filter")]
            made = self.builder.add("Conv", [*inputs, *self.biases(name)], {"pads": [side // 2] * 4})
            return self.normalised(name, made)

    def biases(self, name):
        return []

    def statistics(self, name):
        return self.array(f"{name}/mean", 4), self.array(f"{name}/variance", 4, role="variance")


class Plain(Residual):
    """Each convolution has a BatchNorm behind it."""

    def normalised(self, name, x):
        scale = self.array(f"{name}/gamma", 4, role="scale"), self.array(f"{name}/beta", 4)
        attributes = {"epsilon": EPSILON}
        return self.builder.add("BatchNormalization", [x, *scale, *self.statistics(name)], attributes)


class Biased(Plain):
    """The convolutions have biases all the same."""

    def biases(self, name):
        return [self.array(f"{name}/b", 4)]


class Caffe(Residual):
    """A BatchNorm without scale and shift, and both behind it."""

    def normalised(self, name, x):
        add, constant = self.builder.add, self.builder.constant
        attributes = {"epsilon": 1e-5}
        x = add(
            "BatchNormalization",
            [x, constant([1.0] * 4), constant([0.0] * 4), *self.statistics(name)],
            attributes,
        )
        x = add("Mul", [x, self.array(f"{name}/scale", 4, 1, 1, role="scale")])
        return add("Add", [x, self.array(f"{name}/shift", 4, 1, 1)])


class Folded(Residual):
    """The BatchNorm is in the convolution; the shortcut is written last."""

    def branches(self, x):
        with self.layer("relu"):
            inner = self.builder.add("Relu", [self.filters("one", x, 3)])
        return self.filters("two", inner, 3), self.filters("down", x, 1)

    def biases(self, name):
        return [self.array(f"{name}/b", 4)]

    def normalised(self, name, x):
        return x


@pytest.mark.parametrize("port", [Plain, Biased, Caffe, Folded])
@pytest.mark.parametrize("net", [Plain, Biased, Caffe, Folded])
def test_weights_are_carried_to_the_last_digits(net, port):
    first = net("net").build()
    filled = transfer_weights(first, port("port").build())
    image = recipe.uniform("image", (2, 3, 6, 8))
    wanted, found = (next(iter(netweave.run(graph, {"data": image}).values())) for graph in (first, filled))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    assert wanted.std() > 0.05


def test_statistics_stay_statistics():
    net, port = Plain("net").build(), transfer_weights(Plain("net").build(), Caffe("port").build())
    for key in ("one/mean", "one/variance", "one/w"):
        first, second = (
            next(v for v in g.model.graph.initializers.values() if v.name == key).const_value.numpy()
            for g in (net, port)
        )
        np.testing.assert_array_equal(first, second)


def test_a_convolution_and_the_batchnorm_of_another_are_no_chain():
    def net(seed, widths):
        made = Plain(seed)
        with made.layer("input"):
            x = made.builder.input("data", (1, 3, 6, 8))
        nodes = []
        for width in widths:
            with made.layer(f"part{width}"):
                weights = made.array(f"w{width}", width, 3, 1, 1, role="filter")
                x_ = made.builder.add("Conv", [x, weights, made.array(f"b{width}", width)])
                arrays = [made.array(f"{name}{width}", width, role="scale") for name in "gbmv"]
                nodes += [x_.producer(), made.builder.add("BatchNormalization", [x_, *arrays]).producer()]
        return nodes

    first, second = net("net", (4, 6)), net("port", (4, 6))
    assert is_of_width(first[1], 4)
    assert not is_of_width(first[1], 6)
    assert are_scaled_alike(first[:2], second[:2])
    assert not are_scaled_alike([first[0], first[3]], second[:2])
    assert not are_scaled_alike(first[:2], [second[2], second[1]])
