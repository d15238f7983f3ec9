"""Images with boxes: Darknet's and Pascal VOC's labels, and what augmentation does to them."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

pytest.importorskip("cv2")

from examples.yolo import make_data
from netweave.errors import ReadError, ShapeError
from netweave.training.data import Pipeline
from netweave.training.data.sources.images import LabelledImages


def moved(pixels, boxes, *wanted, seed=0):
    """Return pixels and the boxes that are left, after some transforms."""
    pipeline, generator = Pipeline(wanted), np.random.default_rng(seed)
    out = np.zeros(pipeline.shape(pixels, np.random.default_rng(seed), lambda: "first"), np.float32)
    found = pipeline.apply(pixels, out, generator, lambda: "image", np.array(boxes, np.float32))
    return out, found[found[:, 0] != 0]


def marked(height, width, corners):
    """Return a black image with a white box, and the box's row; corners are whole pixels."""
    pixels = np.zeros((height, width, 3), np.uint8)
    x0, y0, x1, y1 = corners
    pixels[y0:y1, x0:x1] = 255
    row = [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height, 2, 0]
    return pixels, [row, [0] * 6]


def seen(out):
    """Return centre and size of what is white, relative to the image."""
    height, width = out.shape[:2]
    rows, columns = (np.flatnonzero((out[..., 0] > 190).any(axis=axis)) for axis in (1, 0))
    x0, x1, y0, y1 = columns[0], columns[-1] + 1, rows[0], rows[-1] + 1
    return (x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height


@pytest.mark.parametrize("size", [(60, 120), (120, 60), (80, 80)])
@pytest.mark.parametrize("seed", range(5))
def test_boxes_move_with_the_pixels(size, seed):
    pixels, boxes = marked(*size, (10, 20, 40, 50))
    place = {"kind": "place", "height": 96, "width": 128, "jitter": 0.3, "where": "random", "max_boxes": 4}
    out, found = moved(pixels, boxes, place, {"kind": "mirror"}, seed=seed)
    assert out.shape == (96, 128, 3)
    assert found[:, 4].tolist() == [2]
    np.testing.assert_allclose(found[0, :4], seen(out), atol=1.6 / 96)


def test_a_letterbox_keeps_proportions_and_fills_with_gray():
    pixels, boxes = marked(50, 100, (0, 0, 100, 50))
    out, found = moved(pixels, boxes, {"kind": "place", "height": 100, "width": 100})
    assert (out[:25] == 127).all()
    assert (out[25:75] == 255).all()
    np.testing.assert_allclose(found[0, :4], [0.5, 0.5, 1.0, 0.5], atol=1e-6)


def test_which_of_too_many_boxes_are_left_is_drawn():
    rows = [[0.1 * n, 0.5, 0.05, 0.1, n, 0] for n in range(1, 9)]
    place = {"kind": "place", "height": 32, "width": 32, "where": "random", "max_boxes": 3}
    pixels = np.zeros((32, 32, 3), np.uint8)
    kept = {tuple(sorted(moved(pixels, rows, place, seed=seed)[1][:, 4])) for seed in range(20)}
    assert {len(labels) for labels in kept} == {3}
    assert len(kept) > 5


@pytest.mark.parametrize("seed", range(4))
def test_hue_saturation_and_value_change_as_colorsys_says(seed):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (4, 4, 3), np.uint8)
    limits = {"hue": 0.1, "saturation": 1.5, "exposure": 1.5}
    out, _ = moved(pixels, [[0.5, 0.5, 0.1, 0.1, 0, 0]], {"kind": "hsv_jitter", **limits}, seed=seed)
    generator = np.random.default_rng(seed)
    turn, factors = generator.uniform(-0.1, 0.1), []
    for limit in (1.5, 1.5):
        factor = generator.uniform(1, limit)
        factors.append(factor if generator.integers(2) else 1 / factor)
    for place in np.ndindex(4, 4):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixels[place] / 255))
        changed = colorsys.hsv_to_rgb((hue + turn) % 1, saturation * factors[0], value * factors[1])
        np.testing.assert_allclose(out[place], np.clip(changed, 0, 1) * np.float64(255), atol=1.01)


def test_a_transform_that_knows_nothing_of_boxes_is_an_error():
    with pytest.raises(ShapeError, match="has boxes, which the transform Crop would leave behind"):
        moved(
            np.zeros((9, 9, 3), np.uint8),
            [[0.5] * 6],
            {"kind": "crop", "height": 3, "width": 3, "where": "centre"},
        )


