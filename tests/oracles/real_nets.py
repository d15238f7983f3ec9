"""Run the trained face-detection nets and the symbols of the corpus, and write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.real_nets CORPUS

Writes ``tests/golden/real_nets.json``: the trained nets by OpenCV (Caffe's files) and by MXNet (its own),
on inputs of several sizes, also not square; the other symbols of MXNet with drawn parameters.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cv2
import mxnet as mx

from tests.oracles import golden, mxnet_ops, recipe

GOLDEN = Path(__file__).parent.parent / "golden" / "real_nets.json"

TRAINED = {
    "mtcnn/det1": [(1, 3, 12, 12), (2, 3, 12, 12), (1, 3, 31, 22), (2, 3, 45, 64)],
    "mtcnn/det2": [(1, 3, 24, 24), (3, 3, 24, 24)],
}
"""Nets by their path without ending, and the sizes of their inputs; det1 has no dense layer."""

SYMBOLS = {
    "mxnet/v0.9.5/tests__python__unittest__save_000800.json": (3, 20),
    "mxnet/1.5.0/contrib__clojure-package__examples__imclassification__test__test-symbol.json.ref": (3, 784),
}
"""Symbols without arrays, and the sizes of their inputs."""

VALUES = 64
"""Number of elements kept of an output."""


def main(corpus: Path) -> None:
    """Write the golden file."""
    records = []
    for name, shapes in TRAINED.items():
        for shape in shapes:
            records.append(run_caffe(corpus, name, shape))
            records.append(run_mxnet(corpus, name, shape))
    records += [run_symbol(corpus, name, shape) for name, shape in SYMBOLS.items()]
    golden.write_json(GOLDEN, records)


def run_caffe(corpus: Path, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Run a trained net from Caffe's files by OpenCV; its outputs are in order of their names."""
    files = [f"{name}.prototxt", f"{name}.caffemodel"]
    net = cv2.dnn.readNetFromCaffe(*(str(corpus / file) for file in files))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableWinograd(False)
    net.setInput(recipe.image("data", shape, 1.0), "data")
    names = sorted(net.getUnconnectedOutLayersNames())
    outputs = zip(names, net.forward(names), strict=True)
    return {
        "files": files,
        "inputs": {"data": shape},
        "outputs": [(output, golden.describe(array, VALUES)) for output, array in outputs],
    }


def run_mxnet(corpus: Path, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Run a trained net from MXNet's files by MXNet."""
    files = [f"{name}-symbol.json", f"{name}-0001.params"]
    symbol = mx.sym.load(str(corpus / files[0]))
    arrays = mx.nd.load(str(corpus / files[1]))
    stored = {key.split(":", 1)[1]: array for key, array in arrays.items()}
    inputs = {"data": recipe.image("data", shape, 1.0)}
    shapes, _, _ = symbol.infer_shape(data=shape)
    given = {}
    for argument, size in zip(symbol.list_arguments(), shapes, strict=True):
        given[argument] = stored.get(argument, mx.nd.zeros(size))
    given["data"] = mx.nd.array(inputs["data"])
    results = symbol.bind(mx.cpu(), given).forward(is_train=False)
    outputs = zip(symbol.list_outputs(), results, strict=True)
    return {
        "files": files,
        "inputs": {"data": shape},
        "outputs": [(output, golden.describe(array.asnumpy(), VALUES)) for output, array in outputs],
    }


def run_symbol(corpus: Path, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Run a symbol with drawn parameters."""
    symbol = mx.sym.load(str(corpus / name))
    inputs = {"data": recipe.image("data", shape, 1.0)}
    return {"files": [name], "inputs": {"data": shape}, **mxnet_ops.run(symbol, inputs)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
