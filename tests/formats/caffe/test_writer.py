"""Nets written as prototxt and caffemodel: they compute what the net does, in Caffe's own words."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave import api
from netweave.errors import UnsupportedError, UsageError
from netweave.formats.caffe.writer.net import TABLE
from tests.formats import recurrent_nets, written_nets
from tests.formats.caffe import test_writer_detection
from tests.formats.framework_runs import Case, check
from tests.formats.graph_nets import graph_cases
from tests.formats.onnx.models import load, model, node
from tests.formats.written_nets import SIZES, close, net, one

ORACLES = os.environ.get("NETWEAVE_ORACLES")
ROOT = Path(__file__).parents[3]

OF_SSD = {
    "axes in another order": one("Transpose", perm=[0, 2, 3, 1]),
    "divided by its norm": net(
        [
            node("ReduceSumSquare", "x a", "s", keepdims=1),
            node("Add", "s e", "t"),
            node("Sqrt", "t", "n"),
            node("Div", "x n", "y"),
        ],
        {"a": written_nets.ints(1), "e": np.float32(0.1)},
    ),
    "scaled by its length": net(
        [node("ReduceL2", "x a", "n", keepdims=1), node("Div", "x n", "d"), node("Mul", "d g", "y")],
        {"a": written_nets.ints(1), "g": written_nets.drawn(6, 1, 1)},
    ),
}
"""What Caffe says with layers of its SSD branch, Permute and Normalize, which OpenCV reads."""

NETS = {**written_nets.NETS, **OF_SSD}


def saved(made, folder):
    graph = load(made, folder, input_shapes={"x": SIZES})
    netweave.save(graph, folder / "written.prototxt")
    return folder / "written.prototxt"


def case(name, folder):
    graph = load(NETS[name], folder, input_shapes={"x": SIZES})
    return Case(name, graph, {"x": written_nets.expected(NETS[name])[0]})


GRAPHS = {
    each.name: each for each in graph_cases(TABLE, without={"ReduceMax", "ReduceSum", "ReduceL1", "Tile"})
}
"""Caffe's maximum is over all places; OpenCV reads no Reduction and no Tile."""


def framework_cases(folder):
    return [*(case(name, folder) for name in NETS), *GRAPHS.values()]


@pytest.mark.parametrize("name", NETS)
def test_what_is_written_computes_what_onnxruntime_does(name, tmp_path):
    x, expected = written_nets.expected(NETS[name])
    found = netweave.run(saved(NETS[name], tmp_path), {"x": x})
    close(found.values(), expected)


@pytest.mark.parametrize("name", [*NETS, *GRAPHS])
def test_opencv_computes_of_the_file_what_we_do_of_the_net(name, tmp_path):
    check("caffe", GRAPHS[name] if name in GRAPHS else case(name, tmp_path), tmp_path)


def test_every_operator_has_a_net_that_opencv_ran(tmp_path):
    nets = [*framework_cases(tmp_path), *test_writer_detection.framework_cases(tmp_path)]
    used = {(each.domain, each.op_type) for net in nets for each in net.graph.nodes}
    # Caffe has no form of the first three, OpenCV none of the next; Swish is of a later opset than our graphs
    without = {("", name) for name in ("LSTM", "GRU", "RNN", "ReduceL1", "Tile", "Swish")}
    assert set(TABLE.names()) - used == without


def test_it_reads_as_a_person_would_write_it(tmp_path):
    made = net(
        [
            node("Conv", "x w b", "c", name="conv1", pads=[1] * 4),
            node("BatchNormalization", "c g be m v", "n", name="bn1"),
            node("Relu", "n", "r", name="relu1"),
            node("MaxPool", "r", "p", name="pool1", kernel_shape=[3, 2], strides=[2, 2]),
            node("Flatten", "p", "f", name="flatten"),
            node("Gemm", "f k l", "y", name="fc", transB=1),
        ],
        {
            "w": written_nets.drawn(6, 6, 3, 3),
            "b": written_nets.drawn(6),
            **written_nets.NORM,
            "k": written_nets.drawn(5, 96),
            "l": written_nets.drawn(5),
        },
    )
    text = saved(made, tmp_path).read_text().split()
    names = [text[at + 1].strip('"') for at, word in enumerate(text) if word == "name:"]
    assert names == ["net", "x", "conv1", "bn1", "bn1/scale", "relu1", "pool1", "flatten", "fc"]
    tops = [text[at + 1].strip('"') for at, word in enumerate(text) if word == "top:"]
    assert tops == ["x", "conv1", "conv1", "conv1", "conv1", "pool1", "flatten", "y"]


