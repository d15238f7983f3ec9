"""Holds plans of runs against what was measured: times of ``result.json``, and memory by torch's allocator.

::

    python -m benchmarks parallel.planned                # the recorded cases, with nothing fitted
    python -m benchmarks parallel.planned --memory nin   # the memory of a step of each scheme, measured here

Times: the trial of a plan says how an update's computation is distributed over stages, and the recorded
``netweave:alone`` how long it takes in all, as the machine of the record is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks.parallel import nets
from benchmarks.record import Namespace, Record, option, read_results
from examples import zoo
from netweave.graph.passes.partition import LayerCut
from netweave.job import Checkpoints
from netweave.runtime.backends.torch.memory import record_allocations
from netweave.runtime.engine import SerialEngine
from netweave.training.loading import make_nets
from netweave.training.parallel.network import PAYLOAD, Network, measured_network
from netweave.training.planned_worker import Durations, Scheme, Worker
from netweave.training.planning import parse_rate, schemes_of
from netweave.training.step_program import StepProgram

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol import Symbol
    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet

RECORDED = read_results(Path(__file__).with_name("result.json"))

CASES = (
    "alexnet-1gbit",  # first, as its time alone is that of the hybrid cases too
    "hybrid-1gbit",
    "hybrid-200mbit",
    "resnet18-1gbit",
    "resnet18-200mbit",
    "resnet18-loopback",
    "levels-200mbit",
)
EXCHANGES = ("overlapped", "blocking", "two-level")
ZOO: dict[str, tuple[Callable[[], Symbol], int]] = {
    "caffenet": (zoo.caffenet, 227),
    "googlenet": (zoo.googlenet, 224),
    "inception_bn": (zoo.inception_bn, 224),
    "mobilenet": (zoo.mobilenet, 128),
    "mobilenet_v2": (zoo.mobilenet_v2, 128),
    "nin": (zoo.nin, 224),
    "squeezenet": (zoo.squeezenet, 224),
    "vgg11": (partial(zoo.vgg, 11), 128),
}
BATCH = 16

OPTIONS = (option("--memory", metavar="NETS", help=f"nets with commas between: {', '.join(ZOO)}"),)


def main(options: Namespace, record: Record) -> None:
    """Plan, print, and write; see the head of the file."""
    torch.set_num_threads(1)
    if options.memory:
        for name in options.memory.split(","):
            record.results[f"memory of {name}"] = rows = memory(name)
            show(name, rows, "MB")
        return
    base, alone = measured_network(2, 1, 1.0), dict[str, float]()
    for case in CASES:
        record.results[case] = rows = times(case, base, alone)
        show(case, rows, "ms")


def show(title: str, rows: Mapping[str, tuple[float, float]], unit: str) -> None:
    """Print what was planned beside what was measured."""
    for name, (planned, measured) in rows.items():
        print(f"{title:18} {name:12} {planned:9.1f} {measured:9.1f} {unit} {planned / measured - 1:+.1%}")


def times(case: str, base: Network, alone: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return the planned and the recorded milliseconds of an update, by exchange.

    Args:
        case: Of ``result.json``.
        base: The network with what was measured here.
        alone: By net, how many times as long as here the recording machine computed; added to.
    """
    row = RECORDED[case]
    found, recorded = row["case"], row["candidates"]
    machines = 2 if found["rate"] else 1
    rate = parse_rate(found["rate"] or "1gbit")
    network = replace(base, machines=machines, each=found["ranks"] // machines, between=PAYLOAD * rate)
    job, whole = prepared(found["net"], found["batch"])
    worker = Worker(job, Scheme("batch"), network, whole)
    durations = worker.measured()
    if "netweave:alone" in recorded:
        elements = sum(one.numel() for one in worker.net.module.parameters() if one.requires_grad)
        here_s = sum((*durations.forward, *durations.backward)) + elements * durations.update_s
        alone[found["net"]] = recorded["netweave:alone"]["ms"] / 1e3 / here_s
    factor, rows = alone[found["net"]], {}
    for exchange in EXCHANGES:
        if f"netweave:{exchange}" in recorded:
            own = Worker(job, Scheme("batch", exchange=exchange), network, whole)
            planned_s = own.clocked(scaled(durations, factor))[0]
            rows[exchange] = (planned_s * 1e3, recorded[f"netweave:{exchange}"]["ms"])
    if "netweave:hybrid" in recorded:
        layers = tuple(LayerCut(name, 1) for name in nets.NETS[found["net"]].by_feature)
        own = Worker(job, Scheme("hybrid", layers), network, whole)
        planned_s = own.clocked(scaled(own.measured(), factor))[0]
        rows["hybrid"] = (planned_s * 1e3, recorded["netweave:hybrid"]["ms"])
    return rows


def memory(name: str) -> dict[str, tuple[float, float]]:
    """Return the planned and the measured megabytes of a worker, by scheme of two devices."""
    nets.NETS[name] = nets.Net(*ZOO[name])
    job, whole = prepared(name, BATCH)
    network, rows = Network(2, 1, 1e8, 1e9), {}
    for scheme in (one for one in schemes_of(job, network)[0] if one.micro_batches is None):
        worker = Worker(job, scheme, network, whole)
        fixed, step = worker.memory(0)
        with SerialEngine() as engine:
            program, _, _ = worker.program(engine, alone=True)

            update(worker, program, 0)
            for parameter in worker.net.module.parameters():
                parameter.grad = None
            peak = record_allocations(partial(update, worker, program, 1)).peak
        rows[scheme.name] = ((fixed + step) / 1e6, (fixed + peak) / 1e6)
    return rows


def update(worker: Worker, program: StepProgram, number: int) -> None:
    """Make an update."""
    worker.push(program, number).result()
    program.wait()


def prepared(net: str, batch: int) -> tuple[Job, Mapping[str, TorchNet]]:
    """Return the Job of a net, and the net with first values."""
    job = replace(nets.job(net, batch), checkpoints=Checkpoints(at_end=False))
    return job, make_nets(job.phases, seed=0, device=torch.device("cpu"))


def scaled(durations: Durations, factor: float) -> Durations:
    """Return durations that are so many times as long."""
    return replace(
        durations,
        forward=tuple(seconds * factor for seconds in durations.forward),
        backward=tuple(seconds * factor for seconds in durations.backward),
        update_s=durations.update_s * factor,
    )
