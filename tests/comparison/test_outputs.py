"""What the outputs of a net promise: the right values in another place are another net."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.comparison.onnx_text import read_text
from tests.oracles import recipe


def heads(names=("mask", "edge"), given=(0, 1), *, joined=None, same=False):
    """A net with two outputs, or one that joins them in an order.

    Args:
        names: Names of the sigmoid's and the tanh's values.
        given: Which of the two is given first, and which then.
        joined: Order in which they are joined to one output.
        same: Whether the two are the same.
    """
    builder = GraphBuilder("heads", format="onnx")
    x = builder.input("data", (1, 3, 9, 7))
    ends = []
    for op_type, name in zip(("Sigmoid", "Tanh"), names, strict=True):
        with builder.layer(Layer(op_type, op_type, op_type)):
            key = "w" if same else f"w {op_type}"
            w = builder.parameter(
                Parameter(f"w {op_type}", (4, 3, 3, 3)), recipe.weight(key, (4, 3, 3, 3), "filter")
            )
            ends.append(
                builder.add("Sigmoid" if same else op_type, [builder.add("Conv", [x, w])], outputs=name)
            )
    if joined is None:
        return builder.finish([ends[i] for i in given])
    with builder.layer(Layer("join", "join", "Concat")):
        return builder.finish([builder.add("Concat", [ends[i] for i in joined], {"axis": 1}, outputs="out")])


def test_branches_that_are_joined_in_another_order_at_the_end_are_a_difference():
    found = netweave.compare(heads(joined=(0, 1)), heads(("m", "e"), joined=(1, 0)))
    assert (found.verdict, found.exit_status) == (Verdict.DIFFERENT, 1)
    (finding,) = found.findings
    assert (finding.mismatch, finding.layer_a, finding.layer_b) == ("input-order", "join", "join")
    assert "channels in the order 4, 5, 6, 7, 0, 1, 2, 3" in finding.cause
    assert found.error > 0.1


def test_outputs_that_changed_their_names_are_a_difference():
    found = netweave.compare(heads(), heads(("edge", "mask"), given=(1, 0)))
    assert found.verdict is Verdict.DIFFERENT
    assert [(finding.mismatch, finding.layer_b) for finding in found.findings] == [
        ("output-order", "Sigmoid"),
        ("output-order", "Tanh"),
    ]
    assert "B gives as 'edge' what A gives as 'mask'" in found.sentence


@pytest.mark.parametrize(
    ("port", "verdict", "said"),
    [
        ({"given": (1, 0)}, Verdict.EQUAL, "B returns its outputs in another order ('mask', 'edge')"),
        ({"names": ("m", "e")}, Verdict.IDENTICAL, "identical"),
        ({"names": ("edge", "mask")}, Verdict.DIFFERENT, "B gives as 'edge' what A gives as 'mask'"),
        (
            {"names": ("m", "e"), "given": (1, 0)},
            Verdict.EQUAL,
            "B returns its outputs in another order ('m' for 'mask', 'e' for 'edge')",
        ),
    ],
    ids=["names tell", "places tell", "names cross", "neither tells"],
)
def test_outputs_are_taken_for_each_other_by_name_or_place(port, verdict, said):
    found = netweave.compare(heads(), heads(**port))
    assert found.verdict is verdict
    assert said in found.sentence


def test_outputs_of_the_same_values_are_not_swapped():
    assert netweave.compare(heads(same=True), heads(same=True)).verdict is Verdict.IDENTICAL


@pytest.mark.parametrize(("order", "verdict"), [((2, 1, 0), Verdict.EQUAL), ((1, 2, 0), Verdict.DIFFERENT)])
def test_an_image_may_leave_in_the_order_in_which_it_came(order, verdict):
    """RGB and BGR: the port reads the channels reversed, and makes them reversed or in another order."""
    right = recipe.weight("filters", (3, 3, 5, 3), "filter")

    def net(filters):
        builder = GraphBuilder("style", format="onnx")
        x = builder.input("data", (1, 3, 11, 8))
        with builder.layer(Layer("conv", "conv", "Conv")):
            w = builder.parameter(Parameter("w", filters.shape), np.ascontiguousarray(filters))
            return builder.finish([builder.add("Tanh", [builder.add("Conv", [x, w])], outputs="y")])

    found = netweave.compare(net(right), net(right[list(order)][:, ::-1]))
    assert found.verdict is verdict


def goes_on(given, *, names=("raw", "prob")):
    """A convolution, a sigmoid and a product by 2, of which some are outputs; the last two have names."""
    builder = GraphBuilder("detector", format="onnx")
    x = builder.input("data", (1, 3, 9, 7))
    made = {}
    with builder.layer(Layer("conv", "conv", "Conv")):
        w = builder.parameter(Parameter("w", (4, 3, 3, 3)), recipe.weight("w", (4, 3, 3, 3), "filter"))
        made["conv"] = builder.add("Conv", [x, w], outputs="prob" if "conv" in given else "conv")
    with builder.layer(Layer("sigmoid", "sigmoid", "Sigmoid")):
        made["sigmoid"] = builder.add("Sigmoid", [made["conv"]], outputs=names[0])
    if names[1:]:
        with builder.layer(Layer("double", "double", "Mul")):
            made["double"] = builder.add("Mul", [made["sigmoid"], builder.constant(2.0)], outputs=names[1])
    return builder.finish([made[name] for name in given])


def test_a_net_that_goes_on_behind_an_output_differs_there():
    """As a detector with its post-processing: B's output has the name of A's, and A's is no output of B."""
    found = netweave.compare(goes_on(["sigmoid"], names=("prob",)), goes_on(["double"]))
    assert found.verdict is Verdict.DIFFERENT
    assert [finding.mismatch for finding in found.findings] == ["missing-layer"]
    assert "B has double (scaled by 2) here, A has nothing after sigmoid" in found.sentence


