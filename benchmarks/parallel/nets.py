"""The nets that are trained over slow links, with random images in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.mxnet.symbol import zoo
from netweave.formats.mxnet.symbol.training import FitConfig, TrainingGraph
from netweave.job import Policy, Solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.formats.mxnet.symbol import Symbol
    from netweave.job import Job

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
    """

    build: Callable[[], Symbol]
    size: int
    momentum: float = 0.9


NETS = {
    "ResNet-18": Net(partial(zoo.resnet, 18), 112),
    "AlexNet": Net(zoo.alexnet, 227, momentum=0.0),
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
    training = TrainingGraph(symbol, ("data", label))
    graph, _, heads = training.graph({"data": (batch, 3, net.size, net.size), label: (batch,)})
    solver = Solver(
        "mxnet.sgd",
        Policy("mxnet.fixed", RATE),
        {"momentum": net.momentum, "wd": DECAY, "rescale_grad": 1.0 / batch},
    )
    return FitConfig(batch_size=batch, max_iterations=0, solver=solver, seed=1).job(
        graph, ["data", label], heads
    )


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
