"""``python -m tests.mxnet.async_fits FOLDER``: a worker of ``dist_async`` fits, for test_kvstore."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import netweave.mxnet as mx
from netweave.errors import UsageError

EPOCHS, BATCH = 6, 10


def module_accuracy(store: mx.kv.KVStore, x: np.ndarray, y: np.ndarray) -> float:
    """Fit a module on this worker's rows; return the accuracy on all."""
    rank, size = store.rank, store.num_workers
    batches = mx.io.NDArrayIter(x[rank::size], y[rank::size], BATCH, shuffle=True)
    scores = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(scores, name="softmax"))
    settings = {"optimizer": "sgd", "optimizer_params": {"learning_rate": 0.05}}
    module.fit(batches, num_epoch=EPOCHS, kvstore=store, **settings)
    return float(dict(module.score(mx.io.NDArrayIter(x, y, BATCH), "acc"))["accuracy"])


def trainer_losses(store: mx.kv.KVStore, x: np.ndarray, y: np.ndarray) -> list[float]:
    """Fit a block by a trainer on this worker's rows; return the losses."""
    rank, size = store.rank, store.num_workers
    block = mx.gluon.nn.Dense(3, in_units=x.shape[1])
    block.initialize(mx.init.Zero())
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=store)
    criterion, losses = mx.gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(20):
        with mx.autograd.record():
            loss = criterion(block(mx.nd.array(x[rank::size])), mx.nd.array(y[rank::size]))
        loss.backward()
        trainer.step(len(x[rank::size]))
        losses.append(float(loss.mean().asscalar()))
    with pytest.raises(UsageError, match="with dist_async call step"):
        trainer.update(1)
    return losses


def main(folder: Path) -> None:
    """Fit in both ways, each with a store of its own, and leave what came of it."""
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(8, 3)).astype(np.float32)
    x = generator.normal(size=(300, 8)).astype(np.float32)
    y = (x @ weights).argmax(1).astype(np.float32)
    store = mx.kv.create("dist_async")
    accuracy = module_accuracy(store, x, y)
    store.store.close()
    store = mx.kv.create("dist_async")
    losses = trainer_losses(store, x, y)
    (folder / f"{store.rank}.json").write_text(json.dumps({"accuracy": accuracy, "losses": losses}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
