"""What each worker of ``test_kvstore`` does; leaves the pulled values in the folder that is its argument."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

import netweave


def value(worker: int, device: int, push: int) -> torch.Tensor:
    """Return what a device of a worker pushes; sums of three are exact."""
    draw = np.random.default_rng([worker, device, push])
    return torch.from_numpy(draw.integers(-64, 65, size=(3, 7)).astype(np.float32) / 64)


def main(folder: Path) -> None:
    """Push from two devices of this worker, without updater, with one, and with codes."""
    found = {}
    with netweave.kvstore.create("dist_sync") as store:
        out = torch.zeros(3, 7)
        store.init(["a", "b", "c"], [torch.full((3, 7), float(store.rank))] * 3)
        store.pull("a", out)
        found["first"] = out.numpy().copy()
        for push in range(3):
            store.push("a", [value(store.rank, device, push) for device in range(2)])
        store.pull("a", out)
        found["assigned"] = out.numpy().copy()
        store.set_optimizer("sgd", learning_rate=0.5, rescale_grad=0.25)
        for push in range(3):
            store.pushpull("b", [value(store.rank, device, push) for device in range(2)], out)
        found["updated"] = out.numpy().copy()
        store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        for push in range(3):
            store.push("c", value(store.rank, 0, push))
        store.pull("c", out)
        found["coded"] = out.numpy().copy()
        store.barrier()
        np.savez(folder / f"{store.rank}.npz", num_workers=store.num_workers, **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