def test_a_caffe_net_keeps_its_layers_and_is_found_identical(tmp_path):
    body = """name: "net" input: "data" input_shape { dim: 2 dim: 6 dim: 9 dim: 8 }
    layer { name: "a" type: "Convolution" bottom: "data" top: "a"
      param { name: "w" } convolution_param { num_output: 6 kernel_size: 3 pad: 1 bias_term: false } }
    layer { name: "b" type: "Convolution" bottom: "a" top: "b"
      param { name: "w" } convolution_param { num_output: 6 kernel_size: 3 pad: 1 bias_term: false } }
    layer { name: "up" type: "Deconvolution" bottom: "b" top: "up"
      convolution_param { num_output: 2 kernel_size: 4 stride: 2 } }
    layer { name: "score" type: "Crop" bottom: "up" bottom: "data" top: "score" crop_param { offset: 2 } }"""
    (tmp_path / "net.prototxt").write_text(body)
    graph = netweave.load(tmp_path / "net.prototxt")
    found = api.convert_and_verify(graph, tmp_path / "again.prototxt", random_weights=True)
    again = netweave.load(tmp_path / "again.prototxt")
    assert found.error == 0
    assert [layer.type for layer in again.layers.values() if layer.name != "data"] == [
        "Convolution", "Convolution", "Deconvolution", "Crop",
    ]  # fmt: skip
    assert len(again.parameters) == 3
    assert not found.findings


def test_channels_last_at_the_ends_are_channels_first_in_the_file(tmp_path):
    made = model(
        [
            node("Transpose", "x", "t", perm=[0, 3, 1, 2]),
            node("Conv", "t w", "c"),
            node("Transpose", "c", "y", perm=[0, 2, 3, 1]),
        ],
        {"x": [1, 9, 8, 6]},
        ["y"],
        written_nets.W,
    )
    found = api.convert_and_verify(load(made, tmp_path), tmp_path / "written.prototxt")
    assert found.exit_status == 0
    assert netweave.load(tmp_path / "written.prototxt").inputs[0].shape[1:] == (6, 9, 8)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (one("Gelu"), r"net\.onnx: cannot be written as a net of Caffe's: Gelu \(1, first 'gelu'\)"),
        (one("MaxPool", kernel_shape=[2, 2], dilations=[2, 2]), "Caffe pools without dilation"),
        (one("Pad", {"p": written_nets.ints(0, 0, 1, 1, 0, 0, 1, 1)}, mode="reflect"), "with zeros only"),
        (one("Slice", {"s": written_nets.ints(0), "e": written_nets.ints(9), "a": written_nets.ints(2),
                       "t": written_nets.ints(2)}), "it takes steps"),
        (one("LRN", size=4), "its window has an even size"),
        (one("Hardmax"), "Hardmax"),
        (net([node("Resize", "x - s", "y", mode="linear")], {"s": np.array([1, 1, 2, 2], np.float32)}),
         "no resizing by 'linear'"),
    ],
)  # fmt: skip
def test_what_caffe_cannot_say_is_refused_by_name(made, message, tmp_path):
    with pytest.raises(UnsupportedError, match=message):
        saved(made, tmp_path)
    assert not (tmp_path / "written.prototxt").exists()


def test_a_refusal_names_the_line_of_the_source(tmp_path):
    (tmp_path / "net.prototxt").write_text(
        'name: "net" input: "data" input_shape { dim: 1 dim: 6 dim: 9 dim: 8 }\n'
        'layer { name: "a" type: "ReLU" bottom: "data" top: "a" }\n'
        'layer { name: "b" type: "ArgMax" bottom: "a" top: "b" }'
    )
    with pytest.raises(UnsupportedError, match=r"net\.prototxt: .* on line 3\)"):
        netweave.save(netweave.load(tmp_path / "net.prototxt"), tmp_path / "written.prototxt")


def test_open_sizes_are_asked_for(tmp_path):
    graph = load(model([node("Relu", "x", "y")], {"x": [1, 3, "H", "W"]}, ["y"]), tmp_path)
    with pytest.raises(
        UnsupportedError, match=r"sizes of 'x' are open; give them \(--input-shape x=1x3x224x224,"
    ):
        netweave.save(graph, tmp_path / "written.prototxt")


def test_the_example_of_sizes_fits_the_input(tmp_path):
    graph = load(model([node("Relu", "x", "y")], {"x": [1, "N", 64]}, ["y"]), tmp_path)
    with pytest.raises(UnsupportedError, match="--input-shape x=1x1x64"):
        netweave.save(graph, tmp_path / "written.prototxt")


@pytest.mark.parametrize(("kind", "reason"), [("LSTM", r"\(cont\)"), ("GRU", "no such layer")])
def test_recurrent_layers_are_refused_with_the_reason(kind, reason, tmp_path):
    with pytest.raises(UnsupportedError, match=f"{kind}: Caffe.*{reason}"):
        netweave.save(load(recurrent_nets.steps(kind), tmp_path), tmp_path / "written.prototxt")


def test_a_net_without_weights_asks_for_them(tmp_path):
    (tmp_path / "net.prototxt").write_text(
        'name: "net" input: "data" input_shape { dim: 1 dim: 6 dim: 9 dim: 8 }\n'
        'layer { name: "a" type: "PReLU" bottom: "data" top: "a" }'
    )
    with pytest.raises(UsageError, match="has no weights for 1 of 1 parameters"):
        netweave.save(netweave.load(tmp_path / "net.prototxt"), tmp_path / "written.prototxt")
