"""The form in which a net predicts: what goes, which outputs result, under which names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from netweave.errors import UsageError
from netweave.graph import GraphBuilder, Layer, all_operators, find_operator
from netweave.graph.passes import to_inference
from netweave.graph.passes.inference import ACTIVATIONS, LOSSES, METRICS, inference_form
from netweave.runtime.backends import prepare
from tests.graph.passes.nets import weight
from tests.graph.passes.random_nets import nets

X = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)


def softmax(x, axis=1):
    e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return (e / e.sum(axis=axis, keepdims=True)).astype(np.float32)


def scored(name="fc"):
    """A net of one dense layer up to its scores."""
    builder = GraphBuilder("net", format="caffe")
    data = builder.input("data", (1, 6))
    with builder.layer(Layer("fc", "fc", "InnerProduct")):
        scores = builder.add("Gemm", [data, weight(builder, "fc/0", (6, 3))], outputs=name)
    return builder, scores


def scores_of(x):
    builder, scores = scored()
    return prepare(builder.finish([scores])).run({"data": x})["fc"]


def outputs_of(graph):
    return [value.name for value in graph.outputs]


def inputs_of(graph):
    return [value.name for value in graph.inputs]


def with_dropout(*, as_output):
    builder, x = scored("fc@fc")
    with builder.layer(Layer("drop", "drop", "Dropout", outputs=("fc",))):
        x = builder.add("Dropout", [x], outputs="fc")
    if not as_output:
        with builder.layer(Layer("relu", "relu", "ReLU")):
            x = builder.add("Relu", [x], outputs="relu")
    return builder.finish([x])


def test_the_name_of_a_dropout_becomes_an_alias():
    graph = with_dropout(as_output=False)
    form = to_inference(graph)
    assert [node.op_type for node in form.nodes] == ["Gemm", "Relu"]
    assert form.aliases == {"fc": "fc@fc"}
    assert list(form.layers) == ["fc", "drop", "relu"]
    assert form.nodes_of()["drop"] == []
    found = prepare(form, taps=["fc", "fc@fc"]).run({"data": X})
    np.testing.assert_array_equal(found["fc"], scores_of(X))
    np.testing.assert_array_equal(found["fc@fc"], found["fc"])
    with pytest.raises(UsageError, match="no value named 'fd'"):
        prepare(form, taps=["fd"])


def test_an_output_keeps_its_name():
    form = to_inference(with_dropout(as_output=True))
    assert [node.op_type for node in form.nodes] == ["Gemm"]
    assert (outputs_of(form), form.aliases) == (["fc"], {"fc@fc": "fc"})
    np.testing.assert_array_equal(prepare(form).run({"data": X})["fc"], scores_of(X))


def test_a_copy_of_an_input_that_is_an_output_stays():
    builder = GraphBuilder("net", format="caffe")
    data = builder.input("data", (1, 6))
    form = to_inference(builder.finish([builder.add("Dropout", [data], outputs="copy")]))
    assert [node.op_type for node in form.nodes] == ["Identity"]
    np.testing.assert_array_equal(prepare(form).run({"data": X})["copy"], X)


def test_a_chain_of_copies_leads_to_one_value():
    builder = GraphBuilder("net", format="caffe")
    x = builder.add("Relu", [builder.input("data", (1, 6))], outputs="a")
    for name in ("b", "c", "d"):
        x = builder.add("Identity", [x], outputs=name)
    form = to_inference(builder.finish([builder.add("Neg", [x], outputs="y")]))
    assert form.aliases == {"b": "a", "c": "a", "d": "a"}


def test_a_dropout_whose_mask_is_used_stays():
    builder = GraphBuilder("net", format="onnx")
    y, mask = builder.add_many("Dropout", [builder.input("data", (1, 6))], outputs=["y", "mask"])
    form = to_inference(builder.finish([y, mask]))
    assert [node.op_type for node in form.nodes] == ["Dropout"]


def test_batch_normalization_uses_its_statistics():
    builder = GraphBuilder("net", format="onnx")
    roles = ("gamma", "beta", "mean")
    arrays = [weight(builder, role, (6,), role) for role in roles]
    arrays.append(builder.derived(np.full(6, 4, np.float32), name="variance"))
    x = builder.input("data", (1, 6))
    y = builder.add_many(
        "BatchNormalization", [x, *arrays], {"training_mode": 1, "epsilon": 0.0}, outputs=["y", "m", "v"]
    )
    form = to_inference(builder.finish([y[0]]))
    gamma, beta, mean = (value.const_value.numpy() for value in arrays[:3])
    np.testing.assert_allclose(
        prepare(form).run({"data": X})["y"], gamma * (X - mean) / 2 + beta, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((4, 6), {}),
        ((4, 6), {"preserve_shape": 1}),
        ((4, 6, 5), {"multi_output": 1}),
        ((4, 6, 5, 2), {"multi_output": 1}),
        ((4, 6, 5), {"preserve_shape": 1}),
        ((4, 6, 5), {}),
    ],
)
def test_softmax_output_is_its_forward_without_the_label(shape, attributes):
    builder = GraphBuilder("net", format="mxnet")
    x, label = builder.input("data", shape), builder.input("softmax_label", (4,))
    y = builder.add("SoftmaxOutput", [x, label], attributes, domain="netweave", outputs="softmax")
    form = to_inference(builder.finish([y]))
    assert (inputs_of(form), outputs_of(form), list(form.declared)) == (["data"], ["softmax"], ["data"])
    assert all(node.domain == "" for node in form.nodes)
    array = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    expected = find_operator("SoftmaxOutput").forward([array, np.zeros(4)], attributes)[0]
    np.testing.assert_allclose(prepare(form).run({"data": array})["softmax"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op_type", sorted(ACTIVATIONS))
def test_other_outputs_are_their_forward(op_type):
    builder, scores = scored()
    relu = builder.add("Relu", [scores], outputs="relu")
    inputs = [relu] if op_type == "MakeLoss" else [relu, builder.input("label", (1, 3))]
    y = builder.add(op_type, inputs, {}, domain="netweave", outputs="out")
    form = to_inference(builder.finish([y]))
    assert outputs_of(form) == ["out"]
    expected = find_operator(op_type).forward([np.maximum(scores_of(X), 0), np.zeros((4, 3))], {})[0]
    np.testing.assert_allclose(prepare(form).run({"data": X})["out"], expected, rtol=1e-5, atol=1e-6)


def caffe_losses(*, second_top):
    """Scores judged by Accuracy and by SoftmaxWithLoss, as the TEST phase of a train_val has it."""
    builder, scores = scored()
    label = builder.input("label", (1,))
    accuracy = builder.add(
        "Accuracy", [scores, label], {"axis": 1, "top_k": 1}, domain="netweave", outputs="acc"
    )
    loss, prob = builder.add_many(
        "SoftmaxWithLoss", [scores, label], {"axis": 1}, domain="netweave", outputs=["loss", "prob"]
    )
    return builder.finish([accuracy, loss, prob] if second_top else [accuracy, loss])


@pytest.mark.parametrize("second_top", [False, True])
def test_a_softmax_loss_leaves_its_softmax(second_top):
    form = to_inference(caffe_losses(second_top=second_top))
    assert (inputs_of(form), outputs_of(form)) == (["data"], ["prob"])
    assert [node.op_type for node in form.nodes] == ["Gemm", "Softmax"]
    np.testing.assert_allclose(prepare(form).run({"data": X})["prob"], softmax(scores_of(X)), rtol=1e-5)


def test_a_metric_leaves_its_scores_only_where_nothing_else_is_left():
    builder, scores = scored()
    label = builder.input("label", (1,))
    accuracy = builder.add("Accuracy", [scores, label], {"axis": 1, "top_k": 1}, domain="netweave")
    form = to_inference(builder.finish([accuracy]))
    assert (inputs_of(form), outputs_of(form)) == (["data"], ["fc"])


def test_a_loss_of_pairs_leaves_both_branches():
    builder, scores = scored()
    other = builder.add("Relu", [scores], outputs="other")
    alike = builder.input("alike", (1,))
    loss = builder.add("ContrastiveLoss", [scores, other, alike], {"margin": 1.0}, domain="netweave")
    form = to_inference(builder.finish([loss]))
    assert (inputs_of(form), outputs_of(form)) == (["data"], ["fc", "other"])


def test_other_outputs_and_unread_inputs_stay():
    builder, scores = scored()
    builder.input("unread", (1, 2))
    label = builder.input("label", (1, 3))
    side = builder.add("Relu", [scores], outputs="side")
    loss = builder.add("EuclideanLoss", [scores, label], {}, domain="netweave", outputs="loss")
    form = to_inference(builder.finish([side, loss]))
    assert (inputs_of(form), outputs_of(form)) == (["data", "unread"], ["side", "fc"])


def test_a_loss_that_the_net_uses_stays():
    builder, scores = scored()
    label = builder.input("label", (1, 3))
    loss = builder.add("EuclideanLoss", [scores, label], {}, domain="netweave", outputs="loss")
    form = to_inference(builder.finish([builder.add("Neg", [loss], outputs="minus")]))
    assert (inputs_of(form), outputs_of(form)) == (["data", "label"], ["minus"])


def test_every_loss_of_the_registry_has_a_row():
    """Drift: an operator whose name says that it ends a net must be known here."""
    known = {*LOSSES, *METRICS, *ACTIVATIONS, "SoftmaxOutput"}
    names = all_operators().keys() - {"DetectionOutput"}  # which chooses boxes, in prediction as well
    ends = {name for name in names if name.endswith(("Loss", "Output", "Accuracy"))}
    assert ends <= known
    assert known <= set(all_operators())


def nodes_of(graph):
    return [
        (node.op_type, *(v.name for v in (*node.inputs, *node.outputs) if v is not None))
        for node in graph.nodes
    ]


@settings(max_examples=40, deadline=None)
@given(case=nets())
def test_a_net_that_predicts_is_not_copied(case):
    """A net that stays as it is has the very nodes and outputs of a copy in inference form."""
    form, copy = inference_form(case.graph), to_inference(case.graph)
    assert nodes_of(form) == nodes_of(copy)
    assert (outputs_of(form), inputs_of(form)) == (outputs_of(copy), inputs_of(copy))
    assert (form is case.graph) == (nodes_of(case.graph) == nodes_of(copy))


@pytest.mark.parametrize("as_output", [True, False])
def test_a_net_that_is_trained_is_copied(as_output):
    graph = with_dropout(as_output=as_output)
    before = nodes_of(graph)
    assert nodes_of(inference_form(graph)) == nodes_of(to_inference(graph)) != before == nodes_of(graph)
