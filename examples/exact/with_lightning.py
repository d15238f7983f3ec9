"""Lightning's ``Trainer`` with the same bits on any number of processes, by a callback.

    python examples/exact/with_lightning.py OUT
    torchrun --nproc-per-node 4 examples/exact/with_lightning.py OUT

The trainer sees one process, which accumulates the gradients of its shards; the exchange knows of the others.
Needs ``lightning``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import lightning
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from netweave import exact

STEPS = 12
OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""Variables of torchrun by which the trainer would number its processes itself."""


class ExactCallback(lightning.Callback):
    """Makes each accumulated batch a shard, and writes checkpoints.

    Lightning divides the loss by the number of batches that it accumulates. That is undone without rounding
    where this number, and so that of the shards, is a power of two.

    Args:
        exchange: The exchange.
        prefix: Path that the names of the checkpoints start with.
    """

    def __init__(self, exchange: exact.Exchange, prefix: str) -> None:
        self.exchange, self.prefix = exchange, prefix

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Go on from the last checkpoint."""
        schedulers = {f"scheduler{n}": one.scheduler for n, one in enumerate(trainer.lr_scheduler_configs)}
        optimizers = {f"optimizer{n}": one for n, one in enumerate(trainer.optimizers)}
        self.checkpoint = exact.Checkpoint(
            self.prefix, self.exchange, every=5, model=pl_module, **optimizers, **schedulers
        )
        trainer.fit_loop.epoch_loop.max_steps -= self.exchange.iteration

    def on_train_batch_start(self, *arguments: Any) -> None:
        """Begin a shard."""
        self.exchange.begin_shard()

    def on_after_backward(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """End the shard; after the last one of a batch, the gradients are those of the whole batch."""
        for parameter in pl_module.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(trainer.accumulate_grad_batches)
        self.is_update = self.exchange.end_shard()

    def on_train_batch_end(self, *arguments: Any) -> None:
        """Write a checkpoint if one is due."""
        if self.is_update:
            self.checkpoint.step()


class Classifier(lightning.LightningModule):
    """A module as any other."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4)]
        self.net = nn.Sequential(*layers)

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        """Return the loss of a batch."""
        inputs, labels = batch
        return cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self) -> Any:
        """Return the optimizer, and a scheduler that follows the updates."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def main(out: str) -> None:
    """Train a classifier."""
    torch.manual_seed(1)
    model = Classifier()
    inputs = torch.randn(128, 20)
    data = TensorDataset(inputs, inputs[:, :4].argmax(1))
    with exact.Exchange(model, shards=8) as exchange:
        for name in OF_RANKS:
            os.environ.pop(name, None)
        trainer = lightning.Trainer(
            max_steps=STEPS,
            accumulate_grad_batches=exchange.shards.count,
            callbacks=[ExactCallback(exchange, f"{out}/run")],
            accelerator="cpu",
            devices=1,
            use_distributed_sampler=False,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        loader = DataLoader(data, batch_sampler=exact.sampler(data, exchange, batch_size=32))
        trainer.fit(model, loader)
        if exchange.is_first:
            bits = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
            print(f"after {exchange.iteration} updates, parameters {hashlib.sha256(bits).hexdigest()[:16]}")


if __name__ == "__main__":
    main(sys.argv[1])
