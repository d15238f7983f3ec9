"""An SSD of Caffe's own, written again: by its own layers, which OpenCV runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave.errors import UnsupportedError
from tests.formats.framework_runs import Case, check
from tests.formats.onnx.test_functions import corners, net, probabilities

ORACLES = os.environ.get("NETWEAVE_ORACLES")
ROOT = Path(__file__).parents[3]

SSD = """
name: "ssd"
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 1 dim: 3 dim: 24 dim: 32 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 4 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "norm" type: "Normalize" bottom: "conv" top: "norm"
  norm_param { across_spatial: false channel_shared: false scale_filler { type: "constant" value: 20 } } }
layer { name: "loc" type: "Convolution" bottom: "norm" top: "loc"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "gaussian" std: 0.03 } } }
layer { name: "loc_perm" type: "Permute" bottom: "loc" top: "loc_perm"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "loc_flat" type: "Flatten" bottom: "loc_perm" top: "loc_flat" }
layer { name: "conf" type: "Convolution" bottom: "norm" top: "conf"
  convolution_param { num_output: 12 kernel_size: 3 pad: 1 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "conf_perm" type: "Permute" bottom: "conf" top: "conf_perm"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "conf_flat" type: "Flatten" bottom: "conf_perm" top: "conf_flat" }
layer { name: "priors" type: "PriorBox" bottom: "norm" bottom: "data" top: "priors"
  prior_box_param { min_size: 6 max_size: 12 aspect_ratio: 2
    variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
layer { name: "all_priors" type: "Concat" bottom: "priors" top: "all_priors" concat_param { axis: 2 } }
layer { name: "rows" type: "Reshape" bottom: "conf_flat" top: "rows"
  reshape_param { shape { dim: 0 dim: -1 dim: 3 } } }
layer { name: "chance" type: "Softmax" bottom: "rows" top: "chance" softmax_param { axis: 2 } }
layer { name: "chance_flat" type: "Flatten" bottom: "chance" top: "chance_flat" }
layer { name: "found" type: "DetectionOutput" bottom: "loc_flat" bottom: "chance_flat" bottom: "all_priors"
  top: "found"
  detection_output_param { num_classes: 3 share_location: true background_label_id: 0
    nms_param { nms_threshold: 0.45 top_k: 40 }
    code_type: CENTER_SIZE keep_top_k: 20 confidence_threshold: 0.2 } }
"""


def saved(folder):
    (folder / "ssd.prototxt").write_text(SSD)
    graph = netweave.load(folder / "ssd.prototxt")
    netweave.save(graph, folder / "written.prototxt", random_weights=True)
    return graph, np.random.default_rng(3).normal(size=(1, 3, 24, 32)).astype(np.float32)


def test_what_is_written_computes_the_same(tmp_path):
    graph, x = saved(tmp_path)
    (wanted,) = netweave.run(graph, {"data": x}).values()
    (found,) = netweave.run(netweave.load(tmp_path / "written.prototxt"), {"data": x}).values()
    assert wanted.shape == (1, 1, 20, 7)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    text = (tmp_path / "written.prototxt").read_text()
    assert all(f'type: "{kind}"' in text for kind in ("Normalize", "PriorBox", "Permute", "DetectionOutput"))


def framework_cases(folder):
    (folder / "ssd").mkdir(exist_ok=True)
    graph, x = saved(folder / "ssd")
    yield Case("an SSD of Caffe's own", graph, {"data": x}, random_weights=True, has_rows=True)


def test_opencv_finds_the_same_boxes(tmp_path):
    (case,) = framework_cases(tmp_path)
    check("caffe", case, tmp_path)


def test_a_detection_of_no_layer_of_caffes_is_refused(tmp_path):
    graph = net("DetectionOutput", [corners(1, 8, 1), probabilities(1, 8, 3, axis=2)], {})
    with pytest.raises(UnsupportedError, match=r"no DetectionOutput of Caffe's"):
        netweave.save(graph, tmp_path / "net.prototxt")
