"""Nets of every age become the same net; rules of upgrade_proto.cpp."""

from __future__ import annotations

import pytest

from netweave.errors import ReadError
from netweave.files.prototext import parse_text
from netweave.formats.caffe.schema import V0_FIELDS, V0_TYPES, V1_TYPES, caffe_schema, upgrade


def upgraded(text):
    net = parse_text(text.encode(), caffe_schema(), "NetParameter", place="net.prototxt")
    upgrade(net, place="net.prototxt")
    return net


V0 = """
name: "old"
input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "pad1" }
layers { layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 5 group: 1 stride: 2 biasterm: false
  weight_filler { type: "gaussian" std: 0.01 } blobs_lr: 1. blobs_lr: 2. weight_decay: 1. weight_decay: 0.
  } bottom: "pad1" top: "conv1" }
layers { layer { name: "pool1" type: "pool" pool: AVE kernelsize: 3 stride: 2 } bottom: "conv1" top: "pool1" }
layers { layer { name: "norm1" type: "lrn" local_size: 3 alpha: 0.1 beta: 0.5 } bottom: "pool1" top: "norm1" }
layers { layer { name: "drop" type: "dropout" dropout_ratio: 0.3 } bottom: "norm1" top: "norm1" }
layers { layer { name: "cat" type: "concat" concat_dim: 1 } bottom: "norm1" bottom: "norm1" top: "cat" }
layers { layer { name: "ip" type: "innerproduct" num_output: 2 } bottom: "cat" top: "ip" }
layers { layer { name: "prob" type: "softmax" } bottom: "ip" top: "prob" }
"""

V1 = """
name: "old"
input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" blobs_lr: 1 blobs_lr: 2
  weight_decay: 1 weight_decay: 0
  convolution_param { num_output: 4 bias_term: false weight_filler { type: "gaussian" std: 0.01 }
    pad: 2 kernel_size: 5 stride: 2 group: 1 } }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layers { name: "norm1" type: LRN bottom: "pool1" top: "norm1"
  lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 } }
layers { name: "drop" type: DROPOUT bottom: "norm1" top: "norm1" dropout_param { dropout_ratio: 0.3 } }
layers { name: "cat" type: CONCAT bottom: "norm1" bottom: "norm1" top: "cat" concat_param { concat_dim: 1 } }
layers { name: "ip" type: INNER_PRODUCT bottom: "cat" top: "ip" inner_product_param { num_output: 2 } }
layers { name: "prob" type: SOFTMAX bottom: "ip" top: "prob" }
"""

V2 = """
name: "old"
layer { name: "input" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 4 bias_term: false weight_filler { type: "gaussian" std: 0.01 }
    pad: 2 kernel_size: 5 stride: 2 group: 1 } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "norm1" type: "LRN" bottom: "pool1" top: "norm1"
  lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 } }
layer { name: "drop" type: "Dropout" bottom: "norm1" top: "norm1" dropout_param { dropout_ratio: 0.3 } }
layer { name: "cat" type: "Concat" bottom: "norm1" bottom: "norm1" top: "cat" concat_param { concat_dim: 1 } }
layer { name: "ip" type: "InnerProduct" bottom: "cat" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


def test_three_ages_of_one_net():
    assert upgraded(V0).to_json() == upgraded(V1).to_json() == upgraded(V2).to_json()


def test_lines_survive():
    net = upgraded(V0)
    lines = V0.splitlines()
    for layer in net["layer"][1:]:
        assert f'"{layer["name"]}"' in lines[layer.line - 1]
    conv = net["layer"][1]
    assert (conv["convolution_param"].line_of("pad"), conv["convolution_param"].line_of("kernel_size")) == (
        4,
        5,
    )
    assert conv["param"][1].line_of("lr_mult") == 6
    assert net["layer"][0].line == 3


def test_every_number_of_v1_has_a_name_and_every_name_of_v0_a_number():
    assert set(V1_TYPES) == set(caffe_schema().enums["V1LayerParameter.LayerType"])
    assert set(V0_TYPES.values()) <= set(V1_TYPES)


def test_every_field_of_v0_goes_to_one_of_v1():
    messages = caffe_schema().messages
    routed = {name for name, _, _ in V0_FIELDS}
    direct = {"name", "type", "blobs", "blobs_lr", "weight_decay", "hdf5_output_param"}
    lost = {
        "new_num",
        "new_channels",
        "new_height",
        "new_width",
    } - routed  # of a reshape layer that never was
    assert set(messages["V0LayerParameter"].fields) == routed | direct | lost
    for _, later, targets in V0_FIELDS:
        for kind, target in targets.items():
            assert kind in V0_TYPES
            assert later in messages[messages["V1LayerParameter"].fields[target].of].fields


def test_data_settings_move_to_the_transformation():
    net = upgraded(
        'layers { name: "d" type: DATA top: "d" data_param { scale: 2 crop_size: 7 batch_size: 3 } }'
    )
    settings = net["layer"][0].to_json()
    assert settings["transform_param"] == {"scale": 2.0, "crop_size": 7}
    assert settings["data_param"] == {"batch_size": 3}
    kept = upgraded('layer { name: "d" type: "Data" top: "d" data_param { scale: 2 } }')
    assert kept["layer"][0].to_json()["data_param"] == {"scale": 2.0}


def test_shared_names_and_rates_become_param_entries():
    net = upgraded(
        'layers { type: CONVOLUTION name: "c" param: "w" param: "b" blob_share_mode: STRICT '
        "blob_share_mode: PERMISSIVE blobs_lr: 3 }"
    )
    assert net["layer"][0].to_json()["param"] == [
        {"name": "w", "share_mode": "STRICT", "lr_mult": 3.0},
        {"name": "b", "share_mode": "PERMISSIVE"},
    ]


def test_several_inputs_become_one_layer():
    net = upgraded('input: "a" input: "b" ' + "input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4 " * 2)
    assert net["layer"][0].to_json() == {
        "name": "input",
        "type": "Input",
        "top": ["a", "b"],
        "input_param": {"shape": [{"dim": [1, 2, 3, 4]}, {"dim": [1, 2, 3, 4]}]},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('layers { name: "a" type: RELU }\nlayer { name: "b" }', "net.prototxt:2: the net has both 'layers'"),
        (
            'layers { layer { name: "a" type: "cnov" } }',
            "net.prototxt:1: layer 'a': unknown type 'cnov' of a V0",
        ),
        (
            'layers { layer { name: "p" type: "padding" } bottom: "d" top: "p" }\n'
            'layers { layer { name: "r" type: "relu" } bottom: "p" top: "r" }',
            "net.prototxt:2: layer 'r': only a conv or pool layer with one bottom may read a padding layer",
        ),
        (
            'layers { layer { name: "p" type: "padding" } bottom: "d" }',
            "a padding layer has one bottom and one top",
        ),
        (
            'input: "a"\ninput_dim: 1 input_dim: 3',
            "net.prototxt:2: the net has 1 'input' and 2 'input_dim', expected 4",
        ),
        (
            'input: "a" input: "b"\ninput_shape { dim: 1 }',
            "net.prototxt:2: the net has 2 'input' and 1 'input_shape'",
        ),
    ],
)
def test_what_cannot_be_upgraded_is_named(text, message):
    with pytest.raises(ReadError) as caught:
        upgraded(text)
    assert message in str(caught.value)
