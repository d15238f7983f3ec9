"""Score drawn boxes by GluonCV's VOC metrics, and write the average precisions.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.voc_scores

Writes ``tests/golden/voc_scores.json``: for each case and class the precision by eleven points and by area.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np

from tests.oracles import golden
from tests.training.boxes.drawn import CASES, drawn

# GluonCV as a whole wants packages that none of its metrics needs, so its packages are entered by hand
FOLDER = Path(find_spec("gluoncv").submodule_search_locations[0])
for name in ("gluoncv", "gluoncv.utils", "gluoncv.utils.metrics"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [str(FOLDER.parent / name.replace(".", "/"))]
METRICS = importlib.import_module("gluoncv.utils.metrics.voc_detection")

GOLDEN = Path(__file__).parent.parent / "golden" / "voc_scores.json"


def main() -> None:
    """Write the golden file."""
    golden.write_json(GOLDEN, {name: scores(name) for name in CASES})


def scores(name: str) -> list[list[float]]:
    """Return the precisions of each class of a case."""
    truth, found = drawn(name)
    metrics = [METRICS.VOC07MApMetric(iou_thresh=0.5), METRICS.VOCMApMetric(iou_thresh=0.5)]
    for image in np.unique(truth[:, 0]):
        own, boxes = truth[truth[:, 0] == image], found[found[:, 0] == image]
        for metric in metrics:
            metric.update(
                boxes[None, :, 3:],
                boxes[None, :, 1],
                boxes[None, :, 2],
                own[None, :, 3:],
                own[None, :, 1],
                own[None, :, 2],
            )
    rows = []
    for metric in metrics:
        recalls, precisions = metric._recall_prec()
        rows.append([metric._average_precision(r, p) for r, p in zip(recalls, precisions, strict=True)])
    return [[round(float(value), 9) for value in pair] for pair in zip(*rows, strict=True)]


if __name__ == "__main__":
    main()
