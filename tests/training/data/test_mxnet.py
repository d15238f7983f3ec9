"""Records that MXNet 1.9.1 wrote, and batches that its ImageRecordIter made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netweave.runtime.engine import SerialEngine
from netweave.training.data import Loader, Order
from netweave.training.data.recordio import frame, unframe

pytest.importorskip("cv2")

GOLDEN = Path(__file__).parents[2] / "golden" / "mxnet_data"
MAGIC = b"\x0a\x23\xd7\xce"
PAYLOADS = [b"", b"abc", MAGIC, b"abcd" + MAGIC + b"efg", MAGIC * 3 + b"x", b"ab" + MAGIC + b"cd"]


def crop(height, width):
    return {"kind": "crop", "height": height, "width": width, "where": "centre", "enlarge": True}


REVERSE = {"kind": "reverse_channels"}
CASES = [
    [crop(8, 10)],
    [
        crop(8, 10),
        {"kind": "mirror", "probability": 1.0},
        {"kind": "subtract", "values": [120, 110, 100]},
        {"kind": "scale", "factor": 0.25},
    ],
    [crop(7, 7), {"kind": "subtract", "values": [1, 0, 0]}, {"kind": "scale", "factor": [1.5, 0.75, 0.375]}],
    [{"kind": "resize", "shorter": 9}, crop(8, 8)],
    [{"kind": "resize", "shorter": 9, "interpolation": "auto"}, crop(8, 8)],
    [crop(20, 20)],
    [{"kind": "pad", "size": 2, "fill": 7}, crop(18, 22)],
    [
        {
            "kind": "random_size_crop",
            "height": 8,
            "width": 8,
            "min_size": 12,
            "max_size": 12,
            "where": "centre",
        }
    ],
    [{"kind": "warp", "rotate": 30, "fill": 9}, crop(14, 18)],
]


def test_records_with_the_magic_word():
    content = (GOLDEN / "magic.rec").read_bytes()
    assert content == b"".join(frame(payload) for payload in PAYLOADS)
    at = 0
    for payload in PAYLOADS:
        framed = frame(payload)
        assert unframe(content[at : at + len(framed)]) == payload
        at += len(framed)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_batches(number):
    from netweave.training.data.sources.images import RecordIO

    expected = np.load(GOLDEN / "batches.npz")
    with SerialEngine() as engine:
        loader = Loader(
            RecordIO(str(GOLDEN / "images.rec")),
            ("data", "softmax_label"),
            engine=engine,
            order=Order(num_records=5, batch_size=5, last="pad"),
            transforms=CASES[number],
        )
        with loader:
            arrays = loader.take().arrays
            np.testing.assert_array_equal(arrays["softmax_label"], expected[f"label{number}"])
            off = np.abs(arrays["data"] - expected[f"data{number}"])
    assert off.max() <= 1e-4
