"""Nets of which only a part can be read, for callers who need no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from netweave import api
from netweave.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

CAFFE = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
LAST
layer { name: "pool" type: "Pooling" bottom: "last" top: "pool" pooling_param { kernel_size: 2 } }
layer { name: "side" type: "Sigmoid" bottom: "conv" top: "side" }
"""

UNKNOWN = 'layer { name: "last" type: "SomebodysLayer" bottom: "conv" top: "last" }'
UNSUPPORTED = """layer { name: "last" type: "Convolution" bottom: "conv" top: "last"
                         convolution_param { num_output: 4 kernel_size: 1 axis: 2 } }"""


def names(graph: api.Graph) -> list[str]:
    return [str(value.name) for value in graph.outputs]


@pytest.mark.parametrize("last", [UNKNOWN, UNSUPPORTED])
def test_a_caffe_net_without_what_cannot_be_read(tmp_path: Path, last: str) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(CAFFE.replace("LAST", last))
    with pytest.raises(UnsupportedError, match=r"SomebodysLayer|the channels must be on axis 1"):
        api.load(path)
    graph = api.load(path, partial=True)
    assert list(graph.layers) == ["data", "conv", "relu", "side"]
    assert names(graph) == ["side"]
    assert "2 layers left out that cannot be read, or need one that cannot: 'last', 'pool'" in graph.notes


def test_an_unknown_last_layer_does_not_hinder_a_comparison_up_to_another(tmp_path: Path) -> None:
    a, b, worse = (tmp_path / f"{name}.prototxt" for name in ("a", "b", "worse"))
    a.write_text(CAFFE.replace("LAST", "").replace('bottom: "last"', 'bottom: "conv"'))
    b.write_text(CAFFE.replace("LAST", UNKNOWN))
    with pytest.raises(UnsupportedError):
        api.compare(a, b)
    found = api.compare(a, b, last="side")
    assert found.exit_status in {0, 4}
    assert not found.findings
    worse.write_text(b.read_text().replace('name: "relu" type: "ReLU"', 'name: "relu" type: "TanH"'))
    assert api.compare(a, worse, last="side").exit_status == 1


def test_a_symbol_without_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "net-symbol.json"
    path.write_text("""{"nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "Activation", "name": "relu", "attrs": {"act_type": "relu"}, "inputs": [[0, 0, 0]]},
        {"op": "SomebodysOperator", "name": "odd", "inputs": [[1, 0, 0]]},
        {"op": "Flatten", "name": "flat", "inputs": [[2, 0, 0]]}],
        "arg_nodes": [0], "heads": [[3, 0, 0]]}""")
    shapes = {"data": (1, 3, 4, 4)}
    with pytest.raises(UnsupportedError, match="SomebodysOperator"):
        api.load(path, input_shapes=shapes)
    graph = api.load(path, input_shapes=shapes, partial=True)
    assert names(graph) == ["relu_output"]
    assert any("'odd', 'flat'" in note for note in graph.notes)


def test_an_onnx_net_without_what_cannot_be_read(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Odd", ["a"], ["b"], domain="somebody", name="odd"),
        helper.make_node("Neg", ["b"], ["y"]),
        helper.make_node("Exp", ["a"], ["z"]),
    ]
    info = [value(name, TensorProto.FLOAT, [2, 3]) for name in "xyz"]
    model = helper.make_model(
        helper.make_graph(nodes, "net", info[:1], info[1:]),
        opset_imports=[helper.make_opsetid("", 22), helper.make_opsetid("somebody", 1)],
    )
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match="somebody::Odd"):
        api.load(tmp_path / "net.onnx")
    graph = api.load(tmp_path / "net.onnx", partial=True)
    assert names(graph) == ["z", "a"]
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    found = api.run(graph, {"x": x})
    np.testing.assert_allclose(found["z"], np.exp(np.maximum(x, 0)), rtol=1e-6)
    model.graph.node[0].op_type = "Nothing"
    onnx.save(model, tmp_path / "none.onnx")
    with pytest.raises(UnsupportedError, match="has no node that can be read"):
        api.load(tmp_path / "none.onnx", partial=True)
