"""Testing, features and views, against the same in NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave import api
from netweave.errors import UsageError, WeightError
from tests.training.small import BATCH, NET, NUM_FEATURES, NUM_RECORDS, SOLVER, records, write

SHAPES = {"data": (BATCH, NUM_FEATURES), "label": (BATCH,)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A net that was trained a little: its folder, weight and bias."""
    folder = tmp_path_factory.mktemp("linear")
    x, labels = records()
    arrays = {"data": x, "label": labels}
    solver = write(folder, SOLVER + "test_iter: 3 test_interval: 20\n")
    job = api.load_job(solver, input_shapes=SHAPES)
    net = api.train(job, data={"train": arrays, "test": arrays})
    return folder, *(net.params[f"ip/{index}"].detach().numpy().astype(float) for index in range(2))


def phases(folder):
    return api.load_phases(folder / "net.prototxt", input_shapes=SHAPES)


def given():
    x, labels = records()
    return {"test": {"data": x, "label": labels}}


def scores(weight, bias, rows):
    """Return probabilities, and what the labels say of them: losses and hits."""
    x, labels = records()
    z = x[rows] @ weight.T + bias
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    chosen = labels[rows].astype(int)
    return p, -np.log(p[np.arange(len(rows)), chosen]), p.argmax(1) == chosen


@pytest.mark.parametrize(("wanted", "count"), [(2, 10), (None, 25)])
def test_outputs_are_means_over_batches(trained, wanted, count):
    folder, weight, bias = trained
    weights = folder / "kept" / "linear_iter_20.caffemodel"
    (found,) = api.evaluate(phases(folder), weights, num_batches=wanted, data=given())
    _, losses, hits = scores(weight, bias, np.arange(count) % NUM_RECORDS)
    assert found.outputs["loss"] == (pytest.approx(losses.mean(), rel=1e-5),)
    assert found.outputs["accuracy"] == (pytest.approx(hits.mean()),)
    assert found.weights == {"loss": 1.5}


def test_a_solver_says_how_many_batches_and_a_checkpoint_is_weights(trained):
    folder, weight, bias = trained
    tests = api.load_phases(folder / "solver.prototxt", input_shapes=SHAPES)
    (found,) = api.evaluate(tests, folder / "kept" / "linear_iter_20.checkpoint", data=given())
    assert found.outputs["accuracy"] == (pytest.approx(scores(weight, bias, np.arange(15))[2].mean()),)


def test_features_of_layers_and_labels(trained):
    folder, weight, bias = trained
    weights = folder / "kept" / "linear_iter_20.caffemodel"
    found = api.extract(phases(folder), weights, ["ip", "label"], data=given())
    x, labels = records()
    np.testing.assert_allclose(found["ip"], x @ weight.T + bias, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["label"], labels)
    found = api.extract(phases(folder), weights, ["ip"], num_batches=1, data=given())
    assert found["ip"].shape == (BATCH, 4)
    with pytest.raises(UsageError, match="linear: there is no layer 'fc7'; expected one of data, ip"):
        api.extract(phases(folder), weights, ["fc7"], data=given())
    with pytest.raises(UsageError, match="'loss' is one number for a whole batch"):
        api.extract(phases(folder), weights, ["loss"], data=given())


def test_weights_that_do_not_fit(trained, tmp_path):
    folder = trained[0]
    (tmp_path / "net.prototxt").write_text(NET.replace("num_output: 4", "num_output: 5"))
    other = api.load_phases(tmp_path / "net.prototxt", input_shapes=SHAPES)
    for suffix in ("caffemodel", "checkpoint"):
        with pytest.raises(WeightError, match=re.escape(f"linear_iter_20.{suffix}")):
            api.evaluate(other, folder / "kept" / f"linear_iter_20.{suffix}", data=given())
    (tmp_path / "net.prototxt").write_text(NET.replace('name: "ip"', 'name: "other"'))
    other = api.load_phases(tmp_path / "net.prototxt", input_shapes=SHAPES)
    for suffix in ("caffemodel", "checkpoint"):
        with pytest.raises(UsageError, match="contains no weights for any layer of linear"):
            api.evaluate(other, folder / "kept" / f"linear_iter_20.{suffix}", data=given())


IMAGES = """name: "windows"
layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { crop_size: 5 mean_value: 100 }
  data_param { source: "images_lmdb" batch_size: 3 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 4
  weight_filler { type: "gaussian" std: 0.01 } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


def test_ten_views_are_corners_and_centre_and_mirrored(tmp_path):
    pytest.importorskip("lmdb")
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (6, 2, 8, 9), dtype=np.uint8)
    labels = generator.integers(4, size=6)
    api.pack((images, labels), tmp_path / "images_lmdb")
    (tmp_path / "net.prototxt").write_text(IMAGES)
    weight = generator.normal(size=(4, 50)) * 0.01
    bias = generator.normal(size=4)
    _write_weights(tmp_path / "net.caffemodel", weight, bias)
    (found,) = api.evaluate(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", views=True)
    corners = [(0, 0), (0, 4), (3, 0), (3, 4), (1, 2)]
    views = [images[:, :, top : top + 5, left : left + 5] for top, left in corners]
    views += [view[..., ::-1] for view in views]
    p = np.mean([_softmax((view - 100.0).reshape(6, -1) @ weight.T + bias) for view in views], axis=0)
    assert found.outputs["accuracy"] == (pytest.approx((p.argmax(1) == labels).mean()),)
    assert found.outputs["loss"] == (pytest.approx(-np.log(p[np.arange(6), labels]).mean(), rel=1e-4),)
    (single,) = api.evaluate(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    assert single.outputs["loss"] != pytest.approx(found.outputs["loss"][0], rel=1e-2)
    np.testing.assert_allclose(np.reshape(found.outputs["prob"], (3, 4)), (p[:3] + p[3:]) / 2, rtol=1e-4)


def test_ten_views_of_what_is_not_cropped(tmp_path):
    pytest.importorskip("lmdb")
    api.pack((np.zeros((6, 2, 5, 5), np.uint8), np.zeros(6)), tmp_path / "images_lmdb")
    (tmp_path / "net.prototxt").write_text(IMAGES.replace("crop_size: 5", ""))
    _write_weights(tmp_path / "net.caffemodel", np.zeros((4, 50)), np.zeros(4))
    with pytest.raises(
        UsageError, match=r"net.prototxt:2: layer 'data' \(Data\): ten crops need a crop size"
    ):
        api.evaluate(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", views=True)


def _softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _write_weights(path, weight, bias):
    from netweave.formats.caffe.schema import caffe_schema

    blobs = [{"shape": {"dim": list(a.shape)}, "data": a.ravel().tolist()} for a in (weight, bias)]
    layer = {"name": "ip", "type": "InnerProduct", "blobs": blobs}
    path.write_bytes(caffe_schema().encode("NetParameter", {"name": "windows", "layer": [layer]}))