@pytest.mark.findings_by_order(
    reason="the finding is about the layer that makes A's output, which is another one where B is A"
)
def test_another_layer_under_the_name_of_an_output_is_a_difference():
    a = goes_on(["sigmoid", "double"], names=("prob", "twice"))
    found = netweave.compare(a, goes_on(["conv", "double"], names=("raw", "twice")))
    assert found.verdict is Verdict.DIFFERENT
    (finding,) = found.findings
    assert (finding.mismatch, finding.layer_a, finding.layer_b) == ("output", "sigmoid", "sigmoid")
    assert "B gives as 'prob' what 'conv' makes" in finding.cause
    assert finding.fix == "give what 'sigmoid' makes as 'prob'"


LOSS = "g (float[4,3] x) => (float y, float[4,3] z) { z = Sigmoid(x) y = ReduceMean<keepdims=0>(z) }"


def test_a_number_is_compared_as_any_output(tmp_path):
    net = read_text(LOSS, tmp_path, "a")
    assert netweave.compare(net, read_text(LOSS, tmp_path, "b")).verdict is Verdict.IDENTICAL
    other = read_text(LOSS.replace("ReduceMean", "ReduceMax"), tmp_path, "c")
    assert netweave.compare(net, other).verdict is Verdict.DIFFERENT


def test_a_number_may_be_a_list_of_one_number_in_b(tmp_path):
    net = read_text(LOSS, tmp_path, "a")
    text = LOSS.replace("float y", "float[1] y").replace(
        "y = ReduceMean<keepdims=0>(z)",
        "m = ReduceMean<keepdims=0>(z) s = Constant<value_ints=[1]>() y = Reshape(m, s)",
    )
    assert netweave.compare(net, read_text(text, tmp_path, "b")).equal


def test_a_number_becomes_a_list_by_a_constant(tmp_path):
    """Axes of an input are followed through a product, unless it has more of them."""
    text = (
        "g (float x, float k) => (float[4] y) { c = Constant<value_floats=[2.0, 3.0]>() "
        "m = Mul(x, c) r = Relu(m) n = Mul(k, c) y = Concat<axis=0>(r, n) }"
    )
    nets = (read_text(text, tmp_path, name) for name in "ab")
    assert netweave.compare(*nets).equal
