"""``python -m tests.training.cluster.async_worker FOLDER``: a worker of a ``dist_async`` store, for tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

import netweave

PUSHES = 25
KEYS = (0, 1, "bias")
SHAPE = (3, 4)


def main(folder: Path) -> None:
    """Push ones to each key, and leave what is stored when all have pushed."""
    store = netweave.kvstore.create("dist_async")
    store.set_updater(lambda key, merged, stored: stored.add_(merged))
    for key in KEYS:
        store.init(key, torch.full(SHAPE, 10.0 if store.rank == 0 else -1.0))
    own = []
    for number in range(PUSHES):
        for key in KEYS:
            store.push(key, [torch.ones(SHAPE), torch.full(SHAPE, 2.0)])
        out = torch.empty(SHAPE)
        store.pull(KEYS[number % 3], out)
        own.append(float(out[0, 0]))
    store.barrier()
    outs = {str(key): torch.empty(SHAPE) for key in KEYS}
    for key in KEYS:
        store.pull(key, outs[str(key)])  # a pull after a push is its answer
        store.pull(key, outs[str(key)])
    result = {
        "values": {key: out.unique().tolist() for key, out in outs.items()},
        "own": own,
        "applied": store.server.applied,
        "repeated": store.server.repeated,
    }
    (folder / f"{store.rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
