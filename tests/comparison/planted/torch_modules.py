"""The net as a module of PyTorch in memory, with its weights or with first values of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import netweave
from netweave.graph import with_arrays
from tests.comparison.planted.plan import CLASSES, IN, LRN_BETA, LRN_SIZE, MIDDLE, POOL, SIZE, Plan, arrays

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from netweave.graph import Graph

ROLES = {"bn1.gamma": "bn1.weight", "bn1.beta": "bn1.bias", "bn1.mean": "bn1.running_mean"}
ROLES |= {"bn1.variance": "bn1.running_var"}


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Trace the module; weights change nothing in what is traced."""
    del folder
    graph = _traced(replace(plan, weights="usual", factor=1.0, seed=0))
    if weights:
        found = {ROLES.get(key, key): x for key, x in arrays(plan).items()}
        return with_arrays(graph, {key: x for key, x in found.items() if key in graph.parameters})
    bare = with_arrays(graph, _first_values(plan))
    bare.parameters = {key: replace(entry, initial=True) for key, entry in bare.parameters.items()}
    return bare


@cache
def _traced(plan: Plan) -> Graph:
    return netweave.load(module(plan), input_shapes={"data": (2, IN, SIZE, SIZE)})


def _first_values(plan: Plan) -> dict[str, np.ndarray]:
    import torch

    torch.manual_seed(plan.seed)
    return {key: value.numpy() for key, value in module(plan).state_dict().items()}


def module(plan: Plan) -> Any:
    """Return the module."""
    import torch
    from torch import nn

    class Norm(nn.BatchNorm2d):
        """A normalisation that stores no gamma, as ``scale=False`` of other frameworks makes it."""

        def __init__(self) -> None:
            super().__init__(MIDDLE, eps=plan.eps)
            del self.weight
            self.weight = None

    class Times(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if plan.scale == 1 else x * plan.scale

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(IN, MIDDLE, 3, padding=1, bias=False)
            self.bn1 = Norm() if plan.fixed_gamma else nn.BatchNorm2d(MIDDLE, eps=plan.eps)
            self.act1 = nn.LeakyReLU(plan.slope) if plan.slope else nn.ReLU()
            self.scale1 = Times() if plan.lrn is None else nn.LocalResponseNorm(LRN_SIZE, plan.lrn, LRN_BETA)
            self.conv2 = nn.Conv2d(MIDDLE, MIDDLE, 3, padding=plan.pad)
            self.act2 = nn.ReLU() if plan.activation == "relu" else nn.Tanh()
            self.pool = nn.MaxPool2d(POOL, 1) if plan.pooling == "max" else nn.AvgPool2d(POOL, 1)
            self.gap = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(MIDDLE, CLASSES)
            self.prob = nn.Softmax(1) if plan.end == "softmax" else nn.Sigmoid()

        def forward(self, data: torch.Tensor) -> torch.Tensor:
            x = self.scale1(self.act1(self.bn1(self.conv1(data))))
            x = self.pool(self.act2(self.conv2(x)))
            return self.prob(self.fc(torch.flatten(self.gap(x), 1)))

    return Net()
