"""Run the nets of ``examples`` by the frameworks that they are written for, and write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.examples

Writes ``tests/golden/examples.json``: the net ``leaves`` by OpenCV, its port by MXNet, as it is and mended.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import mxnet as mx

from examples.padding import demo, make_weights
from tests.oracles import golden, recipe

if TYPE_CHECKING:
    import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "examples.json"
SHAPE = (2, 3, 32, 32)


def main() -> None:
    """Write the golden file."""
    data = recipe.image("data", SHAPE, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        make_weights.write(Path(folder))
        with contextlib.redirect_stdout(io.StringIO()):
            demo.mend(Path(folder) / demo.MENDED.name)
        outputs = {
            "leaves.prototxt": run_caffe(demo.NET, Path(folder) / "leaves.caffemodel", data),
            "leaves-symbol.json": run_mxnet(demo.PORT, Path(folder), data),
            "mended-symbol.json": run_mxnet(Path(folder) / demo.MENDED.name, Path(folder), data),
        }
    golden.write_json(GOLDEN, {name: golden.describe(array, array.size) for name, array in outputs.items()})


def run_caffe(net: Path, weights: Path, data: np.ndarray) -> np.ndarray:
    """Run a Caffe net by OpenCV."""
    loaded: Any = cv2.dnn.readNetFromCaffe(str(net), str(weights))
    loaded.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    loaded.setInput(data, "data")
    return loaded.forward("prob")


def run_mxnet(symbol: Path, folder: Path, data: np.ndarray) -> np.ndarray:
    """Run a symbol by MXNet in test mode."""
    stored = mx.nd.load(str(folder / "leaves-0000.params"))
    parts: dict[str, dict[str, Any]] = {"arg": {}, "aux": {}}
    for key, array in stored.items():
        kind, _, name = key.partition(":")
        parts[kind][name] = array
    executor = mx.sym.load(str(symbol)).simple_bind(mx.cpu(), grad_req="null", image=data.shape)
    executor.copy_params_from(parts["arg"], parts["aux"])
    return executor.forward(is_train=False, image=mx.nd.array(data))[0].asnumpy()


if __name__ == "__main__":
    main()
