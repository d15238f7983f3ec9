"""The nets of one operator that cases.txt lists."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from tests.formats.mxnet import symbols
from tests.oracles import recipe

ROLES = ("filter", "matrix", "scale", "bias", "variance")
LOSSES = ("Softmax", "MakeLoss")


def corners(values: np.ndarray, side: float = 1.0) -> np.ndarray:
    """Return boxes around the unit square, or a larger one, from numbers between -1 and 1, (..., 4)."""
    centres, sizes = (values[..., :2] + 1) / 2, 0.1 + 0.3 * (values[..., 2:] + 1)
    boxes = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1)
    return (boxes * np.float32(side)).astype(np.float32)


def labels(values: np.ndarray, num_classes: int) -> np.ndarray:
    """Return rows of class and corners; the last row of each image is none, of image 1 all are."""
    parts = [_whole(values[..., :1], num_classes), corners(values[..., 1:5]), values[..., 5:]]
    found = np.concatenate(parts, axis=-1)
    found[:, -1:], found[1:2] = -1, -1
    return found


def rows(values: np.ndarray, num_classes: int) -> np.ndarray:
    """Return rows of class, score and corners."""
    scores = np.round(np.abs(values[..., 1:2]), 1)  # with ties
    return np.concatenate([_whole(values[..., :1], num_classes), scores, corners(values[..., 2:])], axis=-1)


def regions(values: np.ndarray, num_images: int, side: int) -> np.ndarray:
    """Return rows of image and corners in pixels."""
    return np.concatenate([_whole(values[..., :1], num_images), corners(values[..., 1:], side)], axis=-1)


def _whole(values: np.ndarray, count: int) -> np.ndarray:
    return np.clip(np.floor((values + 1) / 2 * count), 0, count - 1).astype(np.float32)


BOXES = {"boxes": corners, "labels": labels, "rows": rows, "regions": regions}


@dataclass(frozen=True)
class Input:
    """One input of the operator: an input of the net, or a stored array."""

    shape: tuple[int, ...]
    kind: str = ""
    stored: bool = False

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of its variable: the element type, where it is not the usual one."""
        return {"__dtype__": "4"} if self.kind.startswith("int32") else {}

    def draw(self, name: str) -> np.ndarray:
        """Return its values: drawn by name, then shaped by the kind.

        A role is drawn as weights are; others lie around 0. ``positive`` is between 0.5 and 2.3; ``halves``
        are multiples of one half; ``integers n`` are from 0 to n - 1, and ``int32 n`` the same of that type.
        ``given`` is followed by the values themselves; of those in ``BOXES`` the last four are corners.
        """
        if self.kind in ROLES:
            return recipe.weight(name, self.shape, self.kind)
        values = recipe.image(name, self.shape, 1.0)
        kind, _, count = self.kind.partition(" ")
        if kind == "positive":
            return np.abs(values) + np.float32(0.5)
        if kind == "halves":
            return np.round(values * np.float32(2)) / np.float32(2)
        if kind == "given":
            return np.resize(np.array(count.split(), np.float32), self.shape)
        if kind in BOXES:
            return BOXES[kind](values / np.float32(sqrt(3)), *map(int, count.split()))
        if count:
            numbers = np.floor(np.abs(values) * np.float32(1000)) % np.float32(count)
            return numbers.astype(np.int32) if kind == "int32" else numbers
        return values


@dataclass(frozen=True)
class Case:
    """An operator, its settings as written in a file, its inputs by name, its number of outputs."""

    op: str
    settings: dict[str, str]
    inputs: dict[str, Input]
    num_outputs: int = 1

    @property
    def gradient(self) -> bool:
        """Whether the operator has a gradient of its own."""
        return self.op.endswith("Output") or self.op in LOSSES

    def symbol(self) -> str:
        """Return the net as a symbol file."""
        nodes = [symbols.variable(name, **given.attributes) for name, given in self.inputs.items()]
        nodes.append(symbols.node(self.op, "op", range(len(nodes)), **self.settings))
        return symbols.symbol(nodes, num_outputs=self.num_outputs)

    def arrays(self, *, stored: bool) -> dict[str, np.ndarray]:
        """Return what is stored, or what a run is given, by name."""
        return {name: given.draw(name) for name, given in self.inputs.items() if given.stored == stored}


def parse(line: str) -> tuple[str, Case]:
    """Return the name and the case of a line of cases.txt.

    >>> name, case = parse("crop: slice begin=(0,1) end=(2,3) | data 2x4 halves")
    >>> name, case.op, case.settings
    ('crop', 'slice', {'begin': '(0,1)', 'end': '(2,3)'})
    >>> case.inputs
    {'data': Input(shape=(2, 4), kind='halves', stored=False)}
    """
    head, inputs, *outputs = line.split(" | ")
    name, text = head.split(": ")
    op, *settings = text.split()
    return name, Case(
        op,
        dict(item.split("=", 1) for item in settings),
        dict(map(_input, inputs.split(", "))) if inputs != "none" else {},
        int(outputs[0].split()[0]) if outputs else 1,
    )


def _input(text: str) -> tuple[str, Input]:
    name, sizes, *kind = text.split()
    stored = bool(kind) and kind[0] in ("stored", *ROLES)
    kind = kind[1:] if kind[:1] == ["stored"] else kind
    return name, Input(tuple(map(int, sizes.split("x"))), " ".join(kind), stored)


LINES = (Path(__file__).parent / "cases.txt").read_text().splitlines()
CASES = dict(parse(line) for line in LINES if line and not line.startswith("#"))
