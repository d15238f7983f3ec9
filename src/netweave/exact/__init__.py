"""The same bits on any number of ranks, and checkpoints, for a PyTorch loop of the user's own.

    model, optimizer = ...
    with exact.Exchange(model, shards=8) as exchange:
        checkpoint = exact.Checkpoint("out/run", exchange, every=100, model=model, optimizer=optimizer)
        loader = DataLoader(data, batch_sampler=exact.sampler(data, exchange, batch_size=64))
        while exchange.iteration < 1000:
            for batch in exchange.batches(loader):
                for images, labels in batch:  # the shards of this rank, one after another
                    loss(model(images), labels).backward()
                optimizer.step()
                checkpoint.step()

Alone, or with ``torchrun``, ``srun`` or ``mpirun``, the parameters are the same to the bit. What computes
them is the mechanism of ``--same-bits``: shards, one fixed tree of sums, and collectives that only move
bytes.
"""

from netweave.exact.checkpoint import Checkpoint
from netweave.exact.exchange import Exchange
from netweave.exact.sampling import ShardSampler, sampler

__all__ = ["Checkpoint", "Exchange", "ShardSampler", "sampler"]
