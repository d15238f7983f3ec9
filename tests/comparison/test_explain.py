"""Faults that are explained only through the whole of a chain, several changes, or an earlier layer."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import netweave
from netweave.comparison import Verdict, compare
from netweave.comparison.explain.known_mismatches import (
    attributes,
    constants,
    folded,
    operators,
    order,
)
from netweave.comparison.explain.known_mismatches.attributes import differences
from netweave.comparison.explain.known_mismatches.keys import MISMATCHES
from tests.comparison.nets import Form, arrays, build, culprit
from tests.comparison.onnx_text import read_text
from tests.oracles import recipe


def test_wrong_arrays_of_one_layer_are_explained_together():
    changed = {"mean": ((...,), 99 * arrays()["mean"]), "var": ((...,), 99 * arrays()["var"])}
    finding = culprit(compare(build(), build(Form(changed=changed))))
    assert finding.mismatch == "bn-scale-factor"
    assert "running mean" in finding.cause
    assert "running variance" in finding.cause


@pytest.mark.parametrize("reader", ["conv", "norm", "dense"])
def test_branches_in_another_order_are_told_where_they_are_joined(tmp_path, reader):
    right = joined(tmp_path / "a.onnx", reader, ["left", "right"])
    wrong = joined(tmp_path / "b.onnx", reader, ["right", "left"])
    finding = culprit(netweave.compare(right, wrong))
    assert finding.mismatch == "input-order"
    assert finding.layer_a == finding.layer_b == "join"
    assert netweave.compare(right, right).verdict is Verdict.IDENTICAL


def joined(path, reader, branches):
    """Write a net of two branches, joined in this order, and a layer that reads them."""
    rng = np.random.default_rng(3)
    stored = {}

    def array(name, *shape):
        stored[name] = rng.uniform(0.5, 1.5, shape).astype(np.float32) * rng.choice([-1, 1], shape)
        return name

    readers = {
        "conv": ["Conv", [array("conv.w", 5, 8, 1, 1)]],
        "norm": ["BatchNormalization", [array(f"norm.{i}", 8) for i in range(4)]],
        "dense": ["Gemm", [array("dense.w", 8, 5)]],
    }
    stored["norm.3"] = np.abs(stored["norm.3"])
    nodes = [
        helper.make_node("Conv", ["data", array(f"{name}.w", 4, 3, 3, 3)], [name], name)
        for name in ("left", "right")
    ]
    nodes.append(helper.make_node("Concat", branches, ["join"], "join", axis=1))
    source = "join"
    if reader == "dense":
        nodes.append(helper.make_node("GlobalMaxPool", ["join"], ["pool"], "pool"))
        nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], "flatten"))
        source = "flat"
    op_type, inputs = readers[reader]
    nodes.append(helper.make_node(op_type, [source, *inputs], ["out"], reader))
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "joined",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", 3, 9, 9])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(values.astype(np.float32), key)
            for key, values in stored.items()
            if key in used
        ],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


WITHIN = {"local_size": "3", "alpha": "0.9", "beta": "0.75", "norm_region": "WITHIN_CHANNEL"}


@pytest.mark.parametrize(
    ("name", "value", "mismatch", "fix"),
    [
        ("alpha", "8.1", "lrn-alpha", "alpha: 0.9"),
        ("beta", "0.5", "lrn-beta", "beta: 0.75"),
        ("local_size", "5", "lrn-size", "local_size: 3"),
        ("norm_region", "ACROSS_CHANNELS", "operator", "norm_region: WITHIN_CHANNEL"),
    ],
)
def test_settings_of_a_normalisation_within_channels_are_explained(tmp_path, name, value, mismatch, fix):
    right = normalised(tmp_path / "a.prototxt", WITHIN)
    wrong = normalised(tmp_path / "b.prototxt", WITHIN | {name: value})
    finding = culprit(netweave.compare(right, wrong))
    assert (finding.mismatch, finding.layer_b, finding.fix) == (mismatch, "norm", fix)
    assert ("does not divide alpha" in finding.cause) == (name == "alpha")


def normalised(path, settings):
    """A net of Caffe with one LRN between two poolings."""
    pool = "pooling_param { pool: AVE kernel_size: 2 stride: 2 }"
    told = " ".join(f"{key}: {value}" for key, value in settings.items())
    shape = "shape { dim: 1 dim: 6 dim: 16 dim: 16 }"
    path.write_text(f"""
        layer {{ name: "data" type: "Input" top: "data" input_param {{ {shape} }} }}
        layer {{ name: "before" type: "Pooling" bottom: "data" top: "before" {pool} }}
        layer {{ name: "norm" type: "LRN" bottom: "before" top: "norm" lrn_param {{ {told} }} }}
        layer {{ name: "after" type: "Pooling" bottom: "norm" top: "after" {pool} }}
    """)
    return path


def saved(path, nodes, arrays, *, opset=20):
    """Save a net of one image input ``x`` with three channels, which ends in ``y``."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, name) for name, values in arrays.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4), path)
    return path


