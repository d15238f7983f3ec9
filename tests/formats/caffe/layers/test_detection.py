"""SSD's layers against the loops and formulas of the branch: priors, decoded boxes, detections."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UnsupportedError
from tests.formats.caffe.nets import inputs, layer, load, normal, run

IMAGES = inputs(x=(1, 2, 3, 4), image=(1, 3, 60, 100))


def prior_box(settings, *, head=IMAGES):
    return head + layer("PriorBox", f"prior_box_param {{ {settings} }}", bottoms="x image")


def looped(sizes, *, step=(20, 25), image=(60, 100), offset=0.5):
    """PriorBoxLayer::Forward_cpu for 3 by 4 cells."""
    rows = []
    for h in range(3):
        for w in range(4):
            x, y = (w + offset) * step[1], (h + offset) * step[0]
            for width, height in sizes:
                corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
                rows += [value / side for value, side in zip(corners, image[::-1] * 2, strict=True)]
    return np.array(rows)


ROOT = 2**0.5


@pytest.mark.parametrize(
    ("settings", "boxes"),
    [
        ("min_size: 9", looped([(9, 9)])),
        ("min_size: 9.8 max_size: 16.2", looped([(9, 9), (12, 12)])),
        ("min_size: 9 max_size: 16 aspect_ratio: 4", looped([(9, 9), (12, 12), (18, 4.5), (4.5, 18)])),
        ("min_size: 9 aspect_ratio: 4 flip: false", looped([(9, 9), (18, 4.5)])),
        (
            "min_size: 9 aspect_ratio: 1 aspect_ratio: 4 aspect_ratio: 4",
            looped([(9, 9), (18, 4.5), (4.5, 18)]),
        ),
        (
            "min_size: 4 min_size: 9 max_size: 9 max_size: 16 aspect_ratio: 2 flip: false",
            looped([(4, 4), (6, 6), (4 * ROOT, 4 / ROOT), (9, 9), (12, 12), (9 * ROOT, 9 / ROOT)]),
        ),
        ("min_size: 9 step: 8 offset: 0.25", looped([(9, 9)], step=(8, 8), offset=0.25)),
        ("min_size: 9 step_h: 8 step_w: 7", looped([(9, 9)], step=(8, 7))),
        ("min_size: 9 img_size: 120", looped([(9, 9)], step=(40, 30), image=(120, 120))),
        ("min_size: 9 img_h: 30 img_w: 40", looped([(9, 9)], step=(10, 10), image=(30, 40))),
        ("min_size: 80 clip: true", np.clip(looped([(80, 80)]), 0, 1)),
    ],
)
def test_priors_are_those_of_the_loops(tmp_path, settings, boxes):
    found = run(load(tmp_path, prior_box(settings)), x=normal(1, 2, 3, 4), image=normal(1, 3, 60, 100))["y"]
    assert found.shape == (1, 2, boxes.size)
    np.testing.assert_allclose(found[0, 0], boxes, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found[0, 1], np.float32(0.1))


def faceboxes_loops(*, step, image):
    """PriorBoxLayer::Forward_cpu of FaceBoxes' fork, for sizes of 32, 64 and 128 and 3 by 4 cells."""
    rows = []
    for h in range(3):
        for w in range(4):
            x, y = (w + 0.5) * step[1], (h + 0.5) * step[0]
            places = [(32, x + 8 * j, y + 8 * i) for i in range(-2, 2) for j in range(-2, 2)]
            places += [(64, x + 16 * j, y + 16 * i) for i in range(-1, 1) for j in range(-1, 1)]
            for size, at_x, at_y in (*places, (128, x, y)):
                half = (size - 1) / 2
                corners = (at_x - half, at_y - half, at_x + half, at_y + half)
                rows += [value / side for value, side in zip(corners, image[::-1] * 2, strict=True)]
    return np.array(rows)


