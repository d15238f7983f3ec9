"""``mx.io.ImageDetRecordIter`` against MXNet 1.9.1's own (``tests/oracles/mxnet_detection.py``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("cv2")

import netweave.mxnet as mx
from netweave.errors import ReadError, UsageError
from tests.mxnet.detection_cases import CASES, DRAWN, OBJECT

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_detection"
RECORDS = str(GOLDEN / "objects.rec")
COUNT = 5


def iterator(**settings):
    given = {"path_imgrec": RECORDS, "batch_size": COUNT, "data_shape": (3, 10, 12), **settings}
    return mx.io.ImageDetRecordIter(**given)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_batches_are_those_of_mxnet(number):
    expected = np.load(GOLDEN / "batches.npz")
    settings = dict(CASES[number])
    if "path_imglist" in settings:
        settings["path_imglist"] = str(GOLDEN / settings["path_imglist"])
    batches = iterator(**settings, verbose=False, preprocess_threads=1)
    count = 0
    for step, batch in enumerate(batches):
        count += 1
        label = expected[f"label{number}.{step}"]
        np.testing.assert_allclose(batch.label[0].asnumpy(), label, rtol=0, atol=1e-6)
        assert batch.pad == expected[f"pad{number}.{step}"]
        data = expected[f"data{number}.{step}"]
        # OpenCV's releases round the grey of a coloured file differently
        most = 1.0 if data.shape[1] == 1 else 1e-4
        assert np.abs(batch.data[0].asnumpy() - data).max() <= most
        assert batches.provide_data[0].shape == data.shape
        assert batches.provide_label[0].shape == label.shape
    assert count == sum(key.startswith(f"data{number}.") for key in expected.files)


def furthest(one, other):
    """Return the largest difference of two samples' distributions: Kolmogorov and Smirnov's statistic."""
    points = np.concatenate([one, other])
    shares = (np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (one, other))
    return np.abs(next(shares) - next(shares)).max()


@pytest.fixture
def drawn_records(tmp_path):
    writer = mx.recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "w")
    image = np.broadcast_to(np.array([60, 120, 170], np.uint8), (20, 24, 3)).copy()
    for index in range(50):
        header = mx.recordio.IRHeader(0, np.array(OBJECT, np.float32), index, 0)
        writer.write_idx(index, mx.recordio.pack_img(header, image, quality=3, img_fmt=".png"))
    writer.close()
    return str(tmp_path / "x.rec")


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_distributed_as_in_mxnet(name, drawn_records):
    """Two samples of 2,000 of one distribution differ by more than 0.07 once in ten thousand times."""
    expected = np.load(GOLDEN / "samples.npz")[name].astype(np.float32)
    batches = iterator(
        path_imgrec=drawn_records, batch_size=50, data_shape=(3, 20, 24), seed=3, **DRAWN[name]
    )
    rows = []
    while len(rows) * 50 < len(expected):
        for batch in batches:
            data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
            rows.append(data.mean((2, 3)) if name == "colors" else label[:, 7:11])
        batches.reset()
    found = np.concatenate(rows).astype(np.float16).astype(np.float32)
    # sums and differences depend on how the four numbers hang together
    for project in (np.eye(found.shape[1]), np.eye(found.shape[1]) - np.roll(np.eye(found.shape[1]), 1, 0)):
        for one, other in zip((found @ project).T, (expected @ project).T, strict=True):
            assert furthest(one, other) < 0.07


def test_colors_are_shifted_in_bgr():
    """A noise along ImageNet's colours is MXNet's: red, green and blue times these axes."""
    from netweave.mxnet.io.images import image_transforms
    from netweave.training.data.transform import Pipeline
    from netweave.training.data.transforms.arithmetic import PCA

    pipeline = Pipeline(image_transforms((3, 4, 4), {"pca_noise": 0.5}))
    out = np.empty((4, 4, 3), np.float32)
    pipeline.apply(np.full((4, 4, 3), 128, np.uint8), out, np.random.default_rng(5), lambda: "x")
    expected = np.trunc(128 + PCA @ np.random.default_rng(5).normal(0.0, 0.5, 3))
    np.testing.assert_array_equal(out[0, 0], expected)
    assert len(set(expected)) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resize_mode": "fit"}, "resize_mode is 'fit', expected 'force'"),
        ({"aug_seq": "aug_default"}, "aug_seq is 'aug_default'"),
        ({"label_pad_width": 9}, "label_pad_width is 9, and the longest label has 16 numbers"),
        ({"min_crop_scales": (0.1, 0.2)}, r"min_crop_scales has 2 numbers, expected 1 or 1"),
        (
            {"rand_crop_prob": 1.0, "min_crop_scales": 0.9, "max_crop_scales": 0.5},
            "crop samplers: scales are 0.9 to 0.5",
        ),
        ({"rand_crop_prob": 1.0, "crop_emit_mode": "all"}, "keep is 'all', expected center or overlap"),
        ({"rand_mirror": True}, "has no setting rand_mirror"),
    ],
)
def test_a_wrong_setting(settings, message):
    with pytest.raises(UsageError, match=message):
        iterator(**settings)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (3.0, "has 1 labels that begin with 3, expected a label of objects"),
        ([2, 4, 1, 0.1, 0.1, 0.9, 0.9], "expected a label of objects"),
        ([2, 5, 1, 0.1, 0.1, 0.9, 0.9, 1], "has 8 labels that begin with 2, 5, 1, 0.1"),
        ([2, 5, 1, 0.1, float("nan"), 0.9, 0.9], "expected a label of objects"),
        ([1e9, 5, 1, 0.1, 0.1, 0.9, 0.9], "expected a label of objects"),
    ],
)
def test_a_label_that_is_none_of_objects(tmp_path, label, message):
    writer = mx.recordio.MXRecordIO(str(tmp_path / "x.rec"), "w")
    header = mx.recordio.IRHeader(0, label if isinstance(label, float) else np.array(label, np.float32), 0, 0)
    writer.write(mx.recordio.pack_img(header, np.zeros((8, 8, 3), np.uint8), quality=3, img_fmt=".png"))
    writer.close()
    with pytest.raises(ReadError, match=f"record 0.*{message}"):
        iterator(path_imgrec=str(tmp_path / "x.rec"))


def test_a_label_longer_than_the_bytes_that_are_read_ahead(tmp_path):
    """Three hundred objects do not fit into the first bytes; the magic word in a label cuts the record."""
    magic = np.frombuffer(b"\x0a\x23\xd7\xce", "<f4")[0]
    rows = [[number % 20, 0.1, 0.1, 0.2, 0.3, magic if number == 7 else 1.0] for number in range(300)]
    label = np.array([2, 6, *np.ravel(rows)], np.float32)
    writer = mx.recordio.MXRecordIO(str(tmp_path / "x.rec"), "w")
    for one in (label[: 2 + 6 * 280], label):
        writer.write(
            mx.recordio.pack_img(
                mx.recordio.IRHeader(0, one, 0, 0), np.zeros((8, 8, 3), np.uint8), quality=3, img_fmt=".png"
            )
        )
    writer.close()
    batch = iterator(path_imgrec=str(tmp_path / "x.rec"), batch_size=2).next()
    found = batch.label[0].asnumpy()
    assert found[:, 3].tolist() == [len(label) - 120, len(label)]
    np.testing.assert_allclose(found[1, 4:], label, atol=1e-6)
