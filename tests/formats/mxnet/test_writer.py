"""Nets written as symbol and params: they compute what the net does, in MXNet's own words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave import api
from netweave.errors import UnsupportedError, UsageError
from netweave.formats.mxnet.writer.files import TABLE
from tests.formats import recurrent_nets, written_nets
from tests.formats.framework_runs import Case, check
from tests.formats.graph_nets import graph_cases
from tests.formats.mxnet import test_writer_detection
from tests.formats.onnx.models import load, model, node
from tests.formats.written_nets import NETS, SIZES, close, net, one

ORACLES = os.environ.get("NETWEAVE_ORACLES")
ROOT = Path(__file__).parents[3]


def expected(made):
    """Return inputs by name, and outputs."""
    if any(made is each for each in RECURRENT.values()):
        return recurrent_nets.expected(made)
    x, outputs = written_nets.expected(made)
    return {"x": x}, outputs


def saved(made, folder):
    shapes = {"x": SIZES} if len(made.graph.input[0].type.tensor_type.shape.dim) == 4 else {}
    netweave.save(load(made, folder, input_shapes=shapes), folder / "written-symbol.json")
    return folder / "written-symbol.json"


@pytest.mark.parametrize("name", NETS)
def test_what_is_written_computes_what_onnxruntime_does(name, tmp_path):
    x, expected = written_nets.expected(NETS[name])
    found = netweave.run(saved(NETS[name], tmp_path), {"x": x})
    close(found.values(), expected)


RECURRENT = {
    name: made for name, made in recurrent_nets.NETS.items() if name != "gru that resets before its product"
}


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_net_computes_what_onnxruntime_does(name, tmp_path):
    inputs, expected = recurrent_nets.expected(RECURRENT[name])
    close(netweave.run(saved(RECURRENT[name], tmp_path), inputs).values(), expected)


def test_a_recurrent_layer_is_one_operator_of_mxnets(tmp_path):
    written = json.loads(saved(RECURRENT["lstm"], tmp_path).read_text())
    assert [(each["op"], each["name"]) for each in written["nodes"]] == [
        ("null", "x"), ("null", "rnn_parameters"), ("_zeros", "rnn_state"),
        ("_zeros", "rnn_state_2"), ("RNN", "rnn"),
    ]  # fmt: skip


def case(name, folder):
    made = {**NETS, **RECURRENT}[name]
    shapes = {"x": SIZES} if name in NETS else {}
    return Case(name, load(made, folder, input_shapes=shapes), expected(made)[0])


GRAPHS = {each.name: each for each in graph_cases(TABLE)}


def framework_cases(folder):
    return [*(case(name, folder) for name in [*NETS, *RECURRENT]), *GRAPHS.values()]


@pytest.mark.parametrize("name", [*NETS, *RECURRENT, *GRAPHS])
def test_mxnet_computes_of_the_file_what_we_do_of_the_net(name, tmp_path):
    check("mxnet", GRAPHS[name] if name in GRAPHS else case(name, tmp_path), tmp_path)


def test_every_operator_has_a_net_that_mxnet_ran(tmp_path):
    nets = [*framework_cases(tmp_path), *test_writer_detection.framework_cases(tmp_path)]
    used = {(each.domain, each.op_type) for net in nets for each in net.graph.nodes}
    assert set(TABLE.names()) - used == {("", "Swish")}  # of a later opset than our graphs


def test_names_are_those_that_mxnet_would_give(tmp_path):
    made = net(
        [
            node("Conv", "x w b", "c", name="conv1", pads=[1] * 4),
            node("BatchNormalization", "c g be m v", "n", name="bn1"),
            node("Relu", "n", "y", name="relu1"),
        ],
        {"w": written_nets.drawn(6, 6, 3, 3), "b": written_nets.drawn(6), **written_nets.NORM},
    )
    written = json.loads(saved(made, tmp_path).read_text())
    assert [(each["op"], each["name"]) for each in written["nodes"] if each["op"] != "null"] == [
        ("Convolution", "conv1"),
        ("BatchNorm", "bn1"),
        ("Activation", "relu1"),
    ]
    assert [each["name"] for each in written["nodes"] if each["op"] == "null"] == [
        "x", "conv1_weight", "conv1_bias", "bn1_gamma", "bn1_beta", "bn1_moving_mean", "bn1_moving_var",
    ]  # fmt: skip


def test_a_net_that_is_written_is_proven_equal(tmp_path):
    graph = load(NETS["mean without its padding"], tmp_path, input_shapes={"x": SIZES})
    assert api.convert_and_verify(graph, tmp_path / "port-symbol.json").exit_status == 0
    assert (tmp_path / "port-0000.params").exists()


def test_caffes_normalisation_within_a_channel(tmp_path):
    (tmp_path / "net.prototxt").write_text(
        """name: "net" input: "x" input_shape { dim: 2 dim: 6 dim: 9 dim: 8 }
        layer { name: "norm" type: "LRN" bottom: "x" top: "norm"
          lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 norm_region: WITHIN_CHANNEL } }"""
    )
    graph = netweave.load(tmp_path / "net.prototxt")
    assert api.convert_and_verify(graph, tmp_path / "port-symbol.json").error < 1e-6


def test_padding_with_channels_last_is_padding_of_the_convolution(tmp_path):
    made = model(
        [
            node("Pad", "x p", "z"),
            node("Transpose", "z", "t", perm=[0, 3, 1, 2]),
            node("Conv", "t w", "y"),
        ],
        {"x": [1, 9, 8, 6]},
        ["y"],
        {**written_nets.W, "p": written_nets.ints(0, 1, 1, 0, 0, 1, 1, 0)},
    )
    assert api.convert_and_verify(load(made, tmp_path), tmp_path / "port-symbol.json").exit_status == 0
    assert "Pad" not in (tmp_path / "port-symbol.json").read_text()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (one("MaxPool", kernel_shape=[2, 2], dilations=[2, 2]), "MXNet pools without dilation"),
        (one("Gelu", approximate="tanh"), r"net\.onnx: .*a net of MXNet's: Gelu: .*no approximation"),
        (one("Pad", {"p": written_nets.ints(0, 1, 0, 0, 0, 0, 0, 0)}), "pads the spatial axes"),
        (recurrent_nets.steps("GRU"), "its gates reset before the product"),
        (recurrent_nets.steps("LSTM", clip=0.5), "gates are clipped"),
        (recurrent_nets.steps("RNN", activations=["Sigmoid"]), "its activations are Sigmoid"),
        (recurrent_nets.lengths(), "sequences have lengths"),
        (one("Hardmax"), r"Hardmax \(1, first 'hardmax'\); write it as \.onnx instead"),
    ],
)
def test_what_mxnet_cannot_say_is_refused_by_name(made, message, tmp_path):
    with pytest.raises(UnsupportedError, match=message):
        saved(made, tmp_path)
    assert not (tmp_path / "written-symbol.json").exists()


def test_another_json_is_no_name_for_a_net(tmp_path):
    graph = load(NETS["relu"], tmp_path)
    with pytest.raises(UsageError, match=r"-symbol\.json \(MXNet\)"):
        netweave.save(graph, tmp_path / "net.json")


@pytest.mark.parametrize("size", [9, 10])
def test_rounding_up_is_proven_equal_for_the_size_of_the_net(size, tmp_path):
    made = model(
        [node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)],
        {"x": [1, 3, size, size]},
        ["y"],
    )
    assert api.convert_and_verify(load(made, tmp_path), tmp_path / "port-symbol.json").exit_status == 0


@pytest.mark.parametrize("name", ["written-symbol.json", "written.prototxt"])
def test_an_open_batch_that_heads_are_joined_with_and_parted_from_is_computed(name, tmp_path):
    """Neither reshape keeps its first axis: 2N is no N, though both are open."""
    nodes = [
        node("Reshape", "x joined", "rows"),
        node("Relu", "rows", "positive"),
        node("Reshape", "positive parted", "y"),
    ]
    arrays = {"joined": np.array([-1, 5, 4]), "parted": np.array([-1, 2, 5, 4])}
    graph = load(model(nodes, {"x": ("N", 2, 5, 4)}, ["y"], arrays), tmp_path)
    netweave.save(graph, tmp_path / name)
    x = np.random.default_rng(0).standard_normal((3, 2, 5, 4)).astype(np.float32)
    written = netweave.load(tmp_path / name, input_shapes={"x": x.shape})
    (found,) = netweave.run(written, {"x": x}).values()
    np.testing.assert_array_equal(found, np.maximum(x, 0))
