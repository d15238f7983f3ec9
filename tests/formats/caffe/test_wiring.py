"""Phases, stages and levels; blobs that are written over; what is wrong in a chain of blobs."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError
from tests.formats.caffe.nets import inputs, layer, load

HEAD = inputs(x=(2, 3))


@pytest.mark.parametrize(
    ("rules", "wishes", "kept"),
    [
        ("", {}, True),
        ("include { phase: TEST }", {}, True),
        ("include { phase: TRAIN }", {}, False),
        ("include { phase: TRAIN }", {"phase": "TRAIN"}, True),
        ("exclude { phase: TRAIN }", {"phase": "TRAIN"}, False),
        ("include { phase: TRAIN } include { phase: TEST }", {}, True),
        ("exclude { phase: TRAIN } exclude { phase: TEST }", {}, False),
        ("exclude {}", {}, False),
        ("include {}", {}, True),
        ("include { stage: 'a' stage: 'b' }", {"stages": ("a",)}, False),
        ("include { stage: 'a' stage: 'b' }", {"stages": ("a", "b", "c")}, True),
        ("include { not_stage: 'a' }", {"stages": ("a",)}, False),
        ("include { stage: 'own' }", {}, True),
        ("include { min_level: 1 }", {}, False),
        ("include { min_level: 1 max_level: 3 }", {"level": 2}, True),
        ("include { min_level: 1 max_level: 3 }", {"level": 4}, False),
        ("include { phase: TEST min_level: 1 }", {}, False),
    ],
)
def test_rules(tmp_path, rules, wishes, kept):
    text = "state { stage: 'own' }" + HEAD + layer("TanH", tops="t") + layer("ReLU", rules, bottoms="t")
    graph = load(tmp_path, text, **wishes)
    assert [value.name for value in graph.outputs] == (["y"] if kept else ["t"])


def test_the_last_version_of_a_blob_keeps_the_name_and_an_input_always(tmp_path):
    text = (
        HEAD
        + layer("TanH", bottoms="x", tops="x")
        + layer("AbsVal", bottoms="x", tops="a")
        + layer("ReLU", bottoms="a", tops="a")
        + layer("Sigmoid", bottoms="a", tops="b")
        + layer("ELU", bottoms="a", tops="a")
    )
    graph = load(tmp_path, text)
    ends = {key: (each.inputs, each.outputs) for key, each in graph.layers.items()}
    assert ends["TanH"] == (("x",), ("x@TanH",))
    assert ends["AbsVal"] == (("x@TanH",), ("a@AbsVal",))
    assert ends["ReLU"] == (("a@AbsVal",), ("a@ReLU",))
    assert ends["Sigmoid"] == (("a@ReLU",), ("b",))
    assert ends["ELU"] == (("a@ReLU",), ("a",))
    assert [value.name for value in graph.outputs] == ["a", "b"]


def test_outputs_are_what_no_layer_reads_in_the_order_of_names(tmp_path):
    text = (
        HEAD
        + inputs(unread=(2, 3))
        + layer("TanH", tops="z")
        + layer("ReLU", tops="b")
        + layer("ELU", tops="a")
    )
    assert [value.name for value in load(tmp_path, text).outputs] == ["a", "b", "z"]


def test_a_loss_without_a_top_is_an_output(tmp_path):
    graph = load(tmp_path, HEAD + inputs(z=(2, 3)) + layer("EuclideanLoss", bottoms="x z", tops=""))
    assert [value.name for value in graph.outputs] == ["EuclideanLoss"]


def test_layers_of_one_name_have_keys_of_their_own(tmp_path):
    graph = load(tmp_path, HEAD + layer("ReLU", tops="a") + layer("ReLU", tops="b"))
    assert list(graph.layers) == ["x", "ReLU", "ReLU#1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            layer("ReLU", bottoms="nowhere"),
            "net.prototxt:2: layer 'ReLU' (ReLU): reads the blob 'nowhere', but no layer",
        ),
        (
            layer("ReLU", bottoms="y", tops="z") + layer("TanH"),
            "net.prototxt:2: layer 'ReLU' (ReLU): reads the blob 'y', but layer 'TanH' (line 3) makes it",
        ),
        (
            layer("ReLU", bottoms="y"),
            "reads the blob 'y', but layer 'ReLU' (line 2) makes it only here or later",
        ),
        (
            layer("ReLU") + layer("TanH"),
            "net.prototxt:3: layer 'TanH' (TanH): writes the blob 'y', which",
        ),
        (layer("Eltwise", bottoms="x x", tops="x y"), "has 2 tops, expected 1"),
        (layer("ReLU", "include {} exclude {}"), "layer 'ReLU' (ReLU): has both 'include' and 'exclude'"),
        (
            layer("ReLU", "loss_weight: 1 loss_weight: 1"),
            "has 2 'loss_weight' for 1 tops, expected none or one",
        ),
        (layer("PReLU", "param {} param {}"), "has 2 'param' entries for 1 stored arrays"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(ReadError) as caught:
        load(tmp_path, HEAD + text)
    assert message in str(caught.value)


def test_a_net_without_layers_in_its_phase(tmp_path):
    with pytest.raises(ReadError, match=r"net\.prototxt: no layer is part of the net in phase TEST"):
        load(tmp_path, layer("ReLU", "include { phase: TRAIN }"))


def test_more_tops_than_a_layer_makes_are_refused(tmp_path):
    settings = "convolution_param { num_output: 2 kernel_size: 1 }"
    net = inputs(x=(1, 2, 3, 3)) + layer("Convolution", settings, tops="t u")
    text = net + layer("ReLU", bottoms="u")
    with pytest.raises(ReadError, match=r"has 2 tops, but makes 1 of its 1 bottoms; remove the top 'u'"):
        load(tmp_path, text)