@pytest.mark.parametrize(
    ("gamma", "factor", "mismatch"),
    [(False, 0.7, "fix-gamma"), (True, 0.5, "weights"), (False, (0.7, 0.7, 0.7), "weights")],
    ids=["gammas of 1", "another number", "gammas of 1 beside a factor for each channel"],
)
def test_gammas_of_one_in_front_of_one_number_are_told_from_the_number(tmp_path, gamma, factor, mismatch):
    stored = {
        name: recipe.weight(name, shape, "filter") for name, shape in (("w", (3, 3, 3, 3)), ("shift", (3,)))
    }
    gammas, variance = np.float32([0.6, 1.3, 2.1]), np.float32([0.8, 1.5, 2.5])
    times = gammas * np.float32(0.7) / np.sqrt(variance + np.float32(1e-5))
    folded = {"w": stored["w"] * times[:, None, None, None], "b": stored["shift"] * np.float32(0.7)}
    right = saved(
        tmp_path / "a.onnx", [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="conv")], folded
    )
    product = np.float32(factor).reshape(-1, 1, 1) if isinstance(factor, tuple) else np.float32(factor)
    shift = stored["shift"] if factor != 0.5 else stored["shift"] * np.float32(1.4)
    arrays = {"w": stored["w"], "gamma": gammas if gamma else np.ones_like(gammas), "shift": shift}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "gamma", "shift", "mean", "var"], ["n"], name="bn"),
        helper.make_node("Mul", ["n", "factor"], ["y"], name="mul"),
    ]
    wrong = saved(
        tmp_path / "b.onnx",
        nodes,
        {**arrays, "mean": np.zeros(3, np.float32), "var": variance, "factor": product},
    )
    finding = culprit(netweave.compare(right, wrong))
    assert finding.mismatch == mismatch


def scaled(path, gamma):
    """A batch normalisation and a product, as Caffe has them."""
    nodes = [
        helper.make_node("BatchNormalization", ["x", "one", "zero", "mean", "var"], ["n"], name="norm"),
        helper.make_node("Mul", ["n", "gamma"], ["y"], name="scale"),
    ]
    arrays = {"one": [1, 1, 1], "zero": [0, 0, 0], "mean": [0, 1, 2], "var": [1, 2, 3]}
    arrays["gamma"] = [[[value]] for value in gamma]
    return saved(path, nodes, {name: np.array(values, np.float32) for name, values in arrays.items()})


def test_gammas_that_a_scale_takes_as_one_are_told(tmp_path):
    nets = scaled(tmp_path / "a.onnx", [0.5, 2, 3]), scaled(tmp_path / "b.onnx", [1, 1, 1])
    for finding in (culprit(netweave.compare(*nets)), culprit(netweave.compare(*reversed(nets)))):
        assert (finding.mismatch, finding.layer_b) == ("fix-gamma", "scale")


