"""What an update costs: milliseconds per step against PyTorch's own SGD and Adam, interleaved.

    python benchmarks/optim.py [--repeats N] [--threads N] [--json FILE]

The parameters are those of AlexNet (few, large) and of ResNet-50 (many, small). Shown are the median and
the 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from netweave import job
from netweave.training.optim import Trained, Updater

if TYPE_CHECKING:
    from collections.abc import Callable

Shapes = list[tuple[int, ...]]

ALEXNET: Shapes = [
    *[(96, 3, 11, 11), (256, 48, 5, 5), (384, 256, 3, 3), (384, 192, 3, 3), (256, 192, 3, 3)],
    *[(4096, 9216), (4096, 4096), (1000, 4096), (96,), (256,), (384,), (384,), (256,), (4096,), (4096,)],
]
RESNET: Shapes = [
    (64, 3, 7, 7),
    *[
        shape
        for width, blocks in [(64, 3), (128, 4), (256, 6), (512, 3)]
        for _ in range(blocks)
        for shape in [
            (width, 4 * width, 1, 1),
            (width, width, 3, 3),
            (4 * width, width, 1, 1),
            *[(width,)] * 4,
            *[(4 * width,)] * 2,
        ]
    ],
    (1000, 2048),
]


def parameters(shapes: Shapes) -> list[torch.Tensor]:
    """Return parameters with gradients."""
    made = [torch.randn(shape).requires_grad_() for shape in shapes]
    for tensor in made:
        tensor.grad = torch.randn_like(tensor)
    return made


def ours(kind: str, settings: dict[str, float], shapes: Shapes) -> Callable[[], None]:
    """Return Netweave's step; biases without decay, at twice the rate, as in most files of Caffe."""
    trained = [
        Trained(str(index), tensor, *((1.0, 1.0) if tensor.ndim > 1 else (2.0, 0.0)))
        for index, tensor in enumerate(parameters(shapes))
    ]
    return Updater(job.Solver(kind, job.Policy("caffe.fixed", 1e-3), settings), trained).step


def theirs(name: str, settings: dict[str, float], shapes: Shapes, *, fused: bool) -> Callable[[], None]:
    """Return PyTorch's step, with the same groups."""
    made = parameters(shapes)
    groups = [
        {"params": [tensor for tensor in made if tensor.ndim > 1]},
        {"params": [tensor for tensor in made if tensor.ndim == 1], "lr": 2e-3, "weight_decay": 0.0},
    ]
    step: Callable[[], None] = getattr(torch.optim, name)(groups, lr=1e-3, fused=fused, **settings).step
    return step


def cases(shapes: Shapes) -> dict[str, Callable[[], None]]:
    """Return the steps to be compared."""
    sgd = {"momentum": 0.9, "weight_decay": 5e-4}
    return {
        "caffe.sgd": ours("caffe.sgd", sgd, shapes),
        "PyTorch SGD": theirs("SGD", sgd, shapes, fused=False),
        "PyTorch SGD, fused": theirs("SGD", sgd, shapes, fused=True),
        "caffe.nesterov": ours("caffe.nesterov", sgd, shapes),
        "caffe.adam": ours("caffe.adam", sgd, shapes),
        "PyTorch Adam": theirs("Adam", {"weight_decay": 5e-4}, shapes, fused=False),
        "PyTorch Adam, fused": theirs("Adam", {"weight_decay": 5e-4}, shapes, fused=True),
    }


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    figures: dict[str, dict[str, float]] = {}
    for net, shapes in [("AlexNet", ALEXNET), ("ResNet-50", RESNET)]:
        steps = cases(shapes)
        found: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(options.repeats):
            for name, step in steps.items():
                before = time.perf_counter()
                step()
                found[name].append((time.perf_counter() - before) * 1e3)
        for name, times in found.items():
            low, median, high = np.percentile(times, (10, 50, 90)).round(2).tolist()
            figures[f"{net}: {name}"] = {"p10": low, "median": median, "p90": high}
            print(f"{net + ': ' + name:35s} {median:7.2f} ms  ({low:.2f} to {high:.2f})")
    if options.json:
        about = {"torch": torch.__version__, "threads": options.threads, "machine": platform.machine()}
        options.json.write_text(json.dumps({**about, "unit": "ms", "figures": figures}, indent=2))


if __name__ == "__main__":
    main()