@pytest.mark.parametrize(("num_output", "is_dense"), [(84, True), (12, False)])
def test_priors_that_stand_close_together_are_told_by_the_filters_that_fit_them(
    tmp_path, num_output, is_dense
):
    settings = "min_size: 32 min_size: 64 min_size: 128 variance: 0.1 step: 32"
    filters = layer(
        "Convolution", f"convolution_param {{ num_output: {num_output} kernel_size: 1 }}", tops="loc"
    )
    graph = load(tmp_path, prior_box(settings) + filters)
    found = run(graph, x=normal(1, 2, 3, 4), image=normal(1, 3, 60, 100))
    priors = next(values for values in found.values() if values.ndim == 3)
    plain = looped([(32, 32), (64, 64), (128, 128)], step=(32, 32))
    expected = faceboxes_loops(step=(32, 32), image=(60, 100)) if is_dense else plain
    np.testing.assert_allclose(priors[0, 0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(priors[0, 1], 0.1)
    assert any("FaceBoxes" in note for note in graph.notes) == is_dense


@pytest.mark.parametrize(("given", "row"), [("0.3", [0.3] * 4), ("0.1 0.2 0.3 0.4", [0.1, 0.2, 0.3, 0.4])])
def test_variances_are_one_for_all_or_four(tmp_path, given, row):
    settings = "min_size: 9 " + " ".join(f"variance: {number}" for number in given.split())
    graph = load(tmp_path, prior_box(settings))
    found = run(graph, x=normal(1, 2, 3, 4), image=normal(1, 3, 60, 100))["y"]
    np.testing.assert_array_equal(found[0, 1].reshape(-1, 4), np.tile(np.float32(row), (12, 1)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("", r"'min_size' is \[\], expected at least one number, each 1 or more"),
        ("min_size: 0.5", r"'min_size' is \[0.5\], expected at least one"),
        ("min_size: 9 max_size: 9", r"'max_size' is \[9.0\], expected as many as 'min_size'"),
        ("min_size: 9 max_size: 10 max_size: 11", "expected as many as 'min_size'"),
        ("min_size: 9 aspect_ratio: -1", r"'aspect_ratio' is \[-1.0\], expected numbers above 0"),
        ("min_size: 9 variance: 0.1 variance: 0.1", "expected none, one or four numbers, each above 0"),
        ("min_size: 9 variance: 0", "expected none, one or four numbers, each above 0"),
        ("min_size: 9 img_size: 8 img_h: 8", "has both 'img_size' and 'img_h' or 'img_w'"),
        ("min_size: 9 step: -1", "'step' and 'step' must be above 0"),
        ("min_size: 9 step_h: 4", "'step_h' and 'step_w' must be above 0"),
    ],
)
def test_wrong_settings_of_priors_are_named(tmp_path, settings, message):
    with pytest.raises(ReadError, match=message):
        load(tmp_path, prior_box(settings))


def test_permute_lists_the_first_axes(tmp_path):
    text = inputs(x=(2, 3, 4, 5)) + layer("Permute", "permute_param { order: 0 order: 2 }")
    x = normal(2, 3, 4, 5)
    np.testing.assert_array_equal(run(load(tmp_path, text), x=x)["y"], x.transpose(0, 2, 1, 3))
    for order in ("order: 4", "order: 1 order: 1"):
        with pytest.raises(ReadError, match="expected axes from 0 to 3, each once"):
            load(tmp_path, inputs(x=(2, 3, 4, 5)) + layer("Permute", f"permute_param {{ {order} }}"))


PRIORS = np.array([[0.1, 0.2, 0.5, 0.4], [0.3, 0.3, 0.9, 0.8], [-0.2, 0.0, 0.4, 1.2]], np.float32)
VARIANCES = np.tile(np.float32([0.1, 0.15, 0.2, 0.3]), (3, 1))


def decoded(locations, code_type, *, scaled=True):
    """DecodeBBox of bbox_util.cpp, box by box; locations (N, 3, L, 4)."""
    found = np.empty(locations.shape)
    for image, box, label in np.ndindex(locations.shape[:3]):
        x0, y0, x1, y1 = PRIORS[box].astype(float)
        delta = locations[image, box, label] * (VARIANCES[box] if scaled else 1)
        width, height = x1 - x0, y1 - y0
        if code_type == "CENTER_SIZE":
            x, y = delta[0] * width + (x0 + x1) / 2, delta[1] * height + (y0 + y1) / 2
            w, h = np.exp(delta[2]) * width, np.exp(delta[3]) * height
            found[image, box, label] = x - w / 2, y - h / 2, x + w / 2, y + h / 2
        else:
            sides = (width, height, width, height) if code_type == "CORNER_SIZE" else 1
            found[image, box, label] = PRIORS[box] + delta * sides
    return found


def detection_output(settings, num_locations):
    blobs = inputs(loc=(2, num_locations), conf=(2, 9), priors=(1, 2, 12))
    text = f"detection_output_param {{ num_classes: 3 {settings} }}"
    return blobs + layer("DetectionOutput", text, bottoms="loc conf priors")


@pytest.mark.parametrize("code_type", ["CORNER", "CENTER_SIZE", "CORNER_SIZE"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_boxes_are_decoded(tmp_path, code_type, scaled, shared):
    flags = (
        f"share_location: {str(shared).lower()} variance_encoded_in_target: {str(not scaled).lower()} "
        f"code_type: {code_type} nms_param {{ nms_threshold: 1 }} background_label_id: -1"
    )
    locations = normal(2, 3, 1 if shared else 3, 4)
    scores = np.random.default_rng(0).permuted(np.linspace(0, 1, 18)).reshape(2, 3, 3)
    graph = load(tmp_path, detection_output(flags, locations[0].size))
    priors = np.stack([PRIORS, VARIANCES]).reshape(1, 2, -1)
    found = run(graph, loc=locations.reshape(2, -1), conf=scores.reshape(2, 9), priors=priors)["y"][0, 0]
    boxes, rows = decoded(locations, code_type, scaled=scaled), []
    for image in range(2):
        for label in range(3):
            for box in np.argsort(-scores[image, :, label]):
                score = scores[image, box, label]
                rows.append([image, label, score, *boxes[image, box, 0 if shared else label]])
    np.testing.assert_allclose(found, rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "num_locations", "error", "message"),
    [
        ("share_location: false", 12, ShapeError, "'loc' has 12 locations for an image, expected 36 for 3"),
        ("", 16, ShapeError, "'loc' has 16 locations for an image, expected 12 for 3 priors and 3 classes"),
        ("nms_param { eta: 0 }", 12, ReadError, "'eta' is 0, expected a number above 0, at most 1"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, settings, num_locations, error, message):
    with pytest.raises(error, match=message):
        load(tmp_path, detection_output(settings, num_locations))


@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (4, ShapeError, "'conf' has 9 scores for an image, expected 12 for 3 priors"),
        (0, ReadError, "has no 'num_classes'"),
    ],
)
def test_the_number_of_classes_must_be_that_of_the_scores(tmp_path, count, error, message):
    text = detection_output("", 12).replace("num_classes: 3", f"num_classes: {count}")
    with pytest.raises(error, match=message):
        load(tmp_path, text)


def test_priors_of_another_shape_are_refused(tmp_path):
    blobs = inputs(loc=(2, 12), conf=(2, 9), priors=(1, 3, 12))
    text = blobs + layer(
        "DetectionOutput", "detection_output_param { num_classes: 3 }", bottoms="loc conf priors"
    )
    with pytest.raises(
        ShapeError, match=r"third bottom has the shape .*, expected priors: \(1, 2, 4 for each\)"
    ):
        load(tmp_path, text)


def multibox_loss(settings, *, more=""):
    blobs = inputs(loc=(2, 12), conf=(2, 9), priors=(1, 2, 12), label=(1, 1, 2, 8))
    text = f"{more} multibox_loss_param {{ num_classes: 3 {settings} }}"
    return blobs + layer("MultiBoxLoss", text, bottoms="loc conf priors label")


@pytest.mark.parametrize(
    ("settings", "more", "expected"),
    [
        ("", "", {"code_type": "CORNER", "normalization": "VALID", "mining_type": "MAX_NEGATIVE"}),
        (
            "loc_loss_type: L2 conf_loss_type: LOGISTIC loc_weight: 0.5 match_type: BIPARTITE "
            "overlap_threshold: 0.3 use_difficult_gt: false neg_pos_ratio: 2 neg_overlap: 0.4",
            "loss_param { normalize: false }",
            {
                "loc_loss": "L2",
                "conf_loss": "LOGISTIC",
                "loc_weight": 0.5,
                "match_type": "BIPARTITE",
                "overlap_threshold": pytest.approx(0.3),
                "use_difficult_gt": 0,
                "neg_pos_ratio": 2.0,
                "neg_overlap": pytest.approx(0.4),
                "normalization": "BATCH_SIZE",
            },
        ),
        (
            "mining_type: NONE background_label_id: 2 code_type: CENTER_SIZE encode_variance_in_target: true "
            "ignore_cross_boundary_bbox: true do_neg_mining: false",
            "loss_param { normalization: FULL } propagate_down: false propagate_down: true",
            {
                "mining_type": "NONE",
                "background_label_id": 2,
                "code_type": "CENTER_SIZE",
                "encode_variance_in_target": 1,
                "ignore_cross_boundary_bbox": 1,
                "normalization": "FULL",
                "loc_weight": 0.0,
                "conf_weight": 1.0,
            },
        ),
    ],
)
def test_settings_of_the_loss_are_read(tmp_path, settings, more, expected):
    graph = load(tmp_path, multibox_loss(settings, more=more))
    (node,) = (node for node in graph.nodes if node.op_type == "MultiBoxLoss")
    found = {name: attribute.value for name, attribute in node.attributes.items()}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            "use_prior_for_matching: false",
            UnsupportedError,
            "'use_prior_for_matching' is false, which is not",
        ),
        ("map_object_to_agnostic: true", UnsupportedError, "'map_object_to_agnostic' is true, which is not"),
        ("bp_inside: true", UnsupportedError, "'bp_inside' is true, which is not supported; only false is"),
        ("mining_type: HARD_EXAMPLE", UnsupportedError, "'mining_type' HARD_EXAMPLE and 'nms_param' are not"),
        ("nms_param { top_k: 9 }", UnsupportedError, "'mining_type' HARD_EXAMPLE and 'nms_param' are not"),
        ("do_neg_mining: false", ReadError, "'do_neg_mining' conflicts with 'mining_type' MAX_NEGATIVE"),
        ("share_location: false", ReadError, "hard negative mining needs 'share_location: true'"),
        (
            "conf_loss_type: LOGISTIC mining_type: NONE",
            UnsupportedError,
            "LOGISTIC is supported only with mining and",
        ),
    ],
)
def test_settings_of_the_loss_that_are_not_read_are_named(tmp_path, settings, error, message):
    with pytest.raises(error, match=message):
        load(tmp_path, multibox_loss(settings))


