"""SSD's data layer: records with boxes, what is done to both, and the loss that reads them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("torch")
pytest.importorskip("lmdb")

import cv2
import lmdb

import netweave
from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.formats.caffe.schema import caffe_schema
from netweave.job import DataSource
from netweave.runtime.engine import SerialEngine
from netweave.training import Evaluated, Updated
from netweave.training.data.loader import Loader
from netweave.training.data.order import Order
from netweave.training.data.source import open_source
from netweave.training.data.transform import Image, make_transform
from netweave.training.metrics import ListedPrecision

SOLVER = """net: "net.prototxt" base_lr: 0.003 momentum: 0.9 lr_policy: "fixed"
max_iter: %d snapshot_after_train: false
"""
DATA = """
layer { name: "data" type: "AnnotatedData" top: "data" top: "label" include { phase: TRAIN }
  transform_param { mirror: true mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.02
    resize_param { prob: 1 resize_mode: WARP height: 32 width: 32
      interp_mode: LINEAR interp_mode: AREA interp_mode: NEAREST interp_mode: CUBIC interp_mode: LANCZOS4 }
    emit_constraint { emit_type: CENTER }
    distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 contrast_lower: 0.5
      contrast_upper: 1.5 hue_prob: 0.5 hue_delta: 18 saturation_prob: 0.5 saturation_lower: 0.5
      saturation_upper: 1.5 random_order_prob: 0 }
    expand_param { prob: 0.5 max_expand_ratio: 2 } }
  data_param { source: "records" batch_size: 4 backend: LMDB }
  annotated_data_param { label_map_file: "labelmap.prototxt"
    batch_sampler { max_sample: 1 max_trials: 1 }
    batch_sampler { sampler { min_scale: 0.5 max_scale: 1 min_aspect_ratio: 0.5 max_aspect_ratio: 2 }
      sample_constraint { min_jaccard_overlap: 0.3 } max_sample: 1 max_trials: 50 } } }
"""
NET = """
layer { name: "c1" type: "Convolution" bottom: "data" top: "c1" convolution_param { num_output: 8
  kernel_size: 5 stride: 4 pad: 2 weight_filler { type: "xavier" } } }
