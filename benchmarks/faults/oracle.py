"""What the nets compute, by other people's programs.

Run by an interpreter that has them: ``python -m benchmarks.faults.oracle FOLDER FORMAT...``. Every folder
below FOLDER with a ``job.json`` of these formats gets an ``outputs.npz``, or an ``error.txt`` if the program
refuses the net. Nets run in processes of their own, since some programs end them on odd nets.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.oracles import recipe


def main(folder: Path, formats: list[str]) -> None:
    """Run every job of some formats that has no answer yet."""
    context = multiprocessing.get_context("fork")
    if "pytorch" in formats:
        importlib.import_module("torch")  # once, and not in every process
    for job in sorted(folder.rglob("job.json")):
        place = job.parent
        if (place / "outputs.npz").exists() or (place / "error.txt").exists():
            continue
        if json.loads(job.read_text())["format"] not in formats:
            continue
        worker = context.Process(target=answer, args=(place,))
        worker.start()
        worker.join(120)
        if worker.exitcode != 0 and not (place / "error.txt").exists():
            worker.kill()
            (place / "error.txt").write_text(f"the program ended with {worker.exitcode}")


def images(inputs: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Return three samples of every input: noise, the same all positive, and noise of the size of pixels."""
    found = {}
    for name, shape in inputs.items():
        noise = recipe.image(name, (1, *shape), 1.0)
        found[name] = np.concatenate([noise, np.abs(noise), 50 * noise]).astype(np.float32)
    return found


def answer(place: Path) -> None:
    """Run one net."""
    job = json.loads((place / "job.json").read_text())
    try:
        outputs = RUNNERS[job["format"]](place, job["files"], images(job["inputs"]))
    except Exception as error:  # noqa: BLE001  (any refusal of a foreign program is an answer)
        (place / "error.txt").write_text(f"{type(error).__name__}: {error}"[:2000])
        return
    np.savez(place / "outputs.npz", *outputs)


def run_caffe(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a Caffe net by OpenCV."""
    import cv2

    return forward(cv2.dnn.readNetFromCaffe(str(place / files[0]), str(place / files[1])), inputs)


def run_darknet(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a Darknet net by OpenCV, which calls its only input by no name."""
    import cv2

    net = cv2.dnn.readNetFromDarknet(str(place / files[0]), str(place / files[1]))
    return forward(net, {"": next(iter(inputs.values()))})


def forward(net: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a net of OpenCV, without its own rewriting, one sample after another."""
    import cv2

    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    names = sorted(net.getUnconnectedOutLayersNames())
    samples = []
    for i in range(len(next(iter(inputs.values())))):
        for name, x in inputs.items():
            net.setInput(x[i : i + 1], name)
        samples.append([np.array(y) for y in net.forward(names)])
    return [np.concatenate(parts) for parts in zip(*samples, strict=True)]


def run_mxnet(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a symbol by MXNet."""
    import mxnet as mx

    symbol = mx.sym.load(str(place / files[0]))
    stored = mx.nd.load(str(place / files[1]))
    given = {key.partition(":")[2]: value for key, value in stored.items()}
    given |= {name: mx.nd.array(x) for name, x in inputs.items()}
    names, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    shapes, _, _ = symbol.infer_shape(**{name: x.shape for name, x in inputs.items()})
    for name, shape in zip(names, shapes, strict=True):
        if name.endswith("_label"):
            given.setdefault(name, mx.nd.zeros(shape))
    bound = symbol.bind(
        mx.cpu(),
        {name: given[name] for name in names},
        aux_states={name: given[name] for name in states},
        grad_req="null",
    )
    return [y.asnumpy() for y in bound.forward(is_train=False)]


def run_onnx(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run an ONNX net by ONNX Runtime, without its own rewriting."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(place / files[0]), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def run_torch(place: Path, files: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a PyTorch net by PyTorch."""
    import torch

    from benchmarks.faults.torch_nets import module

    torch.set_num_threads(1)
    with torch.no_grad():
        found = module(place)(**{name: torch.from_numpy(x) for name, x in inputs.items()})
    return [y.numpy() for y in (found if isinstance(found, tuple) else (found,))]


RUNNERS = {
    "caffe": run_caffe, "mxnet": run_mxnet, "onnx": run_onnx, "pytorch": run_torch, "darknet": run_darknet,
}  # fmt: skip

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
