"""``python -m tests.mxnet.dist_fit FOLDER [codes]``: a worker of ``dist_sync`` fits, for test_contexts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import netweave.mxnet as mx
from netweave.training import read_checkpoint
from netweave.training.checkpoint_file import write_checkpoint
from tests.mxnet.fits import FITS, first_values, records

FIT = FITS["rows"]
BATCH = 8
"""Of one worker."""

EPOCHS = 4
"""Of the fits that are resumed."""

MODES = {"one": 1, "two": 2}
"""Contexts of each worker."""


def fit(data: np.ndarray, labels: np.ndarray, batch_size: int, *, start: bool, **options: Any) -> Any:
    """Fit, and return the arrays; without ``start``, from arrays that nobody else begins with."""
    contexts = [mx.cpu(number) for number in range(options.pop("contexts", 1))]
    codes = options.pop("compression_params", None)
    with mx.sym.NameManager():
        module = mx.mod.Module(FIT.make(mx.sym), context=contexts, compression_params=codes)
    batches = mx.io.NDArrayIter(data, labels, batch_size, shuffle=options.pop("shuffle", False))
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Zero())
    arrays = first_values({name: array.shape for name, array in module.get_params()[0].items()})
    given = {name: mx.nd.array(array if start else array + 1) for name, array in arrays.items()}
    settings = {"optimizer": FIT.optimizer, "optimizer_params": FIT.settings, "arg_params": given}
    module.fit(batches, eval_metric="ce", force_init=True, **{"num_epoch": 2, **settings, **options})
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def whole_fit(num_workers: int) -> dict[str, np.ndarray]:
    """Return the arrays after a fit of one process on the batches of all workers together."""
    data, labels = records(FIT)
    arrays: dict[str, np.ndarray] = fit(data, labels, BATCH * num_workers, start=True)
    return arrays


def fit_with_codes(folder: Path) -> None:
    """Fit with 2-bit codes: in one go, and resumed halfway, without and with what codes had left out."""
    codes = {"type": "2bit", "threshold": 0.05}
    for name in ("whole", "forgetful", "resumed"):
        store = mx.kv.create("dist_sync")
        rank, size = store.rank, store.num_workers
        data, labels = records(FIT)
        own = np.arange(len(data)) // BATCH % size == rank
        halfway = folder / f"whole-worker{rank}_iter_{2 * -(-own.sum() // BATCH)}.checkpoint"
        if name == "whole":
            options: dict[str, Any] = {"checkpoint_prefix": folder / "whole", "keep": EPOCHS}
        elif name == "resumed":
            options = {"resume": halfway}
        else:
            without = folder / f"without-{rank}.checkpoint"
            options = {"resume": without}
            checkpoint = read_checkpoint(halfway)
            arrays = {key: row for key, row in checkpoint.arrays.items() if not key.startswith("store:")}
            write_checkpoint(without, replace(checkpoint, arrays=arrays))
        mx.random.seed(rank)
        settings = {"kvstore": store, "compression_params": codes, "shuffle": True, **options}
        left = fit(data[own], labels[own], BATCH, start=True, num_epoch=EPOCHS, **settings)
        np.savez(folder / f"{name}-{rank}.npz", **left)
        store.store.close()


def main(folder: Path) -> None:
    """Fit as one of several workers: each takes its rows of every whole batch."""
    for mode, contexts in MODES.items():
        store = mx.kv.create("dist_sync")
        rank, size = store.rank, store.num_workers
        data, labels = records(FIT)
        own = np.arange(len(data)) // BATCH % size == rank
        # only the first worker's first values count
        left = fit(data[own], labels[own], BATCH, start=rank == 0, kvstore=store, contexts=contexts)
        np.savez(folder / f"{mode}-{rank}.npz", **left)
        store.store.close()


if __name__ == "__main__":
    torch.set_num_threads(1)
    (fit_with_codes if sys.argv[2:] == ["codes"] else main)(Path(sys.argv[1]))
