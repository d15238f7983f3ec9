"""Run nets that Netweave wrote in the framework that they were written for; a test calls it.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.written FRAMEWORK FOLDER

Each folder in FOLDER holds a net called ``written``, and its inputs by name in ``inputs.npz``; its outputs go
to ``y.npz``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def caffe(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a net of Caffe's in OpenCV, layer by layer as it stands."""
    import cv2

    net = cv2.dnn.readNetFromCaffe(str(folder / "written.prototxt"), str(folder / "written.caffemodel"))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    for name, array in inputs.items():
        net.setInput(array, name)
    text = (folder / "written.prototxt").read_text()
    read = set(re.findall(r'bottom: "(.*)"', text))
    known, found = set(net.getLayerNames()), {}
    for block in text.split("layer {")[1:]:
        name, tops = block.split('"')[1], re.findall(r'top: "(.*)"', block)
        wanted = [top for top in tops if top not in read]
        if wanted:  # OpenCV calls an output like its layer, or like its blob
            [arrays] = net.forwardAndRetrieve([name if name in known else wanted[0]])
            found.update((top, array) for top, array in zip(tops, arrays, strict=False) if top in wanted)
    return found


def mxnet(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a net of MXNet's as a script would; outputs by their number."""
    import mxnet as mx

    symbol, arguments, auxiliary = mx.model.load_checkpoint(str(folder / "written"), 0)
    shapes = {name: array.shape for name, array in inputs.items()}
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)
    executor.copy_params_from(arguments, auxiliary)
    given = {name: mx.nd.array(array) for name, array in inputs.items()}
    outputs = executor.forward(is_train=False, **given)
    return {str(number): array.asnumpy() for number, array in enumerate(outputs)}


def keras(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run source for Keras as its user would, images with channels last, and save it; outputs by number."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("written", folder / "written.py")
    port = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(port)
    given = {name: np.moveaxis(array, 1, -1) if array.ndim == 4 else array for name, array in inputs.items()}
    net = port.load()
    net.save(folder / "written.keras")
    found = net(given, training=False)
    arrays = map(as_array, found if isinstance(found, (list, tuple)) else [found])
    return {
        str(number): np.moveaxis(array, -1, 1) if array.ndim == 4 else array
        for number, array in enumerate(arrays)
    }


def as_array(tensor: Any) -> np.ndarray:
    """Return a tensor of the backend that Keras runs on."""
    return np.asarray(tensor.detach() if hasattr(tensor, "detach") else tensor)


FRAMEWORKS: dict[str, Callable[[Path, dict[str, np.ndarray]], dict[str, np.ndarray]]] = {
    "caffe": caffe,
    "mxnet": mxnet,
    "keras": keras,
}


def main(framework: str, folder: Path) -> None:
    """Run every net of a folder."""
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        np.savez(each / "y.npz", **FRAMEWORKS[framework](each, dict(np.load(each / "inputs.npz"))))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