ANNOTATED = """
layer { name: "data" type: "AnnotatedData" top: "data" top: "label"
  transform_param { mean_value: 104 mean_value: 117 mean_value: 123 %s }
  data_param { source: "none_lmdb" batch_size: %d }
  annotated_data_param { batch_sampler { max_sample: 1 } batch_sampler { max_sample: 1 } } }
layer { name: "out" type: "Silence" bottom: "label" }
layer { name: "copy" type: "Split" bottom: "data" top: "y" }
"""


@pytest.mark.parametrize("batch", [1, 32])
def test_annotated_data_gives_images_of_one_size_and_any_number_of_boxes(tmp_path, batch):
    graph = load(tmp_path, ANNOTATED % ("resize_param { height: 30 width: 40 }", batch))
    images, boxes = graph.inputs
    assert str(images.shape) == "[N,3,30,40]"
    assert [size if isinstance(size, int) else None for size in boxes.shape] == [None, 1, None, 8]
    assert "N" not in {str(size) for size in boxes.shape}


def test_annotated_data_without_a_size_asks_for_it(tmp_path):
    with pytest.raises(ReadError, match=r"does not give all sizes of 'data'.*--input-shape data="):
        load(tmp_path, ANNOTATED % ("", 4))


@pytest.mark.parametrize(
    ("size", "rows"),
    [("pooled_h: 2 pooled_w: 3", (4, 5)), ("pooled_size: 2", (4, 5)), ("pooled_size: 3", (4, 5, 1, 1))],
)
def test_regions_are_pooled_bin_by_bin(tmp_path, size, rows):
    """ROIPoolingLayer::Forward_cpu."""
    text = inputs(x=(2, 3, 8, 9), rois=rows)
    text += layer("ROIPooling", f"roi_pooling_param {{ {size} spatial_scale: 0.5 }}", bottoms="x rois")
    x = normal(2, 3, 8, 9)
    rois = np.array([[0, 0, 0, 15, 13], [1, 3, 5, 9, 9], [1, 4, 4, 2, 2], [0, 20, 20, 30, 30]], np.float32)
    found = run(load(tmp_path, text), x=x, rois=rois.reshape(rows))["y"]
    height, width = (2, 3) if "pooled_h" in size else (int(size[-1]),) * 2
    assert found.shape == (4, 3, height, width)
    for number, (image, *corners) in enumerate(rois):
        x0, y0, x1, y1 = (int(np.floor(corner * 0.5 + 0.5)) for corner in corners)
        bin_h, bin_w = max(y1 - y0 + 1, 1) / height, max(x1 - x0 + 1, 1) / width
        for i, j in np.ndindex(height, width):
            top, bottom = (min(max(y0 + b, 0), 8) for b in (int(i * bin_h), int(np.ceil((i + 1) * bin_h))))
            left, right = (min(max(x0 + b, 0), 9) for b in (int(j * bin_w), int(np.ceil((j + 1) * bin_w))))
            cells = x[int(image), :, top:bottom, left:right]
            expected = cells.max(axis=(1, 2)) if cells.size else 0
            np.testing.assert_array_equal(found[number, :, i, j], expected)


