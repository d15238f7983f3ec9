"""What the nets compute, by other people's programs: OpenCV for Caffe, MXNet for MXNet, ONNX Runtime for ONNX.

Run by an interpreter that has them: ``python -m benchmarks.faults.oracle FOLDER``. Every folder below FOLDER
with a ``job.json`` gets an ``outputs.npz``, or an ``error.txt`` if the program refuses the net. Each net
runs in a process of its own kind's worker, since some programs crash on odd nets.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from pathlib import Path

import numpy as np

from tests.oracles import recipe


def main(folder: Path) -> None:
    """Run every job that has no answer yet."""
    context = multiprocessing.get_context("fork")
    for job in sorted(folder.rglob("job.json")):
        place = job.parent
        if (place / "outputs.npz").exists() or (place / "error.txt").exists():
            continue
        worker = context.Process(target=answer, args=(place,))
        worker.start()
        worker.join(120)
        if worker.exitcode != 0 and not (place / "error.txt").exists():
            worker.kill()
            (place / "error.txt").write_text(f"the program ended with {worker.exitcode}")


def answer(place: Path) -> None:
    """Run one net."""
    job = json.loads((place / "job.json").read_text())
    inputs = {name: recipe.image(name, tuple(shape), job["scale"]) for name, shape in job["inputs"].items()}
    try:
        outputs = RUNNERS[job["format"]](place, job["files"], inputs)
    except Exception as error:  # noqa: BLE001  (any refusal of a foreign program is an answer)
        (place / "error.txt").write_text(f"{type(error).__name__}: {error}"[:2000])
        return
    np.savez(place / "outputs.npz", **outputs)


def run_caffe(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a Caffe net by OpenCV, without its own rewriting."""
    import cv2

    net = cv2.dnn.readNetFromCaffe(str(place / files[0]), str(place / files[1]))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    for name, x in inputs.items():
        net.setInput(x, name)
    names = net.getUnconnectedOutLayersNames()
    return {name.replace("/", "|"): y for name, y in zip(names, net.forward(names), strict=True)}


def run_mxnet(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a symbol by MXNet."""
    import mxnet as mx

    symbol = mx.sym.load(str(place / files[0]))
    stored = mx.nd.load(str(place / files[1]))
    arrays = {key.partition(":")[2]: value for key, value in stored.items()}
    data = {name: mx.nd.array(x) for name, x in inputs.items()}
    shapes, _, aux = symbol.infer_shape_partial(**{name: x.shape for name, x in inputs.items()})
    given = {**arrays, **data}
    for name, shape in zip(symbol.list_arguments(), shapes, strict=True):
        given.setdefault(name, mx.nd.zeros(shape))
    bound = symbol.bind(
        mx.cpu(),
        {name: given[name] for name in symbol.list_arguments()},
        aux_states={name: given[name] for name in symbol.list_auxiliary_states()},
        grad_req="null",
    )
    return {str(i): y.asnumpy() for i, y in enumerate(bound.forward(is_train=False))}


def run_onnx(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run an ONNX net by ONNX Runtime, without its own rewriting."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(place / files[0]), options, providers=["CPUExecutionProvider"])
    return {str(i): y for i, y in enumerate(session.run(None, inputs))}


RUNNERS = {"caffe": run_caffe, "mxnet": run_mxnet, "onnx": run_onnx}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
