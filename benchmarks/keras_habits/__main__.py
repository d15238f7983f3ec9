"""Nets in the manner of Keras' guides, by Keras 3 and by ``netweave.keras``: the same curves, and how fast.

    python -m benchmarks.keras_habits [--tensorflow PYTHON] [--keep-times]

Each net of ``tests/keras/examples.py`` starts from the same weights and makes 50 updates on the same batches.
The table in ``result.json`` says by how much the loss of any update, or of the evaluation behind them,
differs from Keras' (in parts of it), and milliseconds for an update by ``train_on_batch`` on one thread.
``--tensorflow`` names a Python with Keras 3 on TensorFlow; Keras on torch runs in this one. On TensorFlow it
runs twice: as it is, and with dense gradients of embeddings, as other backends have them (decision 0144).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

DENSE = "Keras on TensorFlow, dense gradients"

PROGRAM = """
import json, sys, time
keras = __import__(sys.argv[1], fromlist=["x"])
from tests.keras.examples import EXAMPLES, curve
if sys.argv[3] == "dense":
    import tensorflow as tf
    of_tape = tf.GradientTape.gradient
    def dense(*args, **settings):
        found = of_tape(*args, **settings)
        return [tf.convert_to_tensor(one) if isinstance(one, tf.IndexedSlices) else one for one in found]
    tf.GradientTape.gradient = dense
found = {}
for name, make in EXAMPLES.items():
    example = make(keras)
    curve(example, 5)
    example = make(keras)
    began = time.perf_counter()
    rows = curve(example)
    found[name] = {"losses": [row[0] for row in rows], "ms": (time.perf_counter() - began) * 20}
json.dump(found, open(sys.argv[2], "w"))
"""


def main() -> None:
    """Run all and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensorflow", help="a Python with Keras 3 on TensorFlow")
    parser.add_argument("--keep-times", action="store_true", help="keep those known: others use this machine")
    arguments = parser.parse_args()
    runs = {"netweave": run(sys.executable, "netweave.keras", {})}
    runs["Keras on torch"] = run(sys.executable, "keras", {"KERAS_BACKEND": "torch"})
    if arguments.tensorflow:
        backend = {"KERAS_BACKEND": "tensorflow"}
        runs["Keras on TensorFlow"] = run(arguments.tensorflow, "keras", backend)
        runs[DENSE] = run(arguments.tensorflow, "keras", backend, gradients="dense")
    known = json.loads((FOLDER / "result.json").read_text()) if arguments.keep_times else {}
    rows = {name: row(name, runs, known.get(name, {})) for name in runs["netweave"]}
    (FOLDER / "result.json").write_text(json.dumps(rows, indent=1) + "\n")
    for name, found in rows.items():
        print(f"{name:12}", "  ".join(f"{key}: {value:.2g}" for key, value in found.items()))


def run(
    python: str, module: str, environment: dict[str, str], *, gradients: str = "as they are"
) -> dict[str, Any]:
    """Return the losses and times of all nets by one module."""
    out = FOLDER / "run.json"
    variables = {**os.environ, **environment, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([python, "-c", PROGRAM, module, str(out), gradients], cwd=ROOT, env=variables, check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    out.unlink()
    return found


def row(name: str, runs: dict[str, Any], known: dict[str, float]) -> dict[str, float]:
    """Return the differences from Keras, and the times, if they are not known."""
    own = runs["netweave"][name]
    found: dict[str, float] = {}
    for other, results in runs.items():
        if other != "netweave":
            pairs = zip(own["losses"], results[name]["losses"], strict=True)
            found[f"difference from {other}"] = float(f"{max(abs(a - b) / abs(b) for a, b in pairs):.2g}")
    times = {
        f"ms per update, {other}": results[name]["ms"] for other, results in runs.items() if other != DENSE
    }
    return found | {key: known.get(key, round(value, 1)) for key, value in times.items()}


if __name__ == "__main__":
    main()
