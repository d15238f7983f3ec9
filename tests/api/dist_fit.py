"""``python -m tests.api.dist_fit FOLDER [codes]``: a worker of ``dist_sync`` fits, for ``test_contexts``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import netweave
from netweave import symbol as sym
from netweave.api.models import Module
from netweave.training import read_checkpoint
from netweave.training.checkpoint_file import write_checkpoint
from tests.api.fits import FITS, first_values, records

FIT = FITS["rows"]
BATCH = 8
"""Of one worker."""

EPOCHS = 4
"""Of the fits that are resumed."""

MODES = {"one": 1, "two": 2}
"""Contexts of each worker."""


def fit(data: np.ndarray, labels: np.ndarray, batch_size: int, *, start: bool, **options: object) -> Module:
    """Fit; without ``start``, from arrays that nobody else begins with."""
    contexts = [netweave.cpu(number) for number in range(int(str(options.pop("contexts", 1))))]
    codes = options.pop("compression_params", None)
    with sym.NameManager():
        module = Module(FIT.make(sym), context=contexts, compression_params=codes)
    module.bind(data=(batch_size, *FIT.shape), softmax_label=(batch_size,), seed=0)
    arrays = first_values({key: array.shape for key, array in module.get_params()[0].items()})
    if not start:
        arrays = {key: array + 1 for key, array in arrays.items()}
    settings = {"optimizer": FIT.optimizer, "optimizer_params": FIT.settings, "arg_params": arrays}
    settings |= {"num_epoch": 2, **options}
    module.fit(data, labels, batch_size=batch_size, eval_metric="ce", **settings)
    return module


def whole_fit(num_workers: int) -> dict[str, np.ndarray]:
    """Return the arrays after a fit of one process on the batches of all workers together."""
    data, labels = records(FIT)
    return fit(data, labels, BATCH * num_workers, start=True).get_params()[0]


def fit_with_codes(folder: Path) -> None:
    """Fit with 2-bit codes: in one go, and resumed halfway, without and with what codes had left out."""
    codes = {"type": "2bit", "threshold": 0.05}
    for name in ("whole", "forgetful", "resumed"):
        with netweave.kvstore.create("dist_sync") as store:
            rank, size = store.rank, store.num_workers
            data, labels = records(FIT)
            own = np.arange(len(data)) // BATCH % size == rank
            halfway = folder / f"whole_iter_{2 * -(-own.sum() // BATCH)}.checkpoint"
            if name == "whole":
                options: dict[str, object] = {"checkpoint_prefix": folder / "whole", "keep": EPOCHS}
            elif name == "resumed":
                options = {"resume": halfway}
            else:
                options = {"resume": folder / "without.checkpoint"}
                if rank == 0:
                    checkpoint = read_checkpoint(halfway)
                    arrays = {
                        key: row for key, row in checkpoint.arrays.items() if not key.startswith("store:")
                    }
                    write_checkpoint(folder / "without.checkpoint", replace(checkpoint, arrays=arrays))
            store.barrier()
            # no seed is given: the records of all workers are shuffled by the first one's
            settings = {"kvstore": store, "compression_params": codes, "shuffle": True, **options}
            module = fit(data[own], labels[own], BATCH, start=True, num_epoch=EPOCHS, **settings)
            np.savez(folder / f"{name}-{rank}.npz", **module.get_params()[0])


def main(folder: Path) -> None:
    """Fit as one of several workers: each takes its rows of every whole batch."""
    for mode, contexts in MODES.items():
        with netweave.kvstore.create("dist_sync") as store:
            rank, size = store.rank, store.num_workers
            data, labels = records(FIT)
            own = np.arange(len(data)) // BATCH % size == rank
            # only the first worker's first values count
            module = fit(data[own], labels[own], BATCH, start=rank == 0, kvstore=store, contexts=contexts)
            np.savez(folder / f"{mode}-{rank}.npz", **module.get_params()[0])


if __name__ == "__main__":
    torch.set_num_threads(1)
    (fit_with_codes if sys.argv[2:] == ["codes"] else main)(Path(sys.argv[1]))
