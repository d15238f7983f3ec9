"""Fixes in the words of B's own files, held against the files themselves: with the fix in, the nets agree."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import netweave
from netweave.comparison.explain.known_mismatches.attributes import attribute_mismatches
from netweave.comparison.explain.known_mismatches.mismatch import Case
from netweave.comparison.explain.wording import in_order_of_a, operator, setting
from netweave.comparison.metric import Signals

CAFFE = """name: "net"
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 3 dim: 11 dim: 11 }} }} }}
layer {{ name: "pool" type: "Pooling" bottom: "data" top: "pool"
        pooling_param {{ {pool} {kernel} stride: 2 {rounding} }} }}
layer {{ name: "act" type: "{act}" bottom: "pool" top: "act" }}
"""
RIGHT = {"pool": "pool: MAX", "kernel": "kernel_size: 4", "act": "Sigmoid", "rounding": "round_mode: CEIL"}


def caffe(path, **changed):
    path.write_text(CAFFE.format(**(RIGHT | changed)))
    return path


@pytest.mark.parametrize(
    ("what", "wrong", "fix"),
    [
        ("pool", "pool: AVE", "pool: MAX"),
        ("kernel", "kernel_size: 2", "kernel_size: 4"),
        ("act", "TanH", 'type: "Sigmoid"'),
        ("rounding", "round_mode: FLOOR", "round_mode: CEIL"),
    ],
)
def test_caffe(tmp_path, what, wrong, fix):
    right = caffe(tmp_path / "a.prototxt")
    found = netweave.compare(right, caffe(tmp_path / "b.prototxt", **{what: wrong}))
    assert found.findings[0].fix == fix
    mended = caffe(tmp_path / "c.prototxt", **{what: fix.removeprefix('type: "').removesuffix('"')})
    assert netweave.compare(right, mended).exit_status == 0


def mxnet(path, **attributes):
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {
            "op": "Pooling",
            "name": "pool",
            "attrs": {"kernel": "(3, 3)", "pool_type": attributes.get("pool_type", "max")},
            "inputs": [[0, 0, 0]],
        },
        {
            "op": "Activation",
            "name": "act",
            "attrs": {"act_type": attributes.get("act_type", "sigmoid")},
            "inputs": [[1, 0, 0]],
        },
    ]
    path.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[2, 0, 0]]}))
    return netweave.load(path, input_shapes={"data": (1, 3, 9, 9)})


@pytest.mark.parametrize(
    ("what", "wrong", "right"),
    [("pool_type", "avg", "max"), ("act_type", "tanh", "sigmoid"), ("act_type", "softrelu", "sigmoid")],
)
def test_mxnet(tmp_path, what, wrong, right):
    first = mxnet(tmp_path / "a-symbol.json")
    found = netweave.compare(first, mxnet(tmp_path / "b-symbol.json", **{what: wrong}))
    assert found.findings[0].fix == f"{what}={right}"


def test_onnx(tmp_path):
    files = []
    for op_type in ("Sigmoid", "Tanh"):
        graph = helper.make_graph(
            [helper.make_node(op_type, ["x"], ["y"], name="act")],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        )
        files.append(tmp_path / f"{op_type}.onnx")
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
        onnx.save(model, files[-1])
    found = netweave.compare(*files)
    assert found.findings[0].fix == "op_type=Sigmoid"
    assert np.isfinite(found.findings[0].error)


@pytest.mark.parametrize(
    ("framework", "op_type", "name", "value", "words"),
    [
        ("pytorch", "MaxPool", "rounding", "ceil", "ceil_mode=True"),
        ("pytorch", "Conv", "pads", (1, 2, 1, 2), "padding=(1, 2)"),
        ("pytorch", "Conv", "strides", (2, 2), "stride=2"),
        ("pytorch", "BatchNormalization", "epsilon", 1e-3, "eps=0.001"),
        ("pytorch", "AveragePool", "count_include_pad", 0, "count_include_pad=False"),
        ("pytorch", "LeakyRelu", "alpha", 0.1, "negative_slope=0.1"),
        ("chainer", "MaxPool", "rounding", "floor", "cover_all=False"),
        ("chainer", "MaxPool", "kernel_shape", (3, 3), "ksize=3"),
        ("keras", "MaxPool", "kernel_shape", (3, 2), "pool_size=(3, 2)"),
        ("keras", "Conv", "pads", (1, 1, 1, 1), "padding='valid' after ZeroPadding2D((1, 1))"),
        ("darknet", "Conv", "strides", (2, 2), "stride=2"),
    ],
)
def test_settings_are_said_as_the_calls_of_a_framework_spell_them(framework, op_type, name, value, words):
    assert setting(framework, ir.Node("", op_type, []), name, value) == words


def test_alpha_of_chainers_normalisation_is_a_factor_of_the_sum():
    """Chainer: (k + alpha * sum)^beta; ONNX, Caffe and MXNet: (k + alpha / size * sum)^beta."""
    node = ir.Node("", "LRN", [], attributes=[ir.AttrInt64("size", 5)])
    assert setting("chainer", node, "alpha", 1e-4) == "alpha=2e-05"
    assert setting("mxnet", node, "alpha", 1e-4) == "alpha=0.0001"


def activation(op_type: str, **attributes: float) -> ir.Node:
    given = [ir.AttrFloat32(name, value) for name, value in attributes.items()]
    return ir.Node("", op_type, [ir.Value(name="x")], attributes=given)


def bounded(low: float, high: float) -> ir.Node:
    """A Clip with constant bounds."""
    bounds = [
        ir.Value(name=name, const_value=ir.tensor(np.float32(value)))
        for name, value in (("low", low), ("high", high))
    ]
    return ir.Node("", "Clip", [ir.Value(name="x"), *bounds])


@pytest.mark.parametrize(
    ("framework", "a", "b", "words"),
    [
        ("pytorch", activation("Relu"), bounded(0, 6), "use nn.ReLU()"),
        ("chainer", activation("Relu"), bounded(0, 20), "use F.relu"),
        ("keras", activation("Tanh"), bounded(0, 6), "use Activation('tanh')"),
        ("pytorch", activation("Relu"), bounded(-1, 1), ""),
        ("pytorch", bounded(0, 6), activation("Relu"), "use nn.ReLU6()"),
    ],
)
def test_a_rectifier_with_a_bound_and_other_activations_stand_in_each_other_s_place(framework, a, b, words):
    assert operator(framework, a, b) == words


@pytest.mark.parametrize(
    ("framework", "a", "b", "words"),
    [
        ("pytorch", "Add", "Mul", "use the operator +"),
        ("chainer", "Mul", "Add", "use the operator *"),
        ("keras", "Add", "Mul", "use Add"),
        ("pytorch", "Max", "Add", ""),
    ],
)
def test_a_sum_and_a_product_are_told_by_their_signs(framework, a, b, words):
    x, y = ir.Value(name="x"), ir.Value(name="y")
    assert operator(framework, ir.Node("", a, [x, y]), ir.Node("", b, [x, y])) == words


def test_a_sum_with_a_number_has_no_product_in_its_place():
    x, y = ir.Value(name="x"), ir.Value(name="y", const_value=ir.tensor(np.float32(2)))
    assert not operator("pytorch", ir.Node("", "Add", [x, y]), ir.Node("", "Mul", [x, y]))


@pytest.mark.parametrize(
    ("parts_a", "parts_b", "words"),
    [
        ("abc", "cab", "put the inputs in the order 2, 3, 1"),
        ("abc", "abx", "put its inputs in A's order"),
        ("aab", "aba", "put its inputs in A's order"),
        ("ab", "xy", "put the inputs in the order 2, 1"),
    ],
)
def test_the_order_of_inputs_is_said_by_numbers_where_all_are_known(parts_a, parts_b, words):
    node = ir.Node("", "Concat", [ir.Value(name=name) for name in parts_b])
    assert in_order_of_a(node, list(parts_a), list(parts_b)) == words


def normalised(size: int, alpha: float) -> ir.Node:
    """Chainer's normalisation, in ONNX's terms: its alpha times the size."""
    attributes = [ir.AttrInt64("size", size), ir.AttrFloat32("alpha", alpha * size)]
    return ir.Node("", "LRN", [ir.Value(name="x")], attributes=attributes, name="norm")


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (normalised(5, 0.05), normalised(3, 0.05), {"n=5": "lrn-size"}),
        (normalised(5, 0.05), normalised(3, 0.02), {"n=5": "lrn-size", "alpha=0.05": "lrn-alpha"}),
        (normalised(5, 0.05), normalised(5, 0.02), {"alpha=0.05": "lrn-alpha"}),
    ],
)
def test_another_window_of_chainers_normalisation_is_one_setting(a, b, wanted):
    """Its alpha is a factor of the sum, so that it stays as it is when the window becomes A's."""
    graph = netweave.Graph(ir.Model(ir.Graph([], [], nodes=[]), ir_version=9), format="chainer")
    case = Case(Signals(graph), Signals(graph), (a,), (b,))
    proposals = list(attribute_mismatches(case))
    assert {proposal.fix: proposal.mismatch for proposal in proposals} == wanted


