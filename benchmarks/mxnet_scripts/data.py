"""Small data in the form in which the examples expect theirs, made anew from a seed."""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

WORDS = (
    "the",
    "a",
    "man",
    "of",
    "in",
    "and",
    "house",
    "street",
    "night",
    "door",
    "said",
    "he",
    "she",
    "went",
)


def write_all(folder: Path) -> None:
    """Write MNIST, sentences, reviews and the like below a folder ``data``."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    _mnist(folder, generator)
    for name, count in (("train", 400), ("test", 80), ("valid", 80)):
        text = "\n".join(_sentences(generator, count)) + "\n"
        for path in (f"sherlockholmes.{name}.txt", f"ptb.{name}.txt", f"wiki.{name}.tokens"):
            (folder / path).write_text(text, encoding="utf-8")
    (folder / "input.txt").write_text("\n".join(_sentences(generator, 200)), encoding="utf-8")
    reviews = folder / "rt-polaritydata"
    reviews.mkdir(exist_ok=True)
    for end in ("pos", "neg"):
        text = "\n".join(_sentences(generator, 600)) + "\n"
        (reviews / f"rt-polarity.{end}").write_text(text, encoding="utf-8")


def _mnist(folder: Path, generator: np.random.Generator) -> None:
    prototypes = generator.integers(0, 256, (10, 28, 28))
    for name, count in (("train", 2000), ("t10k", 500)):
        labels = generator.integers(0, 10, count).astype(np.uint8)
        noise = generator.integers(0, 128, (count, 28, 28))
        images = ((prototypes[labels] + noise) // 2).clip(0, 255).astype(np.uint8)
        files = {
            f"{name}-images-idx3-ubyte": struct.pack(">4I", 0x803, count, 28, 28) + images.tobytes(),
            f"{name}-labels-idx1-ubyte": struct.pack(">2I", 0x801, count) + labels.tobytes(),
        }
        for path, content in files.items():
            (folder / path).write_bytes(content)
            (folder / f"{path}.gz").write_bytes(gzip.compress(content))


def _sentences(generator: np.random.Generator, count: int) -> list[str]:
    return [" ".join(generator.choice(WORDS, generator.integers(5, 40))) for _ in range(count)]
