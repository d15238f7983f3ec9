"""Transforms against the sources' own loops, and against what they promise."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UsageError
from netweave.training.data import TRANSFORMS, Pipeline
from tests.training.data.make import field, kvfile, pictures, singa_record

cv2 = pytest.importorskip("cv2")


def put_through(pixels, *wanted, seed=0, dtype=np.float32):
    pipeline = Pipeline(wanted)
    out = np.full(pipeline.shape(pixels, np.random.default_rng(seed), lambda: "first"), np.nan, dtype)
    pipeline.apply(pixels, out, np.random.default_rng(seed), lambda: "list.txt: record 3")
    return out


def caffe_transform(pixels, crop, h_off, w_off, mirror, mean, scale):
    """DataTransformer::Transform, loop by loop; mean is an image (C, H, W), or values by channel."""
    _height, _width, channels = pixels.shape
    out = np.zeros((channels, crop, crop), np.float32)
    for c in range(channels):
        for h in range(crop):
            for w in range(crop):
                element = np.float32(pixels[h_off + h, w_off + w, c])
                less = mean[c, h_off + h, w_off + w] if mean.ndim == 3 else mean[c]
                out[c, h, crop - 1 - w if mirror else w] = (element - less) * np.float32(scale)
    return out


def binaryproto(array):
    sizes = b"".join(field(number, 0, size) for number, size in enumerate((1, *array.shape), 1))
    return sizes + field(5, 2, array.astype("<f4").tobytes())


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("mirror_first", [False, True])
@pytest.mark.parametrize("image_of_means", [False, True])
def test_caffes_transform(tmp_path, mirror, mirror_first, image_of_means):
    pixels = pictures(1)[0]
    means = np.random.default_rng(1).uniform(90, 130, (3, 10, 12)).astype(np.float32)
    (tmp_path / "mean.binaryproto").write_bytes(binaryproto(means))
    subtract = {"kind": "subtract", "path": str(tmp_path / "mean.binaryproto")}
    if not image_of_means:
        means = np.float32([104, 117, 123])
        subtract = {"kind": "subtract", "values": [104, 117, 123]}
    rest = [{"kind": "crop", "height": 5, "width": 5, "where": "centre"}, subtract]
    if mirror:
        rest.insert(0 if mirror_first else 1, {"kind": "mirror", "probability": 1.0})
    found = put_through(pixels, *rest, {"kind": "scale", "factor": 0.00390625})
    w_off = (12 - 5) // 2 if not (mirror and mirror_first) else 12 - 5 - (12 - 5) // 2
    expected = caffe_transform(pixels, 5, (10 - 5) // 2, w_off, mirror, means, 0.00390625)
    np.testing.assert_array_equal(found.transpose(2, 0, 1), expected)


def test_random_windows_are_everywhere_and_mirrors_half_the_time():
    pixels = np.arange(6 * 8, dtype=np.uint8).reshape(6, 8, 1)
    seen = {}
    for seed in range(1500):
        crop = {"kind": "crop", "height": 4, "width": 5, "where": "random"}
        found = put_through(pixels, crop, {"kind": "mirror"}, seed=seed)[:, :, 0]
        mirrored = found[0, 1] < found[0, 0]
        first = int(found[0, -1] if mirrored else found[0, 0])
        np.testing.assert_array_equal(
            found[:, ::-1] if mirrored else found, pixels[first // 8 :, first % 8 :, 0][:4, :5]
        )
        seen.setdefault((first // 8, first % 8), []).append(mirrored)
    assert set(seen) == {(row, column) for row in range(3) for column in range(4)}
    assert all(70 < len(mirrors) < 190 for mirrors in seen.values())
    assert all(0.3 < np.mean(mirrors) < 0.7 for mirrors in seen.values())


def test_means_of_the_cropped_size_are_mxnets(tmp_path):
    """MXNet's mean_img has the size of what is left, and is taken where the pixel was before mirroring."""
    means = np.random.default_rng(1).uniform(0, 100, (3, 4, 5)).astype(np.float32)
    head = struct.pack("<QQQII3q", 0x112, 0, 1, 0xF993FAC8, 3, 3, 4, 5)
    record = head + struct.pack("<iii", 1, 0, 0) + means.tobytes() + struct.pack("<QQ", 1, 8) + b"mean_img"
    (tmp_path / "mean.bin").write_bytes(record)
    pixels = pictures(1)[0]
    crop = {"kind": "crop", "height": 4, "width": 5, "where": "centre"}
    subtract = {"kind": "subtract", "path": str(tmp_path / "mean.bin")}
    window = pixels[3:7, 3:8].astype(np.float32)
    expected = window - means.transpose(1, 2, 0)
    np.testing.assert_array_equal(put_through(pixels, crop, subtract), expected)
    mirror = {"kind": "mirror", "probability": 1}
    np.testing.assert_array_equal(put_through(pixels, crop, mirror, subtract), expected[:, ::-1])


