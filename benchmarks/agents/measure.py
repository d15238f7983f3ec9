"""A script for the environment of a trial: runs one side's ``load`` and ``run`` on stored inputs.

``python measure.py FOLDER MODULE WEIGHTS INPUTS OUTPUTS``: it needs NumPy and what the module imports. A case
that raises is kept as its error's text, under ``error_N`` in place of ``output_N``.
"""

from __future__ import annotations

import importlib
import sys

import numpy as np


def main(folder: str, module: str, weights: str, inputs: str, outputs: str) -> None:
    """Write the outputs of each case of a file of inputs, whose arrays are ``N_M``: case and argument."""
    sys.path.insert(0, folder)
    with np.load(inputs) as stored:
        cases: dict[int, list[np.ndarray]] = {}
        for name in sorted(stored.files, key=lambda name: [int(part) for part in name.split("_")]):
            cases.setdefault(int(name.split("_")[0]), []).append(stored[name])
    side = importlib.import_module(module)
    net = side.load(weights)
    found = {}
    for number, arrays in cases.items():
        try:
            found[f"output_{number}"] = np.asarray(side.run(net, *arrays))
        except Exception as error:  # noqa: BLE001  # a port may raise anything
            found[f"error_{number}"] = np.array(f"{type(error).__name__}: {error}"[:300])
    np.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
