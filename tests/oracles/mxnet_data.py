"""Let MXNet write records, and read them by its ImageRecordIter; write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_data

Writes ``tests/golden/mxnet_data/``: ``images.rec`` with its index (PNG images, drawn by ``recipe``),
``magic.rec`` (payloads that hold RecordIO's own magic word), and ``batches.npz``: the batches of each row of
``CASES``, by its number. All of them are without chance.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import cv2
import mxnet as mx
import numpy as np

from tests.oracles import recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_data"
COUNT, HEIGHT, WIDTH = 5, 14, 18
MAGIC = struct.pack("<I", 0xCED7230A)

PAYLOADS = [b"", b"abc", MAGIC, b"abcd" + MAGIC + b"efg", MAGIC * 3 + b"x", b"ab" + MAGIC + b"cd"]
"""Payloads of ``magic.rec``."""

CASES: list[dict[str, Any]] = [
    {"data_shape": (3, 8, 10)},
    {"data_shape": (3, 8, 10), "mean_r": 120, "mean_g": 110, "mean_b": 100, "scale": 0.25, "mirror": True},
    {"data_shape": (3, 7, 7), "std_r": 2, "std_g": 4, "std_b": 8, "mean_r": 1, "scale": 3},
    {"data_shape": (3, 8, 8), "resize": 9},
    {"data_shape": (3, 8, 8), "resize": 9, "inter_method": 9},
    {"data_shape": (3, 20, 20)},
    {"data_shape": (3, 18, 22), "pad": 2, "fill_value": 7},
    {"data_shape": (3, 8, 8), "min_crop_size": 12, "max_crop_size": 12},
    {"data_shape": (3, 14, 18), "rotate": 30, "fill_value": 9},
]
"""Settings of ImageRecordIter."""


def pixels(index: int) -> np.ndarray:
    """Return an image, BGR: smooth, so that interpolations have something to agree on."""
    coarse = recipe.uniform(f"record {index}", (4, 5, 3)) * 70 + 128
    return np.clip(cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC), 0, 255).astype(
        np.uint8
    )


def main() -> None:
    """Write the golden files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = mx.recordio.MXIndexedRecordIO(str(folder / "images.idx"), str(folder / "images.rec"), "w")
        for index in range(COUNT):
            header = mx.recordio.IRHeader(0, float(index * 2), index, 0)
            content = cv2.imencode(".png", pixels(index))[1].tobytes()
            writer.write_idx(index, mx.recordio.pack(header, content))
        writer.close()
        plain = mx.recordio.MXRecordIO(str(folder / "magic.rec"), "w")
        for payload in PAYLOADS:
            plain.write(payload)
        plain.close()
        batches = {}
        for number, settings in enumerate(CASES):
            iterator = mx.io.ImageRecordIter(
                path_imgrec=str(folder / "images.rec"),
                path_imgidx=str(folder / "images.idx"),
                batch_size=COUNT,
                verbose=False,
                **settings,
            )
            batch = iterator.next()
            batches[f"data{number}"] = batch.data[0].asnumpy()
            batches[f"label{number}"] = batch.label[0].asnumpy()
        np.savez_compressed(folder / "batches.npz", **batches)
        GOLDEN.mkdir(exist_ok=True)
        for file in folder.iterdir():
            shutil.copy(file, GOLDEN / file.name)


if __name__ == "__main__":
    main()
