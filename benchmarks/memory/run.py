"""Megabytes of a run and of a training step: planned, measured at the allocator, and what MXNet 1.9.1 plans.

    python -m benchmarks memory [--net NAME] [--batch N] [--speed] [--threads N] [--rounds N]
        [--json FILE]

Planned are values, gradients of values and kernels' own memory. Measured is what torch's allocator had given
out at once, by the profiler's record of each block (``api.measure_memory``), with gradients of parameters,
which the plan beside it counts too. MXNet's are what ``simple_bind`` logs for the same nets, without
gradients of parameters.

``--speed`` measures a step without a plan and by plans for 70 % and half of what the same net takes in
PyTorch as people write it, each in every round, beside that net itself, with the seconds of the processor,
which other programs disturb less than those of the wall; and VGG-16 on one image, whole and tiled for 16 MB.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.record import Namespace, Record, option
from benchmarks.training.eager import MODULES
from netweave import api
from netweave.api.zoo import NETS
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.memory import record_allocations
from netweave.runtime.memory_plan import cheapest, prepare, timeline
from netweave.training.process import keep_memory

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.runtime.memory_plan import Recomputation

ZOO = ("alexnet", "vgg16", "resnet50", "inception-v3", "squeezenet")
BATCHES = (1, 32)

MXNET = {
    ("alexnet", 1, False): 1,
    ("vgg16", 1, False): 28,
    ("resnet50", 1, False): 9,
    ("alexnet", 32, False): 36,
    ("vgg16", 32, False): 910,
    ("resnet50", 32, False): 300,
    ("inception-v3", 32, False): 430,
    ("squeezenet", 32, False): 285,
    ("alexnet", 32, True): 108,
    ("vgg16", 32, True): 2427,
    ("resnet50", 32, True): 2772,
    ("inception-v3", 32, True): 3176,
    ("squeezenet", 32, True): 1147,
}
"""Megabytes of MXNet 1.9.1 by net, batch and whether it trains."""

SHARES = (0.7, 0.5)
"""Shares of what PyTorch takes for a step that it is to do with."""

PYTORCH = {"resnet50": "ResNet-50", "vgg16": "VGG-16"}
"""Names of the nets as modules."""

TILED = "16MB"


def graph_of(name: str, batch: int, *, training: bool) -> Graph:
    """Return a net of the zoo, with its loss or as it predicts."""
    graph = NETS[name].build().graph(data=(batch, *NETS[name].image))
    return graph if training else api.to_inference(graph)


def compare(name: str, batch: int, *, training: bool) -> dict[str, Any]:
    """Return the plans of a net beside what was measured, in MB."""
    graph = graph_of(name, batch, training=training)
    found = api.plan_memory(graph, batch=batch, training=training)
    measured = api.measure_memory(graph, batch=batch, training=training).peak_with_threads
    row = {plan.name: round(plan.num_bytes / 1e6, 1) for plan in found.plans}
    planned = found.step_peak / 1e6
    row |= {"planned at once": round(planned, 1), "measured": round(measured / 1e6, 1)}
    row |= {"off": round(planned / (measured / 1e6) - 1, 4), "MXNet": MXNET.get((name, batch, training))}
    return {"net": name, "batch": batch, "training": training, **row}


def interleaved(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Return the processor's seconds of each run, one of each in every round."""
    for run in runs.values():
        run()
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.process_time()
            run()
            found[name].append(time.process_time() - began)
    return found


