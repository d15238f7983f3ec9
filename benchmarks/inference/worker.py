"""A net on one candidate: ``python -m benchmarks.inference.worker KIND FOLDER BATCH CxHxW THREADS OUTPUT``.

The folder holds the net as ``net.onnx``, ``net.prototxt`` and, as PyTorch source, ``net.py``. Raw runtimes
are given what makes them fastest and what their own documentation says: the size of the batch, all
optimisations, the threads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.inference import protocol
from benchmarks.source_module import source_module

if TYPE_CHECKING:
    import numpy as np

    Run = Callable[[], np.ndarray]


def prepared(folder: Path, x: np.ndarray, threads: int, precision: str) -> tuple[Run, str]:
    """Netweave's own, on the backend that it chooses."""
    import netweave

    net = netweave.prepare(folder / "net.onnx", precision=precision, threads=threads, batch=len(x))
    output = net.graph.outputs[0].name
    return lambda: net.run({"data": x})[output], f"Netweave, {net.backend}"


def openvino(folder: Path, x: np.ndarray, threads: int, precision: str) -> tuple[Run, str]:
    """OpenVINO for one size."""
    import openvino as ov

    core = ov.Core()
    model = core.read_model(folder / "net.onnx")
    model.reshape(list(x.shape))
    config = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
    }
    compiled = core.compile_model(model, "CPU", config)
    return lambda: compiled([x])[0], f"OpenVINO {ov.__version__}"


def onnxruntime(folder: Path, x: np.ndarray, threads: int, precision: str) -> tuple[Run, str]:
    """ONNX Runtime with its own defaults."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(folder / "net.onnx", options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"data": x})[0], f"ONNX Runtime {ort.__version__}"


def compiled(folder: Path, x: np.ndarray, threads: int, precision: str) -> tuple[Run, str]:
    """PyTorch source by ``torch.compile``, channels last, weights packed ahead."""
    import torch
    from torch._inductor import config

    config.freezing = True
    torch.set_num_threads(threads)
    module = source_module(folder / "net.py").load().eval().to(memory_format=torch.channels_last)
    run = torch.compile(module)
    data = torch.from_numpy(x)

    def once() -> np.ndarray:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            made = run(data.contiguous(memory_format=torch.channels_last))
        found: np.ndarray = made.float().numpy()
        return found

    return once, f"torch.compile {torch.__version__}"


def opencv(folder: Path, x: np.ndarray, threads: int, precision: str) -> tuple[Run, str]:
    """OpenCV's own importer of Caffe nets, and its kernels."""
    import cv2

    cv2.setNumThreads(threads)
    net = cv2.dnn.readNetFromCaffe(str(folder / "net.prototxt"), str(folder / "net.caffemodel"))

    def once() -> np.ndarray:
        net.setInput(x)
        found: np.ndarray = net.forward()
        return found

    return once, f"OpenCV {cv2.__version__}"


KINDS: dict[str, Any] = {
    "netweave": prepared,
    "OpenVINO": openvino,
    "ONNX Runtime": onnxruntime,
    "torch.compile": compiled,
    "OpenCV": opencv,
}
"""Candidates by name; each returns what runs once, and what computes."""


def main() -> None:
    """Make the net ready and serve."""
    kind, folder, batch, image, threads, precision, output = sys.argv[1:]
    x = protocol.draw(int(batch), tuple(map(int, image.split("x"))))
    began = time.perf_counter()
    run, name = KINDS[kind](Path(folder), x, int(threads), precision)
    protocol.serve(run, output, name=name, start_s=time.perf_counter() - began)


if __name__ == "__main__":
    main()
