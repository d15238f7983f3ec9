"""Fit the nets of ``tests/keras`` by Keras 3, and write what it measures.

    cd REPOSITORY; KERAS_BACKEND=torch python -m tests.oracles.keras_habits    # Keras 3.15 on torch

On torch, since on TensorFlow the gradient of an embedding is a list of rows, whose squares Keras adds up row
by row where a word occurs twice in a batch: Adam, Adagrad and the like then do something else than on all
other backends, and than their formulas (decision 0144).

Writes ``tests/golden/keras_habits.json``: the curves of the examples and of the cases, and what layers make.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras

from tests.keras.cases import LAYERS, all_curves, layer_outputs
from tests.keras.examples import EXAMPLES, OWN_CLASSES, curve

GOLDEN = Path(__file__).parent.parent / "golden" / "keras_habits.json"


def main() -> None:
    """Write the golden file."""
    content = measured(keras)
    lines = [
        f"{json.dumps(kind)}: {{\n"
        + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items())
        + "\n}"
        for kind, rows in content.items()
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def measured(module: Any) -> dict[str, dict[str, Any]]:
    """Return all numbers of a module that is, or stands in for, Keras."""
    return {
        "examples": {name: _rounded(curve(make(module))) for name, make in (EXAMPLES | OWN_CLASSES).items()},
        "cases": {name: _rounded(row) for name, row in all_curves(module).items()},
        "layers": {
            name: _rounded(layer_outputs(module, make, shape)) for name, (make, shape) in LAYERS.items()
        },
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