def shifted(path, op_type):
    """A sum or difference with a constant that the net computes."""
    nodes = [
        helper.make_node("Unsqueeze", ["shift", "axes"], ["shifts"], name="unsqueeze"),
        helper.make_node(op_type, ["x", "shifts"], ["y"], name="sum"),
    ]
    return saved(path, nodes, {"shift": np.array([1, 2, 3], np.float32), "axes": np.array([1, 2])})


def test_another_operator_on_a_computed_constant_is_told(tmp_path):
    finding = culprit(
        netweave.compare(shifted(tmp_path / "a.onnx", "Add"), shifted(tmp_path / "b.onnx", "Sub"))
    )
    assert (finding.mismatch, finding.layer_b, finding.fix) == ("operator", "sum", "op_type=Add")


def dense(path, *, joined, weights, bias):
    """A dense layer that reads pixels, channels last: as one node, or as a product and a sum."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["pixels"], name="last", perm=[0, 2, 3, 1]),
        helper.make_node("Flatten", ["pixels"], ["flat"], name="flat"),
    ]
    if joined:
        nodes.append(helper.make_node("Gemm", ["flat", "w", "b"], ["y"], name="fc"))
    else:
        nodes.append(helper.make_node("MatMul", ["flat", "w"], ["product"], name="fc"))
        nodes.append(helper.make_node("Add", ["product", "b"], ["y"], name="bias"))
    return saved(path, nodes, {"w": weights, "b": bias})


@pytest.mark.parametrize("joined", [True, False])
def test_dense_layers_of_one_node_and_of_two_are_explained(tmp_path, joined):
    random = np.random.default_rng(0)
    weights, bias = random.standard_normal((48, 5), np.float32), random.standard_normal(5, np.float32)
    right = dense(tmp_path / "a.onnx", joined=joined, weights=weights, bias=bias)
    channels_first = weights.reshape(4, 4, 3, 5).transpose(2, 0, 1, 3).reshape(48, 5)
    another = dense(tmp_path / "order.onnx", joined=not joined, weights=channels_first, bias=bias)
    assert culprit(netweave.compare(right, another)).mismatch == "flatten-order"
    none = dense(tmp_path / "none.onnx", joined=not joined, weights=weights, bias=0 * bias)
    (finding,) = netweave.compare(right, none).findings
    assert finding.mismatch in {"weights", "missing-bias"}


def summed(path, reads):
    """A sum of a convolution's output and that of another layer."""
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["one"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["one", "second"], ["two"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["two"], ["bent"], name="tanh"),
        helper.make_node("Add", ["bent", reads], ["sum"], name="sum"),
        helper.make_node("Sigmoid", ["sum"], ["y"], name="last"),
    ]
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal((3, 3, 3, 3), np.float32) for name in ("first", "second")}
    return saved(path, nodes, arrays)


def test_a_sum_with_the_output_of_another_layer_is_told(tmp_path):
    finding = culprit(
        netweave.compare(summed(tmp_path / "a.onnx", "one"), summed(tmp_path / "b.onnx", "two"))
    )
    assert (finding.mismatch, finding.layer_b) == ("input", "sum")
    assert finding.cause == "A reads the output of 'conv1', B reads the output of 'conv2'"
    assert finding.error_fixed <= 1e-5


def padded(path, amounts):
    """A padding of ones, which is no padding of a convolution."""
    nodes = [
        helper.make_node("Pad", ["x", "amounts", "one"], ["wide"], name="pad"),
        helper.make_node("Tanh", ["wide"], ["y"], name="tanh"),
    ]
    return saved(path, nodes, {"amounts": np.array(amounts), "one": np.float32(1)})