def test_resizing_is_opencvs():
    pixels = pictures(1, 20, 30)[0]
    found = put_through(pixels, {"kind": "resize", "height": 9, "width": 7})
    np.testing.assert_array_equal(found, cv2.resize(pixels, (7, 9)).astype(np.float32))
    for shape, expected in [((20, 30), (10, 15)), ((31, 20), (15, 10)), ((20, 20), (10, 10))]:
        assert put_through(pictures(1, *shape)[0], {"kind": "resize", "shorter": 10}).shape[:2] == expected
    assert put_through(pictures(1, 20, 30, 1)[0], {"kind": "resize", "shorter": 10}).shape == (10, 15, 1)


def test_mxnets_crop_enlarges_first():
    pixels = pictures(1, 4, 20)[0]
    crop = {"kind": "crop", "height": 8, "width": 10, "where": "centre", "enlarge": True}
    found = put_through(pixels, crop)
    np.testing.assert_array_equal(found, cv2.resize(pixels, (40, 8))[:, 15:25].astype(np.float32))


def test_planar_pixels_go_the_same_ways():
    pixels = pictures(1)[0]
    planar = np.ascontiguousarray(pixels.transpose(2, 0, 1)).transpose(1, 2, 0)
    for wanted in (
        [{"kind": "mirror", "probability": 1}],
        [{"kind": "resize", "height": 9, "width": 7}],
        [{"kind": "subtract", "values": [1, 2, 3]}, {"kind": "scale", "factor": [0.5, 1, 2]}],
        [{"kind": "pad", "size": 2, "fill": 7}],
    ):
        np.testing.assert_array_equal(put_through(planar, *wanted), put_through(pixels, *wanted))


def test_without_transforms_numbers_stay():
    np.testing.assert_array_equal(put_through(np.array([1.5, 2.5])), [1.5, 2.5])
    scaled = put_through(np.array([1.5, 2.5]), {"kind": "scale", "factor": 2.0}, dtype=np.float64)
    assert scaled.tolist() == [3, 5]


def test_many_at_once_are_the_same():
    many = pictures(4)
    pipeline = Pipeline([{"kind": "subtract", "values": [1, 2, 3]}, {"kind": "scale", "factor": 0.25}])
    assert not pipeline.by_record
    out = np.empty(many.shape, np.float32)
    pipeline.apply_many(many, out, lambda: "x")
    np.testing.assert_array_equal(out, (many - np.float32([1, 2, 3])) * np.float32(0.25))
    assert Pipeline([{"kind": "mirror"}]).random
    assert Pipeline([{"kind": "resize", "shorter": 3}]).by_record


def test_padding():
    found = put_through(pictures(1, 2, 3)[0], {"kind": "pad", "size": 1, "fill": 9})
    assert found.shape == (4, 5, 3)
    assert np.all(found[0] == 9)
    assert np.all(found[:, -1] == 9)


