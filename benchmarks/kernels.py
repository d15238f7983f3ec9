"""Kernels of matrix products: torch's own beside those that trials chose, in one process, in turns.

    python -m benchmarks kernels [--net NAME] [--threads N] [--seconds S] [--json FILE]

For each net a training step (forward and backward) and a run in test mode, each candidate in its turn and in
both orders; shown are the median and the 10th and 90th percentile of processor time and time in milliseconds,
the relative rms error of the output against float64, and how long the first step took, trials included. The
trials of a net that was measured before are remembered: ``XDG_CACHE_HOME`` names another folder for them.

- ``mlp``: dense layers 784, 2048, 2048, 2048, 10 with Relu, 128 samples
- ``encoder``: two layers of BERT-base, 8 sequences of 128
- ``long encoder``: the same, one sequence of 512
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from benchmarks.record import Namespace, Record, option
from benchmarks.worker import spread
from netweave.graph import Graph, GraphBuilder, Parameter
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.kernels import PLAIN, Kernels, TriedKernels, tried_in_inference
from netweave.training.process import keep_memory

WIDTH, HEADS = 768, 12


class _Net:
    """A net with random weights."""

    def __init__(self, *shape: int) -> None:
        self.builder = GraphBuilder("net", format="onnx")
        self.x = self.builder.input("data", shape, batch=False)
        self._draw = np.random.default_rng(0)
        self._count = 0

    def add(self, op_type: str, *inputs: ir.Value, **attributes: int | tuple[int, ...]) -> ir.Value:
        return self.builder.add(op_type, list(inputs), attributes)

    def array(self, array: np.ndarray) -> ir.Value:
        self._count += 1
        return self.builder.parameter(Parameter(f"p{self._count}", array.shape), array.astype(np.float32))

    def dense(self, x: ir.Value, sizes: tuple[int, int]) -> ir.Value:
        weights = self.array(self._draw.standard_normal(sizes) * sizes[0] ** -0.5)
        return self.add("Add", self.add("MatMul", x, weights), self.array(np.zeros(sizes[1])))

    def normalised(self, x: ir.Value) -> ir.Value:
        scale, shift = self.array(np.ones(WIDTH)), self.array(np.zeros(WIDTH))
        return self.add("LayerNormalization", x, scale, shift)

    def heads(self, x: ir.Value, perm: tuple[int, ...]) -> ir.Value:
        sizes = self.builder.constant([0, 0, HEADS, WIDTH // HEADS], dtype=np.int64)
        return self.add("Transpose", self.add("Reshape", self.dense(x, (WIDTH, WIDTH)), sizes), perm=perm)

    def finish(self, x: ir.Value) -> Graph:
        return self.builder.finish([self.builder.add("Identity", [x], outputs="out")])


def mlp(rows: int) -> Graph:
    """Return a net of dense layers."""
    net = _Net(rows, 784)
    x = net.x
    for sizes in ((784, 2048), (2048, 2048), (2048, 2048)):
        x = net.add("Relu", net.dense(x, sizes))
    return net.finish(net.dense(x, (2048, 10)))


def encoder(batch: int, length: int) -> Graph:
    """Return two layers of BERT-base."""
    net = _Net(batch, length, WIDTH)
    x, factor = net.x, net.builder.constant((WIDTH // HEADS) ** -0.5)
    joined = net.builder.constant([0, 0, WIDTH], dtype=np.int64)
    for _ in range(2):
        query, key, value = (net.heads(x, perm) for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = net.add("Softmax", net.add("Mul", net.add("MatMul", query, key), factor), axis=-1)
        mixed = net.add("Transpose", net.add("MatMul", scores, value), perm=(0, 2, 1, 3))
        x = net.normalised(net.add("Add", x, net.dense(net.add("Reshape", mixed, joined), (WIDTH, WIDTH))))
        wide = net.add("Gelu", net.dense(x, (WIDTH, 4 * WIDTH)))
        x = net.normalised(net.add("Add", x, net.dense(wide, (4 * WIDTH, WIDTH))))
    return net.finish(x)


NETS: dict[str, Callable[[], Graph]] = {
    "mlp": partial(mlp, 128),
    "encoder": partial(encoder, 8, 128),
    "long encoder": partial(encoder, 1, 512),
}


def step(net: TorchNet, kernels: Kernels, data: Tensor, *, training: bool) -> Tensor:
    """Go forward, and backward in training; return the output."""
    net.set_kernels(kernels)
    with torch.set_grad_enabled(training):
        output = net(data=data)["out"]
        if training:
            net.zero_grad()
            output.square().mean().backward()
    return output.detach()


def measure(graph: Graph, *, training: bool, seconds: float) -> dict[str, dict[str, object]]:
    """Return the figures of both candidates."""
    net = TorchNet(graph).train(training)
    data = torch.randn(known(graph), generator=torch.Generator().manual_seed(0))
    right = step(TorchNet(graph).to(torch.float64), PLAIN, data.double(), training=False)
    candidates = {
        "torch's": PLAIN,
        "by trial": TriedKernels() if training else tried_in_inference(net.module),
    }
    firsts, errors = {}, {}
    for name, kernels in candidates.items():
        began = time.perf_counter()
        output = step(net, kernels, data, training=training)
        firsts[name] = round(time.perf_counter() - began, 2)
        errors[name] = float((output - right).norm() / right.norm())
    times: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in candidates}
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < seconds or number < 4:
        for name in list(candidates)[:: 1 if number % 2 else -1]:
            wall, cpu = time.perf_counter(), time.process_time()
            step(net, candidates[name], data, training=training)
            times[name]["cpu"].append(time.process_time() - cpu)
            times[name]["wall"].append(time.perf_counter() - wall)
        number += 1
    return {
        name: {kind: spread(values, 1, 1e3) for kind, values in rows.items()}
        | {"error": errors[name], "first_s": firsts[name], "steps": number}
        for name, rows in times.items()
    }


def known(graph: Graph) -> list[int]:
    """Return the sizes of a graph's one input."""
    shape = graph.inputs[0].shape
    assert shape is not None
    return [int(size) for size in shape.numpy()]


OPTIONS = (
    option("--net", choices=NETS, action="append"),
    option("--threads", default=1),
    option("--seconds", default=10.0),
)


def main(options: Namespace, record: Record) -> None:
    """Measure and show."""
    torch.set_num_threads(options.threads)
    keep_memory()
    print(f"{options.threads} threads, ms: processor time, time; error against float64; seconds of the first")
    for name in options.net or NETS:
        for training in (True, False):
            rows = measure(NETS[name](), training=training, seconds=options.seconds)
            kind = f"{name}, {'training step' if training else 'inference'}, threads: {options.threads}"
            for candidate, row in rows.items():
                error, first = f"{row['error']:.1e}", row["first_s"]
                print(f"  {kind:42} {candidate:8} {row['cpu']} {row['wall']} {error} {first}")
            record.results.setdefault("nets", {})[kind] = rows
            record.save()
