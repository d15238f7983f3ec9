"""Normalisations and paddings that are written in parts, against the formula and what the parts compute."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.graph import GraphBuilder, Layer
from netweave.graph.passes import compose, compose_group_norm
from netweave.runtime.backends import prepare

ALPHA, BETA, BIAS = 0.5, 0.75, 2.0
X = np.random.default_rng(0).standard_normal((2, 7, 5, 6), dtype=np.float32) * 3


class Parts:
    """Writes the parts one by one; settings that are changed make it another thing."""

    def __init__(self, **changed):
        settings = {"size": 5, "over": "channels", "bias": BIAS, "mean_of": "square", "last": "Div"}
        self.told = settings | {"pads": None, "read_again": False} | changed
        self.builder = GraphBuilder("net", format="onnx")

    def number(self, value):
        return self.builder.constant(value)

    def whole(self, values):
        return self.builder.constant(values, dtype="int64")

    def graph(self):
        builder, told = self.builder, self.told
        x = builder.input("x", X.shape)
        made = []
        for name in ("mean", "rest"):
            with builder.layer(Layer(name, name, name)):
                made.append(self.mean(x) if name == "mean" else self.rest(x, made[0]))
        outputs = [made[1], *made[:1]] if told["read_again"] else made[1:]
        return builder.finish(outputs)

    def mean(self, x):
        add, size = self.builder.add, self.told["size"]
        square = add("Mul", [x, x if self.told["mean_of"] == "square" else self.number(2)])
        if self.told["over"] == "places":
            window = {"kernel_shape": [size] * 2, "pads": [(size - 1) // 2] * 4, "count_include_pad": 1}
            return add("AveragePool", [square], window)
        before, after = self.told["pads"] or (size // 2, (size - 1) // 2)
        turned = add("Unsqueeze", [square, self.whole([1])])
        padded = add("Pad", [turned, self.whole([0, 0, before, 0, 0, 0, 0, after, 0, 0])])
        pooled = add("AveragePool", [padded], {"kernel_shape": [size, 1, 1]})
        return add("Squeeze", [pooled, self.whole([1])])

    def rest(self, x, mean):
        add = self.builder.add
        base = add("Add", [self.number(self.told["bias"]), add("Mul", [mean, self.number(ALPHA)])])
        beta = BETA if self.told["last"] == "Div" else -BETA
        power = add("Pow", [base, self.number(beta)])
        return add(self.told["last"], [x, power])


def run(graph):
    return next(iter(prepare(graph).run({"x": X}).values()))


def across():
    sums = np.stack([(X[:, max(0, c - 2) : c + 3] ** 2).sum(axis=1) for c in range(7)], axis=1)
    return X * (BIAS + ALPHA / 5 * sums) ** -BETA


@pytest.mark.parametrize("last", ["Div", "Mul"])
def test_parts_over_channels_are_lrn(last):
    graph = Parts(last=last).graph()
    composed = compose(graph)
    (node,) = composed.nodes
    assert (node.domain, node.op_type, node.attributes["size"].as_int()) == ("", "LRN", 5)
    assert [layer.key for layer in composed.layers_of(node)] == ["mean", "rest"]
    np.testing.assert_allclose(run(composed), across(), rtol=1e-5)
    np.testing.assert_allclose(run(composed), run(graph), rtol=1e-5)


def test_parts_within_a_channel_are_channel_lrn():
    graph = Parts(over="places", size=3, bias=1.0).graph()
    composed = compose(graph)
    (node,) = composed.nodes
    assert (node.domain, node.op_type) == ("netweave", "ChannelLRN")
    np.testing.assert_allclose(run(composed), run(graph), rtol=1e-5)


@pytest.mark.parametrize(
    "changed",
    [
        {"mean_of": "double"},
        {"pads": (1, 3)},
        {"size": 4},
        {"over": "places", "size": 3},
        {"read_again": True},
    ],
    ids=str,
)
def test_what_is_no_lrn_stays(changed):
    """Another mean, a window beside the middle, a bias that ChannelLRN lacks, a mean that is read again."""
    graph = Parts(**changed).graph()
    composed = compose(graph)
    assert [node.op_type for node in composed.nodes] == [node.op_type for node in graph.nodes]


@pytest.mark.parametrize(("amounts", "pads"), [((0, 0, 1, 2), (1, 1, 2, 3)), ((2, 0, 0, 1), (3, 1, 1, 2))])
def test_zeros_before_a_convolution_are_its_padding(amounts, pads):
    graph = padded_convolution(amounts)
    composed = compose(graph)
    (node,) = composed.nodes
    assert node.attributes["pads"].as_ints() == pads
    assert [layer.key for layer in composed.layers_of(node)] == ["conv", "pad"]
    np.testing.assert_allclose(run(composed), run(graph), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changed", [{"value": 1.0}, {"mode": "reflect"}, {"channels": 1}], ids=str)
def test_what_is_no_padding_of_zeros_stays(changed):
    assert [node.op_type for node in compose(padded_convolution((0, 0, 1, 2), **changed)).nodes] == [
        "Pad",
        "Conv",
    ]


def padded_convolution(amounts, *, value=0.0, mode="constant", channels=0):
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", X.shape)
    with builder.layer(Layer("pad", "pad", "Pad")):
        whole = builder.constant([0, channels, *amounts[:2], 0, 0, *amounts[2:]], dtype="int64")
        padded = builder.add("Pad", [x, whole, builder.constant(value)], {"mode": mode})
    with builder.layer(Layer("conv", "conv", "Conv")):
        weight = np.random.default_rng(1).standard_normal((4, 7 + channels, 3, 3)).astype(np.float32)
        filters = builder.constant(weight)
        return builder.finish([builder.add("Conv", [padded, filters], {"pads": [1, 1, 1, 1]})])


SLOPES = np.array([0.1, 0.2, -0.3, 0.0, 0.5, 1.5, -2.0], np.float32).reshape(1, 7, 1, 1)


def rectified(*, turned="x", last="Add"):
    """``relu(x) - slopes * relu(-x)``, or something that is nearly that."""
    builder = GraphBuilder("net", format="onnx")
    values = {"x": builder.input("x", X.shape)}
    values["relu"] = builder.add("Relu", [values["x"]])
    negative = builder.add("Relu", [builder.add("Neg", [values[turned]])])
    product = builder.add("Mul", [builder.constant(-SLOPES), negative])
    return builder.finish([builder.add(last, [values["relu"], product])])


def test_a_rectifier_with_slopes_is_one_node():
    composed = compose(rectified())
    (node,) = composed.nodes
    assert node.op_type == "PRelu"
    np.testing.assert_allclose(run(composed), np.where(X > 0, X, SLOPES * X), rtol=1e-6)


@pytest.mark.parametrize("change", [{"turned": "relu"}, {"last": "Sub"}])
def test_what_is_nearly_a_rectifier_with_slopes_stays(change):
    graph = rectified(**change)
    composed = compose(graph)
    assert "PRelu" not in [node.op_type for node in composed.nodes]
    np.testing.assert_allclose(run(composed), run(graph), rtol=1e-6)


def softplus(*, threshold=20.0, soft_of="x"):
    """Softplus as PyTorch's exporter writes it, or something that is nearly that."""
    builder = GraphBuilder("net", format="onnx")
    values = {"x": builder.input("x", X.shape)}
    values["half"] = builder.add("Mul", [values["x"], builder.constant(0.5)])
    soft = builder.add("Softplus", [values[soft_of]])
    is_large = builder.add("Greater", [values["x"], builder.constant(threshold)])
    return builder.finish([builder.add("Where", [is_large, values["x"], soft])])


