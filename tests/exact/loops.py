"""Loops as a user of PyTorch writes them, with ``netweave.exact``; a run is one process or several.

``python -m tests.exact.loops FOLDER NAMES STEPS THREADS PAUSE_S`` is one rank that trains nets in turn. The
first rank leaves the parameters, buffers and last loss in ``FOLDER/NAME.npz``, checkpoints beside it.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

from netweave import exact
from netweave.training.parallel.launcher import Launcher
from tests.exact import modules

if TYPE_CHECKING:
    from collections.abc import Iterable

SHARDS, BATCH, RECORDS = 8, 16, 80


class Words(nn.Module):
    """A small transformer with dropout, which predicts the next of each word."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(23, 24)
        layer = nn.TransformerEncoderLayer(24, 3, 48, dropout=0.2, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(11))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next words."""
        hidden = self.layers(self.embedding(words), mask=self.mask, is_causal=True)
        return (hidden @ self.embedding.weight.T).transpose(1, 2)


class Images(nn.Module):
    """A net with batch normalisation and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)
        self.dropout, self.out = nn.Dropout(0.3), nn.Linear(8 * 36, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of the classes."""
        hidden = self.dropout(torch.relu(self.norm(self.conv(images))).flatten(1))
        return self.out(hidden)


class Augmented(Dataset):
    """Images to which noise is added when they are fetched, and their classes."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(1)
        self.images = torch.randn(RECORDS, 1, 8, 8, generator=draw)
        self.labels = torch.randint(0, 5, (RECORDS,), generator=draw)

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index] + 0.1 * torch.randn(1, 8, 8), self.labels[index]


class Sentences(Dataset):
    """Rows of words, and the words that follow each."""

    def __init__(self) -> None:
        self.words = torch.randint(0, 23, (RECORDS, 12), generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.words[index, :-1], self.words[index, 1:]


NETS = {"images": (Images, Augmented), "words": (Words, Sentences)}
OTHERS = {name: (kind, Augmented) for name, kind in modules.KINDS.items()}


def train(folder: Path, name: str, steps: int, pause_s: float = 0.0) -> None:
    """Train with a loop of PyTorch's; go on from the last checkpoint, if there is one."""
    make_model, make_data = {**NETS, **OTHERS}[name]
    torch.manual_seed(3)
    model, data = make_model(), make_data()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    with exact.Exchange(model, shards=SHARDS, seed=4) as exchange:
        state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        checkpoint = exact.Checkpoint(folder / name, exchange, every=5, **state)
        loader = DataLoader(data, batch_sampler=exact.sampler(data, exchange, batch_size=BATCH))
        while exchange.iteration < steps:
            for batch in exchange.batches(loader):
                for inputs, targets in batch:
                    loss = cross_entropy(model(inputs), targets)
                    loss.backward()
                    exchange.record(loss=loss)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                if exchange.is_first:
                    print(f"update {exchange.iteration}, loss {exchange.means['loss']!r}", flush=True)  # noqa: T201 - a test waits for it
                time.sleep(pause_s)
                checkpoint.step()
                if exchange.iteration == steps:
                    break
        checkpoint.save()
        if exchange.is_first:
            arrays = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
            np.savez(folder / f"{name}.npz", loss=exchange.means.get("loss", 0.0), **arrays)


def command(
    folder: Path, names: Iterable[str], steps: int, threads: int = 1, pause_s: float = 0.0
) -> list[str]:
    """Return the command of a rank."""
    arguments = [str(folder), ",".join(names), str(steps), str(threads), str(pause_s)]
    return [sys.executable, "-m", "tests.exact.loops", *arguments]


def run(
    folder: Path, steps: int, *, ranks: int, threads: int = 1, names: Iterable[str] = NETS
) -> dict[str, str]:
    """Train on so many ranks with so many threads each; return a hash of the end of each net."""
    folder.mkdir(exist_ok=True, parents=True)
    assert Launcher(command(folder, names, steps, threads), ["cpu"] * ranks, 0, print).run() == 0
    return {name: fingerprint(folder, name) for name in names}


def fingerprint(folder: Path, name: str) -> str:
    """Return one hash of what a run has left."""
    content = hashlib.sha256()
    for key, array in sorted(np.load(folder / f"{name}.npz").items()):
        content.update(f"{key} {array.dtype} {array.shape}".encode() + array.tobytes())
    return content.hexdigest()[:16]


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[4]))
    for one in sys.argv[2].split(","):
        train(Path(sys.argv[1]), one, int(sys.argv[3]), float(sys.argv[5]))
