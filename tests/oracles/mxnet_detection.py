"""Let MXNet's ImageDetRecordIter read records of images with objects; write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_detection

Writes ``tests/golden/mxnet_detection/``: ``objects.rec`` with its index and ``objects.lst`` (other labels for
the same images), ``batches.npz`` (data and labels of each row of ``CASES``, which are without chance), and
``samples.npz`` (the first object's corners, or the mean colour, of each row of ``DRAWN``, many times).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import cv2
import mxnet as mx
import numpy as np

from tests.mxnet.detection_cases import CASES, DRAWN, OBJECT
from tests.oracles import recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_detection"
COUNT, HEIGHT, WIDTH = 5, 24, 30
SAMPLES, AT_ONCE = 2000, 50

LABELS = [
    [2, 5, 1, 0.1, 0.2, 0.6, 0.7],
    [4, 6, 30, 24, 0, 0.0, 0.0, 0.5, 1.0, 0, 3, 0.5, 0.25, 0.75, 0.5, 1],
    [2, 5, 7, 0.25, 0.25, 0.25, 0.5, 2, 0.3, 0.3, 0.9, 0.8],
    [2, 6, 4, 0.1, 0.1, 0.9, 0.9, 0],
    [3, 5, 9, 5, 0.2, 0.1, 0.4, 0.3],
]
"""Labels of different headers, rows and lengths; the third has an object without a width."""


def pixels(index: int) -> np.ndarray:
    """Return an image, BGR: smooth, so that interpolations have something to agree on."""
    coarse = recipe.uniform(f"object {index}", (4, 5, 3)) * 70 + 128
    return np.clip(cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC), 0, 255).astype(
        np.uint8
    )


def flat(height: int = 20, width: int = 24) -> np.ndarray:
    """Return an image of one colour: BGR 60, 120, 170."""
    return np.broadcast_to(np.array([60, 120, 170], np.uint8), (height, width, 3)).copy()


def write(folder: Path, name: str, labels: list[list[float]], images: list[np.ndarray]) -> None:
    """Write records with their index."""
    writer = mx.recordio.MXIndexedRecordIO(str(folder / f"{name}.idx"), str(folder / f"{name}.rec"), "w")
    for index, (label, image) in enumerate(zip(labels, images, strict=True)):
        header = mx.recordio.IRHeader(0, np.array(label, np.float32), index, 0)
        writer.write_idx(index, mx.recordio.pack(header, cv2.imencode(".png", image)[1].tobytes()))
    writer.close()


def main() -> None:
    """Write the golden files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, "objects", LABELS, [pixels(index) for index in range(COUNT)])
        lines = [
            "\t".join([str(index), *(f"{one:g}" for one in [2, 5, index, 0.2, 0.1, 0.8, 0.6]), "x.png"])
            for index in range(COUNT)
        ]
        (folder / "objects.lst").write_text("\n".join(lines) + "\n", encoding="utf-8")
        batches = {}
        for number, case in enumerate(CASES):
            settings = {"batch_size": COUNT, **case}
            if "path_imglist" in settings:
                settings["path_imglist"] = str(folder / settings["path_imglist"])
            iterator = mx.io.ImageDetRecordIter(
                path_imgrec=str(folder / "objects.rec"), preprocess_threads=1, verbose=False, **settings
            )
            for step, batch in enumerate(iterator):
                batches[f"data{number}.{step}"] = batch.data[0].asnumpy()
                batches[f"label{number}.{step}"] = batch.label[0].asnumpy()
                batches[f"pad{number}.{step}"] = np.array(batch.pad)
        np.savez_compressed(folder / "batches.npz", **batches)
        write(folder, "drawn", [OBJECT] * AT_ONCE, [flat()] * AT_ONCE)
        np.savez_compressed(folder / "samples.npz", **{key: drawn(folder, key) for key in DRAWN})
        GOLDEN.mkdir(exist_ok=True)
        for file in folder.iterdir():
            if not file.name.startswith("drawn"):
                shutil.copy(file, GOLDEN / file.name)


def drawn(folder: Path, name: str) -> np.ndarray:
    """Return many draws of one row of ``DRAWN``."""
    iterator = mx.io.ImageDetRecordIter(
        path_imgrec=str(folder / "drawn.rec"),
        data_shape=(3, 20, 24),
        batch_size=AT_ONCE,
        preprocess_threads=1,
        verbose=False,
        **DRAWN[name],
    )
    rows: list[np.ndarray] = []
    while len(rows) * AT_ONCE < SAMPLES:
        for batch in iterator:
            if name == "colors":
                rows.append(batch.data[0].asnumpy().mean((2, 3)))
            else:
                rows.append(batch.label[0].asnumpy()[:, 7:11])  # four numbers, the header of two, the class
        iterator.reset()
    return np.concatenate(rows).astype(np.float16)


if __name__ == "__main__":
    main()
