"""The nets that are trained over slow links, with random images in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from examples import zoo
from netweave.graph.passes.partition import LayerCut
from netweave.job import Checkpoints, Cluster, DataSource, Job, Phase, Policy, Schedule, Solver

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol import Symbol

CLASSES = 1000
RATE, DECAY = 1e-4, 5e-4
BATCHES_IN_MEMORY = 2


@dataclass(frozen=True)
class Net:
    """A net of the zoo.

    Attributes:
        build: Builds it.
        size: Height and width of an image.
        momentum: Of the solver; AlexNet's candidates fit in memory together without.
        by_feature: Layers that a hybrid of data and model parallelism cuts by feature.
    """

    build: Callable[[], Symbol]
    size: int
    momentum: float = 0.9
    by_feature: tuple[str, ...] = ()


NETS = {
    "ResNet-18": Net(partial(zoo.resnet, 18), 112),
    "AlexNet": Net(
        zoo.alexnet,
        227,
        momentum=0.0,
        by_feature=("fc6", "fc6_relu", "drop6", "fc7", "fc7_relu", "drop7", "fc8"),
    ),
}


def job(name: str, batch: int) -> Job:
    """Return the Job that trains a net.

    Args:
        name: Of ``NETS``.
        batch: Images in the whole batch, of all ranks.
    """
    net = NETS[name]
    symbol = net.build()
    label = next(key for key in symbol.list_arguments() if key.endswith("label"))
    graph = symbol.graph(**{"data": (batch, 3, net.size, net.size), label: (batch,)})
    heads = [value.name or "" for value in graph.outputs]
    del graph.model.graph.outputs[:]  # losses are no outputs that are shown
    for key, parameter in graph.parameters.items():
        if not key.endswith(("_weight", "_gamma")):  # as MXNet
            graph.parameters[key] = replace(parameter, decay_mult=0.0)
    solver = Solver(
        "mxnet.sgd",
        Policy("mxnet.fixed", RATE),
        {"momentum": net.momentum, "wd": DECAY, "rescale_grad": 1.0 / batch},
    )
    order = {"shuffle": False, "last": "pad"}
    data = DataSource("given", ("data", label), batch, order=order, place=f"fit of {graph.name!r}")
    phase = Phase(graph, (data,), losses=dict.fromkeys(heads, 1.0))
    return Job(
        graph.name,
        {"train": phase},
        solver,
        Schedule(0, display_at_end=False),
        checkpoints=Checkpoints(at_end=False),
        seed=1,
    )


def hybrid(name: str, batch: int, num_ranks: int) -> Job:
    """Return the Job with dense layers cut by feature, and the others by batch."""
    layers = tuple(LayerCut(layer, 1) for layer in NETS[name].by_feature)
    return replace(job(name, batch), cluster=Cluster(workers_per_group=num_ranks, layers=layers))


def records(found: Job) -> dict[str, np.ndarray]:
    """Return images and labels for some batches."""
    source = found.phases["train"].data[0]
    count = source.batch_size * BATCHES_IN_MEMORY
    image = next(value.shape for value in found.phases["train"].graph.inputs if value.name == "data")
    draw = np.random.default_rng(0)
    return {
        "data": draw.normal(size=(count, *image[1:])).astype(np.float32),
        source.outputs[1]: draw.integers(CLASSES, size=count).astype(np.float32),
    }