def test_another_value_of_one_number_is_told(tmp_path):
    net = (
        "g (float[1] x, float[1] m) => (float[1] y, float[1] z) { s = Min(x, m) y = Floor(s) z = Ceil(READ) }"
    )
    a, b = (read_text(net.replace("READ", read), tmp_path, read) for read in "sy")
    for nets, reads in (((a, b), ("s", "y")), ((b, a), ("y", "s"))):
        found = compare(*nets)
        assert found.verdict is Verdict.DIFFERENT
        (finding,) = found.findings
        assert finding.cause == "A reads the output of '{}', B reads the output of '{}'".format(*reads)


def test_padding_at_the_other_end_is_told(tmp_path):
    right, wrong = (0, 0, 0, 0, 0, 0, 1, 1), (0, 0, 1, 0, 0, 0, 0, 1)
    finding = culprit(
        netweave.compare(padded(tmp_path / "a.onnx", right), padded(tmp_path / "b.onnx", wrong))
    )
    assert (finding.mismatch, finding.layer_b) == ("padding", "pad")
    assert finding.cause == "padding before and after axis 2 is (0, 1) in A and (1, 0) in B"


@pytest.mark.parametrize("groups", [1, 3])
def test_filters_in_another_order_are_told(tmp_path, groups):
    weights = np.random.default_rng(0).standard_normal((6, 3 // groups, 3, 3), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv", group=groups)]
    right = saved(tmp_path / "a.onnx", nodes, {"w": weights})
    wrong = saved(tmp_path / "b.onnx", nodes, {"w": weights[[3, 1, 2, 0, 4, 5]]})
    found = netweave.compare(right, wrong)
    said = found.sentence if found.equal else culprit(found).cause
    assert "3, 1, 2, 0, 4, 5" in said


def scores(path, opset, axis):
    """A softmax of scores pooled to one pixel; before opset 13, over all axes from one on."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["maps"], name="scores"),
        helper.make_node("GlobalAveragePool", ["maps"], ["pooled"], name="pool"),
        helper.make_node("Softmax", ["pooled"], ["y"], name="prob", axis=axis),
    ]
    weights = np.random.default_rng(0).standard_normal((6, 3, 1, 1), dtype=np.float32)
    return saved(path, nodes, {"w": weights}, opset=opset)


@pytest.mark.parametrize("opset", [9, 13])
def test_a_softmax_over_images_is_explained_in_both_meanings_of_its_axis(tmp_path, opset):
    right, wrong = scores(tmp_path / "a.onnx", 13, 1), scores(tmp_path / "b.onnx", opset, 0)
    finding = culprit(netweave.compare(right, wrong))
    assert (finding.mismatch, finding.fix, finding.layer_b) == ("softmax-axis", "axis=1", "prob")


ACTIVATIONS = {
    "Mish": [("Mish", ["x"], {})],
    "Swish": [("Sigmoid", ["x"], {}), ("Mul", ["x", 0], {})],
    "Relu": [("Relu", ["x"], {})],
    "LeakyRelu(0.1), then Min": [("LeakyRelu", ["x"], {"alpha": 0.1}), ("Min", [0, "six"], {})],
    "Clip": [("Clip", ["x", "zero", "six"], {})],
    "PRelu": [("PRelu", ["x", "slopes"], {})],
    "hard-swish": [  # as Keras writes it
        ("Add", ["x", "three"], {}),
        ("Clip", [0, "zero", "six"], {}),
        ("Mul", [0, "sixth"], {}),
        ("Mul", ["x", "Mul_out"], {}),
    ],
    "Sigmoid, then Neg, then Relu, then Mul, then Add": [
        ("Sigmoid", ["x"], {}),
        ("Neg", ["x"], {}),
        ("Relu", [0], {}),
        ("Mul", [0, "slopes"], {}),
        ("Add", [0, "Sigmoid_out"], {}),
    ],
}


def activated(path, function):
    """A convolution, an activation of one node or several, and another convolution."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["before"], name="before")]
    for op_type, inputs, settings in ACTIVATIONS[function]:
        read = ["before" if i == "x" else nodes[-1].output[0] if i == 0 else i for i in inputs]
        name = op_type if op_type not in {node.name for node in nodes} else f"{op_type}_1"
        nodes.append(helper.make_node(op_type, read, [f"{name}_out"], name=name, **settings))
    nodes.append(helper.make_node("Conv", [nodes[-1].output[0], "w"], ["y"], name="after"))
    weights = 4 * np.random.default_rng(0).standard_normal((3, 3, 1, 1), dtype=np.float32)
    slopes = np.array([0.1, -0.2, 0.3], np.float32).reshape(3, 1, 1)
    numbers = {"zero": 0, "three": 3, "six": 6, "sixth": 1 / 6}
    arrays = {"w": weights, "slopes": slopes} | {each: np.float32(n) for each, n in numbers.items()}
    read = {name for node in nodes for name in node.input}
    return saved(path, nodes, {name: array for name, array in arrays.items() if name in read})


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Mish", "Swish"),
        ("Swish", "Mish"),
        ("Swish", "Relu"),
        ("Clip", "LeakyRelu(0.1), then Min"),
        ("hard-swish", "Swish"),
        ("PRelu", "Sigmoid, then Neg, then Relu, then Mul, then Add"),
    ],
)
def test_another_function_of_several_nodes_is_told(tmp_path, right, wrong):
    finding = culprit(
        netweave.compare(activated(tmp_path / "a.onnx", right), activated(tmp_path / "b.onnx", wrong))
    )
    assert finding.mismatch == "operator"
    assert f"A computes {'SiLU' if right == 'Swish' else right}" in finding.cause
    assert finding.error_fixed <= 1e-4 < finding.error


