"""``python -m tests.api.dist_fit FOLDER``: a worker of a ``dist_sync`` fit, for ``test_contexts``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

import netweave
from netweave import symbol as sym
from netweave.api.models import Module
from tests.api.fits import FITS, first_values, records

FIT = FITS["rows"]
BATCH = 8
"""Of one worker."""

MODES = {"one": 1, "two": 2}
"""Contexts of each worker."""


def fit(data: np.ndarray, labels: np.ndarray, batch_size: int, *, start: bool, **options: object) -> Module:
    """Fit; without ``start``, from arrays that nobody else begins with."""
    contexts = [netweave.cpu(number) for number in range(int(str(options.pop("contexts", 1))))]
    with sym.NameManager():
        module = Module(FIT.make(sym), context=contexts)
    module.bind(data=(batch_size, *FIT.shape), softmax_label=(batch_size,), seed=0)
    arrays = first_values({key: array.shape for key, array in module.get_params()[0].items()})
    if not start:
        arrays = {key: array + 1 for key, array in arrays.items()}
    settings = {"optimizer": FIT.optimizer, "optimizer_params": FIT.settings, "arg_params": arrays}
    module.fit(data, labels, num_epoch=2, batch_size=batch_size, eval_metric="ce", **settings, **options)
    return module


def whole_fit(num_workers: int) -> dict[str, np.ndarray]:
    """Return the arrays after a fit of one process on the batches of all workers together."""
    data, labels = records(FIT)
    return fit(data, labels, BATCH * num_workers, start=True).get_params()[0]


def main(folder: Path) -> None:
    """Fit as one of several workers: each takes its rows of every whole batch."""
    torch.set_num_threads(1)
    for mode, contexts in MODES.items():
        with netweave.kvstore.create("dist_sync") as store:
            rank, size = store.rank, store.num_workers
            data, labels = records(FIT)
            own = np.arange(len(data)) // BATCH % size == rank
            # only the first worker's first values count
            module = fit(data[own], labels[own], BATCH, start=rank == 0, kvstore=store, contexts=contexts)
            np.savez(folder / f"{mode}-{rank}.npz", **module.get_params()[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