def test_squares_of_random_size():
    pixels = np.tile(np.arange(20, dtype=np.uint8)[None, :, None], (20, 1, 1))
    wanted = {"kind": "random_size_crop", "height": 8, "width": 8, "min_size": 8, "max_size": 16}
    slopes = set()
    for seed in range(60):
        found = put_through(pixels, {**wanted, "where": "random", "interpolation": "nearest"}, seed=seed)
        slopes.add(int(found[0, -1, 0] - found[0, 0, 0]) // 2)
    assert len(slopes) > 3
    centred = put_through(pixels, {**wanted, "min_size": 16, "where": "centre", "interpolation": "nearest"})
    assert centred[0, :, 0].tolist() == list(range(2, 18, 2))


def test_parts_of_random_area():
    pixels = pictures(1, 40, 60)[0]
    wanted = {
        "kind": "random_resized_crop",
        "height": 8,
        "width": 8,
        "min_area": 0.1,
        "max_area": 0.5,
        "min_ratio": 0.75,
        "max_ratio": 1.33,
    }
    found = [put_through(pixels, wanted, seed=seed) for seed in range(20)]
    assert {array.shape for array in found} == {(8, 8, 3)}
    assert len({array.tobytes() for array in found}) == 20
    too_large = {**wanted, "min_area": 2.0, "max_area": 2.0}
    centre = {"kind": "crop", "height": 8, "width": 8, "where": "centre"}
    np.testing.assert_array_equal(put_through(pixels, too_large), put_through(pixels, centre))


def test_warping_a_quarter_turn():
    pixels = pictures(1, 9, 9)[0]
    found = put_through(pixels, {"kind": "warp", "rotate": 90, "interpolation": "nearest"})
    inner = np.rot90(pixels, 1)
    assert min(np.mean(found[1:-1, 1:-1] != np.roll(inner, k, axis=0)[1:-1, 1:-1]) for k in (-1, 0, 1)) < 0.3
    same = put_through(pixels, {"kind": "warp"})
    np.testing.assert_array_equal(same, pixels)
    larger = put_through(pixels, {"kind": "warp", "min_scale": 2.0, "max_scale": 2.0})
    assert larger.shape == (18, 18, 3)
    assert put_through(pixels, {"kind": "warp", "rotate_list": [0], "max_size": 6}).shape == (6, 6, 3)


def test_colours():
    pixels = pictures(1, 6, 6)[0]
    np.testing.assert_array_equal(put_through(pixels, {"kind": "reverse_channels"}), pixels[:, :, ::-1])
    gray = np.full((4, 4, 3), 100, np.uint8)
    jitter = {"kind": "color_jitter", "brightness": 0.5}
    values = {float(put_through(gray, jitter, seed=seed)[0, 0, 0]) for seed in range(50)}
    assert min(values) >= 50
    assert max(values) <= 150
    assert len(values) > 25
    for still in ({"contrast": 0.4}, {"saturation": 0.4}):
        assert abs(put_through(gray, {"kind": "color_jitter", **still}) - 100).max() <= 1
    spread = put_through(pixels, {"kind": "color_jitter", "contrast": 0.9}, seed=2).std()
    assert spread != pytest.approx(pixels.std(), rel=0.05)
    same = put_through(pixels, {"kind": "hls_jitter"})
    expected = cv2.cvtColor(cv2.cvtColor(pixels, cv2.COLOR_BGR2HLS), cv2.COLOR_HLS2BGR)
    np.testing.assert_array_equal(same, expected)
    lighter = [
        put_through(gray, {"kind": "hls_jitter", "lightness": 60}, seed=seed).mean() for seed in range(40)
    ]
    assert 35 < min(lighter) < 80
    assert 120 < max(lighter) < 165


def test_pca_noise_moves_all_pixels_alike():
    gray = np.full((4, 4, 3), 100, np.uint8)
    moves = np.array(
        [put_through(gray, {"kind": "pca_noise", "level": 0.1}, seed=s)[0, 0] for s in range(400)]
    )
    # along the first axis of ImageNet's colours all channels move together, 55 times the level
    assert np.corrcoef(moves.T).min() > 0.9
    assert moves.std() == pytest.approx(55.46 * 0.58 * 0.1, rel=0.2)


def test_contrast_and_illumination():
    drawn = [
        put_through(np.float32([[[10.0]], [[20.0]]]), {"kind": "contrast_jitter", "contrast": 0.5}, seed=seed)
        for seed in range(100)
    ]
    ratios = {float(array[1, 0, 0] / array[0, 0, 0]) for array in drawn}
    assert ratios == {2.0}
    assert 5 <= min(array[0, 0, 0] for array in drawn) < 6
    moved = [
        put_through(np.float32([[[10.0]]]), {"kind": "contrast_jitter", "illumination": 3.0}, seed=seed)
        for seed in range(100)
    ]
    assert 7 <= min(moved).item() < 7.5
    assert 12.5 < max(moved).item() <= 13


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"kind": "crop", "height": 11, "width": 4, "where": "centre"},
            "is 10 x 12 pixels, smaller than the crop of 11 x 4",
        ),
        (
            {"kind": "subtract", "values": [1.0, 2.0]},
            r"has the shape \(10, 12, 3\), but there are 2 values",
        ),
        (
            {
                "kind": "random_size_crop",
                "height": 3,
                "width": 3,
                "min_size": 3,
                "max_size": 11,
                "where": "centre",
            },
            "is 10 x 12 pixels, a square of 11 does not fit",
        ),
    ],
)
def test_sizes_that_do_not_fit_name_the_record(wanted, message):
    pipeline = Pipeline([wanted])
    with pytest.raises(ShapeError, match=f"list.txt: record 3: {message}"):
        pipeline.apply(pictures(1)[0], np.empty((10, 12, 3), np.float32), None, lambda: "list.txt: record 3")


