"""Detectors of Darknet from cfg to weights: trained, resumed, tested, and what is wrong with bad files."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("cv2")
pytest.importorskip("pycocotools")

import netweave
from examples.yolo import make_data
from netweave import api
from netweave.errors import ReadError, UnsupportedError, UsageError, WeightError
from netweave.runtime.backends.torch.random import Draws
from netweave.runtime.engine import SerialEngine
from netweave.training import Evaluated, Shown, Updated, latest
from tests.training import yolo_nets
from tests.training.trainers import make_trainer


def job_of(folder, content=None, **options):
    return api.load_job(yolo_nets.write(folder, content), data=folder / "shapes.data", **options)


def run(job, *, stop_at=None, resume=None, watch=lambda event: None):
    def told(event):
        watch(event)
        if isinstance(event, Updated) and event.iteration + 1 == stop_at:
            trainer.stop()

    with SerialEngine() as engine:
        trainer = make_trainer(job, engine=engine, seed=3, resume=resume, watch=told)
        assert trainer.run() == (stop_at is None)
        trainer.close()
    return {key: tensor.detach().numpy().copy() for key, tensor in trainer.nets["train"].params.items()}


@pytest.mark.slow
@pytest.mark.parametrize("head", [yolo_nets.YOLO, yolo_nets.REGION], ids=["yolo", "region"])
def test_a_run_that_is_resumed_ends_bit_for_bit_as_one_that_was_not(tmp_path, head, capsys):
    whole = run(job_of(tmp_path / "whole", yolo_nets.text(head)))
    job = job_of(tmp_path / "stopped", yolo_nets.text(head))
    run(job, stop_at=5)
    place, _ = latest(job.checkpoints.prefix)
    resumed = run(job, resume=place)
    for key, array in whole.items():
        np.testing.assert_array_equal(resumed[key], array, err_msg=key)


@pytest.mark.slow
def test_passes_of_an_update_make_the_update_of_the_whole_batch(tmp_path, capsys):
    """Without batch normalisation nothing looks at a pass alone; the same images are drawn alike."""
    found = [
        run(job_of(tmp_path / str(count), yolo_nets.text(subdivisions=count, norm=0))) for count in (1, 4)
    ]
    for key, array in found[0].items():
        np.testing.assert_allclose(found[1][key], array, atol=2e-6, err_msg=key)


@pytest.mark.slow
def test_the_loss_falls_and_tests_say_average_precision(tmp_path, capsys):
    events = []
    job = job_of(tmp_path, yolo_nets.text(updates=40).replace("steps=6,9", "steps=30,35"))
    run(job, watch=events.append)
    losses = [event.loss for event in events if isinstance(event, Updated)]
    assert len(losses) == 40
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 4
    (tested,) = [event for event in events if isinstance(event, Evaluated)]
    classes = {f"AP@0.5 {name}" for name in make_data.NAMES}
    assert {
        "mAP@0.5",
        "mAP@0.5 (11 points)",
        "mAP@[.5:.95]",
        "yolo_3/loss",
        *classes,
    } == tested.outputs.keys()
    shown = [event for event in events if isinstance(event, Shown)]
    assert len(shown) == 40
    assert all(len(event.outputs["yolo_3/statistics"]) == 7 for event in shown)


@pytest.mark.slow
def test_rates_are_those_of_darknet(tmp_path, capsys):
    events = []
    run(job_of(tmp_path), watch=events.append)
    rates = [event.rate for event in events if isinstance(event, Updated)]
    warm = [0.002 * (n / 3) ** 4 for n in (1, 2)]
    np.testing.assert_allclose(rates, [*warm, *[0.002] * 3, *[0.001] * 3, *[0.0001] * 4], rtol=1e-12)


@pytest.mark.slow
def test_average_precision_is_that_of_the_files(tmp_path, capsys):
    """The same detections, written as COCO's JSON and scored by evaluate-boxes."""
    job = job_of(tmp_path, yolo_nets.text(updates=30))
    run(job)
    weights = tmp_path / "backup" / "net_30.weights"
    (tested,) = api.evaluate({"test": job.phases["test"]}, weights)
    net = netweave.load(tmp_path / "net.cfg", weights)
    size, truth, found = make_data.SIZE, [], []
    for number in range(24, 30):
        image, shapes = make_data.picture(number)
        data = image[..., ::-1].transpose(2, 0, 1)[None] / np.float32(255)
        boxes = netweave.find_boxes(net, netweave.run(net, {"data": data}), threshold=0.005)
        for label, (x0, y0, x1, y1) in shapes:
            box = [int(n) for n in (x0, y0, x1 - x0, y1 - y0)]
            truth.append({"id": len(truth) + 1, "image_id": number, "category_id": label, "bbox": box})
        for label, score, corners in zip(boxes.label, boxes.score, boxes.corners * size, strict=True):
            box = [*corners[:2].tolist(), *(corners[2:] - corners[:2]).tolist()]
            row = {"image_id": number, "category_id": int(label), "bbox": box, "score": float(score)}
            found.append(row)
    images = [{"id": number, "file_name": f"{number}.png"} for number in range(24, 30)]
    categories = [{"id": label, "name": name} for label, name in enumerate(make_data.NAMES)]
    labels = {"images": images, "annotations": truth, "categories": categories}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    (tmp_path / "found.json").write_text(json.dumps(found))
    mean = netweave.evaluate_boxes(tmp_path / "labels.json", tmp_path / "found.json").mean
    assert mean.ap_voc > 0
    expected = {"mAP@0.5": mean.ap_voc, "mAP@0.5 (11 points)": mean.ap_11, "mAP@[.5:.95]": mean.ap_coco}
    for name, value in expected.items():
        assert tested.outputs[name] == pytest.approx((value,), abs=1e-4), name


