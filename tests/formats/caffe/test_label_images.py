"""Caffe's nets for segmentation: images with label images, and the losses of their branches."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("torch")

import cv2
import torch

import netweave
from netweave.errors import ReadError, UsageError
from netweave.job import DataSource
from netweave.runtime.backends.torch import TorchNet
from netweave.training.data.source import open_source

SOLVER = 'net: "net.prototxt"\nbase_lr: 0.01\nlr_policy: "fixed"\nmax_iter: 2\nsnapshot_after_train: false\n'
PYTHON = """
layer { name: "data" type: "Python" top: "data" top: "label" python_param {
  module: "voc_layers" layer: "SBDDSegDataLayer"
  param_str: "{'sbdd_dir': 'x', 'mean': (10.0, 20.0, 30.0)}" } }
"""
LISTED = """
layer { name: "data" type: "%s" top: "data" top: "label" %s }
"""
REST = """
layer { name: "score" type: "Convolution" bottom: "data" top: "score"
  convolution_param { num_output: 3 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss"
  loss_param { ignore_label: 255 } }
"""


@pytest.fixture
def pictures(tmp_path):
    generator = np.random.default_rng(0)
    folder = tmp_path / "store"
    lines = []
    for name in ("images", "labels"):
        (folder / name).mkdir(parents=True)
    for number in range(3):
        pixels = generator.integers(0, 256, (6, 8, 3), np.uint8)
        classes = generator.integers(0, 3, (6, 8), np.uint8)
        cv2.imwrite(str(folder / f"images/{number}.png"), pixels)
        cv2.imwrite(str(folder / f"labels/{number}.png"), classes)
        lines.append(f"images/{number}.png labels/{number}.png\n")
    (folder / "train.txt").write_text("".join(lines))
    return folder


def job_of(folder, data_layer, path, rest=REST):
    (folder / "net.prototxt").write_text(data_layer + rest)
    (folder / "solver.prototxt").write_text(SOLVER)
    return netweave.load_job(folder / "solver.prototxt", data={"train": path})


FIELDS = 'source: "nowhere.txt" batch_size: 2'


@pytest.mark.parametrize(
    ("layer", "batch"),
    [
        (PYTHON, 1),
        (LISTED % ("DenseImageData", f"dense_image_data_param {{ {FIELDS} shuffle: true }}"), 2),
        (LISTED % ("ImageLabelmapData", f'image_data_param {{ {FIELDS} root_folder: "no/" }}'), 2),
        (LISTED % ("ImageSegData", f"image_data_param {{ {FIELDS} label_type: PIXEL }}"), 2),
    ],
)
@pytest.mark.parametrize("path", ["store/train.txt", "store"])
def test_images_and_label_images_of_a_list_or_a_folder_train(tmp_path, pictures, layer, batch, path):
    job = job_of(tmp_path, layer, str(tmp_path / path))
    (source,) = job.phases["train"].data
    assert source.kind == "label_images"
    graph = job.phases["train"].graph
    assert [tuple(value.shape)[1:] for value in graph.inputs] == [(3, 6, 8), (1, 6, 8)]
    assert source.batch_size == batch
    assert set(netweave.train(job).params) == {"score/0", "score/1"}


def test_a_net_whose_data_are_python_s_takes_arrays_still(tmp_path):
    (tmp_path / "net.prototxt").write_text(PYTHON + REST)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    job = netweave.load_job(
        tmp_path / "solver.prototxt", input_shapes={"data": (1, 3, 6, 8), "label": (1, 1, 6, 8)}
    )
    assert job.phases["train"].data[0].kind == "given"


def records(path, transforms=()):
    from netweave.runtime.engine import ThreadedEngine
    from netweave.training.data import Loader, Order

    with (
        open_source(DataSource("label_images", ("x", "t"), 1, {"path": str(path)})) as source,
        ThreadedEngine() as engine,
        Loader(
            source, ("x", "t"), engine=engine, order=Order(num_records=len(source), batch_size=1),
            transforms=transforms,
        ) as loader,
    ):  # fmt: skip
        for _ in range(len(source)):
            batch = loader.take().arrays
            yield batch["x"][0].copy(), batch["t"][0].copy()


def test_label_images_are_cut_and_turned_with_their_images(pictures):
    for number in range(3):  # so that a pixel tells its class
        classes = cv2.imread(str(pictures / f"labels/{number}.png"), cv2.IMREAD_UNCHANGED)
        cv2.imwrite(str(pictures / f"images/{number}.png"), np.repeat(classes[:, :, None] * 50, 3, axis=2))
    steps = [
        {"kind": "resize", "height": 12, "width": 16, "interpolation": "nearest"},
        {"kind": "crop", "height": 5, "width": 7, "where": "random"},
        {"kind": "mirror"},
    ]
    found = list(records(pictures / "train.txt", steps))
    assert [classes.shape for _, classes in found] == [(1, 5, 7)] * 3
    for pixels, classes in found:
        np.testing.assert_array_equal(pixels[:1], classes * 50)
    with pytest.raises(Exception, match="has a class for each pixel, which Pad would leave behind"):
        list(records(pictures / "train.txt", [{"kind": "pad", "size": 1}]))


def test_numbers_of_colours_in_a_palette_are_the_classes(pictures):
    image = pytest.importorskip("PIL.Image")
    classes = np.random.default_rng(1).integers(0, 3, (6, 8), np.uint8)
    picture = image.fromarray(classes)
    picture.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0])
    picture.save(pictures / "labels/0.png")
    np.testing.assert_array_equal(next(iter(records(pictures / "train.txt")))[1][0], classes)
    cv2.imwrite(str(pictures / "labels/0.png"), np.zeros((6, 8, 3), np.uint8))
    with pytest.raises(ReadError, match=r"record 0 \(.*0\.png\): has colours, expected one number for each"):
        list(records(pictures / "train.txt"))


def test_lists_that_do_not_fit(tmp_path, pictures):
    cv2.imwrite(str(pictures / "labels/1.png"), np.zeros((6, 9), np.uint8))
    with pytest.raises(ReadError, match=r"its label image .*1\.png is 6 x 9, the image 6 x 8"):
        list(records(pictures / "train.txt"))
    (tmp_path / "list.txt").write_text("a.png 3 4\n")
    with pytest.raises(ReadError, match=r"list\.txt:1: found 'a\.png 3 4', expected two files: an image"):
        list(records(tmp_path / "list.txt"))
    with pytest.raises(ReadError, match="has no folders of images and label images, expected JPEGImages and"):
        list(records(tmp_path))
    three = PYTHON.replace('top: "label"', 'top: "label" top: "geo"')
    with pytest.raises(UsageError, match="0 layers of phase TRAIN read records from a path"):
        job_of(tmp_path, three, str(tmp_path / "list.txt"), REST.replace('"label"', '"geo"'))


def loss_and_gradient(graph, arrays):
    x = torch.tensor(arrays["x"], dtype=torch.float32, requires_grad=True)
    loss = TorchNet(graph)(x=x, t=torch.tensor(arrays["t"], dtype=torch.float32))["loss"]
    loss.backward()
    return float(loss.detach()), x.grad.numpy()


INPUTS = 'layer { name: "x" type: "Input" top: "x" top: "t" input_param { %s } }\n'


def loaded(tmp_path, text):
    (tmp_path / "net.prototxt").write_text(text)
    return netweave.load(tmp_path / "net.prototxt")


def test_the_loss_of_hed_weighs_edges_by_the_share_of_the_rest(tmp_path):
    """``sigmoid_cross_entropy_loss_layer.cpp`` of HED's branch, in a loop as it is there."""
    generator = np.random.default_rng(2)
    x, t = generator.normal(size=(2, 1, 3, 4)), generator.integers(0, 3, (2, 1, 3, 4)).astype(np.float64)
    shape = "shape { dim: 2 dim: 1 dim: 3 dim: 4 }"
    loss = 'layer { name: "l" type: "SigmoidCrossEntropyLoss" bottom: "x" bottom: "t" top: "loss" }'
    marker = LISTED % ("ImageLabelmapData", "include { phase: TEST } image_data_param { batch_size: 1 }")
    marker = marker.replace('top: "data" top: "label"', 'top: "d2" top: "l2"').replace("TEST", "TRAIN")
    graph = loaded(tmp_path, INPUTS % f"{shape} {shape}" + marker + loss)
    found, gradient = loss_and_gradient(graph, {"x": x, "t": t})
    expected, slope = 0.0, np.zeros_like(x)
    for n in range(2):
        edges, rest = (t[n] == 1).sum(), (t[n] == 0).sum()
        for at in np.ndindex(x[n].shape):
            if t[n][at] not in (0, 1):
                continue
            weight = (rest if t[n][at] == 1 else edges) / (edges + rest)
            p = 1 / (1 + np.exp(-x[n][at]))
            expected -= weight * (np.log(p) if t[n][at] == 1 else np.log(1 - p)) / 2
            slope[n][at] = weight * (p - t[n][at]) / 2
    assert found == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, slope, atol=1e-7)
    assert graph.layers["l"].type == "ClassBalancedSigmoidCrossEntropyLoss"