def test_the_threshold_of_a_softplus_that_changes_no_number_goes():
    graph = softplus()
    composed = compose(graph)
    assert "Where" not in [node.op_type for node in composed.nodes]
    for scale in (1, 8):  # 8: beyond the threshold
        x = {"x": X * scale}
        found, expected = (next(iter(prepare(each).run(x).values())) for each in (composed, graph))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("change", [{"threshold": 5.0}, {"soft_of": "half"}], ids=str)
def test_a_threshold_that_changes_numbers_stays(change):
    assert "Where" in [node.op_type for node in compose(softplus(**change)).nodes]


def in_groups(*, groups=3, scale=(6, 1, 1), ones=1.0, back=(0, 6, 5, 4)):
    """Group normalisation as exporters write it before opset 21, or something that is nearly that."""
    builder, rng = GraphBuilder("net", format="onnx"), np.random.default_rng(2)
    x = builder.input("x", (2, 6, 5, 4))
    parts = builder.add("Reshape", [x, builder.constant([0, groups, -1], dtype="int64")])
    arrays = [builder.constant(np.full(groups, number, np.float32)) for number in (ones, 0)]
    norm = builder.add("InstanceNormalization", [parts, *arrays], {"epsilon": 1e-3})
    apart = builder.add("Reshape", [norm, builder.constant(back, dtype="int64")])
    scaled = builder.add("Mul", [apart, builder.constant(rng.random(scale, np.float32))])
    return builder.finish([builder.add("Add", [builder.constant(rng.random((6, 1, 1), np.float32)), scaled])])


