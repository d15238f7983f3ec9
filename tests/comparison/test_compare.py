"""Whole comparisons: equal pairs of other form are equal, planted faults are found, placed and explained."""

from __future__ import annotations

import json

import numpy as np
import pytest

from netweave.comparison import Status, Verdict, compare
from netweave.errors import UsageError
from netweave.graph import Graph, GraphBuilder, Layer, Parameter
from tests.comparison.nets import Form, build

EQUAL = {
    "the same": Form(),
    "renamed": Form(prefix="other_"),
    "folded": Form(fold=True),
    "folded and renamed": Form(fold=True, prefix="x/"),
    "channels last": Form(channels_last=True),
    "another flatten order": Form(flatten="HWC"),
    "folded, channels last, another flatten order": Form(fold=True, channels_last=True, flatten="HWC"),
    "height and width swapped": Form(swapped=True),
    "swapped, renamed, folded": Form(swapped=True, prefix="p_", fold=True),
}

FAULTS = {
    "padding moved to the end": (Form(pads=(0, 0, 2, 2)), "conv1", "padding"),
    "dilation and its padding": (Form(dilation=2, pads=(2, 2, 2, 2)), "conv1", "dilation + padding"),
    "eps": (Form(eps=0.5), "bn1", "epsilon"),
    "leaky slope": (Form(slope=0.3), "relu1", "leaky-slope"),
    "flatten order": (Form(flatten="HWC", flatten_unmatched=True), "fc", "flatten-order"),
    "one weight": (Form(changed={"conv2": ((3, 2, 1, 0), 0.5)}), "conv2", "weights"),
    "one gamma": (Form(changed={"gamma": ((3,), 1.0)}), "bn1", "weights"),
    "softmax axis": (Form(softmax_axis=0), "prob", "softmax-axis"),
    "a layer left out": (Form(drop=frozenset({"relu2"})), "relu2", "missing-layer"),
}


@pytest.mark.parametrize("form", EQUAL.values(), ids=EQUAL)
def test_equal_pairs_of_other_form_are_equal(form):
    found = compare(build(), build(form))
    assert found.equal, found.sentence
    assert found.exit_status == 0
    assert found.error < 1e-5
    assert not found.findings
    assert Status.PROPAGATED not in {group.status for group in found.groups}


def test_a_mapping_is_said():
    found = compare(build(), build(Form(swapped=True)))
    assert found.verdict is Verdict.EQUAL
    assert "height and width swapped" in found.sentence
    assert "channels reversed" in found.sentence


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("base", [Form(), Form(prefix="other_"), Form(channels_last=True)], ids=str)
def test_faults_are_found_placed_and_explained(fault, base):
    form, layer, mismatch = fault
    changed = {
        name: getattr(form, name)
        for name in Form.__dataclass_fields__
        if getattr(form, name) != getattr(Form(), name)
    }
    found = compare(build(), build(Form(**{**vars(base), **changed})))
    assert found.verdict is Verdict.DIFFERENT, found.sentence
    assert found.exit_status == 1
    (culprit,) = [g.finding for g in found.groups if g.status in {Status.DIFFERENT, Status.ONLY_A}]
    assert culprit.layer_a == layer
    assert culprit.mismatch == mismatch
    if mismatch != "missing-layer":
        assert culprit.error_fixed <= 1e-4 < culprit.error


def test_layers_after_a_fault_only_carry_it():
    found = compare(build(), build(Form(slope=0.3)))
    status = {group.layers_a: group.status for group in found.groups}
    assert status["relu1",] is Status.DIFFERENT
    assert status["conv1",] is status["bn1",] is Status.EQUAL
    assert status["conv2",] is status["fc",] is Status.PROPAGATED


def test_only_what_reads_a_fault_carries_it():
    """The other branch and its head read nothing of the damaged one, and the sum reads both."""

    def net(added: float) -> Graph:
        builder = GraphBuilder("net", format="onnx", files=("net",))

        def conv(name: str, x: str, channels: int) -> str:
            values = np.random.default_rng(len(name)).standard_normal((4, channels, 3, 3), dtype=np.float32)
            values[1, 1, 1, 1] += added if name == "left1" else 0
            stored = builder.parameter(Parameter(name, values.shape), values)
            with builder.layer(Layer(name, name, "Conv")):
                return builder.add("Conv", [x, stored], {"pads": [1] * 4}, outputs=f"{name}_out")

        x = conv("stem", builder.input("x", (1, 3, 8, 8)), 3)
        left = conv("left2a", conv("left1", x, 4), 4)
        right = conv("right-2b", conv("right_1", x, 4), 4)
        with builder.layer(Layer("sum", "sum", "Add")):
            both = builder.add("Add", [left, right], outputs="both")
        return builder.finish([both, right])

    found = compare(net(0.0), net(1.0))
    status = {layer: group.status for group in found.groups for layer in group.layers_a}
    carriers = {layer for layer, is_status in status.items() if is_status is Status.PROPAGATED}
    assert status["left1"] is Status.DIFFERENT
    assert carriers == {"left2a", "sum"}
    assert all(status[layer] is Status.EQUAL for layer in ("stem", "right_1", "right-2b"))


def test_a_difference_without_effect_is_latent():
    found = compare(build(), build(Form(rounding="floor")))
    assert found.equal
    (finding,) = found.findings
    assert finding.latent
    assert finding.mismatch == "pool-rounding"


def test_places_and_fix_are_in_the_words_of_the_sources():
    found = compare(build(), build(Form(pads=(0, 0, 2, 2))))
    assert "a.net:1" in found.sentence
    assert "b.net:1" in found.sentence
    assert "pads=[1, 1, 1, 1]" in found.sentence


def test_a_part_leaves_out_what_lies_outside():
    faulty = build(Form(slope=0.3, prefix="other_"))
    assert compare(build(), faulty, first="pool1").equal
    assert compare(build(), faulty, last="bn1").equal
    assert not compare(build(), faulty, first="bn1", last="pool1").equal
    with pytest.raises(UsageError, match="has no layer, node or value 'pool7'; it has pool1"):
        compare(build(), faulty, first="pool7")


def test_the_users_own_probe_is_used():
    zeros = {"data": np.zeros((2, 3, 11, 11), np.float32)}
    form = Form(slope=0.3)
    assert not compare(build(), build(form)).equal
    found = compare(build(), build(form), probe=zeros)
    assert found.probes == ("data 2x3x11x11",)
    with pytest.raises(UsageError, match="no 'data', an input of A; it has 'image'"):
        compare(build(), build(form), probe={"image": zeros["data"]})


def test_the_tolerance_decides_about_outputs():
    form = Form(slope=0.101)
    assert not compare(build(), build(form), tolerance=1e-5).equal
    assert compare(build(), build(form), tolerance=0.1).equal


def test_json_holds_everything():
    found = compare(build(), build(Form(slope=0.3)))
    text = json.dumps(found.to_json())
    assert json.loads(text)["exit_status"] == 1
    assert len(json.loads(text)["groups"]) == len(found.groups)


def test_a_probe_of_no_numbers_is_refused():
    """On NaN all nets agree."""
    nothing = {"data": np.full((1, 3, 11, 11), np.nan, np.float32)}
    with pytest.raises(UsageError, match="contains 363 values that are NaN or infinite"):
        compare(build(), build(Form(slope=0.3)), probe=nothing)


def test_the_ends_of_a_part_stand_in_order():
    with pytest.raises(UsageError, match="'conv2' comes after 'conv1' in A"):
        compare(build(), build(), first="conv2", last="conv1")
