"""A loop of PyTorch's that ends with the same bits on 1, 2, 4 or 8 processes, and survives a lost machine.

    python examples/exact/loop.py OUT
    torchrun --nproc-per-node 4 examples/exact/loop.py OUT

The lines with ``exact`` or ``exchange`` are those that a loop for one process does not have.
"""

from __future__ import annotations

import hashlib
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from netweave import exact

STEPS = 60


def main(out: str) -> None:
    """Train; begin where the last checkpoint in a folder is."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
    inputs = torch.randn(512, 20)
    data = TensorDataset(inputs, inputs[:, :4].argmax(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    with exact.Exchange(model, shards=8) as exchange:
        checkpoint = exact.Checkpoint(f"{out}/run", exchange, every=25, model=model, optimizer=optimizer)
        loader = DataLoader(data, batch_sampler=exact.sampler(data, exchange, batch_size=64))
        while exchange.iteration < STEPS:
            for batch in exchange.batches(loader):
                for images, labels in batch:  # the shards of this process
                    loss = cross_entropy(model(images), labels)
                    loss.backward()
                    exchange.record(loss=loss)
                optimizer.step()
                checkpoint.step()
                if exchange.iteration == STEPS:
                    break
        checkpoint.save()
        if exchange.is_first:
            bits = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
            print(f"after {exchange.iteration} updates, parameters {hashlib.sha256(bits).hexdigest()[:16]}")


if __name__ == "__main__":
    main(sys.argv[1])