@pytest.mark.parametrize("voc", [False, True])
def test_both_forms_of_labels_give_the_boxes_that_were_drawn(tmp_path, voc, capsys):
    make_data.write(tmp_path, num_train=6, num_test=2, voc=voc)
    path = tmp_path / ("ImageSets/Main/train.txt" if voc else "train.txt")
    source = LabelledImages(str(path), 3, make_data.NAMES, root=str(tmp_path))
    assert len(source) == 6
    for number in range(6):
        pixels, rows = source.read(number)
        image, shapes = make_data.picture(number)
        np.testing.assert_array_equal(pixels, image[..., ::-1])
        found = rows[rows[:, 0] != 0]
        corners = np.concatenate([found[:, :2] - found[:, 2:4] / 2, found[:, :2] + found[:, 2:4] / 2], axis=1)
        np.testing.assert_allclose(corners * make_data.SIZE, [box for _, box in shapes], atol=1e-3)
        assert found[:, 4].tolist() == [label for label, _ in shapes]


XML = "<annotation><size><width>10</width><height>10</height></size>{}</annotation>"
OBJECT = (
    "<object><name>{}</name><difficult>{}</difficult><bndbox><xmin>{}</xmin><ymin>2</ymin>"
    "<xmax>{}</xmax><ymax>9</ymax></bndbox></object>"
)


def folder_with(tmp_path, label, name="a.txt"):
    make_data.cv2.imwrite(str(tmp_path / "a.png"), np.zeros((10, 10, 3), np.uint8))
    (tmp_path / "list.txt").write_text("a.png\n")
    target = tmp_path / name
    if name.endswith(".xml"):
        (tmp_path / "JPEGImages").mkdir()
        (tmp_path / "a.png").rename(tmp_path / "JPEGImages" / "a.png")
        (tmp_path / "list.txt").write_text("JPEGImages/a.png\n")
        target = tmp_path / "Annotations" / name
        target.parent.mkdir()
    target.write_text(label)
    return LabelledImages(str(tmp_path / "list.txt"), 2, ("cat", "dog"), root=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "label", "message"),
    [
        ("a.txt", "0 0.5 0.5 0.2", r"a\.txt:1: is '0 0.5 0.5 0.2', expected: class x y width height"),
        ("a.txt", "0 0.5 nan 0.2 0.2", r"a\.txt:1: is '0 0.5 nan"),
        ("a.txt", "\n2 0.5 0.5 0.2 0.2", r"a\.txt:2: class 2, expected 0 to 1"),
        ("a.txt", "0.5 0.5 0.5 0.2 0.2", r"a\.txt:1: class 0.5, expected 0 to 1"),
        ("a.txt", "0 0.5 0.5 0 0.2", r"a\.txt:1: has no area"),
        (
            "a.txt",
            "0 0.9 0.5 0.3 0.2",
            r"a\.txt:1: reaches beyond the image: its corners are 0.75",
        ),
        (
            "a.xml",
            XML.format(OBJECT.format("cow", 0, 2, 9)),
            r"a\.xml: object 1: unknown class 'cow'",
        ),
        ("a.xml", XML.format(OBJECT.format("cat", 0, 2, 14)), r"a\.xml: object 1: reaches beyond the image"),
        ("a.xml", XML.format(OBJECT.format("cat", 0, 9, 2)), r"a\.xml: object 1: its box is"),
        ("a.xml", "<annotation><object>", r"a\.xml: is not XML"),
        ("a.xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotation/>", r"a\.xml: has a document type"),
        (
            "b.txt",
            "",
            r"a\.png: has no labels: neither .*a\.txt nor .*a\.xml exists",
        ),
    ],
)
def test_wrong_labels_are_one_error_with_their_place(tmp_path, name, label, message):
    with pytest.raises(ReadError, match=message):
        folder_with(tmp_path, label, name)


def test_several_wrong_images_are_one_error(tmp_path):
    (tmp_path / "list.txt").write_text("a.png\nb.png\n")
    with pytest.raises(ReadError, match=r"list\.txt: 2 of 2 images cannot be used: .*a\.png: there is"):
        LabelledImages(str(tmp_path / "list.txt"), 1, root=str(tmp_path))


def test_a_box_a_pixel_outside_is_cut_off(tmp_path):
    source = folder_with(tmp_path, XML.format(OBJECT.format("dog", 1, 0, 11)), "a.xml")
    np.testing.assert_allclose(source.boxes_of[0], [[0.5, 0.5, 1.0, 0.8, 1, 1]], atol=1e-6)


def test_difficult_boxes_can_be_left_out(tmp_path):
    labels = XML.format(OBJECT.format("dog", 1, 2, 9) + OBJECT.format("cat", 0, 2, 9))
    folder_with(tmp_path, labels, "a.xml")
    source = LabelledImages(str(tmp_path / "list.txt"), 2, ("cat", "dog"), str(tmp_path), difficult=False)
    assert source.boxes_of[0][:, 4].tolist() == [0]
