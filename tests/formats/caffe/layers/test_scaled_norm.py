"""The two layers that are named BN, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored

X = (4, 3, 5, 6)
FILLED = "scale_filler { type: 'gaussian' std: 1 } shift_filler { type: 'gaussian' std: 1 }"


def normalised(x, eps):
    axes = (0, 2, 3)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_of_segnet_it_is_scale_and_shift_once_the_statistics_are_put_in(tmp_path):
    graph = load(tmp_path, inputs(x=X) + layer("BN", f"bn_param {{ {FILLED} bn_mode: INFERENCE }}"))
    scale, shift = (stored(graph)[f"BN/{i}"] for i in (0, 1))
    x = normal(*X)
    assert scale.shape == shift.shape == (1, 3, 1, 1)
    np.testing.assert_allclose(run(graph, x=x)["y"], x * scale + shift, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("phase", ["TEST", "TRAIN"])
def test_of_segnet_it_learns_by_the_batch_in_both_phases(tmp_path, phase):
    graph = load(tmp_path, inputs(x=X) + layer("BN", f"bn_param {{ {FILLED} }}"), phase=phase)
    scale, shift = (stored(graph)[f"BN/{i}"] for i in (0, 1))
    x = normal(*X)
    expected = normalised(x, 1e-9) * scale + shift
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("phase", "settings"), [("TEST", ""), ("TRAIN", "frozen: true engine: CAFFE"), ("TEST", "eps: 1")]
)
def test_of_pspnet_it_has_four_arrays(tmp_path, phase, settings):
    graph = load(tmp_path, inputs(x=X) + layer("BN", f"bn_param {{ {settings} }}"), phase=phase)
    arrays, x = stored(graph), normal(*X)
    scale, shift = (arrays[f"BN/{i}"].reshape(1, 3, 1, 1) for i in (0, 1))
    mean, variance = (arrays[f"BN/{i}"].reshape(1, 3, 1, 1) for i in (2, 3))
    eps = 1 if "eps" in settings else 1e-5
    expected = (x - mean) / np.sqrt(variance + eps) * scale + shift
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)
    assert [graph.parameters[f"BN/{i}"].trainable for i in range(4)] == [True, True, False, False]


def test_of_pspnet_it_learns_by_the_batch(tmp_path):
    text = inputs(x=X) + layer("BN", "bn_param { frozen: false slope_filler { value: 1 } }")
    graph, x = load(tmp_path, text, phase="TRAIN"), normal(*X)
    scale, shift = (stored(graph)[f"BN/{i}"].reshape(1, 3, 1, 1) for i in (0, 1))
    expected = normalised(x, 1e-5) * scale + shift
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)


def test_settings_of_both_are_refused(tmp_path):
    with pytest.raises(ReadError, match="'bn_mode' of the SegNet branch and 'frozen' of the PSPNet branch"):
        load(tmp_path, inputs(x=X) + layer("BN", "bn_param { bn_mode: LEARN frozen: true }"))


def test_it_needs_an_image(tmp_path):
    with pytest.raises(ShapeError, match="needs four axes, found 2"):
        load(tmp_path, inputs(x=(4, 3)) + layer("BN"))