def grouped(path, groups, weights, factor=None):
    """A convolution in groups between two others, and its factors, which may be folded into it."""
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["one"], name="first"),
        helper.make_node("Conv", ["one", "w"], ["two"], name="groups", group=groups, pads=[1, 1, 1, 1]),
    ]
    if factor is not None:
        nodes.append(helper.make_node("Mul", ["two", "factor"], ["three"], name="scale"))
    nodes.append(helper.make_node("Conv", [nodes[-1].output[0], "last"], ["y"], name="last"))
    random = np.random.default_rng(1)
    arrays = {
        "first": random.standard_normal((6, 3, 1, 1), dtype=np.float32),
        "last": random.standard_normal((4, 6, 1, 1), dtype=np.float32),
    }
    scales = {} if factor is None else {"factor": factor}
    return saved(path, nodes, {**arrays, **scales, "w": weights})


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("groups", [2, 3, 6])
def test_channels_in_another_number_of_groups_are_told(tmp_path, groups, is_folded):
    weights = np.random.default_rng(0).standard_normal((6, 6 // groups, 3, 3), dtype=np.float32)
    factor = np.arange(1, 7, dtype=np.float32).reshape(6, 1, 1)
    if is_folded:
        right = grouped(tmp_path / "a.onnx", groups, weights * factor[..., None])
    else:
        right = grouped(tmp_path / "a.onnx", groups, weights, factor)
    wrong = grouped(tmp_path / "b.onnx", 1, np.tile(weights, (1, groups, 1, 1)), factor)
    finding = culprit(netweave.compare(right, wrong))
    assert (finding.mismatch, finding.layer_b) == ("group", "groups")
    assert finding.cause == f"the channels are read in {groups} groups in A and in one group in B"
    assert finding.error_fixed <= 1e-5 < finding.error


NORM = {"gamma": [2, 0.5, 3], "beta": [1, -1, 0.5], "mean": [0.5, 0, -1], "var": [1, 2, 3]}


def normalised_later(path, order):
    """A convolution, its normalisation and a sigmoid in this order; the normalisation may be folded away."""
    weights = np.random.default_rng(0).standard_normal((3, 3, 3, 3), dtype=np.float32)
    arrays = {name: np.array(values, np.float32) for name, values in NORM.items()}
    factor = arrays["gamma"] / np.sqrt(arrays["var"] + np.float32(1e-5))
    arrays |= {"w": weights, "b": np.zeros(3, np.float32)}
    if "norm" not in order:
        arrays |= {"w": weights * factor.reshape(3, 1, 1, 1), "b": arrays["beta"] - arrays["mean"] * factor}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["conv"], name="conv")]
    for name in order:
        stored = {"norm": list(NORM)}.get(name, [])
        op_type = {"norm": "BatchNormalization", "act": "Sigmoid"}[name]
        nodes.append(helper.make_node(op_type, [nodes[-1].output[0], *stored], [name], name=name))
    nodes.append(helper.make_node("Tanh", [nodes[-1].output[0]], ["y"], name="last"))
    read = {name for node in nodes for name in node.input}
    return saved(path, nodes, {name: array for name, array in arrays.items() if name in read})


