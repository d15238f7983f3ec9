"""The loss of a small residual net over 200 steps on real digits, in float32 and in bfloat16.

    python -m benchmarks training.bf16_curve [--steps N] [--seeds N] [--json FILE] [--picture FILE]

The net has four residual blocks with batch normalisation; the data are scikit-learn's 1,797 digits, of which
360 are for testing. Both runs of a seed begin from the same parameters and take the same batches in the same
order, so that what differs is the precision alone. How far two seeds are apart says how much that means.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import netweave
from benchmarks.record import Namespace, Record, option
from netweave.training import Evaluated, Event, Updated

mpl.use("Agg")
from matplotlib import pyplot

PRECISIONS = ("f32", "bf16")
SIDE, BATCH, NUM_TEST, SMOOTHED = 16, 64, 360, 10
COLOURS = {"f32": "#2563eb", "bf16": "#f97316"}

SOLVER = """net: "net.prototxt" base_lr: 0.05 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed"
test_iter: 1 test_interval: {steps} test_initialization: false max_iter: {steps} random_seed: {seed}
snapshot_after_train: false
"""


def data() -> dict[str, dict[str, np.ndarray]]:
    """Return the digits by phase: images of 16 x 16 from 0 to 1, and labels."""
    digits = load_digits()
    images = np.kron(digits.images, np.ones((2, 2)))[:, None].astype(np.float32) / 16
    train, test, train_labels, test_labels = train_test_split(
        images, digits.target, test_size=NUM_TEST, stratify=digits.target, random_state=42
    )
    return {
        "train": {"data": train, "label": train_labels},
        "test": {"data": test, "label": test_labels},
    }


def normalised(name: str, bottom: str, count: int, stride: int = 1, window: int = 3) -> str:
    """Return a convolution with the batch normalisation behind it."""
    return f"""layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}"
  convolution_param {{ num_output: {count} kernel_size: {window} stride: {stride} pad: {window // 2}
    bias_term: false weight_filler {{ type: "msra" }} }} }}
layer {{ name: "{name}_bn" type: "BatchNorm" bottom: "{name}" top: "{name}_bn" }}
layer {{ name: "{name}_scale" type: "Scale" bottom: "{name}_bn" top: "{name}_bn"
  scale_param {{ bias_term: true filler {{ value: 1 }} }} }}
"""


def rectified(name: str) -> str:
    """Return a ReLU in place."""
    return f'layer {{ name: "{name}_relu" type: "ReLU" bottom: "{name}" top: "{name}" }}\n'


def block(name: str, bottom: str, count: int, stride: int) -> str:
    """Return a residual block whose shortcut is a convolution."""
    return (
        normalised(f"{name}a", bottom, count, stride)
        + rectified(f"{name}a_bn")
        + normalised(f"{name}b", f"{name}a_bn", count)
        + normalised(f"{name}s", bottom, count, stride, window=1)
        + f"""layer {{ name: "{name}" type: "Eltwise" bottom: "{name}b_bn" bottom: "{name}s_bn"
  top: "{name}" }}
"""
        + rectified(name)
    )


def net() -> str:
    """Return the net as Caffe's text; its data are given as arrays."""
    inputs = "".join(
        f"""layer {{ name: "digits" type: "MemoryData" top: "data" top: "label" include {{ phase: {phase} }}
  memory_data_param {{ batch_size: {batch} channels: 1 height: {SIDE} width: {SIDE} }} }}
"""
        for phase, batch in (("TRAIN", BATCH), ("TEST", NUM_TEST))
    )
    blocks = [("r1", "stem_bn", 16, 1), ("r2", "r1", 32, 2), ("r3", "r2", 64, 2), ("r4", "r3", 64, 1)]
    return (
        f'name: "residual"\n{inputs}'
        + normalised("stem", "data", 16)
        + rectified("stem_bn")
        + "".join(block(*row) for row in blocks)
        + """layer { name: "mean" type: "Pooling" bottom: "r4" top: "mean"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "mean" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "msra" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
    )


def train(precision: str, seed: int, steps: int) -> dict[str, Any]:
    """Return the loss of each step, and the share of right answers on the digits for testing."""
    losses: list[float] = []
    accuracies: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, Updated):
            losses.append(event.loss)
        elif isinstance(event, Evaluated):
            accuracies.append(event.outputs["accuracy"][0])

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "net.prototxt").write_text(net())
        solver = Path(folder, "solver.prototxt")
        solver.write_text(SOLVER.format(steps=steps, seed=seed))
        netweave.train(solver, data=data(), precision=precision, watch=watch)
    return {"precision": precision, "seed": seed, "losses": losses, "accuracy": accuracies[-1]}


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Draw the losses, each the mean of the last steps."""
    figure, axis = pyplot.subplots(figsize=(6.4, 3.2))
    for run in runs:
        smooth = np.convolve(run["losses"], np.ones(SMOOTHED) / SMOOTHED, "valid")
        own = [other["accuracy"] for other in runs if other["precision"] == run["precision"]]
        label = f"{run['precision']}: {min(own):.1%} to {max(own):.1%} right" if run["seed"] == 1 else None
        steps = np.arange(len(smooth)) + SMOOTHED
        axis.plot(steps, smooth, color=COLOURS[run["precision"]], linewidth=1.2, alpha=0.8, label=label)
    axis.set_yscale("log")
    axis.set_xlabel("step")
    axis.set_ylabel(f"loss, mean of {SMOOTHED} steps")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


OPTIONS = (
    option("--steps", default=200),
    option("--seeds", default=3),
    option("--picture", type=Path),
)


def main(options: Namespace, record: Record) -> None:
    """Train, print and draw; see the head of the file."""
    runs = [
        train(precision, seed, options.steps)
        for seed in range(1, options.seeds + 1)
        for precision in PRECISIONS
    ]
    for run in runs:
        last = float(np.mean(run["losses"][-20:]))
        print(
            f"seed {run['seed']}, {run['precision']:5} loss of the last 20 steps {last:.4f}, "
            f"right on test digits {run['accuracy']:.4f}"
        )
    rounded = [{**run, "losses": [round(loss, 4) for loss in run["losses"]]} for run in runs]
    record.save({"runs": rounded})
    if options.picture:
        draw(runs, options.picture)
