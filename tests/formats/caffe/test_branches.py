"""What branches of Caffe add to a net that predicts without it: it is read, and what is left out is said."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import ReadError, UnsupportedError
from tests.oracles.caffemodel import caffemodel

HEAD = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 } MORE
}
"""

LABEL = """
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 1 dim: 5 } } }
"""

REGION = 'layer { name: "region" type: "RegionLoss" bottom: "conv" bottom: "label" top: "region" }'


def read(tmp_path, text, **options):
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    return netweave.load(path, **options)


QUANTISED = """
  quantization_param {
    bw_layer_in: 8 bw_layer_out: 8 bw_params: 8 scale_in: 1.5 scale_out: 0.5 scale_params: 127 scale_params: 9
  }
"""


def test_a_net_for_8_bits_is_read_as_it_is_stored_and_that_is_said(tmp_path):
    graph = read(tmp_path, HEAD.replace("MORE", QUANTISED))
    plain = read(tmp_path, HEAD.replace("MORE", ""))
    assert [node.op_type for node in graph.nodes] == [node.op_type for node in plain.nodes]
    assert any("1 layer has a 'quantization_param'" in note for note in graph.notes)
    assert not plain.notes
    assert graph.layers["conv"].settings["quantization_param"]["scale_params"] == [127, 9]


def test_how_many_machines_share_a_layer_is_no_part_of_the_net(tmp_path):
    more = "multinode { num_nodes: 4 model_parts: 2 }"
    graph = read(tmp_path, HEAD.replace("MORE", more))
    assert [node.op_type for node in graph.nodes] == ["Conv"]


@pytest.mark.parametrize("value", ["false", "true"])
def test_a_concatenation_that_fuses_others_is_refused_and_one_that_says_it_does_not_is_read(tmp_path, value):
    concat = f"""
layer {{
  name: "join" type: "Concat" bottom: "conv" bottom: "conv" top: "join"
  concat_param {{ axis: 1 per_fla_fuse: {value} }}
}}
"""
    text = HEAD.replace("MORE", "") + concat
    if value == "true":
        with pytest.raises(UnsupportedError, match=r"'join'.*'per_fla_fuse: true'.*Permute and Flatten"):
            read(tmp_path, text)
    else:
        assert [node.op_type for node in read(tmp_path, text).nodes] == ["Conv", "Concat"]


def test_a_net_is_read_without_a_loss_that_it_has_besides(tmp_path):
    graph = read(tmp_path, HEAD.replace("MORE", "") + LABEL + REGION)
    assert [str(value.name) for value in graph.outputs] == ["conv"]
    assert [str(value.name) for value in graph.inputs] == ["data", "label"]
    assert any("layer 'region' (RegionLoss) is for training" in note for note in graph.notes)


def test_losses_that_feed_one_another_are_left_out_together(tmp_path):
    text = (
        HEAD.replace("MORE", "")
        + LABEL
        + """
layer { name: "pick" type: "BoxAnnotatorOHEM" bottom: "conv" bottom: "label" top: "picked" }
layer { name: "loss" type: "SoftmaxWithLossOHEM" bottom: "conv" bottom: "picked" top: "loss" }
"""
    )
    assert [str(value.name) for value in read(tmp_path, text).outputs] == ["conv"]


@pytest.mark.parametrize(
    ("more", "phase"),
    [("", "TRAIN"), ('layer { name: "after" type: "ReLU" bottom: "region" top: "after" }', "TEST")],
)
def test_a_loss_is_refused_where_the_net_trains_or_reads_it(tmp_path, more, phase):
    with pytest.raises(UnsupportedError, match="RegionLoss"):
        read(tmp_path, HEAD.replace("MORE", "") + LABEL + REGION + more, phase=phase)


DETECTION = """
layer { name: "loc" type: "Input" top: "loc" input_param { shape { dim: 1 dim: 8 } } }
layer { name: "conf" type: "Input" top: "conf" input_param { shape { dim: 1 dim: 6 } } }
layer { name: "priors" type: "Input" top: "priors" input_param { shape { dim: 1 dim: 2 dim: 8 } } }
layer { name: "image" type: "Input" top: "image" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "out" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "priors" MORE top: "out"
  detection_output_param { num_classes: 3 nms_param { nms_threshold: 0.45 top_k: 10 } keep_top_k: 5 }
}
"""


def test_the_image_that_boxes_are_drawn_into_changes_no_number(tmp_path):
    graph = read(tmp_path, DETECTION.replace("MORE", 'bottom: "image"'))
    (node,) = [node for node in graph.nodes if node.op_type == "DetectionOutput"]
    names = {str(value.name) for value in node.inputs if value is not None}
    assert "image" not in names


def test_channels_that_a_data_layer_does_not_say_are_those_of_the_first_filters(tmp_path):
    text = """
layer {
  name: "data" type: "Data" top: "data" top: "label"
  transform_param { crop_size: 9 } data_param { source: "nowhere" batch_size: 2 }
}
layer {
  name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 group: 2 }
}
"""
    filters = [np.ones((4, 3, 3, 3), np.float32), np.zeros(4, np.float32)]
    path = tmp_path / "net.caffemodel"
    path.write_bytes(caffemodel([("conv", "convolution", filters)], generation=2))
    graph = read(tmp_path, text)
    assert graph.declared["data"] == (2, 6, 9, 9)
    path.unlink()
    with pytest.raises(ReadError, match="'data'"):
        read(tmp_path, text)
