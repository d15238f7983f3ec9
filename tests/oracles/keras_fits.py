"""Fit a net of two layers by Keras 3, and write what it measures.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.keras_fits      # TensorFlow 2.21 with Keras 3

Writes ``tests/golden/keras_fits.json``: the loss of every batch for each optimizer and loss, and what
``evaluate`` says at the end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras

from tests.api.keras_fits import BATCH, CASES, EPOCHS, Case, first_values, records

GOLDEN = Path(__file__).parent.parent / "golden" / "keras_fits.json"


def main() -> None:
    """Write the golden file."""
    GOLDEN.write_text(json.dumps({name: fitted(case) for name, case in CASES.items()}, indent=1) + "\n")


def fitted(case: Case) -> dict[str, Any]:
    """Fit one net."""
    x, y = records(case)
    layers = [keras.layers.Dense(7, "tanh"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.0)]
    model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(case.outputs, case.last)])
    name, settings = case.keras
    model.compile(getattr(keras.optimizers, name)(**settings), loss=case.loss, metrics=[case.metric])
    first = first_values(case)
    model.layers[0].set_weights([first["dense0_weight"].T, first["dense0_bias"]])
    model.layers[-1].set_weights([first["dense1_weight"].T, first["dense1_bias"]])
    seen = []
    for _ in range(EPOCHS):
        for start in range(0, len(x), BATCH):
            model.reset_metrics()
            found = model.train_on_batch(x[start : start + BATCH], y[start : start + BATCH])
            seen.append([float(number) for number in found])
    judged = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    return {"batches": seen, "judged": [judged.pop("loss"), *judged.values()]}


if __name__ == "__main__":
    main()