def test_the_loss_of_segnet_weighs_labels(tmp_path):
    generator = np.random.default_rng(3)
    x, t = generator.normal(size=(2, 3, 2, 4)), generator.integers(0, 4, (2, 1, 2, 4)).astype(np.float64)
    shapes = "shape { dim: 2 dim: 3 dim: 2 dim: 4 } shape { dim: 2 dim: 1 dim: 2 dim: 4 }"
    loss = (
        'layer { name: "l" type: "SoftmaxWithLoss" bottom: "x" bottom: "t" top: "loss" loss_param { '
        "weight_by_label_freqs: true ignore_label: 3 class_weighting: 0.5 class_weighting: 2 %s } }"
    )
    graph = loaded(tmp_path, INPUTS % shapes + loss % "class_weighting: 1.25")
    found, gradient = loss_and_gradient(graph, {"x": x, "t": t})
    weights = torch.tensor([0.5, 2.0, 1.25], dtype=torch.float64)
    scores = torch.tensor(x, requires_grad=True)
    labels = torch.tensor(t[:, 0]).long()
    losses = torch.nn.functional.cross_entropy(scores, labels, weights, ignore_index=3, reduction="sum")
    expected = losses / (labels != 3).sum()  # torch divides a mean by the sum of weights, SegNet by the count
    expected.backward()
    assert found == pytest.approx(float(expected.detach()), rel=1e-6)
    np.testing.assert_allclose(gradient, scores.grad.numpy(), atol=1e-7)
    with pytest.raises(ReadError, match="has 2 class_weighting for 3 classes"):
        loaded(tmp_path, INPUTS % shapes + loss % "")
