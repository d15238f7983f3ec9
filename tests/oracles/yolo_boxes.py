"""Decode drawn heads of YOLO by OpenCV's layer, and write the boxes that are left.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.yolo_boxes

Writes ``tests/golden/yolo_boxes.json``: for each case one row for each box and class that stays: class,
score, and centre and size relative to the image.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cv2
import numpy as np

from tests.oracles import golden, recipe
from tests.oracles.yolo_cases import CASES, THRESHOLD, Case

GOLDEN = Path(__file__).parent.parent / "golden" / "yolo_boxes.json"


def main() -> None:
    """Write the golden file."""
    golden.write_json(GOLDEN, {name: boxes(name, case) for name, case in CASES.items()})


def boxes(name: str, case: Case) -> list[tuple[float, ...]]:
    """Return what OpenCV finds in a head that stands behind a convolution which changes nothing."""
    channels = case.shape[1]
    with tempfile.TemporaryDirectory() as folder:
        cfg, weights = Path(folder) / "net.cfg", Path(folder) / "net.weights"
        cfg.write_text(case.text(f"thresh={THRESHOLD}\nnms_threshold={case.overlap}"))
        numbers = np.concatenate([np.zeros(channels), np.eye(channels).ravel()]).astype("<f4")
        weights.write_bytes(np.array([0, 2, 0, 0, 0], "<i4").tobytes() + numbers.tobytes())
        net = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setInput(recipe.draw(name, case.shape))
    rows = net.forward().astype(np.float64)
    found = [
        (label, *(float(f"{value:.6g}") for value in (row[5 + label], *row[:4])))
        for row in rows
        for label in np.flatnonzero(row[5:]).tolist()
    ]
    return sorted(found, key=lambda row: (row[0], -row[1]))


if __name__ == "__main__":
    main()