def training_speed(name: str, batch: int, rounds: int) -> list[dict[str, Any]]:
    """Return the speed of a step by plans that need less, and what each takes at the allocator.

    Shares are of what the same net takes in PyTorch as people write it (``benchmarks.training.eager``), in
    channels-last. Gradients of parameters, which no plan changes, are left out of all figures.
    """
    module = MODULES[PYTORCH[name]]().train().to(memory_format=torch.channels_last)
    gradients = sum(4 * parameter.numel() for parameter in module.parameters())
    images = torch.randn(batch, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    labels = torch.zeros(batch, dtype=torch.int64)

    def eager() -> None:
        module.zero_grad()
        module(images, labels).backward()

    runs: dict[str, Callable[[], None]] = {"PyTorch": eager}
    graph = graph_of(name, batch, training=True)
    plan = prepare(graph, batch=batch, training=True)
    net = TorchNet(graph).train()
    inputs = {"data": net.store.placed(images), **dict.fromkeys(labels_of(graph), labels.float())}

    def step(found: Recomputation | None) -> None:
        net.recompute(found.net if found else plan, found.names if found else None)
        net.zero_grad()
        torch.stack([output.sum() for output in net(**inputs).values()]).sum().backward()

    reference = record_allocations(eager).peak - gradients
    module.zero_grad()
    planned = {"PyTorch": None, "no plan": timeline(plan).peak}
    runs["no plan"] = partial(step, None)
    for share in SHARES:
        found = cheapest(plan, int(share * reference) + gradients)
        planned[f"{share:.0%}"] = found.peak
        runs[f"{share:.0%}"] = partial(step, found)
    peaks = {"PyTorch": reference}
    for label, run in list(runs.items())[1:]:
        net.zero_grad()
        peaks[label] = record_allocations(run).peak - gradients
    seconds = {label: statistics.median(row) for label, row in interleaved(runs, rounds).items()}
    return [
        {
            "net": name,
            "batch": batch,
            "plan": label,
            "MB planned": round((planned[label] - gradients) / 1e6, 1) if planned[label] else None,
            "MB measured": round(peaks[label] / 1e6, 1),
            "share": round(peaks[label] / reference, 3),
            "s": round(seconds[label], 3),
            "speed": round(seconds["no plan"] / seconds[label], 3),
        }
        for label in runs
    ]


def labels_of(graph: Graph) -> list[str]:
    """Return the inputs of a net that are no images."""
    return [value.name or "" for value in graph.inputs if value.name != "data"]


def tiled_speed(rounds: int) -> list[dict[str, Any]]:
    """Return the speed of VGG-16 on one image, whole and tiled, and how far the outputs are apart."""
    whole = graph_of("vgg16", 1, training=False)
    tiled = api.tiled(whole, TILED)
    nets = {"whole": TorchNet(whole).eval()}
    nets["tiled"] = TorchNet(tiled, store=nets["whole"].store).eval()
    image = nets["whole"].store.placed(torch.randn(1, 3, 224, 224))
    outputs = {}

    def run(name: str) -> None:
        with torch.inference_mode():
            (outputs[name],) = nets[name](data=image).values()

    seconds = interleaved({name: lambda name=name: run(name) for name in nets}, rounds)
    apart = float((outputs["whole"] - outputs["tiled"]).abs().max())
    peaks = {
        "whole": api.measure_memory(whole).peak_with_threads,
        "tiled": api.measure_memory(tiled).peak_with_threads,
    }
    base = statistics.median(seconds["whole"])
    return [
        {
            "net": "vgg16",
            "plan": name,
            "MB measured": round(peaks[name] / 1e6, 2),
            "apart": apart,
            "s": round(statistics.median(seconds[name]), 4),
            "speed": round(base / statistics.median(seconds[name]), 3),
        }
        for name in nets
    ]


OPTIONS = (
    option("--net", choices=ZOO, action="append"),
    option("--batch", type=int, action="append"),
    option("--speed", default=False),
    option("--threads", default=1),
    option("--rounds", default=5),
)


def main(options: Namespace, record: Record) -> None:
    """Measure, print and write; see the head of the file."""
    torch.set_num_threads(options.threads)
    for row in measured(options):
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        record.results.setdefault("speed" if options.speed else "memory", []).append(row)
        record.save()


def measured(options: Namespace) -> Iterator[dict[str, Any]]:
    """Yield the rows that are asked for."""
    if options.speed:
        keep_memory()
        for name in options.net or ("resnet50", "vgg16"):
            yield from training_speed(name, (options.batch or [8])[0], options.rounds)
        yield from tiled_speed(options.rounds)
        return
    for name in options.net or ZOO:
        for batch in options.batch or BATCHES:
            for training in (False, True):
                yield compare(name, batch, training=training)
