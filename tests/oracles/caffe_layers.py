"""Run every layer of Caffe that OpenCV's importer knows in small, and write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.caffe_layers

Writes ``tests/golden/caffe_layers.json``: the text of each net, its arrays, and its outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2

from tests.oracles import golden, recipe
from tests.oracles.caffe_cases import cases
from tests.oracles.caffemodel import caffemodel

if TYPE_CHECKING:
    import numpy as np

    from tests.oracles.caffe_cases import Case, Shape

GOLDEN = Path(__file__).parent.parent / "golden" / "caffe_layers.json"
VALUES = 48
"""Number of elements kept of an output."""


def main() -> None:
    """Write the golden file."""
    records = {}
    for case in cases():
        try:
            records[case.name] = run(case)
        except cv2.error as error:
            records[case.name] = {"refused": error.err}
    golden.write_json(GOLDEN, records)


def run(case: Case) -> dict[str, Any]:
    """Run one layer on drawn inputs and arrays."""
    inputs = dict(zip("abc", case.bottoms, strict=False))
    tops = [f"op{number}" for number in range(case.num_tops)] if case.num_tops > 1 else ["op"]
    text = net_text(case, inputs, tops)
    arrays = [recipe.weight(f"op/{i}", shape, role) for i, (shape, role) in enumerate(case.blobs)]
    layers = [("op", case.type.lower(), arrays)] if arrays else []
    net = cv2.dnn.readNetFromCaffe(text.encode(), caffemodel(layers, generation=2))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    for name, shape in inputs.items():
        net.setInput(recipe.draw(name, shape), name)
    results: list[np.ndarray] = net.forwardAndRetrieve(["op"])[0]
    # max pooling may give its positions as well
    made = zip(tops, results[: len(tops)], strict=True)
    outputs = [(top, golden.describe(array, VALUES)) for top, array in made]
    return {
        "text": text,
        "inputs": inputs,
        "kind": case.type.lower(),
        "blobs": case.blobs,
        "outputs": outputs,
    }


def net_text(case: Case, inputs: dict[str, Shape], tops: list[str]) -> str:
    """Return a net of one layer as text."""
    lines = []
    for name, shape in inputs.items():
        dims = " ".join(f"dim: {size}" for size in shape)
        lines += [f'input: "{name}"', f"input_shape {{ {dims} }}"]
    ends = [f'bottom: "{name}"' for name in inputs] + [f'top: "{name}"' for name in tops]
    lines.append(f'layer {{ name: "op" type: "{case.type}" {" ".join(ends)} {case.settings} }}')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
