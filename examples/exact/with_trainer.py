"""Hugging Face's ``Trainer`` with the same bits on any number of processes, by a callback.

    python examples/exact/with_trainer.py OUT
    torchrun --nproc-per-node 4 examples/exact/with_trainer.py OUT

The trainer sees one process, which accumulates the gradients of its shards; the exchange knows of the others.
Needs ``transformers`` and ``accelerate``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from netweave import exact

STEPS = 12
OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""Variables of torchrun by which the trainer would exchange gradients itself."""


class ExactCallback(TrainerCallback):
    """Makes each accumulated batch a shard, and writes checkpoints.

    Args:
        exchange: The exchange.
        prefix: Path that the names of the checkpoints start with.
        max_norm: Norm to which gradients are clipped.
    """

    def __init__(self, exchange: exact.Exchange, prefix: str, *, max_norm: float) -> None:
        self.exchange, self.prefix, self.max_norm = exchange, prefix, max_norm

    def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Go on from the last checkpoint."""
        kept = {"model": objects["model"], "optimizer": objects["optimizer"]}
        self.checkpoint = exact.Checkpoint(
            self.prefix, self.exchange, every=5, scheduler=objects["lr_scheduler"], **kept
        )
        state.global_step = self.exchange.iteration

    def on_step_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Begin the first shard of an update."""
        self.exchange.begin_shard()

    def on_substep_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Begin the next shard."""
        self.exchange.end_shard()
        self.exchange.begin_shard()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any, **objects: Any) -> None:
        """Exchange the gradients, and clip what is there only now."""
        self.exchange.end_shard()
        torch.nn.utils.clip_grad_norm_(model.parameters(), self.max_norm)

    def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Write a checkpoint if one is due."""
        self.checkpoint.step()


class ExactTrainer(Trainer):
    """Takes its batches from the exchange's sampler.

    Args:
        exchange: The exchange.
        batch_size: Records of a whole batch.
        arguments: As for ``Trainer``.
    """

    def __init__(self, exchange: exact.Exchange, batch_size: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.exchange, self.batch_size = exchange, batch_size

    def get_train_dataloader(self) -> DataLoader:
        """Return the shards of this process."""
        sampler = exact.sampler(self.train_dataset, self.exchange, batch_size=self.batch_size)
        return DataLoader(self.train_dataset, batch_sampler=sampler, collate_fn=self.data_collator)


def loss_of(outputs: Any, labels: torch.Tensor, **counts: Any) -> torch.Tensor:
    """Return the mean over a shard; the trainer does not divide what such a function returns."""
    return cross_entropy(outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def main(out: str) -> None:
    """Train a small language model."""
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    words = torch.randint(0, 40, (64, 16))
    data = [{"input_ids": row, "labels": row} for row in words]
    with exact.Exchange(model, shards=8) as exchange:
        for name in OF_RANKS:
            os.environ.pop(name, None)
        trainer = ExactTrainer(
            exchange,
            batch_size=16,
            model=model,
            train_dataset=data,
            compute_loss_func=loss_of,
            callbacks=[ExactCallback(exchange, f"{out}/run", max_norm=1.0)],
            args=TrainingArguments(
                output_dir=f"{out}/trainer",
                max_steps=STEPS,
                gradient_accumulation_steps=exchange.shards.count,
                max_grad_norm=0.0,
                learning_rate=1e-3,
                use_cpu=True,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
        )
        trainer.train()
        if exchange.is_first:
            bits = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
            print(f"after {exchange.iteration} updates, parameters {hashlib.sha256(bits).hexdigest()[:16]}")


if __name__ == "__main__":
    main(sys.argv[1])
