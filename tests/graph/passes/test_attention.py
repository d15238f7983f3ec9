"""Attention in the forms of exporters becomes one operator that computes what the parts do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import netweave
from netweave.graph import attributes_of, find_operator
from netweave.graph.passes import attention_fusion, fuse_attention
from netweave.graph.passes.attention import fuse_heads
from tests.comparison.onnx_text import read_text
from tests.formats.onnx.models import load, run
from tests.graph.passes.attention_nets import FORMS, H, T, by_parts, flattened, normal


def inputs_of(net: onnx.ModelProto, seed: int = 1) -> dict[str, np.ndarray]:
    sizes = {v.name: [d.dim_value or 2 for d in v.type.tensor_type.shape.dim] for v in net.graph.input}
    return {name: normal(*shape, seed=seed + at) for at, (name, shape) in enumerate(sizes.items())}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_becomes_one_operator_that_computes_the_same(name, tmp_path):
    form = FORMS[name]
    fused = fuse_attention(load(form.net, tmp_path))
    (node,) = (node for node in fused.nodes if node.domain == "netweave")
    assert node.op_type == form.op_type
    assert form.settings.items() <= attributes_of(node).items()
    assert "Softmax" not in {each.op_type for each in fused.nodes}
    inputs = inputs_of(form.net)
    (expected,) = run(form.net, inputs)
    (found,) = netweave.run(fused, inputs).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "name", [name for name, form in FORMS.items() if form.op_type == "MultiHeadAttention"]
)
def test_nothing_is_left_of_dense_layers_that_the_operator_has(name, tmp_path):
    fused = fuse_attention(load(FORMS[name].net, tmp_path))
    assert [node.op_type for node in fused.nodes] == ["MultiHeadAttention"]


@pytest.mark.parametrize("name", FORMS)
def test_the_forward_of_the_registry_is_that_of_the_parts(name, tmp_path):
    fused = fuse_attention(load(FORMS[name].net, tmp_path))
    (node,) = (node for node in fused.nodes if node.domain == "netweave")
    inputs = inputs_of(FORMS[name].net)
    for value in node.inputs:
        if value.const_value is None and not value.is_graph_input():
            fused.model.graph.outputs.append(value)
    fused.model.graph.outputs.append(node.outputs[0])
    computed = inputs | netweave.run(fused, inputs)
    arrays = [computed[v.name] if v.const_value is None else v.const_value.numpy() for v in node.inputs]
    (found,) = find_operator(node.op_type).forward(arrays, attributes_of(node))
    expected = computed[node.outputs[0].name]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_as_many_cores_as_there_are_become_one_operator_each(tmp_path):
    cores = range(4)  # with open sizes of their own, of which there are more than one core can have
    read = "float[N@,2,L@,4] q@, float[N@,2,S@,4] k@, float[N@,2,S@,4] v@"
    body = "t@ = Transpose<perm=[0,1,3,2]>(k@) s@ = MatMul(q@, t@) w@ = Softmax(s@) y@ = MatMul(w@, v@)"
    inputs, outputs = (
        ", ".join(text.replace("@", str(core)) for core in cores) for text in (read, "float[N@,2,L@,4] y@")
    )
    nodes = " ".join(body.replace("@", str(core)) for core in cores)
    fused = fuse_heads(read_text(f"g ({inputs}) => ({outputs}) {{ {nodes} }}", tmp_path, "net"))
    assert [node.op_type for node in fused.nodes] == ["Attention"] * len(cores)


def test_a_mask_that_hides_one_key_less_is_not_causal(tmp_path):
    net = flattened()
    for tensor in net.graph.initializer:
        if tensor.name == "causal":
            mask = onnx.numpy_helper.to_array(tensor).copy()
            mask[..., 0, 1] = 0
            tensor.CopyFrom(onnx.numpy_helper.from_array(mask, "causal"))
    fused = fuse_attention(load(net, tmp_path))
    (node,) = (node for node in fused.nodes if node.domain == "netweave")
    assert node.op_type == "Attention"
    assert "is_causal" not in attributes_of(node)
    inputs = inputs_of(net)
    (found,) = netweave.run(fused, inputs).values()
    np.testing.assert_allclose(found, run(net, inputs)[0], rtol=1e-4, atol=1e-5)


def test_attention_with_a_mask_is_left_in_parts_where_only_its_layer_is_wanted(tmp_path):
    net = by_parts(mask="bias", more={"bias": normal(1, H, T, T)})
    fused = attention_fusion(projected_only=True)(load(net, tmp_path))
    assert "Softmax" in {node.op_type for node in fused.nodes}


@pytest.mark.parametrize("broken", ["softmax over queries", "scores are read elsewhere", "heads are mixed"])
def test_what_is_not_attention_stays(broken, tmp_path):
    net = by_parts()
    nodes = {node.output[0]: node for node in net.graph.node}
    if broken == "softmax over queries":
        nodes["a"].attribute[0].CopyFrom(helper.make_attribute("axis", 2))
    elif broken == "scores are read elsewhere":
        net.graph.output.append(onnx.ValueInfoProto(name="a"))
    else:  # the heads of the values are joined as features, and their features as heads
        nodes["yt"].attribute[0].CopyFrom(helper.make_attribute("perm", [0, 2, 3, 1]))
    fused = fuse_attention(load(net, tmp_path))
    kinds = {node.op_type for node in fused.nodes}
    assert "MultiHeadAttention" not in kinds
    assert broken == "heads are mixed" or "Softmax" in kinds
    inputs = inputs_of(net)
    for found, expected in zip(netweave.run(fused, inputs).values(), run(net, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