@pytest.mark.parametrize("order", [["norm", "act"], ["act"]], ids=["as it is", "folded"])
def test_a_normalisation_behind_its_activation_is_told(tmp_path, order):
    right = normalised_later(tmp_path / "a.onnx", order)
    found = netweave.compare(right, normalised_later(tmp_path / "b.onnx", ["act", "norm"]))
    first = next(group.finding for group in found.groups if group.finding)
    assert found.verdict is Verdict.DIFFERENT
    assert first.mismatch == "layer-order"
    assert "after" in first.cause


def biased(path, *, apart, bias):
    """A convolution with a bias, of its own or behind it, and a normalisation."""
    arrays = {name: np.array(values, np.float32) for name, values in NORM.items()}
    weights = np.random.default_rng(0).standard_normal((3, 3, 3, 3), dtype=np.float32)
    shape = (3, 1, 1) if apart else (3,)
    arrays |= {"w": weights, "b": np.array(bias, np.float32).reshape(shape)}
    nodes = [helper.make_node("Conv", ["x", "w"] if apart else ["x", "w", "b"], ["conv"], name="conv")]
    if apart:
        nodes.append(helper.make_node("Add", ["conv", "b"], ["biased"], name="bias"))
    nodes.append(helper.make_node("BatchNormalization", [nodes[-1].output[0], *NORM], ["norm"], name="norm"))
    nodes.append(helper.make_node("Tanh", ["norm"], ["y"], name="last"))
    return saved(path, nodes, arrays)


def test_a_bias_lost_in_front_of_a_normalisation_is_told_at_the_filters(tmp_path):
    right = biased(tmp_path / "a.onnx", apart=True, bias=[1, -2, 3])
    finding = culprit(netweave.compare(right, biased(tmp_path / "b.onnx", apart=False, bias=[0, 0, 0])))
    assert (finding.mismatch, finding.layer_a, finding.layer_b) == ("missing-bias", "bias", "conv")
    assert finding.error_fixed <= 1e-5


def test_every_known_mismatch_has_a_row_in_the_documentation():
    named = set(attributes.MISMATCH_OF.values()) | set(attributes.SPECIAL.values())
    for module in (constants, folded, attributes, operators, order):
        text = Path(module.__file__).read_text()
        named |= set(re.findall(r'mismatch(?:=|, cause = )\(?"([a-z-]+)"', text))
        named |= set(re.findall(r'return \(?\s*"([a-z]+-[a-z-]+)",', text))
    assert named
    assert named <= MISMATCHES.keys()


@pytest.mark.parametrize(("stride", "rounds"), [(1, False), (2, True)])
def test_rounding_is_no_difference_where_windows_go_by_one(stride, rounds):
    def pool(ceil_mode: int) -> ir.Node:
        settings = {"kernel_shape": [3, 3], "strides": [stride, stride], "ceil_mode": ceil_mode}
        return ir.node("MaxPool", [ir.Value(name="x")], settings)

    assert ("rounding" in differences(pool(1), pool(0))) == rounds
