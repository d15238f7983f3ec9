"""Speed of real nets on Netweave's torch backend, against PyTorch eager code of the same nets.

    NETWEAVE_CORPUS=... python -m benchmarks torch_speed [--rounds N] [--threads N] [--json FILE]

Both sides have the same weights, drawn by seed, and their outputs are compared before the clock starts. In
each round every candidate runs once, in an order drawn anew; shown are the median, the 10th and the 90th
percentile of the time of the process's own threads, so that other programs on the machine count for little.

- ``eager``: modules as people write them (``eager.py``), in PyTorch's own memory format
- ``eager, channels last``: the same after ``.to(memory_format=torch.channels_last)``
- ``netweave``: the net as Caffe's file has it
- ``netweave, absorbed``: after ``graph.passes.absorb``, which takes normalisations into the convolutions
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

import netweave
from benchmarks.record import option
from benchmarks.torch_speed import eager
from netweave.graph.passes import absorb, to_inference
from netweave.runtime.backends.torch import TorchNet

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from torch import Tensor, nn

    from benchmarks.record import Record
    from netweave.graph import Graph

TOLERANCE = 1e-4
"""Largest difference of the outputs, relative to their rms."""


@dataclass(frozen=True)
class Net:
    """One net: its file in the corpus, its eager code, and how many images it is given."""

    file: str
    make: Callable[[], eager.Named]
    batch: int


NETS = {
    "ResNet-50": Net("caffe/branch-intel/models__default_resnet_50__train_val.prototxt", eager.ResNet50, 4),
    "VGG-16": Net("caffe/branch-intel/models__default_vgg_16__train_val.prototxt", eager.VGG16, 2),
    "GoogLeNet": Net("caffe/head-1.0/models__bvlc_googlenet__deploy.prototxt", eager.GoogLeNet, 4),
}


def load(net: Net, corpus: Path) -> Graph:
    """Return the net as it predicts, with weights drawn by seed."""
    shapes = {} if "deploy" in net.file else {"data": (net.batch, 3, 224, 224)}
    return to_inference(netweave.load(corpus / net.file, input_shapes=shapes))


@torch.no_grad()
def give_weights(module: eager.Named, ours: TorchNet) -> None:
    """Copy the weights of a net of Caffe's into its eager code."""
    for name, layer in module.layers.items():
        if not isinstance(layer, torch.nn.BatchNorm2d):
            layer.weight.copy_(ours.params[f"{name}/0"])
            if layer.bias is not None:
                layer.bias.copy_(ours.params[f"{name}/1"])
            continue
        layer.running_mean.copy_(ours.params[f"{name}/0"])
        layer.running_var.copy_(ours.params[f"{name}/1"])
        scale = name.replace("bn", "scale", 1)
        layer.weight.copy_(ours.params[f"{scale}/0"])
        layer.bias.copy_(ours.params[f"{scale}/1"])


def candidates(net: Net, corpus: Path) -> tuple[dict[str, Callable[[Tensor], Tensor]], list[nn.Module]]:
    """Return what is measured, each from images to outputs, and the modules behind it."""
    graph = load(net, corpus)
    ours, absorbed = TorchNet(graph), TorchNet(absorb(graph))
    plain, last = net.make(), net.make()
    for module in (plain, last):
        give_weights(module, ours)
    last.to(memory_format=torch.channels_last)
    (output,) = ours.names
    found = {
        "eager": plain,
        "eager, channels last": lambda x: last(x.contiguous(memory_format=torch.channels_last)),
        "netweave": lambda x: ours(data=x)[output],
        "netweave, absorbed": lambda x: absorbed(data=x)[absorbed.names[0]],
    }
    return found, [plain, last, ours.module, absorbed.module]


def check(found: dict[str, Callable[[Tensor], Tensor]], x: Tensor) -> float:
    """Return the largest difference to the first candidate, relative to the rms.

    Raises:
        SystemExit: They do not compute the same.
    """
    with torch.inference_mode():
        expected, *others = (run(x) for run in found.values())
    rms = expected.square().mean().sqrt()
    error = max(((other - expected).abs().max() / rms).item() for other in others)
    if not error < TOLERANCE:
        raise SystemExit(f"the candidates differ by {error:.1e} of the rms: not the same net")
    return error


def clock(work: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each candidate in each round."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    shuffle = random.Random(0)
    for number in range(rounds + 1):
        for name in shuffle.sample(list(work), len(work)):
            begin = time.process_time()
            work[name]()
            if number:  # the first round warms up
                seconds[name].append(time.process_time() - begin)
    return seconds


def predict(run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Return one forward pass."""

    def work() -> None:
        with torch.inference_mode():
            run(x)

    return work


def descend(run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Return one forward and one backward pass."""

    def work() -> None:
        run(x).square().sum().backward()

    return work


def spread(seconds: list[float]) -> list[float]:
    """Return median, 10th and 90th percentile in milliseconds."""
    return [round(float(v) * 1e3, 2) for v in np.percentile(seconds, [50, 10, 90])]


def measure(net: Net, corpus: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the times of both kinds of pass, by candidate."""
    found, modules = candidates(net, corpus)
    x = 0.1 * torch.randn(net.batch, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    for module in modules:
        module.eval()
    print(f"outputs agree to {check(found, x):.1e}")
    forward = clock({name: predict(run, x) for name, run in found.items()}, rounds)
    for module in modules:
        module.train()
    trained = {name: descend(run, x) for name, run in found.items() if "absorbed" not in name}
    both = clock(trained, max(2, rounds // 2))
    return {
        "forward": {name: spread(seconds) for name, seconds in forward.items()},
        "forward and backward": {name: spread(seconds) for name, seconds in both.items()},
    }


OPTIONS = (
    option("--rounds", default=15),
    option("--threads", default=1),
    option("--net", choices=NETS, action="append"),
)


def main(options: argparse.Namespace, record: Record) -> None:
    """Measure and print; see the head of the file."""
    torch.set_num_threads(options.threads)
    corpus = Path(os.environ["NETWEAVE_CORPUS"])
    results = {}
    for name in options.net or NETS:
        print(f"{name}, {NETS[name].batch} images, {options.threads} threads: ms of CPU time")
        results[name] = measure(NETS[name], corpus, options.rounds)
        for kind, rows in results[name].items():
            for candidate, (median, low, high) in rows.items():
                share = median / rows["eager"][0]
                print(f"  {kind:21} {candidate:22} {median:8.1f}  ({low:.1f} to {high:.1f})  {share:.2f}")
    record.save(results)
