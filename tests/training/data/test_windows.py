"""WindowData: which windows are drawn, and what is cut out of a picture whose pixels say where they are."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")

import cv2

from netweave.errors import ReadError, UsageError
from netweave.training import Updated
from netweave.training.data.sources.composed import Windows, place

HEIGHT, WIDTH = 20, 30
BOXES = [
    (3, 0.9, (2, 4, 11, 13)),
    (5, 0.6, (0, 0, 9, 4)),
    (2, 0.2, (15, 5, 24, 14)),
    (1, 0.5, (20, 10, 29, 19)),
]


@pytest.fixture
def folder(tmp_path):
    """An image of rows and columns (blue 5 times the row, green 5 times the column), and its windows."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    cv2.imwrite(str(tmp_path / "image.png"), np.stack([5 * rows, 5 * columns, 0 * rows], 2).astype(np.uint8))
    lines = ["# 0", "image.png", "3", str(HEIGHT), str(WIDTH), str(len(BOXES))]
    lines += [f"{label} {overlap} {' '.join(map(str, box))}" for label, overlap, box in BOXES]
    (tmp_path / "windows.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def opened(folder, **settings):
    settings = {"batch_size": 4, "crop_size": 10, "root_folder": f"{folder}/", **settings}
    return Windows(str(folder / "windows.txt"), **settings)


def test_a_batch_is_background_and_then_things(folder):
    source = opened(folder, fg_fraction=0.25)
    labels = [float(source.read(index)[1]) for index in range(400)]
    assert set(labels[3::4]) == {3, 5, 1}
    assert {label for index, label in enumerate(labels) if index % 4 != 3} == {0}
    source = opened(folder, fg_fraction=1.0, fg_threshold=0.7)
    assert {float(source.read(index)[1]) for index in range(50)} == {3}


def test_a_window_of_the_size_of_the_crop_is_its_pixels(folder):
    source = opened(folder, mean_values=[1, 2, 3], scale=0.5)
    image = cv2.imread(str(folder / "image.png"))
    found = source.cut(image, (2, 4, 11, 13), mirrored=False)
    np.testing.assert_array_equal(found, (image[4:14, 2:12] - [1.0, 2.0, 3.0]) * 0.5)
    mirrored = source.cut(image, (2, 4, 11, 13), mirrored=True)
    np.testing.assert_array_equal(mirrored, found[:, ::-1])


def test_context_shows_what_is_around_and_zero_outside(folder):
    image = cv2.imread(str(folder / "image.png"))
    found = opened(folder, crop_size=20, context_pad=5).cut(image, (10, 6, 19, 15), mirrored=False)
    # 10 x 10 and half as much again on each side: rows 1 to 21 and columns 5 to 25 (both round up)
    cut = place((10, 6, 19, 15), (HEIGHT, WIDTH), 20, 5, square=False)
    assert cut.columns == (5, 25)
    assert cut.rows == (1, 19)
    assert cut.size[1] == 20
    assert (found[-1] == 0).all()
    assert found[5, 10, 1] == pytest.approx(5 * 15, abs=5)
    corner = opened(folder, crop_size=20, context_pad=5, mean_values=[50]).cut(
        image, (0, 0, 9, 9), mirrored=True
    )
    at = place((0, 0, 9, 9), (HEIGHT, WIDTH), 20, 5, square=False).at
    assert at == (5, 5)
    assert (corner[:5] == 0).all()
    assert (corner[:, -5:] == 0).all()
    assert corner[5, 14].tolist() == pytest.approx([-50, -50, -50], abs=5)


def test_a_square_takes_the_longer_side(folder):
    cut = place((4, 8, 23, 11), (HEIGHT, WIDTH), 10, 0, square=True)
    assert cut.columns == (4, 24)
    assert cut.rows == (0, 19)
    assert cut.size == (10, 10)  # 20 of 21 rows, 21 of 21 columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "# 0\nimage.png\n3\n20\n30\n1\n1 0.9 2 x 3 4\n",
            r"windows.txt:7: found '1 0.9 2 x 3 4', expected a",
        ),
        ("image.png\n", r"windows.txt:1: found 'image.png', expected a window file"),
        (
            "# 0\nimage.png\n3\n20\n30\n1\n1 0.9 2 4 11 13\n",
            "has no windows with overlap below 0.5, but a batch",
        ),
    ],
)
def test_files_of_another_kind(folder, text, message):
    (folder / "windows.txt").write_text(text)
    with pytest.raises(ReadError, match=message):
        opened(folder)


@pytest.mark.parametrize(
    ("box", "settings", "message"),
    [
        # with its context, the window has 2,500 rows; the 20 of the image are 0.08 rows of the crop of 10
        (
            "0 19 9 2018",
            {"context_pad": 1},
            "would be scaled from 20 x 1. to 0 x . pixels, expected at",
        ),
        ("0 0 29 20", {}, "is not inside the image"),
        ("-2 0 9 9", {}, "is not inside the image"),
        ("40 40 49 49", {"context_pad": 1}, "is not inside the image"),
        ("9 9 3 12", {"context_pad": 1}, "has its corners in the wrong order"),
    ],
)
def test_a_window_that_cannot_be_cut_is_named(folder, box, settings, message):
    (folder / "windows.txt").write_text(f"# 0\nimage.png\n3\n20\n30\n1\n1 0.9 {box}\n")
    source = opened(folder, batch_size=1, fg_fraction=1.0, **settings)
    where = rf"windows.txt:7: the window {box} \(x1 y1 x2 y2\) of .*image.png, which has 30 x 20 pixels, "
    with pytest.raises(ReadError, match=f"{where}{message}.*; correct the window or remove its line"):
        source.read(0)


def test_the_last_row_and_column_of_an_image_may_be_in_a_window(folder):
    image = cv2.imread(str(folder / "image.png"))
    found = opened(folder, crop_size=20).cut(image, (10, 0, 29, 19), mirrored=False)
    np.testing.assert_array_equal(found, image[:, 10:])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context_pad": 5}, "context_pad 5 leaves nothing of a crop of 10 for the window; expected less"),
        ({"mean_values": [1, 2]}, "2 mean values, expected 1 or one for each of 3 channels"),
    ],
)
def test_settings_that_leave_no_window_are_refused(folder, settings, message):
    with pytest.raises(UsageError, match=message):
        opened(folder, **settings)


def test_a_net_with_window_data_is_read_and_fed(folder, monkeypatch):
    pytest.importorskip("torch")
    from netweave import api

    monkeypatch.chdir(folder)
    (folder / "net.prototxt").write_text(
        'layer { name: "data" type: "WindowData" top: "data" top: "label"\n'
        "  transform_param { crop_size: 6 mirror: true mean_value: 60 scale: 0.02 }\n"
        '  window_data_param { source: "windows.txt" batch_size: 8 context_pad: 1 crop_mode: "square" } }\n'
        'layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"\n'
        '  inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }\n'
        'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }\n'
    )
    (folder / "solver.prototxt").write_text(
        'net: "net.prototxt" base_lr: 0.05 lr_policy: "fixed" max_iter: 60 random_seed: 1\n'
    )
    told = []
    api.train("solver.prototxt", watch=told.append)
    losses = [event.loss for event in told if isinstance(event, Updated)]
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
