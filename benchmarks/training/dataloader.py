"""Batches of decoded images by PyTorch's DataLoader with Pillow, as people write it."""

from __future__ import annotations

import random
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


def batches(folder: Path, batch: int, threads: int) -> Iterator[torch.Tensor]:
    """Give batches of the images in a folder, for ever."""
    loader = DataLoader(
        Folder(folder), batch, shuffle=True, num_workers=threads, persistent_workers=True, drop_last=True
    )
    while True:
        yield from loader