def test_a_first_record_that_does_not_fit_is_named():
    crop = {"kind": "crop", "height": 11, "width": 4, "where": "centre"}
    with pytest.raises(ShapeError, match=r"record 0: is 10 x 12 pixels, smaller than the crop of 11 x 4"):
        Pipeline([crop]).shape(pictures(1)[0], np.random.default_rng(0), lambda: "list.txt: record 0")


@pytest.mark.parametrize(
    ("pixels", "wanted", "message"),
    [
        (
            np.zeros((0, 4, 3), np.uint8),
            {"kind": "resize", "height": 3, "width": 3},
            "would be scaled from 0 x 4 to 3 x 3 pixels, expected at least 1 x 1",
        ),
        # OpenCV's warpAffine takes no image with sides of 32,768 pixels
        (
            np.zeros((1, 40_000, 3), np.uint8),
            {"kind": "warp", "max_rotate_angle": 1},
            "cannot be warped to 1 x 40000 pixels: ",
        ),
    ],
)
def test_what_opencv_cannot_do_names_the_record(pixels, wanted, message):
    out = np.empty((3, 3, 3), np.float32)
    with pytest.raises(ShapeError, match=f"list.txt: record 3: {message}"):
        Pipeline([wanted]).apply(pixels, out, np.random.default_rng(0), lambda: "list.txt: record 3")


def test_an_image_of_another_size_names_the_record(tmp_path):
    with pytest.raises(ShapeError, match=r"x: is 10 x 12 x 3 after its transforms, expected 5 x 5 x 3"):
        Pipeline([]).apply(pictures(1)[0], np.empty((5, 5, 3), np.float32), None, lambda: "x")
    (tmp_path / "mean.binaryproto").write_bytes(binaryproto(np.zeros((3, 6, 6))))
    subtract = {"kind": "subtract", "path": str(tmp_path / "mean.binaryproto")}
    crop = {"kind": "crop", "height": 4, "width": 4, "where": "centre"}
    with pytest.raises(ShapeError, match=r"is \(4, 4, 3\) of an image of \(10, 12, 3\), and the m"):
        put_through(pictures(1)[0], crop, subtract)


def test_colour_needs_three_channels():
    with pytest.raises(ShapeError, match="first: has 1 channels, colour transforms need 3"):
        put_through(pictures(1, channels=1)[0], {"kind": "pca_noise", "level": 1.0})


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"kind": "blur"}, "unknown transform 'blur'; expected one of color_jitter, "),
        ({"kind": "crop", "height": 3}, "transform 'crop' needs: width, where"),
        (
            {"kind": "crop", "height": 3, "width": 3, "where": "left"},
            "where is 'left', expected random, centre, top left",
        ),
        ({"kind": "resize", "height": 3}, "give either height and width, or shorter"),
        ({"kind": "resize", "shorter": 3, "interpolation": "x"}, "interpolation is 'x', expected nearest, "),
        ({"kind": "subtract"}, "give either values or path"),
        ({"kind": "mirror", "chance": 1}, "transform 'mirror' has no setting chance; it has: probability"),
    ],
)
def test_wrong_settings(wanted, message):
    with pytest.raises(UsageError, match=message):
        Pipeline([wanted])


def test_a_missing_file_of_means():
    with pytest.raises(ReadError, match="there is no such file"):
        Pipeline([{"kind": "subtract", "path": "/nowhere/mean.binaryproto"}])


def test_deviations_are_cut_as_means_are(tmp_path):
    deviations = np.arange(1, 1 + 3 * 6 * 7, dtype=np.float32).reshape(3, 6, 7)
    record = singa_record(data=deviations.ravel(), shape=deviations.shape)
    (tmp_path / "std.bin").write_bytes(kvfile({"std": record}))
    crop = {"kind": "crop", "height": 4, "width": 3, "where": "top left"}
    pixels = pictures(1, height=6, width=7)[0]
    found = put_through(pixels, crop, {"kind": "divide", "path": str(tmp_path / "std.bin")})
    np.testing.assert_allclose(found, (pixels / deviations.transpose(1, 2, 0))[:4, :3], rtol=1e-6)


def test_every_transform_is_tried():
    tests = Path(__file__).parents[2]
    files = ("test_transforms.py", "test_boxes.py", "test_detection.py")
    paths = [
        *(tests / "training/data" / name for name in files),
        tests / "formats/caffe/test_annotated_data.py",
    ]
    text = "".join(path.read_text() for path in paths)
    assert [kind for kind in TRANSFORMS if f'"kind": "{kind}"' not in text] == []
