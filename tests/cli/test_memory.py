"""``netweave memory``: the plans as a table, as JSON and as a picture."""

from __future__ import annotations

import json
import re

import onnx
import pytest
from onnx import TensorProto, helper

from netweave.graph.summary import bytes_text

NET = """name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 dim: 16 dim: 16 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 5 } }
"""

WINDOW = "convolution_param { kernel_size: 3"
"""What a flat layer is not: after it gradients lie otherwise in memory, and small nets show the copies."""


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return str(path)


def test_a_run_forward_by_hand(net, netweave):
    """A batch of 2 takes 2 x 8 x 16 x 16 floats behind the convolution, a quarter of that behind the pooling.

    What is rectified is the pooling's result, by the pooling itself. torch notes the places of maxima in 8
    bytes each, and writes 8 x 3 x 3 x 3 filters anew; the flat values are a copy, since images lie channels
    last.
    """
    called = netweave("memory", net, "--batch", "2", "--json", "-")
    found = json.loads(called.out)
    conv, pool = 4 * 2 * 8 * 16 * 16, 4 * 2 * 8 * 8 * 8
    places, filters, scores = 2 * pool, 4 * 8 * 27, 4 * 2 * 5
    plans = {row["name"]: row["bytes"] for row in found["plans"]}
    assert plans["none"] == conv + filters + pool + places + pool + scores
    assert plans["in place"] == plans["none"]
    assert plans["liveness bound"] == found["step_peak"] == conv + pool + places
    assert plans["liveness bound"] <= plans["both"] <= 1.05 * plans["liveness bound"]
    assert found["parameters"] == 4 * (8 * 27 + 8 + 5 * 8 * 64 + 5)
    assert not any(row["extra_multiply_adds"] for row in found["plans"])


def test_a_net_that_takes_one_batch_size_only(netweave, tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 10])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 2])
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [2], [20, 2])
    nodes = [helper.make_node("Reshape", ["x", "sizes"], ["z"]), helper.make_node("Exp", ["z"], ["y"])]
    graph = helper.make_graph(nodes, "fixed", [x], [y], [sizes])
    path = tmp_path / "fixed.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    found = json.loads(netweave("memory", str(path), "--json", "-").out)
    assert (found["batch"], found["step_peak"]) == (4, 4 * 4 * 10)
    assert netweave("memory", str(path), "--batch", "4").status == 0
    refused = netweave("memory", str(path), "--batch", "32")
    assert refused.status == 2
    assert "input 'x' takes 4 records" in refused.err


@pytest.fixture
def convolutions(tmp_path):
    path = tmp_path / "convolutions.prototxt"
    path.write_text(NET.replace('"InnerProduct"', '"Convolution"').replace("inner_product_param {", WINDOW))
    return str(path)


def test_a_training_step_as_a_table_beside_what_torch_took(convolutions, netweave):
    pytest.importorskip("torch")
    called = netweave("memory", convolutions, "--batch", "4", "--train", "--measure")
    assert called.status == 0
    for name in ("none", "in place", "co-share", "both", "liveness bound", "recomputed, sqrt(N)"):
        assert re.search(rf"^ {re.escape(name)} +[\d.]+ kB", called.out, re.MULTILINE), name
    planned, measured = re.search(r"planned ([\d.]+) kB, measured ([\d.]+) kB", called.out).groups()
    assert float(planned) == pytest.approx(float(measured), rel=0.05)


@pytest.fixture(params=[1, 2, 4, 16])
def threads(request):
    """A number of threads of torch: OMP_NUM_THREADS beyond the processors has no effect."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    assert torch.get_num_threads() == request.param
    yield request.param
    torch.set_num_threads(before)


def test_scratch_memory_of_threads_is_told_apart_from_what_a_plan_is_about(
    threads, convolutions, netweave, tmp_path
):
    report = tmp_path / "memory.json"
    options = ["--batch", "4", "--train", "--measure", "--json", str(report)]
    called = netweave("memory", convolutions, *options)
    assert called.status == 0, called.err
    found = json.loads(report.read_text())
    assert found["measured"] == pytest.approx(found["step_peak"], rel=0.001)
    assert found["threads"] == threads
    assert found["measured_with_threads"] >= found["measured"]
    by_threads = f" with 1 thread, {bytes_text(found['measured_with_threads'])} with {threads},"
    assert (by_threads in called.out) == (threads > 1)


def test_a_picture_of_what_is_alive(net, netweave, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "memory.svg"
    assert netweave("memory", net, "--train", "--plot", str(picture)).status == 0
    assert "MB alive" not in picture.read_text()[:200]
    assert picture.stat().st_size > 10_000
    assert "pictures are drawn as" in netweave("memory", net, "--plot", str(tmp_path / "memory.txt")).err


def test_a_limit_that_is_no_size(net, netweave):
    called = netweave("memory", net, "--train", "--limit", "much")
    assert called.status == 2
    assert "expected a size such as 4GB" in called.err
