"""A linear classifier as Caffe's files, and training it by Caffe's formulas in NumPy, apart from our code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

NUM_RECORDS, NUM_FEATURES, NUM_CLASSES, BATCH = 23, 6, 4, 5

NET = f"""name: "linear"
layer {{ name: "data" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param {{ source: "list.txt" batch_size: {BATCH} }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  param {{ lr_mult: 1 decay_mult: 1 }} param {{ lr_mult: 2 decay_mult: 0.5 }}
  inner_product_param {{ num_output: {NUM_CLASSES} weight_filler {{ type: "gaussian" std: 0.5 }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss"
  loss_weight: 1.5 }}
layer {{ name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
  include {{ phase: TEST }} }}
"""

SOLVER = """net: "net.prototxt" base_lr: 0.1 lr_policy: "inv" gamma: 0.1 power: 0.75 max_iter: 20
momentum: 0.9 weight_decay: 0.01 iter_size: 2 display: 4 average_loss: 3 random_seed: 3
snapshot_prefix: "kept/linear"
"""


def records(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(NUM_RECORDS, NUM_FEATURES))
    return x, generator.integers(NUM_CLASSES, size=NUM_RECORDS).astype(float)


def write(folder: Path, solver: str = SOLVER, net: str = NET) -> Path:
    """Write the files into a folder; return the solver."""
    (folder / "net.prototxt").write_text(net)
    path = folder / "solver.prototxt"
    path.write_text(solver)
    return path


@dataclass
class Reference:
    """SGDSolver and its kin, transcribed (src/caffe/solvers at 1.0), for the classifier above.

    Attributes:
        weights: Weight and bias.
        kind: Type of the solver.
        settings: Its fields.
        losses: Objective of each iteration.
    """

    weights: list[np.ndarray]
    kind: str
    settings: dict[str, Any]
    losses: list[float] = field(default_factory=list)
    iteration: int = 0
    position: int = 0
    history: list[list[np.ndarray]] = field(init=False)

    def __post_init__(self) -> None:
        self.history = [[np.zeros_like(w) for w in self.weights] for _ in range(2)]

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the next batch, which goes on with the first records behind the last."""
        x, labels = records()
        rows = np.arange(self.position, self.position + BATCH) % NUM_RECORDS
        self.position += BATCH
        return x[rows], labels[rows].astype(int)

    def gradients(self) -> tuple[float, list[np.ndarray]]:
        """Return loss and gradients of one batch; the loss weighs 1.5."""
        x, labels = self.batch()
        scores = x @ self.weights[0].T + self.weights[1]
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        hit = np.eye(NUM_CLASSES)[labels]
        loss = -np.log(p[hit == 1]).mean()
        above = 1.5 * (p - hit) / BATCH
        return 1.5 * loss, [above.T @ x, above.sum(0)]

    def step(self) -> None:
        """Make one update."""
        s = self.settings
        size = s["iter_size"]
        found = [self.gradients() for _ in range(size)]
        self.losses.append(sum(loss for loss, _ in found) / size)
        grads = [sum(g) for g in zip(*(g for _, g in found), strict=True)]
        norm = np.sqrt(sum((g**2).sum() for g in grads))
        clip = s.get("clip_gradients", -1)
        if 0 <= clip < norm:
            grads = [g * clip / norm for g in grads]
        rate = s["base_lr"] * (1 + s["gamma"] * self.iteration) ** -s["power"]
        for index, (w, g) in enumerate(zip(self.weights, grads, strict=True)):
            decay = s["weight_decay"] * (1, 0.5)[index]
            pull = w if s.get("regularization_type", "L2") == "L2" else np.sign(w)
            w -= self.change(index, g / size + decay * pull, rate * (1, 2)[index])
        self.iteration += 1

    def change(self, index: int, g: np.ndarray, rate: float) -> np.ndarray:
        """Return what a parameter is lessened by."""
        h, h2 = (history[index] for history in self.history)
        m, delta = self.settings["momentum"], self.settings.get("delta", 1e-8)
        if self.kind == "SGD":
            h[:] = m * h + rate * g
            return h
        if self.kind == "Nesterov":
            old = h.copy()
            h[:] = m * h + rate * g
            return (1 + m) * h - m * old
        if self.kind == "AdaGrad":
            h += g**2
            return rate * g / (np.sqrt(h) + delta)
        if self.kind == "RMSProp":
            keep = self.settings["rms_decay"]
            h[:] = keep * h + (1 - keep) * g**2
            return rate * g / (np.sqrt(h) + delta)
        if self.kind == "AdaDelta":
            h[:] = m * h + (1 - m) * g**2
            u = g * np.sqrt((h2 + delta) / (h + delta))
            h2[:] = m * h2 + (1 - m) * u**2
            return rate * u
        b2, t = self.settings["momentum2"], self.iteration + 1
        h[:] = m * h + (1 - m) * g
        h2[:] = b2 * h2 + (1 - b2) * g**2
        return rate * np.sqrt(1 - b2**t) / (1 - m**t) * h / (np.sqrt(h2) + delta)
