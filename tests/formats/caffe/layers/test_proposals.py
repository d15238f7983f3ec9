"""The Python layers of Faster R-CNN: a net of ours with its proposals, for prediction and for training."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, UnsupportedError
from netweave.formats.caffe.python_code import parse_settings
from netweave.graph import find_operator, known_shape
from tests.formats.caffe.nets import inputs, layer, load, normal, run

HEADS = inputs(scores=(1, 18, 5, 6), deltas=(1, 36, 5, 6), info=(1, 3))


def python(name, settings, bottoms, tops):
    module = {"ProposalLayer": "proposal_layer", "AnchorTargetLayer": "anchor_target_layer"}.get(
        name, "proposal_target_layer"
    )
    parameter = f"python_param {{ module: 'rpn.{module}' layer: '{name}' param_str: \"{settings}\" }}"
    return layer("Python", parameter, bottoms=bottoms, tops=tops)


@pytest.mark.parametrize(("phase", "limits"), [("TEST", (6000, 300)), ("TRAIN", (12000, 2000))])
def test_proposals_become_an_operator_by_the_settings_of_the_phase(tmp_path, phase, limits):
    text = HEADS + python("ProposalLayer", "'feat_stride': 8", "scores deltas info", "rois best")
    graph = load(tmp_path, text, phase=phase)
    arrays = {
        "scores": np.abs(normal(1, 18, 5, 6)),
        "deltas": 0.2 * normal(1, 36, 5, 6),
        "info": np.array([[40, 48, 1]], np.float32),
    }
    found = run(graph, **arrays)
    settings = {
        "feature_stride": 8,
        "scales": (8.0, 16.0, 32.0),
        "pre_nms_top_n": limits[0],
        "post_nms_top_n": limits[1],
    }
    expected = find_operator("RegionProposal").forward(list(arrays.values()), settings)
    np.testing.assert_allclose(found["rois"], expected[0], rtol=1e-6)
    np.testing.assert_allclose(found["best"], expected[1], rtol=1e-6)


def test_regions_that_are_proposed_are_pooled(tmp_path):
    text = HEADS + inputs(x=(1, 2, 5, 6))
    text += python("ProposalLayer", "{'feat_stride': 8, 'scales': [8, 16, 32]}", "scores deltas info", "rois")
    text += layer("ROIPooling", "roi_pooling_param { pooled_size: 2 spatial_scale: 0.125 }", bottoms="x rois")
    text += layer("InnerProduct", "inner_product_param { num_output: 3 }", bottoms="y", tops="z")
    info = np.array([[40, 48, 1]], np.float32)
    found = run(
        load(tmp_path, text),
        scores=np.abs(normal(1, 18, 5, 6)),
        deltas=0.2 * normal(1, 36, 5, 6),
        info=info,
        x=normal(1, 2, 5, 6),
    )
    assert found["z"].shape[0] > 1
    assert found["z"].shape[1] == 3


def test_targets_of_training_are_inputs(tmp_path):
    text = HEADS + inputs(boxes=(4, 5), regions=(7, 5))
    text += python("AnchorTargetLayer", "'feat_stride': 8", "scores boxes info deltas", "l t i o")
    text += python("ProposalTargetLayer", "'num_classes': 21", "regions boxes", "rois labels t2 i2 o2")
    text += layer("SmoothL1Loss", "smooth_l1_loss_param { sigma: 3 }", bottoms="deltas t i o", tops="loss")
    graph = load(tmp_path, text)
    shapes = {value.name: known_shape(value) for value in graph.inputs}
    assert shapes["l"] == (None, 1, 45, 6)
    assert shapes["t"] == shapes["i"] == shapes["o"] == (None, 36, 5, 6)
    assert shapes["rois"] == (None, 5)
    assert shapes["labels"] == (None, 1)
    assert shapes["t2"] == shapes["o2"] == (None, 84)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("'feat_stride': 16", {"feat_stride": 16}),
        ("feat_stride: 16\nscales: [4, 8]", {"feat_stride": 16, "scales": [4, 8]}),
        ("{'feat_stride': 8, 'scales': !!python/tuple [4, 8]}", {"feat_stride": 8, "scales": [4, 8]}),
        ("", {}),
    ],
)
def test_settings_are_read_as_their_files_write_them(text, settings):
    assert parse_settings(text) == settings


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ProposalLayer", "16", "'param_str' is '16', expected names with values"),
        ("ProposalLayer", "__import__('os').getcwd(): 1", "expected names with values"),
        ("ProposalLayer", "", "has no 'feat_stride'"),
        ("ProposalLayer", "'feat_stride': 1.5", "has 'feat_stride' 1.5, expected a whole number above 0"),
        (
            "ProposalLayer",
            "'feat_stride': 16, 'scales': []",
            r"has the 'scales' \[\], expected numbers above 0",
        ),
        ("ProposalLayer", "'feat_stride': 16, 'min': 4", "has 'min', expected 'feat_stride', 'scales' only"),
        ("ProposalTargetLayer", "'classes': 4", "has 'classes', expected 'num_classes' only"),
        ("ProposalTargetLayer", "", "has no 'num_classes'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, name, settings, message):
    bottoms, tops = ("scores deltas info", "y") if name == "ProposalLayer" else ("scores info", "a b c d e")
    with pytest.raises(ReadError, match=rf"net.prototxt:4: layer .Python. \(Python\): .*{message}"):
        load(tmp_path, HEADS + python(name, settings, bottoms, tops))


def test_a_class_that_is_not_known_is_named(tmp_path):
    text = HEADS + layer("Python", "python_param { module: 'mine' layer: 'Twice' }", bottoms="scores")
    with pytest.raises(
        UnsupportedError, match=r"mine.Twice .'Python' on line 4; a Python class, whose code is"
    ):
        load(tmp_path, text)


def test_an_unknown_layer_that_reads_nothing_is_an_input(tmp_path):
    code = 'python_param { module: "m" layer: "Data" }'
    text = f'layer {{ name: "d" type: "Python" top: "x" top: "label" {code} }}\n'
    text += 'layer { name: "e" type: "VideoData" top: "y" video_data_param { source: "list" } }\n'
    shapes = {"x": (2, 3, 4, 5), "label": (2,), "y": (2, 3, 4, 5)}
    text += layer("Eltwise", bottoms="x y", tops="z")
    graph = load(tmp_path, text, input_shapes=shapes)
    assert [value.name for value in graph.inputs] == ["x", "label", "y"]
    with pytest.raises(ReadError, match=r"does not give all sizes of 'x', 'label', 'y'.*--input-shape x=Nx"):
        load(tmp_path, text)


def test_losses_of_other_branches_are_refused_by_their_settings(tmp_path):
    for kind, settings, message in (
        ("SoftmaxWithLoss", "normalization: PRE_FIXED", "PRE_FIXED of the R-FCN branch"),
        (
            "SigmoidCrossEntropyLoss",
            "weight_by_label_freqs: true",
            "of the SegNet branch is for SoftmaxWithLoss",
        ),
    ):
        text = inputs(x=(2, 3), t=(2, 3)) + layer(kind, f"loss_param {{ {settings} }}", bottoms="x t")
        with pytest.raises(UnsupportedError, match=message):
            load(tmp_path, text)


def test_smooth_l1_loss_with_three_bottoms_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="has 3 bottoms, as in the R-FCN branch"):
        load(tmp_path, inputs(a=(2, 3), b=(2, 3), w=(2, 3)) + layer("SmoothL1Loss", bottoms="a b w"))
