"""LeNet as Caffe's files, and the same training as people write it for PyTorch, apart from our code."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.oracles import lenet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

PARAMS = "param { lr_mult: 1 } param { lr_mult: 2 }"
FILLER = 'weight_filler { type: "xavier" } bias_filler { type: "constant" }'


def _convolution(name: str, bottom: str, count: int) -> str:
    return f"""layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" {PARAMS}
  convolution_param {{ num_output: {count} kernel_size: 5 {FILLER} }} }}
layer {{ name: "pool_{name}" type: "Pooling" bottom: "{name}" top: "pool_{name}"
  pooling_param {{ pool: MAX kernel_size: 2 stride: 2 }} }}
"""


def _dense(name: str, bottom: str, count: int) -> str:
    return f"""layer {{ name: "{name}" type: "InnerProduct" bottom: "{bottom}" top: "{name}" {PARAMS}
  inner_product_param {{ num_output: {count} {FILLER} }} }}
"""


def net_text(num_tested: int) -> str:
    """Return the net; its data are given as arrays."""
    data = "".join(
        f"""layer {{ name: "data" type: "MemoryData" top: "data" top: "label" include {{ phase: {phase} }}
  memory_data_param {{ batch_size: {batch} channels: 1 height: 28 width: 28 }} }}
"""
        for phase, batch in (("TRAIN", lenet.BATCH), ("TEST", num_tested))
    )
    counts = {name: shape[0] for name, shape in lenet.SHAPES.items()}
    return (
        f'name: "LeNet"\n{data}'
        + _convolution("conv1", "data", counts["conv1"])
        + _convolution("conv2", "pool_conv1", counts["conv2"])
        + _dense("ip1", "pool_conv2", counts["ip1"])
        + 'layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }\n'
        + _dense("ip2", "ip1", counts["ip2"])
        + """layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
    )


def write(folder: Path, *, steps: int, num_tested: int) -> Path:
    """Write net and solver into a folder; return the solver."""
    (folder / "net.prototxt").write_text(net_text(num_tested))
    path = folder / "solver.prototxt"
    path.write_text(f"""net: "net.prototxt"
base_lr: {lenet.RATE} lr_policy: "inv" gamma: {lenet.GAMMA} power: {lenet.POWER}
momentum: {lenet.MOMENTUM} weight_decay: {lenet.DECAY}
max_iter: {steps} test_iter: 1 test_interval: {steps} test_initialization: false
snapshot_after_train: false solver_mode: CPU
""")
    return path


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all images and labels; scikit-learn is looked for, not imported."""
    found = importlib.util.find_spec("sklearn")
    assert found is not None, "the digits come with scikit-learn, which is not installed"
    assert found.origin is not None
    return lenet.digits(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz")


class Module(nn.Module):
    """LeNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.ip1, self.ip2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores."""
        x = functional.max_pool2d(self.conv1(x), 2)
        x = functional.max_pool2d(self.conv2(x), 2)
        scores: Tensor = self.ip2(functional.relu(self.ip1(x.flatten(1))))
        return scores


def train(seed: int, steps: int, dtype: torch.dtype) -> tuple[list[float], float]:
    """Train by plain PyTorch; return the losses, and the share of the digits kept back that are right."""
    images, labels = (torch.from_numpy(array) for array in digits())
    images = images.to(dtype)
    trained, tested = (torch.from_numpy(rows) for rows in lenet.split(labels.numpy()))
    module = Module().to(dtype)
    with torch.no_grad():
        for name, (weight, bias) in lenet.start(seed).items():
            layer = module.get_submodule(name)
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.copy_(torch.from_numpy(bias))
    velocity = {name: torch.zeros_like(tensor) for name, tensor in module.named_parameters()}
    losses = []
    for iteration, rows in enumerate(_rows(seed, len(trained), steps)):
        chosen = trained[rows]
        loss = functional.cross_entropy(module(images[chosen]), labels[chosen])
        losses.append(loss.item())
        module.zero_grad()
        loss.backward()
        for name, tensor in module.named_parameters():
            rate = lenet.rate(iteration) * (lenet.BIAS_RATE if name.endswith("bias") else 1.0)
            h = velocity[name]
            h.mul_(lenet.MOMENTUM).add_(tensor.grad + lenet.DECAY * tensor.detach(), alpha=rate)
            tensor.data.sub_(h)
    with torch.no_grad():
        hits = module(images[tested]).argmax(1) == labels[tested]
    return losses, hits.double().mean().item()


def _rows(seed: int, count: int, steps: int) -> Iterator[Tensor]:
    yield from torch.from_numpy(lenet.batches(seed, count, steps))
