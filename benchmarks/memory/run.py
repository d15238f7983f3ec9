"""Megabytes of a run and of a training step: planned, measured at the allocator, and what MXNet 1.9.1 plans.

    python -m benchmarks.memory.run [--net NAME] [--batch N] [--speed] [--threads N] [--rounds N]
        [--json FILE]

Planned are values, gradients of values and kernels' own memory. Measured is what torch's allocator had given
out at once, by the profiler's record of each block (``api.measure_memory``), with gradients of parameters,
which the plan beside it counts too. MXNet's are what ``simple_bind`` logs for the same nets, without
gradients of parameters.

``--speed`` measures a step by three plans in turn, each in every round: all values kept, 70 % and half of
the memory, with the seconds of the processor, which other programs disturb less than those of the wall; and
VGG-16 on one image, whole and tiled for 16 MB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from netweave import api
from netweave.api.zoo import NETS
from netweave.backends.torch import TorchNet
from netweave.memory_plan import cheapest, prepare, timeline
from netweave.training.memory import keep_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph

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

SHARES = (None, 0.7, 0.5)
"""Shares of the memory of a step that it is to do with."""

TILED = "16MB"


def graph_of(name: str, batch: int, *, training: bool) -> Graph:
    """Return a net of the zoo, with its loss or as it predicts."""
    graph = NETS[name].build().graph(data=(batch, *NETS[name].image))
    return graph if training else api.to_inference(graph)


def compare(name: str, batch: int, *, training: bool) -> dict[str, Any]:
    """Return the plans of a net beside what was measured, in MB."""
    graph = graph_of(name, batch, training=training)
    found = api.plan_memory(graph, batch=batch, training=training)
    measured = api.measure_memory(graph, batch=batch, training=training)
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
    """Return the speed of a step by plans that need less."""
    graph = graph_of(name, batch, training=True)
    plan = prepare(graph, batch=batch, training=True)
    whole = timeline(plan).without("parameter gradient").peak
    gradients = timeline(plan).peak - whole
    net = TorchNet(graph).train()
    inputs = {
        value.name: net.store.placed(torch.randn(*(d if isinstance(d, int) else batch for d in value.shape)))
        for value in graph.inputs
    }
    inputs = {key: tensor if tensor.ndim == 4 else tensor.zero_() for key, tensor in inputs.items()}
    rows, runs = {}, {}
    for share in SHARES:
        found = cheapest(plan, int(share * whole) + gradients) if share else None
        values = found.names if found else None
        peak = (found.timeline if found else timeline(plan)).without("parameter gradient").peak
        label = "all kept" if share is None else f"{share:.0%}"
        rows[label] = {"net": name, "batch": batch, "plan": label, "share": round(peak / whole, 3)}

        def step(values: frozenset[str] | None = values) -> None:
            net.recompute(plan, values)
            net.zero_grad()
            torch.stack([output.sum() for output in net(**inputs).values()]).sum().backward()

        runs[label] = step
    seconds = interleaved(runs, rounds)
    base = statistics.median(seconds["all kept"])
    for label, row in rows.items():
        row |= {"s": round(statistics.median(seconds[label]), 3)}
        row |= {"speed": round(base / statistics.median(seconds[label]), 3)}
    return list(rows.values())


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
    peaks = {"whole": api.measure_memory(whole), "tiled": api.measure_memory(tiled)}
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


def main() -> None:
    """Measure, print and write; see the head of the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", choices=ZOO, action="append")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    rows: list[dict[str, Any]] = []
    if options.speed:
        keep_memory()
        for name in options.net or ("resnet50", "vgg16"):
            rows += training_speed(name, (options.batch or [8])[0], options.rounds)
        rows += tiled_speed(options.rounds)
    else:
        for name in options.net or ZOO:
            for batch in options.batch or BATCHES:
                rows += [compare(name, batch, training=training) for training in (False, True)]
    for row in rows:
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if options.json:
        results.setdefault("speed" if options.speed else "memory", []).extend(rows)
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
