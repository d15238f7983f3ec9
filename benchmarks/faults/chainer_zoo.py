"""Arrays of the models in ``chainer_models``, drawn by the oracles' recipe and written by Chainer itself.

::

    python -m benchmarks.faults.chainer_zoo FOLDER

Run by an interpreter that has Chainer 7.8.1.
"""

from __future__ import annotations

import sys
from pathlib import Path

import chainer
import numpy as np

from benchmarks.faults.chainer_faults import MODELS, SHAPE, made
from tests.oracles import recipe

ROLES = {"b": "bias", "gamma": "scale", "beta": "bias", "avg_mean": "mean", "avg_var": "variance"}


def main(folder: Path) -> None:
    """Write ``NAME.npz`` for every model."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(MODELS.glob("*.py")):
        model = made(path)
        with chainer.using_config("train", False):
            model(np.zeros((1, *SHAPE), np.float32))
        written = folder / f"{path.stem}.npz"
        chainer.serializers.save_npz(str(written), model, compression=False)
        with np.load(written) as stored:
            arrays = {key: drawn(f"{path.stem} {key}", stored[key]) for key in stored}
        np.savez(written, **arrays)


def drawn(key: str, array: np.ndarray) -> np.ndarray:
    """Return an array of the same size and type by its role; a counter stays."""
    last = key.rpartition("/")[2]
    if array.dtype.kind != "f":
        return array
    role = ROLES.get(last) or {4: "filter", 2: "matrix"}.get(array.ndim, "slopes")
    return recipe.weight(key, array.shape, role).astype(array.dtype)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