@pytest.mark.parametrize(
    ("rank", "op_type", "words"),
    [
        (4, "GlobalAveragePool", "use nn.AdaptiveAvgPool2d(1)"),
        (3, "GlobalMaxPool", "use nn.AdaptiveMaxPool1d(1)"),
    ],
)
def test_a_pooling_over_the_whole_image_is_an_adaptive_one_in_pytorch(rank, op_type, words):
    made = ir.Value(name="y", shape=ir.Shape([1, 3, 1, 1][:rank]))
    a = ir.Node("", op_type, [ir.Value(name="x")], outputs=[made])
    assert operator("pytorch", a, ir.Node("", "AveragePool", [ir.Value(name="x")])) == words


def test_a_max_pooling_of_chainer_rounds_up_by_any_rule():
    attributes = [
        ir.AttrInt64s("kernel_shape", [3, 3]),
        ir.AttrInt64s("strides", [2, 2]),
        ir.AttrString("rounding", "full"),
    ]
    a = ir.Node("netweave", "MaxPool", [ir.Value(name="x")], attributes=attributes)
    b = ir.Node("", "AveragePool", [ir.Value(name="x")])
    assert operator("chainer", a, b) == "use F.max_pooling_2d(ksize=3, stride=2, pad=0, cover_all=True)"
