"""The net as code of Chainer, with its weights in an ``.npz``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import netweave
from netweave.graph import with_arrays
from tests.comparison.planted.plan import CLASSES, IN, LRN_BETA, LRN_SIZE, MIDDLE, POOL, SIZE, Plan, arrays

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

CODE = """import chainer
import chainer.functions as F
import chainer.links as L


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D({inputs}, {middle}, 3, pad=1, nobias=True)
            self.bn1 = L.BatchNormalization({middle}, eps={eps}, use_gamma={use_gamma})
            self.conv2 = L.Convolution2D({middle}, {middle}, 3, pad={pad})
            self.fc = L.Linear({middle}, {classes})

    def forward(self, data):
        x = self.bn1(self.conv1(data))
        x = F.leaky_relu(x, slope={slope})
        {scaled}
        x = F.{activation}(self.conv2(x))
        x = F.{pooling}(x, {pool}, stride=1)
        x = F.average(x, axis=(2, 3))
        return F.{end}(self.fc(x))
"""
ROLES = {"mean": "avg_mean", "variance": "avg_var", "weight": "W", "bias": "b"}


_READ: dict[tuple[Plan, bool], Graph] = {}
"""What was read, in a child process each, by its code and whether it has weights."""


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it, unless one of the same code was read: then its weights are replaced."""
    key = replace(plan, weights="usual", factor=1.0, seed=0), weights
    if key not in _READ:
        _READ[key] = _read(key[0], folder, weights=weights)
    return with_arrays(_READ[key], stored(plan)) if weights else _READ[key]


def _read(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    path = folder / "net.py"
    path.write_text(text(plan))
    shapes = {"data": (1, IN, SIZE, SIZE)}
    if not weights:
        return netweave.load(f"{path}:Net", input_shapes=shapes, trust=True)
    np.savez(folder / "net.npz", **stored(plan))
    return netweave.load(f"{path}:Net", folder / "net.npz", input_shapes=shapes, trust=True)


def text(plan: Plan) -> str:
    """Return the code."""
    scaled = f"x = x * {plan.scale}" if plan.scale != 1 else "pass"
    if plan.lrn is not None:
        alpha = plan.lrn / LRN_SIZE
        scaled = f"x = F.local_response_normalization(x, n={LRN_SIZE}, k=1, alpha={alpha}, beta={LRN_BETA})"
    return CODE.format(
        inputs=IN,
        middle=MIDDLE,
        classes=CLASSES,
        eps=plan.eps,
        use_gamma=not plan.fixed_gamma,
        pad=plan.pad,
        slope=plan.slope,
        scaled=scaled,
        activation=plan.activation,
        pooling={"max": "max_pooling_2d", "average": "average_pooling_2d"}[plan.pooling],
        pool=POOL,
        end=plan.end,
    )


def stored(plan: Plan) -> dict[str, np.ndarray]:
    """Return the arrays by link."""
    found = {}
    for key, array in arrays(plan).items():
        link, role = key.split(".")
        if not (plan.fixed_gamma and role == "gamma"):
            found[f"{link}/{ROLES.get(role, role)}"] = array
    return found | {"bn1/N": np.array(0)}