layer { name: "r1" type: "ReLU" bottom: "c1" top: "c1" }
layer { name: "loc" type: "Convolution" bottom: "c1" top: "loc" convolution_param { num_output: 4
  kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "locp" type: "Permute" bottom: "loc" top: "locp"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "locf" type: "Flatten" bottom: "locp" top: "locf" }
layer { name: "conf" type: "Convolution" bottom: "c1" top: "conf" convolution_param { num_output: 3
  kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "confp" type: "Permute" bottom: "conf" top: "confp"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "conff" type: "Flatten" bottom: "confp" top: "conff" }
layer { name: "prior" type: "PriorBox" bottom: "c1" bottom: "data" top: "prior"
  prior_box_param { min_size: 12 clip: true variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
layer { name: "loss" type: "MultiBoxLoss" bottom: "locf" bottom: "conff" bottom: "prior" bottom: "label"
  top: "loss"
  loss_param { normalization: VALID }
  multibox_loss_param { loc_loss_type: SMOOTH_L1 conf_loss_type: SOFTMAX loc_weight: 1 num_classes: 3
    share_location: true match_type: PER_PREDICTION overlap_threshold: 0.3 use_prior_for_matching: true
    background_label_id: 0 use_difficult_gt: true neg_pos_ratio: 3 neg_overlap: 0.5 code_type: CENTER_SIZE
    mining_type: MAX_NEGATIVE } }
"""

COLOURS = ((0, 0, 0), (0, 0, 255), (255, 0, 0))
"""Of the background and of the two classes."""


def picture(boxes, *, height=40, width=60):
    """Draw boxes (class, x0, y0, x1, y1 in pixels) in the colours of their classes."""
    pixels = np.zeros((height, width, 3), np.uint8)
    for label, x0, y0, x1, y1 in boxes:
        pixels[y0:y1, x0:x1] = COLOURS[label]
    return pixels


def record(boxes, *, height=40, width=60, encoded=True, difficult=False):
    message = caffe_schema().wire_class("AnnotatedDatum")()
    pixels = picture(boxes, height=height, width=width)
    if encoded:
        message.datum.encoded = True
        message.datum.data = cv2.imencode(".png", pixels)[1].tobytes()
    else:
        message.datum.channels, message.datum.height, message.datum.width = 3, height, width
        message.datum.data = pixels.transpose(2, 0, 1).tobytes()
    for label, x0, y0, x1, y1 in boxes:
        group = message.annotation_group.add(group_label=label)
        box = group.annotation.add().bbox
        box.xmin, box.xmax, box.ymin, box.ymax = x0 / width, x1 / width, y0 / height, y1 / height
        box.difficult = difficult
    return message.SerializeToString()


BOXES = ([(1, 6, 4, 24, 28)], [(2, 30, 8, 54, 36), (1, 3, 3, 15, 15)], [], [(2, 8, 10, 36, 34)])


def write(folder, records):
    with lmdb.open(str(folder), map_size=1 << 24) as store, store.begin(write=True) as entries:
        for number, content in enumerate(records):
            entries.put(f"{number:08d}".encode(), content)


@pytest.fixture
def store(tmp_path):
    write(tmp_path / "records", [record(boxes, encoded=number != 1) for number, boxes in enumerate(BOXES)])
    (tmp_path / "labelmap.prototxt").write_text(
        "".join(
            f'item {{ name: "{name}" label: {number} display_name: "{name}" }}\n'
            for number, name in enumerate(("none_of_the_above", "red", "blue"))
        )
    )
    return tmp_path


def job_of(folder, layer=DATA, updates=1, **settings):
    (folder / "net.prototxt").write_text(layer + NET)
    (folder / "solver.prototxt").write_text(SOLVER % updates)
    return netweave.load_job(folder / "solver.prototxt", **settings)


def test_records_have_boxes_and_as_many_rows_for_each(store):
    with open_source(DataSource("annotated_lmdb", (), 1, {"path": str(store / "records")})) as source:
        assert len(source) == len(BOXES)
        for number, boxes in enumerate(BOXES):
            pixels, rows = source.read(number)
            assert np.array_equal(pixels, picture(boxes))
            assert rows.shape == (2, 6)
            expected = [
                ((x0 + x1) / 120, (y0 + y1) / 80, (x1 - x0) / 60, (y1 - y0) / 40, label, 0)
                for label, x0, y0, x1, y1 in boxes
            ]
            assert rows[: len(boxes)] == pytest.approx(np.array(expected).reshape(-1, 6), abs=1e-6)
            assert not rows[len(boxes) :].any()


def test_a_batch_has_one_table_with_the_number_of_the_image_in_the_batch(store):
    source = open_source(DataSource("annotated_lmdb", (), 1, {"path": str(store / "records")}))
    order = Order(num_records=len(source), batch_size=3)
    steps = [{"kind": "resize", "height": 20, "width": 20}]
    with (
        SerialEngine() as engine,
        Loader(source, ("data", "label"), engine=engine, order=order, transforms=steps) as loader,
    ):
        assert loader.shapes == {"data": (3, 3, 20, 20), "label": (1, 1, 6, 8)}
        label = loader.take().arrays["label"][0, 0]
    assert label[:, 0].tolist() == [0, -1, 1, 1, -1, -1]
    assert label[[0, 2, 3], 1].tolist() == [1, 2, 1]
    assert label[2, 3:] == pytest.approx([30 / 60, 8 / 40, 54 / 60, 36 / 40, 0])
    assert (label[[1, 4, 5]] == -1).all()


def inside(pixels, row):
    """Return the colour at the centre of a box, and whether it ends where the box does."""
    height, width = pixels.shape[:2]
    x, y, w, h = row[:4] * [width, height, width, height]
    box = pixels[round(y - h / 2 + 1) : round(y + h / 2 - 1), round(x - w / 2 + 1) : round(x + w / 2 - 1)]
    area = (pixels == pixels[int(y), int(x)]).all(axis=2)
    return tuple(pixels[int(y), int(x)]), box.size and (box == box[0, 0]).all(), area


@pytest.mark.parametrize("seed", range(40))
def test_boxes_move_with_what_is_in_them(seed):
    """The coloured rectangles of the image are where its boxes say, whatever was cut, added or mirrored."""
    generator = np.random.default_rng(seed)
    boxes = [(1, 20, 30, 90, 80), (2, 120, 10, 180, 110)]
    rows = np.array(
        [
            ((x0 + x1) / 400, (y0 + y1) / 240, (x1 - x0) / 200, (y1 - y0) / 120, label, 0)
            for label, x0, y0, x1, y1 in boxes
        ],
        np.float32,
    )
    image = Image(picture(boxes, height=120, width=200), rows)
    sampler = {
        "scales": [0.4, 1.0],
        "ratios": [0.5, 2.0],
        "overlaps": [0.1, 1.0],
        "trials": 50,
        "needs_object": True,
    }
    for step in (
        {"kind": "expand", "probability": 0.5, "max_ratio": 3.0, "fill": [10, 20, 30]},
        {"kind": "window_samplers", "samplers": [sampler], "keep": "center"},
        {"kind": "mirror"},
    ):
        make_transform(step).change(image, generator)
    assert len(image.objects) <= 2  # a window may overlap a box whose centre is outside
    for row in image.objects:
        colour, is_filled, area = inside(image.pixels, row)
        assert colour == COLOURS[int(row[4])]
        assert is_filled
        height, width = image.pixels.shape[:2]
        there = np.argwhere(area)
        low, high = there.min(axis=0), there.max(axis=0) + 1
        found = np.array([low[1], low[0], high[1], high[0]])
        # windows are cut down to whole pixels and boxes are not, as in the source
        said = np.array([row[0] - row[2] / 2, row[1] - row[3] / 2, row[0] + row[2] / 2, row[1] + row[3] / 2])
        assert np.abs(said * [width, height, width, height] - found).max() <= 2


def test_all_windows_of_all_samplers_take_part():
    image = picture([(1, 10, 10, 30, 30)])
    whole = {"scales": [1.0, 1.0], "windows": 1}
    half = {"scales": [0.5, 0.5], "windows": 1}
    step = make_transform({"kind": "window_samplers", "samplers": [whole, half]})
    sizes = set()
    for seed in range(30):
        shown = Image(image)
        step.change(shown, np.random.default_rng(seed))
        sizes.add(shown.pixels.shape[:2])
    assert sizes == {(40, 60), (20, 30)}


def test_an_image_without_objects_stays_where_windows_need_one():
    step = make_transform(
        {"kind": "window_samplers", "samplers": [{"scales": [0.5, 0.5], "needs_object": True, "windows": 0}]}
    )
    shown = Image(picture([]), np.zeros((2, 6), np.float32))
    step.change(shown, np.random.default_rng(0))
    assert shown.pixels.shape == (40, 60, 3)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"brightness": 20, "brightness_probability": 1}, lambda x, u: x + u),
        ({"contrasts": [0.5, 1.5], "contrast_probability": 1}, lambda x, u: x * u),
        ({}, lambda x, u: x),
    ],
)
def test_brightness_and_contrast_are_one_number_for_the_image(settings, expected):
    pixels = np.random.default_rng(0).integers(60, 120, (8, 9, 3), np.uint8)
    image = Image(pixels.copy())
    make_transform({"kind": "colour_distortion", **settings}).change(image, np.random.default_rng(3))
    found = image.pixels.astype(float)
    x = pixels.astype(float)
    number = (found - x).mean() if "brightness" in settings else (found / x).mean()
    assert np.abs(found - expected(x, number)).max() <= 1.5
    assert bool(settings) == (abs(number - ("contrasts" in settings)) > 0.02) or not settings


def test_saturation_and_hue_are_opencvs():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 9, 3), np.uint8)
    image = Image(pixels.copy())
    step = {"kind": "colour_distortion", "saturations": [0.0, 0.0], "saturation_probability": 1}
    make_transform(step).change(image, np.random.default_rng(0))
    assert np.abs(image.pixels - image.pixels[..., :1].astype(int)).max() == 0, "gray without saturation"
    assert np.array_equal(image.pixels.max(axis=2), pixels.max(axis=2)), "its value stays"
    image = Image(pixels.copy())
    make_transform({"kind": "colour_distortion", "hue": 30, "hue_probability": 1}).change(
        image, np.random.default_rng(0)
    )
    before, after = (cv2.cvtColor(x, cv2.COLOR_BGR2HSV).astype(int) for x in (pixels, image.pixels))
    assert np.abs(before[..., 2] - after[..., 2]).max() <= 1
    assert not np.array_equal(before[..., 0], after[..., 0])


def test_a_detector_learns_from_its_own_files(store):
    job = job_of(store, updates=200)
    events = []
    netweave.train(job, watch=events.append, seed=1)
    losses = [event.loss for event in events if isinstance(event, Updated)]
    assert len(losses) == 200
    assert np.isfinite(losses).all()
    assert np.mean(losses[-20:]) < 0.6 * np.mean(losses[:20])


TEST = """
layer { name: "data" type: "AnnotatedData" top: "data" top: "label" include { phase: TEST }
  transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.02
    resize_param { prob: 1 resize_mode: WARP height: 32 width: 32 interp_mode: LINEAR } }
  data_param { source: "records" batch_size: 2 backend: LMDB }
  annotated_data_param { label_map_file: "labelmap.prototxt" } }
"""
HEAD = """
layer { name: "rows" type: "Reshape" bottom: "conff" top: "rows" include { phase: TEST }
  reshape_param { shape { dim: 0 dim: -1 dim: 3 } } }
layer { name: "soft" type: "Softmax" bottom: "rows" top: "soft" include { phase: TEST }
  softmax_param { axis: 2 } }
layer { name: "softf" type: "Flatten" bottom: "soft" top: "softf" include { phase: TEST } }
layer { name: "found" type: "DetectionOutput" bottom: "locf" bottom: "softf" bottom: "prior" top: "found"
  include { phase: TEST } detection_output_param { num_classes: 3 share_location: true
    background_label_id: 0 nms_param { nms_threshold: 0.45 top_k: 400 } code_type: CENTER_SIZE
    keep_top_k: 200 confidence_threshold: 0.01 } }
layer { name: "eval" type: "DetectionEvaluate" bottom: "found" bottom: "label" top: "eval"
  include { phase: TEST } detection_evaluate_param { num_classes: 3 background_label_id: 0
    overlap_threshold: 0.5 evaluate_difficult_gt: false } }
"""


def test_a_test_measures_average_precision_as_the_net_asks(store):
    losses = NET.replace('type: "MultiBoxLoss"', 'type: "MultiBoxLoss" include { phase: TRAIN }')
    (store / "net.prototxt").write_text(DATA + TEST + losses + HEAD)
    (store / "solver.prototxt").write_text(SOLVER % 2 + "test_iter: 2\ntest_interval: 2\n")
    events = []
    netweave.train(str(store / "solver.prototxt"), watch=events.append, seed=1)
    tested = [event for event in events if isinstance(event, Evaluated)]
    assert [event.iteration for event in tested] == [0, 2]
    for event in tested:
        assert set(event.outputs) == {"mAP@0.5", "mAP@0.5 (11 points)", "AP@0.5 red", "AP@0.5 blue"}
        assert all(0 <= value[0] <= 1 for value in event.outputs.values())


def test_average_precision_over_batches_is_vocs():
    """A right detection, one of another image's place, and a box that only a later batch has."""
    settings = {"classes": ["", "red"], "background": 0, "overlap": 0.5, "counts_difficult": False}
    measured = ListedPrecision(None, detections="found", truth="label", images="data", **settings)
    images = np.zeros((2, 3, 4, 4))
    box, other = [0.1, 0.1, 0.4, 0.4], [0.6, 0.6, 0.9, 0.9]
    measured.add(
        {
            "data": images,
            "label": np.array([[0, 1, 0, *box, 0], [1, 1, 0, *box, 1], [-1] * 8]),
            "found": np.array([[[[0, 1, 0.9, *box], [0, 1, 0.8, *other], [1, 1, 0.7, *box]]]]),
        }
    )
    measured.add(
        {
            "data": images,
            "label": np.array([[1, 1, 0, *other, 0], [-1] * 8]),
            "found": np.array([[[[1, 1, 0.6, *other], [-1] * 7]]]),
        }
    )
    # two boxes count: found first of all, and third, behind a wrong one; the difficult one counts nowhere
    assert measured.result()["AP@0.5 red"][0] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert measured.result()["mAP@0.5"] == measured.result()["AP@0.5 red"]


VOC = """<annotation><size><width>60</width><height>40</height><depth>3</depth></size>{}</annotation>"""
OBJECT = """<object><name>{}</name><difficult>0</difficult><bndbox><xmin>{}</xmin><ymin>{}</ymin>
<xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"""


def test_a_folder_with_vocs_annotations_stands_for_the_data_base(store):
    names = ("", "red", "blue")
    for folder in ("JPEGImages", "Annotations"):
        (store / "voc" / folder).mkdir(parents=True)
    for number, boxes in enumerate(BOXES):
        cv2.imwrite(str(store / f"voc/JPEGImages/{number}.png"), picture(boxes))
        objects = "".join(OBJECT.format(names[label], *corners) for label, *corners in boxes)
        (store / f"voc/Annotations/{number}.xml").write_text(VOC.format(objects))
    job = job_of(store, data={"train": str(store / "voc" / "JPEGImages")})
    (source,) = job.phases["train"].data
    assert source.kind == "annotated_images"
    with open_source(source) as opened:
        read = [opened.read(number)[1] for number in range(len(BOXES))]
    with open_source(DataSource("annotated_lmdb", (), 1, {"path": str(store / "records")})) as opened:
        for number in range(len(BOXES)):
            assert read[number] == pytest.approx(opened.read(number)[1], abs=1e-6)


def test_annotations_need_the_map_of_labels(store):
    (store / "labelmap.prototxt").unlink()
    with pytest.raises(ReadError, match=r"label_map_file of the net names no file that is there"):
        job_of(store, data={"train": str(store)})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("resize_mode: WARP", "resize_mode: FIT_SMALL_SIZE", "resizes by FIT_SMALL_SIZE"),
        ("interp_mode: LINEAR interp_mode: AREA", "interp_mode: AREA", "NEAREST, CUBIC, LANCZOS4"),
        ("mirror: true", "mirror: true noise_param { prob: 0.5 }", "noise_param"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(store, old, new, message):
    with pytest.raises(UnsupportedError, match=rf"net.prototxt:2: layer 'data'.*{message}"):
        job_of(store, DATA.replace(old, new))


def test_damaged_records_and_other_records_are_named(tmp_path):
    write(tmp_path / "records", [record(BOXES[0]), b"\x0a\xff\xff\xff\xff\x0fno record"])
    with pytest.raises(ReadError, match=r"record 1 .*AnnotatedDatum"):
        open_source(DataSource("annotated_lmdb", (), 1, {"path": str(tmp_path / "records")}))


def test_a_sampler_without_sense_is_refused():
    step = make_transform({"kind": "window_samplers", "samplers": [{"scales": [0.9, 0.2]}]})
    with pytest.raises(UsageError, match=r"a sampler: scales are 0\.9 to 0\.2"):
        step.change(Image(picture([])), np.random.default_rng(0))