def test_pooling_of_regions_needs_its_sizes(tmp_path):
    text = inputs(x=(2, 3, 8, 9), rois=(4, 5)) + layer("ROIPooling", bottoms="x rois")
    with pytest.raises(ReadError, match=r"'pooled_h' and 'pooled_w' are \[0, 0\], expected numbers above 0"):
        load(tmp_path, text)


def test_position_sensitive_regions_take_the_mean_over_channels_of_their_own(tmp_path):
    """PSROIPoolingForward of psroi_pooling_layer.cu."""
    settings = "psroi_pooling_param { output_dim: 3 group_size: 2 spatial_scale: 0.5 }"
    text = inputs(x=(2, 12, 8, 9), rois=(4, 5)) + layer("PSROIPooling", settings, bottoms="x rois")
    x = normal(2, 12, 8, 9)
    rois = np.array([[0, 0, 0, 15, 13], [1, 3, 5, 9, 9], [1, 4, 4, 2, 2], [0, 20, 20, 30, 30]], np.float32)
    found = run(load(tmp_path, text), x=x, rois=rois)["y"]
    assert found.shape == (4, 3, 2, 2)
    for n, c, i, j in np.ndindex(4, 3, 2, 2):
        left, top = (np.floor(corner + 0.5) * 0.5 for corner in rois[n, 1:3])
        right, bottom = ((np.floor(corner + 0.5) + 1) * 0.5 for corner in rois[n, 3:])
        bin_h, bin_w = max(bottom - top, 0.1) / 2, max(right - left, 0.1) / 2
        y0, y1 = (min(max(int(v), 0), 8) for v in (np.floor(i * bin_h + top), np.ceil((i + 1) * bin_h + top)))
        x0, x1 = (
            min(max(int(v), 0), 9) for v in (np.floor(j * bin_w + left), np.ceil((j + 1) * bin_w + left))
        )
        cells = x[int(rois[n, 0]), (c * 2 + i) * 2 + j, y0:y1, x0:x1]
        assert found[n, c, i, j] == pytest.approx(cells.mean() if cells.size else 0, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ("group_size: 2", ReadError, r"'output_dim' and 'group_size' are \[0, 2\], expected numbers above 0"),
        ("output_dim: 4 group_size: 2", ShapeError, "12 channels, expected 16: 4 for each of 2x2 bins"),
    ],
)
def test_channels_must_fit_the_bins(tmp_path, settings, error, message):
    text = inputs(x=(2, 12, 8, 9), rois=(4, 5))
    text += layer("PSROIPooling", f"psroi_pooling_param {{ {settings} }}", bottoms="x rois")
    with pytest.raises(error, match=message):
        load(tmp_path, text)


def test_padded_regions_of_cascade_rcnn_are_refused(tmp_path):
    text = inputs(x=(2, 3, 8, 9), rois=(4, 5))
    settings = "roi_pooling_param { pooled_size: 2 pad_ratio: 0.5 }"
    with pytest.raises(UnsupportedError, match=r"net.prototxt:3: .*'pad_ratio' of the Cascade R-CNN branch"):
        load(tmp_path, text + layer("ROIPooling", settings, bottoms="x rois"))
