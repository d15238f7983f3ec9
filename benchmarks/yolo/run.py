"""Train ``examples/yolo``, prune it to half of its multiply-adds, train that, and compare with OpenCV.

    python -m benchmarks yolo [--seeds 1,2]

Results are, for each seed, the figures of the trained net, of the pruned one and after
fine-tuning, the seconds that each step took, and the largest difference of any box from OpenCV's.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

import netweave
from benchmarks.record import Namespace, Record, option
from examples.yolo import demo, make_data

METRICS = ("mAP@0.5", "mAP@0.5 (11 points)", "mAP@[.5:.95]")


def figures(net: Path, weights: Path, data: Path) -> dict[str, float]:
    """Return what a net costs, and its precision on the images to test."""
    from netweave.api import evaluate, load_phases
    from netweave.graph import total_cost

    cost = total_cost(netweave.load(net, weights))
    (tested,) = evaluate(load_phases(net, data=data), weights)
    metrics = {name: tested.outputs[name][0] for name in METRICS}
    return {"parameters": cost.parameters, "multiply_adds": cost.multiply_adds, **metrics}


def opencv_difference(net: Path, weights: Path, num_images: int = 40) -> tuple[int, float]:
    """Return the number of boxes above a score of 0.3, and the largest difference of one from OpenCV's.

    OpenCV adds 1e-6 to variances where Darknet adds 1e-5, and is given weights that make up for it.
    """
    graph = netweave.load(net, weights)
    with tempfile.TemporaryDirectory() as folder:
        adapted = Path(folder) / "opencv.weights"
        adapted.write_bytes(_for_opencv(graph, weights))
        reference = cv2.dnn.readNetFromDarknet(str(net), str(adapted))
    reference.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    count, largest = 0, 0.0
    for number in range(make_data.NUM_TRAIN, make_data.NUM_TRAIN + num_images):
        pixels = make_data.picture(number)[0][None, ..., ::-1].transpose(0, 3, 1, 2)
        data = np.ascontiguousarray(pixels / np.float32(255))
        found = netweave.find_boxes(graph, netweave.run(graph, {"data": data}), threshold=0.3, overlap=1.0)
        reference.setInput(data)
        rows = reference.forward()
        expected = sorted(
            (label, float(row[5 + label]), *(row[:2] - row[2:4] / 2), *(row[:2] + row[2:4] / 2))
            for row in rows
            for label in np.flatnonzero(row[5:] > 0.3).tolist()
        )
        ours = sorted(
            (int(label), float(score), *corners)
            for label, score, corners in zip(found.label, found.score, found.corners, strict=True)
        )
        count += len(ours)
        if len(ours) != len(expected):
            return count, float("inf")
        if ours:
            largest = max(largest, float(np.abs(np.array(ours) - np.array(expected)).max()))
    return count, largest


def _for_opencv(graph: netweave.Graph, weights: Path) -> bytes:
    from netweave.graph import stored_arrays

    arrays = stored_arrays(graph)
    more = {key: 9e-6 if graph.parameters[key].role == "variance" else 0.0 for key in arrays}
    numbers = [(arrays[key] + np.float32(more[key])).astype("<f4").tobytes() for key in graph.parameters]
    return weights.read_bytes()[:20] + b"".join(numbers)


def one_seed(seed: int, folder: Path) -> dict[str, object]:
    """Return the figures of a training, a pruning and a fine-tuning."""
    make_data.write(folder / "shapes")
    data = folder / "shapes" / "shapes.data"
    net = folder / "yolo.cfg"
    net.write_text(demo.NET.read_text())
    backup, seconds, began = folder / "shapes" / "backup", {}, time.perf_counter()

    def done(step: str) -> None:
        nonlocal began
        now = time.perf_counter()
        seconds[step], began = round(now - began, 1), now

    netweave.train(netweave.load_job(net, data=data, scale_l1=float(demo.SPARSITY)), seed=seed, threads=1)
    done("training")
    trained = max(backup.glob("yolo_*.weights"), key=lambda file: file.stat().st_mtime)
    pruned = netweave.prune(net, trained, folder / "pruned.cfg", keep=0.5, data=data)
    done("pruning")
    demo.with_solver(pruned.net, pruned.net, demo.TUNING)
    netweave.train(netweave.load_job(pruned.net, data=data), weights=[pruned.weights], seed=seed, threads=1)
    done("fine-tuning")
    tuned = max(backup.glob("pruned_*.weights"), key=lambda file: file.stat().st_mtime)
    boxes, difference = opencv_difference(pruned.net, tuned)
    return {
        "seed": seed,
        "trained": figures(net, trained, data),
        "pruned": figures(pruned.net, pruned.weights, data),
        "fine-tuned": figures(pruned.net, tuned, data),
        "filters": pruned.filters,
        "opencv": {"version": cv2.__version__, "boxes": boxes, "largest difference": difference},
        "seconds": seconds,
    }


OPTIONS = (option("--seeds", default="1"),)


def main(options: Namespace, record: Record) -> None:
    """Run all options, and write what was found."""
    runs = []
    for seed in options:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(one_seed(seed, Path(folder)))
        print(json.dumps(runs[-1], indent=1))
    record.save({"threads": 1, "runs": runs})
