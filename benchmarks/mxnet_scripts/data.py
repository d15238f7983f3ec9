"""Small data in the form in which the examples expect theirs, made anew from a seed."""

from __future__ import annotations

import gzip
import pickle  # noqa: TID251  -- written, as a script reads it
import shutil
import struct
from pathlib import Path

import cv2
import matplotlib
import numpy as np

from netweave.mxnet import recordio

WORDS = ("the", "a", "man", "of", "in", "and", "house", "street", "night", "door", "said", "he", "went")
EDUCATION = ("Bachelors", "HS-grad", "11th", "Masters", "Doctorate")
TAGS = ("O", "B-PER", "I-PER", "L-PER", "U-LOC")


def write_all(folder: Path) -> None:
    """Write MNIST, CIFAR-10, sentences, reviews, ratings, tables and images below ``folder``."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    _mnist(folder, generator)
    _images(folder, generator)
    _texts(folder, generator)
    _ratings(folder, generator)
    _tables(folder, generator)
    _heart(folder, generator)
    font = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    shutil.copy(font, folder / "font.ttf")


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


def _images(folder: Path, generator: np.random.Generator) -> None:
    """Write CIFAR-10 as records (under each name that a release uses), larger images, and boxes."""
    for place, names in (("cifar", ("train", "test")), (".", ("cifar10_train", "cifar10_val"))):
        (folder / place).mkdir(exist_ok=True)
        for name in names:
            labels = [float(one) for one in generator.integers(0, 10, 200)]
            _records(folder / place / name, 32, labels, generator)
    for name in ("test", "tr", "va"):
        _records(folder / name, 224, [0.0, 1.0, 2.0, 3.0] * 8, generator)
    for name in ("train", "val"):
        # a header of two (its own size, then that of an object), then class, corners and "difficult"
        boxes = [np.array([2, 6, k % 20, 0.1, 0.2, 0.6, 0.7, 0], np.float32) for k in range(16)]
        _records(folder / name, 120, boxes, generator)
    cv2.imwrite(str(folder / "image.jpg"), _image(generator, 64))


def _image(generator: np.random.Generator, size: int) -> np.ndarray:
    small = generator.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return cv2.resize(small, (size, size), interpolation=cv2.INTER_NEAREST)


def _records(
    path: Path, size: int, labels: list[float] | list[np.ndarray], generator: np.random.Generator
) -> None:
    writer = recordio.MXIndexedRecordIO(f"{path}.idx", f"{path}.rec", "w")
    lines = []
    for index, label in enumerate(labels):
        header = recordio.IRHeader(0, label, index, 0)
        writer.write_idx(index, recordio.pack_img(header, _image(generator, size), quality=3, img_fmt=".png"))
        shown = "\t".join(f"{one:f}" for one in np.atleast_1d(label))
        lines.append(f"{index}\t{shown}\t{index}.png\n")
    writer.close()
    path.with_suffix(".lst").write_text("".join(lines), encoding="utf-8")


def _texts(folder: Path, generator: np.random.Generator) -> None:
    for name, count in (("train", 400), ("test", 80), ("valid", 80)):
        text = "\n".join(_sentences(generator, count)) + "\n"
        for path in (f"sherlockholmes.{name}.txt", f"ptb.{name}.txt", f"wiki.{name}.tokens"):
            (folder / path).write_text(text, encoding="utf-8")
        rows = generator.integers(100, 1000, (count * 10, 5))
        sort = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        (folder / f"sort.{name}.txt").write_text(sort, encoding="utf-8")
    (folder / "input.txt").write_text("\n".join(_sentences(generator, 200)), encoding="utf-8")
    (folder / "text8").write_text(" ".join(_sentences(generator, 400)), encoding="utf-8")
    reviews = folder / "rt-polaritydata"
    reviews.mkdir(exist_ok=True)
    for end in ("pos", "neg"):
        text = "\n".join(_sentences(generator, 600)) + "\n"
        (reviews / f"rt-polarity.{end}").write_text(text, encoding="utf-8")


def _sentences(generator: np.random.Generator, count: int) -> list[str]:
    return [" ".join(generator.choice(WORDS, generator.integers(5, 40))) for _ in range(count)]


def _ratings(folder: Path, generator: np.random.Generator) -> None:
    for place, joint, names in (
        ("ml-100k", "\t", ("u1.base", "u1.test")),
        ("ml-10M100K", "::", ("r1.train", "r1.test")),
    ):
        (folder / place).mkdir(exist_ok=True)
        (folder / f"{place}.zip").touch()  # scripts download and unpack it where it is missing
        for name in names:
            rows = zip(
                generator.integers(1, 900, 1000),
                generator.integers(1, 1600, 1000),
                generator.integers(1, 6, 1000),
                range(1000),
                strict=True,
            )
            text = "".join(joint.join(map(str, row)) + "\n" for row in rows)
            (folder / place / name).write_text(text, encoding="utf-8")


def _tables(folder: Path, generator: np.random.Generator) -> None:
    for name in ("avazu-app", "avazu-app.t"):
        rows = [np.sort(generator.choice(1000, 8, replace=False)) for _ in range(300)]
        text = "".join(f"{k % 2} " + " ".join(f"{one}:1" for one in row) + "\n" for k, row in enumerate(rows))
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("adult.data", "adult.test"):
        text = "".join(_adult(generator) for _ in range(300))
        (folder / name).write_text(text, encoding="utf-8")
    series = generator.random((400, 20)).round(3)
    np.savetxt(folder / "electricity.txt", series, delimiter=",", fmt="%.3f")
    tokens = [sentence.split() for sentence in _sentences(generator, 200)]
    tags = [[str(tag) for tag in generator.choice(TAGS, len(one))] for one in tokens]
    (folder / "ner_data.pkl").write_bytes(pickle.dumps({"token": tokens, "BILOU_tag": tags}))


def _adult(generator: np.random.Generator) -> str:
    age, hours = generator.integers(18, 80), generator.integers(10, 60)
    income = generator.choice(["<=50K", ">50K"])
    education = generator.choice(EDUCATION)
    return (
        f"{age}, Private, 1000, {education}, 9, Never-married, Sales, Husband, White, Male, 0, 0, "
        f"{hours}, United-States, {income}\n"
    )


def _heart(folder: Path, generator: np.random.Generator) -> None:
    """Write what ``kaggle-ndsb2`` prepares from its downloads: 30 frames a record, and two volumes."""
    for name, count in (("train", 32), ("validate", 4)):
        frames = generator.integers(0, 256, (count, 30 * 64 * 64))
        np.savetxt(folder / f"{name}-64x64-data.csv", frames, delimiter=",", fmt="%d")
        volumes = [f"{k},{generator.integers(50, 500)},{generator.integers(50, 500)}\n" for k in range(count)]
        (folder / f"{name}-label.csv").write_text("".join(volumes), encoding="utf-8")
