"""LRN, BatchNorm and MVN against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored


@pytest.mark.parametrize("k", [1.0, 2.0])
def test_lrn_across_channels_divides_by_the_whole_window(tmp_path, k):
    text = inputs(x=(2, 7, 3, 4)) + layer(
        "LRN", f"lrn_param {{ local_size: 5 alpha: 0.5 beta: 0.75 k: {k} }}"
    )
    x = normal(2, 7, 3, 4)
    sums = np.stack([(x[:, max(0, c - 2) : c + 3] ** 2).sum(axis=1) for c in range(7)], axis=1)
    np.testing.assert_allclose(
        run(load(tmp_path, text), x=x)["y"], x * (k + 0.5 / 5 * sums) ** -0.75, rtol=1e-5
    )


def test_lrn_within_a_channel_counts_padding_and_ignores_k(tmp_path):
    settings = "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 k: 9 norm_region: WITHIN_CHANNEL }"
    text, x = inputs(x=(2, 3, 4, 5)) + layer("LRN", settings), normal(2, 3, 4, 5)
    padded = np.pad(x**2, ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = sum(padded[:, :, i : i + 4, j : j + 5] for i in range(3) for j in range(3))
    np.testing.assert_allclose(
        run(load(tmp_path, text), x=x)["y"], x * (1 + 0.5 / 9 * sums) ** -0.75, rtol=1e-5
    )


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (4, 3, 5, 6)])
def test_batch_norm_uses_the_stored_statistics_in_test_phase(tmp_path, shape):
    graph = load(tmp_path, inputs(x=shape) + layer("BatchNorm", "batch_norm_param { eps: 0.01 }"))
    arrays, x = stored(graph), normal(*shape)
    mean, variance = (arrays[f"BatchNorm/{i}"].reshape(-1, *[1] * (len(shape) - 2)) for i in (0, 1))
    expected = (x - mean) / np.sqrt(variance + 0.01)
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)
    assert [graph.parameters[f"BatchNorm/{i}"].shape for i in range(3)] == [(3,), (3,), (1,)]
    assert not any(graph.parameters[f"BatchNorm/{i}"].trainable for i in range(3))


@pytest.mark.parametrize(
    ("phase", "settings"), [("TRAIN", ""), ("TEST", "batch_norm_param { use_global_stats: false }")]
)
def test_batch_norm_uses_the_batch_otherwise(tmp_path, phase, settings):
    graph = load(tmp_path, inputs(x=(4, 3, 5, 6)) + layer("BatchNorm", settings), phase=phase)
    x = normal(4, 3, 5, 6)
    axes = (0, 2, 3)
    expected = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)


def test_batch_norm_statistics_are_not_learnt(tmp_path):
    three = "param { lr_mult: 1 } " * 3  # written by hand in older nets; Caffe forces them to 0
    graph = load(tmp_path, inputs(x=(4, 3)) + layer("BatchNorm", three))
    assert {graph.parameters[f"BatchNorm/{i}"].lr_mult for i in range(3)} == {0.0}
    with pytest.raises(
        ReadError, match="its arrays are statistics and are not trained: 'lr_mult' is 1, expected 0"
    ):
        load(tmp_path, inputs(x=(4, 3)) + layer("BatchNorm", "param { lr_mult: 1 }"))


@pytest.mark.parametrize(("across", "axes"), [("true", (1, 2, 3)), ("false", (2, 3))])
@pytest.mark.parametrize("variance", [True, False])
def test_mvn(tmp_path, across, axes, variance):
    settings = (
        f"mvn_param {{ across_channels: {across} normalize_variance: {str(variance).lower()} eps: 0.1 }}"
    )
    x = normal(2, 3, 4, 5) + 3
    expected = x - x.mean(axes, keepdims=True)
    if variance:
        expected /= x.std(axes, keepdims=True) + 0.1
    found = run(load(tmp_path, inputs(x=x.shape) + layer("MVN", settings)), x=x)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "settings", "error", "message"),
    [
        ("LRN", "lrn_param { local_size: 4 }", ReadError, "'local_size' is 4, expected an odd number"),
        ("MVN", "", ShapeError, "needs four axes, found 2"),
    ],
)
def test_wrong_settings_are_named(tmp_path, kind, settings, error, message):
    shape = (2, 3) if kind == "MVN" else (2, 3, 4, 4)
    with pytest.raises(error, match=rf"net.prototxt:2: layer '{kind}' \({kind}\): {message}"):
        load(tmp_path, inputs(x=shape) + layer(kind, settings))


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
