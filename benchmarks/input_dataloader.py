"""Images per second of PyTorch's DataLoader with Pillow: ``python input_dataloader.py FOLDER THREADS BATCH``.

It reads seconds from standard input, line by line, and answers each with a rate; see ``input.py``.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

MEAN = np.array([123.0, 117.0, 104.0], np.float32)
SIZE = 224


class Folder(Dataset[torch.Tensor]):
    """Images of a folder, cut, mirrored and without their mean."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        with Image.open(self.files[index]) as image:
            pixels = np.asarray(image.convert("RGB"))
        top, left = (random.randrange(size - SIZE + 1) for size in pixels.shape[:2])
        pixels = pixels[top : top + SIZE, left : left + SIZE]
        if random.random() < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy((pixels - MEAN).transpose(2, 0, 1).copy())


def main() -> None:
    """Serve."""
    folder, threads, batch = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    made = DataLoader(
        Folder(folder), batch, shuffle=True, num_workers=threads, persistent_workers=True, drop_last=True
    )

    def forever() -> Iterator[torch.Tensor]:
        while True:
            yield from made

    batches = forever()

    def run(seconds: float) -> float:
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            next(batches)
            count += batch
        return count / (time.perf_counter() - began)

    run(1.0)
    print("@ready", flush=True)
    for line in sys.stdin:
        print(f"@{run(float(line))}", flush=True)


if __name__ == "__main__":
    main()
