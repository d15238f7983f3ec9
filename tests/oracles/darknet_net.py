"""Run a net of Darknet with seeded weights in OpenCV: what each layer makes, as a golden file.

    python -m tests.oracles.darknet_net NET.cfg FOLDER [--size 64] [--every]

Writes FOLDER/NET.cfg (with the size put in), FOLDER/NET.weights and FOLDER/NET.npz: the input as ``data`` and
what OpenCV makes of it by layer (``convolutional_0``), the last of each net's branches or, with ``--every``,
of every layer. The walk that finds how many numbers a layer needs is written from Darknet's parser.c and
shares nothing with Netweave.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np

Sizes = "tuple[int, int, int]"
HEADS = {"yolo", "region", "detection", "cost"}
ACTIVATIONS = {"relu", "leaky", "logistic", "swish", "mish", "tanh"}

EPSILON_GAP = 9e-6
"""OpenCV adds 1e-6 to a variance, Darknet 1e-5: OpenCV gets variances that are larger by the difference."""


def sections(text: str) -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        line = re.sub(r"\s", "", line)
        if line.startswith("["):
            found.append((line[1:-1], {}))
        elif line and line[0] not in "#;":
            name, _, value = line.partition("=")
            found[-1][1].setdefault(name, value)
    return found


class Walk:
    """Sizes of every layer, and the numbers that its file must hold."""

    def __init__(self, net: list[tuple[str, dict[str, str]]], seed: int = 7) -> None:
        self.random = np.random.default_rng(seed)
        self.arrays: list[np.ndarray] = []
        self.variances: set[int] = set()
        options = net[0][1]
        self.sizes = [tuple(int(options[name]) for name in ("channels", "height", "width"))]
        for kind, settings in net[1:]:
            self.sizes.append(getattr(self, f"walk_{kind}", self.same)(settings, *self.sizes[-1]))

    def write(self, path: Path, *, gap: float = 0.0) -> None:
        """Write the file; ``gap`` is added to every variance."""
        header = np.array([0, 2, 0, 0, 0], "<i4").tobytes()
        arrays = [array + gap * (number in self.variances) for number, array in enumerate(self.arrays)]
        path.write_bytes(header + b"".join(array.astype("<f4").tobytes() for array in arrays))

    def draw(self, num: int, fan_in: int, num_weights: int, *, norm: bool, weights_last: bool = True) -> None:
        normal = self.random.standard_normal
        biases = 0.1 * normal(num)
        statistics = (
            [1 + 0.1 * normal(num), 0.1 * normal(num), self.random.uniform(0.8, 1.5, num)] if norm else []
        )
        weights = normal(num_weights) * np.sqrt(2.0 / fan_in)
        if norm:
            self.variances.add(len(self.arrays) + (3 if weights_last else 4))
        self.arrays += [biases, *statistics, weights] if weights_last else [biases, weights, *statistics]

    def same(self, settings, c, h, w):
        return c, h, w

    def other(self, text: str) -> list:
        numbers = [int(item) for item in text.split(",") if item]
        count = len(self.sizes) - 1
        return [self.sizes[1:][number + count if number < 0 else number] for number in numbers]

    def walk_convolutional(self, settings, c, h, w):
        n, size, stride = (int(settings.get(name, 1)) for name in ("filters", "size", "stride"))
        groups = int(settings.get("groups", 1))
        pad = size // 2 if int(settings.get("pad", 0)) else int(settings.get("padding", 0))
        fan_in = c // groups * size * size
        self.draw(n, fan_in, n * fan_in, norm=settings.get("batch_normalize", "0") != "0")
        return n, (h + 2 * pad - size) // stride + 1, (w + 2 * pad - size) // stride + 1

    def walk_connected(self, settings, c, h, w):
        n = int(settings["output"])
        norm = settings.get("batch_normalize", "0") != "0"
        self.draw(n, c * h * w, n * c * h * w, norm=norm, weights_last=False)
        return n, 1, 1

    def walk_maxpool(self, settings, c, h, w):
        stride = int(settings.get("stride", 1))
        size = int(settings.get("size", stride))
        padding = int(settings.get("padding", size - 1))
        return c, (h + padding - size) // stride + 1, (w + padding - size) // stride + 1

    def walk_avgpool(self, settings, c, h, w):
        return c, 1, 1

    def walk_upsample(self, settings, c, h, w):
        stride = int(settings.get("stride", 2))
        return c, h * stride, w * stride

    def walk_reorg(self, settings, c, h, w):
        stride = int(settings.get("stride", 1))
        return c * stride * stride, h // stride, w // stride

    def walk_crop(self, settings, c, h, w):
        return c, int(settings["crop_height"]), int(settings["crop_width"])

    def walk_route(self, settings, c, h, w):
        parts = self.other(settings["layers"])
        return sum(part[0] for part in parts) // int(settings.get("groups", 1)), *parts[0][1:]

    def walk_scale_channels(self, settings, c, h, w):
        return self.other(settings["from"])[0]

    walk_sam = walk_scale_channels


def wanted(net: list[tuple[str, dict[str, str]]], every: bool) -> list[int]:
    """Return the layers to keep: all that OpenCV gives as Darknet does, or the ends of branches."""
    body = [kind for kind, _ in net[1:]]
    if every:
        return [number for number, kind in enumerate(body) if kind not in HEADS]
    ends = [number - 1 for number, kind in enumerate(body) if kind in HEADS]
    return sorted(set(ends)) or [len(body) - 1]


def last_parts(names: list[str]) -> dict[int, str]:
    """Return OpenCV's name for what each layer of Darknet makes; it numbers an activation one too high."""
    ends: dict[int, str] = {}
    for name in names:
        kind, _, number = name.rpartition("_")
        if number.isdigit() and kind not in {"permute", *HEADS}:
            ends[int(number) - (kind in ACTIVATIONS)] = name
    return ends


def main() -> None:
    import cv2

    parser = argparse.ArgumentParser()
    parser.add_argument("net", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int)
    parser.add_argument("--every", action="store_true")
    given = parser.parse_args()
    text = given.net.read_text()
    if given.size:
        text = re.sub(r"(?m)^(width|height)\s*=.*$", rf"\1={given.size}", text)
    given.folder.mkdir(parents=True, exist_ok=True)
    cfg, weights = (given.folder / f"{given.net.stem}.{end}" for end in ("cfg", "weights"))
    cfg.write_text(text)
    net = sections(text)
    walk = Walk(net)
    walk.write(weights, gap=EPSILON_GAP)
    data = np.random.default_rng(8).random((1, *walk.sizes[0]), dtype=np.float32)
    found = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    walk.write(weights)
    found.enableFusion(False)
    found.enableWinograd(False)
    found.setInput(data)
    ends = last_parts(found.getLayerNames())
    keep = [number for number in wanted(net, given.every) if number in ends]
    made = found.forward([ends[number] for number in keep])
    outputs = {f"{net[1 + number][0]}_{number}": array for number, array in zip(keep, made, strict=True)}
    np.savez_compressed(given.folder / f"{given.net.stem}.npz", data=data, **outputs)


if __name__ == "__main__":
    main()
