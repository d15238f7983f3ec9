"""Run every Caffe net of the corpus that OpenCV's importer runs, and write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.caffe_nets CORPUS

Writes ``tests/golden/caffe_nets.json``: nets that compute the same share a record. Weights and inputs are
drawn (``recipe``); the record says which arrays there are, so that a test can draw them again.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from tests.oracles import caffe_net, caffemodel, golden, recipe

if TYPE_CHECKING:
    from tests.oracles.caffe_net import Body, Layer, Shape

GOLDEN = Path(__file__).parent.parent / "golden" / "caffe_nets.json"

NOT_HERE = re.compile(r"solver|labelmap|__ssd__.*__t(rain|est)|linreg")
"""Files that are no nets, those of SSD that train and evaluate, and a layer in Python."""

DATA_SHAPES = {
    "lenet": (1, 28, 28),
    "mnist": (1, 28, 28),
    "siamese": (2, 28, 28),
    "cifar": (3, 32, 32),
    "hdf5": (4,),
    "CaffeModels__alexnet": (1, 224, 224),
    "SSD_300x300": (3, 300, 300),
}
"""Sizes of the records of a data set that only its name tells; a later word of the file's name wins."""

SCALES = {"SSD_300x300": 1.0}
"""Deviation of the inputs where pixels would be too much: widths of boxes are exponentials of the heads."""

STAGES = {"mnist_autoencoder": ("test-on-test",)}

TAPS, OUTPUTS = 8, 64
"""Number of elements kept of an inner tensor and of an output."""


def main(corpus: Path) -> None:
    """Write the golden file."""
    records: dict[str, dict[str, Any]] = {}
    for path in sorted(corpus.rglob("*.prototxt")):
        if NOT_HERE.search(path.name) or path.parent.name == "mtcnn":
            continue
        name = path.relative_to(corpus).as_posix()
        sys.stdout.write(f"{name}\n")
        stages = next((stages for word, stages in STAGES.items() if word in path.name), ())
        body = caffe_net.read(path.read_text(), phase="TEST", stages=stages)
        scale = next((scale for word, scale in SCALES.items() if word in path.name), recipe.IMAGE_SCALE)
        try:
            record = run(body, input_shapes(path, body), stages, scale)
        except cv2.error as error:
            record = {"refused": error.err}
        shared = records.setdefault(json.dumps(record), {"files": {}, **record})
        shared["files"][name] = body.generation
    golden.write_json(GOLDEN, list(records.values()))


def input_shapes(path: Path, body: Body) -> dict[str, Shape]:
    """Return the shapes of a body's inputs: large images one by one, others by twos."""
    crops = [layer.number("crop_size") for layer in body.layers if "crop_size" in layer.settings]
    known = [shape for word, shape in DATA_SHAPES.items() if word in path.name]
    record = (3, crops[-1], crops[-1]) if crops else known[-1] if known else ()
    shapes = {name: body.declared.get(name, (0, *record))[1:] for name in body.inputs}
    return {name: (1 if np.prod(shape) > 20_000 else 2, *shape) for name, shape in shapes.items()}


def run(body: Body, inputs: dict[str, Shape], stages: tuple[str, ...], scale: float) -> dict[str, Any]:
    """Run a body on drawn weights and inputs, and describe every layer's output."""
    shapes, blobs = caffe_net.stored(body, inputs)
    weights = {
        layer.name: {
            "kind": layer.kind,
            "blobs": [(blob.shape, blob.role, blob.owner) for blob in blobs[layer.name]],
        }
        for layer in body.inner
        if layer.name in blobs
    }
    # OpenCV drops the arrays of V0 files: its upgrade looks for them outside of V0's inner message
    model = caffemodel.drawn(weights, generation=max(1, body.generation))
    net = cv2.dnn.readNetFromCaffe(body.text(inputs).encode(), model)
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    for name, shape in inputs.items():
        net.setInput(recipe.image(name, shape, scale), name)
    layers = [layer for layer in body.inner if layer.kind != "padding"]
    names = opencv_names(layers)
    results = [
        # OpenCV keeps only the first output of a layer from being written over, so others come from a run
        # that ends there
        net.forwardAndRetrieve([name])[0] if len(layer.tops) > 1 else arrays
        for name, layer, arrays in zip(names, layers, net.forwardAndRetrieve(names), strict=True)
    ]
    return {
        "stages": stages,
        "inputs": inputs,
        **({"scale": scale} if scale != recipe.IMAGE_SCALE else {}),
        "weights": weights,
        "tensors": described(body, layers, results, shapes),
    }


def opencv_names(layers: list[Layer]) -> list[str]:
    """Return what OpenCV calls the layers: a repeated name gets a number."""
    seen: Counter[str] = Counter()
    names = []
    for layer in layers:
        names.append(f"{layer.name}_{seen[layer.name]}" if seen[layer.name] else layer.name)
        seen[layer.name] += 1
    return names


def described(
    body: Body, layers: list[Layer], results: Any, shapes: dict[str, Shape]
) -> list[tuple[str, str, dict[str, Any]]]:
    """Return blob, writer and description of every tensor, in order; its shape must be by the formulas.

    How many detections there are, a 0 in a formula, no formula knows.
    """
    read = {name for layer in body.inner for name in layer.bottoms if name not in layer.tops}
    found = []
    for layer, arrays in zip(layers, results, strict=True):
        for top, array in zip(layer.tops, arrays, strict=True):
            if any(wanted not in {size, 0} for size, wanted in zip(array.shape, shapes[top], strict=True)):
                raise ValueError(f"{layer.name}: OpenCV makes {array.shape}, the formulas {shapes[top]}")
            if layer.kind == "detectionoutput":  # OpenCV orders an image by scores alone
                array = array[:, :, np.lexsort((array[0, 0, :, 1], array[0, 0, :, 0]))]
            found.append((top, layer.name, golden.describe(array, TAPS if top in read else OUTPUTS)))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