def opencv_heads(cfg, weights, data):
    cv2 = make_data.cv2
    net = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setInput(data)
    return net.forward()


@pytest.mark.slow
def test_opencv_finds_the_same_boxes_with_the_files_that_are_written(tmp_path, capsys):
    run(job_of(tmp_path, yolo_nets.text(updates=30)))
    cfg, weights = tmp_path / "net.cfg", tmp_path / "backup" / "net_30.weights"
    data = make_data.picture(1)[0][None, ..., ::-1].transpose(0, 3, 1, 2) / np.float32(255)
    net = netweave.load(cfg, weights)
    found = netweave.find_boxes(net, netweave.run(net, {"data": data}), threshold=0.2, overlap=1.0)
    rows = opencv_heads(cfg, weights, data)  # centre, size, objectness, scores: one row for each box
    expected = sorted(
        (label, float(row[5 + label]), *(row[:2] - row[2:4] / 2), *(row[:2] + row[2:4] / 2))
        for row in rows
        for label in np.flatnonzero(row[5:] > 0.2).tolist()
    )
    ours = sorted(
        (int(label), float(score), *corners)
        for label, score, corners in zip(found.label, found.score, found.corners, strict=True)
    )
    assert len(ours) > 0
    # OpenCV adds 1e-6 to variances, not the 1e-5 of Darknet's GPU code
    np.testing.assert_allclose(ours, expected, atol=1e-3)


def test_weights_of_the_first_layers_begin_a_run(tmp_path, capsys):
    """darknet53.conv.74 and its like: cut off behind a layer; what follows is drawn."""
    job = job_of(tmp_path)
    run(job, stop_at=1)
    weights = (tmp_path / "backup" / "net_1.weights").read_bytes()
    first = 4 * 6 + 6 * 3 * 9
    (tmp_path / "first.weights").write_bytes(weights[: 20 + 4 * first])
    started = replace(job.checkpoints, weights=(str(tmp_path / "first.weights"),))
    with SerialEngine() as engine:
        trainer = make_trainer(replace(job, checkpoints=started), engine=engine, seed=9)
        found = trainer.nets["train"].params["convolutional_0/weights"].detach().numpy()
        trainer.close()
    np.testing.assert_array_equal(found.ravel(), np.frombuffer(weights, "<f4", offset=20)[24:first])
    (tmp_path / "cut.weights").write_bytes(weights[: 20 + 4 * (first - 3)])
    wrong = replace(job.checkpoints, weights=(str(tmp_path / "cut.weights"),))
    with (
        SerialEngine() as engine,
        pytest.raises(WeightError, match="ends in weights of layer 'conv"),
    ):
        make_trainer(replace(job, checkpoints=wrong), engine=engine)


@pytest.mark.slow
def test_weights_say_how_many_images_were_seen_whatever_becomes_of_the_cfg(tmp_path, capsys):
    """Darknet's header: three numbers of the version, then ``seen`` in 64 bits (``save_weights_upto``)."""
    job = job_of(tmp_path, yolo_nets.text(batch=8, subdivisions=2))
    (tmp_path / "net.cfg").write_text(yolo_nets.text(batch=2, subdivisions=1))
    run(job)
    content = (tmp_path / "backup" / "net_12.weights").read_bytes()
    assert struct.unpack_from("<3iQ", content) == (0, 2, 0, 12 * 8)