@pytest.mark.parametrize("scale", [(6, 1, 1), (1, 6, 1, 1)])
def test_an_instance_normalisation_of_groups_is_a_group_normalisation(scale):
    graph = in_groups(scale=scale)
    composed = compose_group_norm(graph)
    (node,) = composed.nodes
    assert (node.op_type, node.attributes["num_groups"].as_int()) == ("GroupNormalization", 3)
    x = {"x": np.random.default_rng(0).standard_normal((2, 6, 5, 4), dtype=np.float32)}
    found, expected = (next(iter(prepare(each).run(x).values())) for each in (composed, graph))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "change", [{"scale": (1, 5, 4)}, {"scale": (1,)}, {"ones": 2.0}, {"back": (0, 6, 1, 5, 4)}], ids=str
)
def test_what_is_no_group_normalisation_stays(change):
    graph = in_groups(**change)
    assert [node.op_type for node in compose_group_norm(graph).nodes] == [
        node.op_type for node in graph.nodes
    ]


def softmax_in_parts(axis=1, of_sum=None, of_max=None, keepdims=1):
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", X.shape)
    whole = builder.constant([axis], dtype="int64")
    summed = builder.constant([axis if of_sum is None else of_sum], dtype="int64")
    highest = builder.constant([axis if of_max is None else of_max], dtype="int64")
    most = builder.add("ReduceMax", [x, highest], {"keepdims": keepdims})
    most = builder.add("Max", [builder.constant(-np.inf), most])
    if not keepdims:
        most = builder.add("Unsqueeze", [most, whole])
    powers = builder.add("Exp", [builder.add("Sub", [x, most])])
    total = builder.add("ReduceSum", [powers, summed], {"keepdims": keepdims})
    if not keepdims:
        total = builder.add("Unsqueeze", [total, whole])
    return builder.finish([builder.add("Div", [powers, total])])


@pytest.mark.parametrize(
    ("settings", "is_softmax"),
    [
        ({}, True),
        ({"axis": 3, "keepdims": 0}, True),
        ({"keepdims": 0}, True),
        ({"of_sum": 2}, False),
        ({"of_max": 2}, False),
    ],
)
def test_a_quotient_of_exponentials_is_a_softmax(settings, is_softmax):
    graph = softmax_in_parts(**settings)
    before = prepare(graph).run({"x": X})
    compose.edit(graph)
    kinds = [node.op_type for node in graph.nodes]
    assert (kinds == ["Softmax"]) is is_softmax
    after = prepare(graph).run({"x": X})
    for a, b in zip(before.values(), after.values(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
