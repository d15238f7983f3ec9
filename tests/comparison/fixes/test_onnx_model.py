"""Fixes of ONNX models: edits of the protobuf, after which the nets are equal."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import netweave
from netweave import api
from netweave.errors import UsageError


def array(name, *sizes, seed=0):
    return numpy_helper.from_array(
        np.random.default_rng(seed).standard_normal(sizes).astype(np.float32) / 3, name
    )


def original():
    """A net with settings of all types: integers, floats, lists of them, and words."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1] * 4, strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c1", "g", "b", "m", "v"], ["n"], "bn", epsilon=1e-3),
        helper.make_node("MaxPool", ["n"], ["p"], "pool", kernel_shape=[2, 2], strides=[1, 1]),
        helper.make_node("LeakyRelu", ["p"], ["l"], "leaky", alpha=0.2),
        helper.make_node(
            "Conv", ["l", "w2"], ["c2"], "conv2", auto_pad="SAME_UPPER", dilations=[2, 2], group=2
        ),
        helper.make_node("Sigmoid", ["c2"], ["s"], "gate"),
        helper.make_node("Sub", ["c2", "s"], ["d"], "sub"),
        helper.make_node("Softmax", ["d"], ["y"], "soft", axis=1),
    ]
    arrays = [
        *(array("w1", 8, 3, 3, 3), array("b1", 8, seed=1), array("w2", 8, 4, 3, 3, seed=2)),
        *(array(name, 8, seed=number) for number, name in enumerate("gbm", start=3)),
        numpy_helper.from_array(np.linspace(0.01, 0.05, 8, dtype=np.float32), "v"),
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", 1, [1, 3, 16, 16])], [value("y", 1, [1, 8, 7, 7])]
    graph = helper.make_graph(nodes, "net", inputs, outputs, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def node(model, name):
    return next(one for one in model.graph.node if one.name == name)


def put(name, **settings):
    def plant(model):
        for setting, value in settings.items():
            kept = [one for one in node(model, name).attribute if one.name != setting]
            del node(model, name).attribute[:]
            node(model, name).attribute.extend([*kept, helper.make_attribute(setting, value)])

    return plant


def swap(model):
    first, second = node(model, "sub").input
    node(model, "sub").input[:] = [second, first]


def scale(model):
    weights = next(one for one in model.graph.initializer if one.name == "w2")
    changed = numpy_helper.to_array(weights).copy()
    changed[0] *= 1.5
    weights.CopyFrom(numpy_helper.from_array(changed, "w2"))


def leave_out(model):
    node(model, "conv2").input[0] = "p"
    model.graph.node.remove(node(model, "leaky"))


def other_operator_with_settings(model):
    node(model, "leaky").op_type = "Relu"
    del node(model, "leaky").attribute[:]


def other_operator(model):
    node(model, "gate").op_type = "Tanh"


FAULTS = {
    "pads": put("conv1", pads=[0, 0, 2, 2]),
    "epsilon": put("bn", epsilon=0.1),
    "alpha": put("leaky", alpha=0.01),
    "axis": put("soft", axis=2),
    "automatic padding": put("conv2", auto_pad="SAME_LOWER", dilations=[1, 1]),
    "operator": other_operator,
    "operator with settings": other_operator_with_settings,
    "order of inputs": swap,
    "weights": scale,
    "missing node": leave_out,
}


def planted(folder, *faults, **saving):
    """Write the original and a port with faults; return both."""
    model, paths = original(), (folder / "a.onnx", folder / "b.onnx")
    onnx.save(model, paths[0])
    for fault in faults:
        FAULTS[fault](model)
    onnx.save(model, paths[1], **saving)
    return paths


def fixed(a, b, target):
    comparison = netweave.compare(a, b)
    assert not comparison.equal
    return api.fix_port(str(a), str(b), comparison, target)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_mended_in_the_model_and_the_nets_are_equal(tmp_path, fault):
    a, b = planted(tmp_path, fault)
    before = b.read_bytes()
    done = fixed(a, b, tmp_path / "mended.onnx")
    assert done.comparison.equal, done.mended.refused
    assert not done.mended.refused
    assert b.read_bytes() == before
    onnx.checker.check_model(onnx.load(done.file), full_check=True)
    assert done.mended.diff.startswith("--- a/b.onnx\n+++ b/b.onnx\n")


def test_several_faults_are_mended_at_once(tmp_path):
    done = fixed(*planted(tmp_path, "epsilon", "alpha", "order of inputs"), tmp_path / "mended.onnx")
    assert len(done.mended.applied) == 3
    assert done.comparison.equal


@pytest.mark.parametrize("fault", ["alpha", "weights"])
def test_external_data_stay_beside_the_model_wherever_that_is_written(tmp_path, fault):
    saving = {"save_as_external_data": True, "location": "data/b.bin", "size_threshold": 0}
    (tmp_path / "data").mkdir()
    a, b = planted(tmp_path, fault, **saving)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = fixed(a, b, elsewhere / "mended.onnx")
    assert done.comparison is not None, done.problem
    assert done.comparison.equal
    assert (elsewhere / "data" / "b.bin").read_bytes() == (tmp_path / "data" / "b.bin").read_bytes()
    (elsewhere / "data" / "b.bin").write_bytes(b"another file")
    with pytest.raises(UsageError, match="is not the external data of the model"):
        api.fix_port(str(a), str(b), netweave.compare(a, b), elsewhere / "again.onnx")


def test_weights_that_two_nodes_share_are_not_changed_for_one(tmp_path):
    model = original()
    graph = model.graph
    graph.node.insert(
        5, helper.make_node("Conv", ["c2", "w2"], ["c3"], "conv3", auto_pad="SAME_UPPER", group=2)
    )
    node(model, "gate").input[0] = "c3"
    a, b = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(model, a)
    scale(model)
    onnx.save(model, b)
    mended = api.mend(netweave.compare(a, b))
    assert not mended.after
    assert any("2 nodes share the array 'w2'" in refusal.why for refusal in mended.refused)


def test_a_model_without_edits_is_written_as_it_was_and_its_outline_has_no_values(tmp_path):
    from netweave.comparison.fixes.onnx_model import ModelEdits, StoredModel

    model = original()
    model.metadata_props.add(key="made", value="here")  # a field behind the graph
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((0, 3), np.int64), "nothing"))
    model.graph.initializer.append(helper.make_tensor("list", onnx.TensorProto.FLOAT, [2], [1.0, 2.0]))
    onnx.save(model, tmp_path / "net.onnx")
    stored = StoredModel(str(tmp_path / "net.onnx"))
    edits = ModelEdits(stored, StoredModel)
    assert edits.content == model.SerializeToString() == (tmp_path / "net.onnx").read_bytes()
    assert len(stored.outline.SerializeToString()) < len(edits.content) / 4
    changed = onnx.load(tmp_path / "net.onnx")
    for graph in (changed.graph, edits.model.graph):
        graph.initializer[1].CopyFrom(array("b1", 8, seed=9))
        graph.node[0].attribute[0].ints[0] = 3
    assert edits.content == changed.SerializeToString()
    assert edits.text != ModelEdits(stored, StoredModel).text
    assert edits.text.count("crc32") == len(changed.graph.initializer)