def test_images_seen_are_counted_behind_each_pass():
    draws = Draws()
    draws.at(seed=0, step=3, first=4, samples=4)
    assert draws.images_seen(per_update=8, per_pass=4) == 3 * 8 + 8
    draws.at(seed=0, step=3, first=2, samples=2)  # one of two parts of the first pass
    assert draws.images_seen(per_update=8, per_pass=4) == 3 * 8 + 4


def test_what_darknet_would_do_besides_is_said(tmp_path, capsys):
    content = yolo_nets.text(yolo_nets.YOLO + "random=1\n").replace("hue=.1", "hue=.1\nmosaic=1")
    notes = " ".join(job_of(tmp_path, content).notes)
    assert "mosaic=1 is not done" in notes
    assert "random=1 is not done: images keep the size of the net, 96x96, where Darknet draws" in notes
    assert not job_of(tmp_path / "plain").notes


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("anchors=10,10, 20,24, 36,30\n", "", ReadError, r"net\.cfg:\d+: section \[yolo\]: has no 'anchors'"),
        ("36,30", "36", ReadError, r"'anchors' is '10,10,20,24,36', expected 6 numbers above 0"),
        ("mask=1,2", "mask=1,3", ReadError, r"'mask' is '1,3', expected numbers of its 3 anchors"),
        (
            "classes=3",
            "classes=4",
            ReadError,
            r"shapes\.data: its names say 3, but the heads of .*=4",
        ),
        (
            "truth_thresh=1",
            "iou_loss=ciou",
            UnsupportedError,
            "iou_loss=ciou is a loss of AlexeyAB's",
        ),
        ("truth_thresh=1", "scale_x_y=1.1", UnsupportedError, r"scale_x_y=1\.1: not supported in training"),
        ("policy=steps", "policy=random", UnsupportedError, r"unknown policy 'random', expected constant"),
        ("scales=.5,.1", "scales=.5", ReadError, r"as many steps as scales, not 2 and 1"),
        ("max_batches=12", "", ReadError, r"has no 'max_batches', expected the number of updates"),
        ("subdivisions=2", "subdivisions=9", ReadError, r"'subdivisions' is '9', expected at most the 8"),
        (yolo_nets.YOLO, "", UnsupportedError, r"has no \[yolo\] and no \[region\] layer"),
    ],
)
def test_a_net_that_cannot_be_trained_is_one_error(tmp_path, old, new, error, message, capsys):
    content = yolo_nets.text()
    assert old in content
    with pytest.raises(error, match=message):
        job_of(tmp_path, content.replace(old, new))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train", r"shapes\.data:1: 'train' is not a setting"),
        ("trian=train.txt", r"shapes\.data:1: unknown setting 'trian'"),
        ("classes=x\ntrain=train.txt", r"classes is 'x', expected an integer"),
        ("names=shapes.names", r"has neither train= nor valid="),
        ("train=gone.txt\nvalid=valid.txt", r"gone\.txt: there is no such file"),
    ],
)
def test_a_data_file_that_is_wrong_is_one_error(tmp_path, line, message, capsys):
    net = yolo_nets.write(tmp_path)
    (tmp_path / "shapes.data").write_text(line + "\n")
    with pytest.raises(ReadError, match=message):
        api.load_job(net, data=tmp_path / "shapes.data")


def test_a_net_needs_images(tmp_path, capsys):
    with pytest.raises(UsageError, match=r"says nothing of images; give a \.data file"):
        api.load_job(yolo_nets.write(tmp_path))


def test_a_folder_of_pascal_voc_is_taken(tmp_path, capsys):
    yolo_nets.write(tmp_path)
    make_data.write(tmp_path / "voc", num_train=10, num_test=4, voc=True)
    job = api.load_job(tmp_path / "net.cfg", data=tmp_path / "voc")
    assert job.phases["train"].data[0].settings["path"].endswith("ImageSets/Main/train.txt")
    assert job.phases["test"].metric["names"] == list(make_data.NAMES)
    assert job.phases["test"].num_batches == 1
    events = []
    run(replace(job, schedule=replace(job.schedule, max_iterations=2)), watch=events.append)
    assert len([event for event in events if isinstance(event, Updated)]) == 2


@pytest.mark.slow
def test_two_devices_make_the_updates_of_one(tmp_path, capsys):
    """Each takes a half of every pass; batch statistics are those of the whole."""
    nets = []
    for name, devices in (("one", None), ("two", "cpu:2")):
        job = job_of(tmp_path / name, yolo_nets.text(updates=4))
        net = netweave.train(job, seed=3, devices=devices)
        nets.append({key: tensor.detach().numpy().copy() for key, tensor in net.params.items()})
    for key, array in nets[0].items():
        np.testing.assert_allclose(nets[1][key], array, atol=3e-5, err_msg=key)
