"""Writes the images that the detector learns from: boxes, balls and tents on noisy backgrounds.

    python make_data.py            # 480 images to train on, 120 to test
    python make_data.py --voc      # the same in the form of Pascal VOC

Every image is drawn from its number alone, so that each run writes the same ones.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import cv2
import numpy as np

HERE = Path(__file__).parent
NAMES = ("box", "ball", "tent")
SIZE = 96
NUM_TRAIN, NUM_TEST = 480, 120


def background(generator: np.random.Generator) -> np.ndarray:
    """Return a background: a slope of two colours, stripes, and noise."""
    ends = generator.uniform(20, 160, (2, 3))
    angle = generator.uniform(0, np.pi)
    rows, columns = np.indices((SIZE, SIZE)) / SIZE
    along = rows * np.sin(angle) + columns * np.cos(angle)
    share = (along - along.min()) / (along.max() - along.min())
    image = ends[0] + share[..., None] * (ends[1] - ends[0])
    image += 12 * np.sin(2 * np.pi * generator.uniform(2, 8) * along)[..., None]
    return np.clip(image + generator.normal(0, 8, image.shape), 0, 255).astype(np.uint8)


def add_shape(image: np.ndarray, label: int, corners: np.ndarray, color: tuple[int, ...]) -> None:
    """Draw a shape that fills a box of whole pixels (x0, y0, x1, y1), the last two outside of it."""
    x0, y0, x1, y1 = (int(number) for number in corners)
    if NAMES[label] == "box":
        image[y0:y1, x0:x1] = color
    elif NAMES[label] == "ball":
        centre, axes = ((x0 + x1 - 1) // 2, (y0 + y1 - 1) // 2), ((x1 - x0 - 1) // 2, (y1 - y0 - 1) // 2)
        cv2.ellipse(image, centre, axes, 0, 0, 360, color, -1)
    else:
        points = [[(x0 + x1) // 2, y0], [x0, y1 - 1], [x1 - 1, y1 - 1]]
        cv2.fillPoly(image, [np.array(points, np.int32)], color)


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Return the intersection of two boxes over the smaller of them."""
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return float(np.prod(np.maximum(high - low, 0)) / min(areas))


def picture(number: int) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
    """Return an image, and label and corners of each of its shapes, one to four of them."""
    generator = np.random.default_rng([7, number])
    image, shapes = background(generator), []
    for _ in range(int(generator.integers(1, 5))):
        width, height = generator.integers(14, 44, 2) | 1  # odd, so that an ellipse fills its box
        low = np.array([generator.integers(SIZE - width), generator.integers(SIZE - height)])
        corners = np.array([*low, *(low + np.array([width, height]))])
        label, color = int(generator.integers(len(NAMES))), generator.integers(90, 256, 3)
        if any(overlap(corners, other) > 0.3 for _, other in shapes):
            continue
        add_shape(image, label, corners, tuple(color.tolist()))
        shapes.append((label, corners))
    return image, shapes


def darknet_labels(shapes: list[tuple[int, np.ndarray]]) -> str:
    """Return what Darknet's label file of an image says."""
    lines = []
    for label, corners in shapes:
        low, high = corners[:2] / SIZE, corners[2:] / SIZE
        numbers = (*((low + high) / 2), *(high - low))
        lines.append(" ".join([str(label), *(f"{number:.6f}" for number in numbers)]))
    return "".join(f"{line}\n" for line in lines)


def voc_labels(name: str, shapes: list[tuple[int, np.ndarray]]) -> str:
    """Return what Pascal VOC's annotation of an image says, which counts pixels from 1."""
    size = f"<size><width>{SIZE}</width><height>{SIZE}</height><depth>3</depth></size>"
    objects = []
    for label, (x0, y0, x1, y1) in shapes:
        sides = zip(("xmin", "ymin", "xmax", "ymax"), (x0 + 1, y0 + 1, x1, y1), strict=True)
        box = "".join(f"<{side}>{number}</{side}>" for side, number in sides)
        objects.append(f"<object><name>{NAMES[label]}</name><bndbox>{box}</bndbox></object>")
    return f"<annotation><filename>{name}.png</filename>{size}{''.join(objects)}</annotation>\n"


def write(folder: Path, *, num_train: int = NUM_TRAIN, num_test: int = NUM_TEST, voc: bool = False) -> None:
    """Write a set of images with their labels, lists and names; one that is there is left alone."""
    done = folder / "shapes.names"
    if done.exists():
        print(f"{os.path.relpath(folder)} is there already; remove it to have it made anew")
        return
    images, labels = ("JPEGImages", "Annotations") if voc else ("images", "labels")
    lists = folder / ("ImageSets/Main" if voc else ".")
    for part in (folder / images, folder / labels, lists, folder / "backup"):
        part.mkdir(parents=True, exist_ok=True)
    names = [f"{number:04d}" for number in range(num_train + num_test)]
    for number, name in enumerate(names):
        image, shapes = picture(number)
        cv2.imwrite(str(folder / images / f"{name}.png"), image)
        text = voc_labels(name, shapes) if voc else darknet_labels(shapes)
        (folder / labels / f"{name}{'.xml' if voc else '.txt'}").write_text(text)
    lines = names if voc else [f"{images}/{name}.png" for name in names]
    sets = {"train": lines[:num_train], ("test" if voc else "valid"): lines[num_train:]}
    for name, members in sets.items():
        (lists / f"{name}.txt").write_text("".join(f"{line}\n" for line in members))
    if not voc:
        settings = {"classes": len(NAMES), "train": "train.txt", "valid": "valid.txt"}
        settings |= {"names": "shapes.names", "backup": "backup"}
        (folder / "shapes.data").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    done.write_text("".join(f"{name}\n" for name in NAMES))
    print(f"{os.path.relpath(folder)}: {num_train} images to train on, {num_test} to test")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--voc", action="store_true", help="write the form of Pascal VOC")
    arguments = parser.parse_args()
    write(HERE / ("shapes_voc" if arguments.voc else "shapes"), voc=arguments.voc)
