"""Nets that cannot be read as a whole are shown as far as they are known, and nothing else takes them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import netweave
from netweave import api
from netweave.errors import CodeError, ReadError, UnsupportedError, UsageError
from netweave.viewer import net_document

CAFFE = """
name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "odd" type: "Oddity" bottom: "conv" top: "odd" }
layer { name: "pool" type: "Pooling" bottom: "odd" top: "pool" pooling_param { pool: MAX kernel_size: 2 } }
"""


@pytest.fixture(params=["com.acme", ""])
def custom(request, tmp_path):
    """An ONNX file whose second node nobody knows."""
    weights = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("Oddity", ["a"], ["b"], name="odd", domain=request.param, strength=3),
        helper.make_node("Relu", ["b"], ["y"], name="relu"),
    ]
    ends = (
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    model = helper.make_model(helper.make_graph(nodes, "net", *ends, [weights]), opset_imports=opsets)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def sizes(graph, name):
    shape = next(value for node in graph.nodes for value in node.outputs if value.name == name).shape
    return None if shape is None else list(shape)


def test_an_operator_of_onnx_that_nobody_knows_is_kept(custom):
    graph = api.load_for_inspection(custom)
    assert [layer.type.split("::")[-1] for layer in graph.layers.values()] == ["Conv", "Oddity", "Relu"]
    assert [name.split("::")[-1] for name in graph.unknown] == ["Oddity"]
    assert graph.layers["odd"].settings == {"strength": 3}
    assert sizes(graph, "a") == [1, 4, 6, 6]
    assert sizes(graph, "b") is None
    assert "Oddity" in graph.notes[0]
    assert "the net is shown as far as it is known" in graph.notes[0]
    (net,) = net_document(graph)["nets"]
    assert net["unknown"] == list(graph.unknown)
    with pytest.raises(UnsupportedError, match="Oddity"):
        netweave.load(custom)
    with pytest.raises(UnsupportedError, match="Oddity"):
        netweave.compare(custom, custom)


def test_layers_of_caffe_behind_an_unknown_one_are_kept_without_sizes(tmp_path):
    file = tmp_path / "net.prototxt"
    file.write_text(CAFFE)
    graph = api.load_for_inspection(file)
    assert [layer.type for layer in graph.layers.values()] == ["Input", "Convolution", "Oddity", "Pooling"]
    assert graph.unknown == ("Oddity",)
    assert sizes(graph, "conv")[1:] == [4, 6, 6]
    assert sizes(graph, "pool") is None
    assert [node.op_type for node in graph.nodes] == ["Conv", "Oddity", "Pooling"]
    with pytest.raises(UnsupportedError, match="Oddity"):
        netweave.load(file)


def test_sizes_that_only_the_data_has_stay_open(tmp_path):
    """Of two branches, each with images of its own, no guess of one size is right for both."""
    file = tmp_path / "net.prototxt"
    file.write_text("""
    layer { name: "pairs" type: "Data" top: "pairs" data_param { source: "db" batch_size: 10 } }
    layer { name: "halves" type: "Slice" bottom: "pairs" top: "a" top: "b" slice_param { slice_point: 1 } }
    layer { name: "odd" type: "Oddity" bottom: "a" bottom: "b" top: "odd" }
    """)
    graph = api.load_for_inspection(file)
    assert [layer.type for layer in graph.layers.values()] == ["Data", "Slice", "Oddity"]
    assert graph.unknown == ("Oddity",)


def test_a_state_dict_is_shown_as_weights_alone_and_runs_no_code(tmp_path):
    torch = pytest.importorskip("torch")
    file = tmp_path / "weights.pt"
    torch.save({"conv.weight": torch.ones(4, 3, 3, 3), "conv.bias": torch.zeros(4)}, file)
    for graph in (
        api.load_for_inspection(file),
        api.load_for_inspection(file, code=False),
        api.sort_parts([file], code=False).nets[0][0],
    ):
        assert list(graph.layers) == ["conv"]
        assert graph.parameters["conv.weight"].dims == (4, 3, 3, 3)
        assert "holds weights only" in graph.notes[0]
    with pytest.raises(UsageError, match="holds weights only; name the"):
        netweave.load(file)


def test_what_is_wrong_otherwise_is_still_an_error(custom, tmp_path):
    with pytest.raises(ReadError, match="gone"):
        api.load_for_inspection(tmp_path / "gone.onnx")
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(custom.read_bytes()[:200])
    with pytest.raises(ReadError):
        api.load_for_inspection(cut)
    code = tmp_path / "model.py"
    code.write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    with pytest.raises(CodeError, match="contains code"):
        api.load_for_inspection(code, code=False)
