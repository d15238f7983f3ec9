"""Mean absolute values of what a training net computes: SINGA's ``debug``.

SINGA calls these numbers "norm1": the sum of absolute values divided by their number (``math_blob.h``, Asum),
of what a layer gives, of the gradient with respect to it, of parameters and of their gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import layer_keys
from netweave.training.events import Norms, NormsSeen
from netweave.training.monitor import layer_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from netweave.graph import Graph
    from netweave.job import Job, Schedule
    from netweave.runtime.backends.torch import TorchNet


class NormWatch:
    """Looks at the values and gradients of the updates whose numbers are displayed.

    Args:
        graph: The training net.
        schedule: What happens when.

    Attributes:
        taps: Names of values that the net must give besides its outputs.
    """

    needs_gradients = True

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self._schedule = schedule
        named = set(graph.values())
        # of a loss layer, which also gives an accuracy, the loss: it bears the layer's name
        self._layers = {
            layer: layer if layer in named else value for layer, value in layer_values(graph).items()
        }
        self._owners = _owners(graph)
        self.taps: Sequence[str] = list(dict.fromkeys(self._layers.values()))
        self._values: dict[str, float] = {}
        self._gradients: dict[str, float] = {}
        self._parameters: dict[str, Norms] = {}

    def is_due(self, step: int) -> bool:
        """Return whether the numbers of an update are displayed."""
        return self._schedule.is_due("display", step)

    def look(self, net: TorchNet, outputs: Mapping[str, Tensor]) -> None:
        """Look at values, in the task that computed them; at their gradients as soon as backward has them."""
        self._values = {name: _mean_absolute(outputs[name]) for name in self.taps}
        self._gradients = {}
        for name in self.taps:
            if outputs[name].requires_grad:
                outputs[name].register_hook(lambda gradient, name=name: self._note(name, gradient))

    def look_at_gradients(self, net: TorchNet) -> None:
        """Look at parameters and their gradients, between backward and the update."""
        self._parameters = {}
        for key, layer in self._owners.items():
            tensor = net.store[key].tensor
            gradient = None if tensor.grad is None else _mean_absolute(tensor.grad)
            self._parameters[key] = Norms(_mean_absolute(tensor), gradient, layer)

    def event(self, step: int) -> NormsSeen | None:
        """Return what was seen in an update; None if its numbers are not displayed."""
        if not self.is_due(step):
            return None
        layers = {
            layer: Norms(self._values[name], self._gradients.get(name), layer)
            for layer, name in self._layers.items()
        }
        return NormsSeen(step, layers, dict(self._parameters))

    def _note(self, name: str, gradient: Tensor) -> None:
        self._gradients[name] = _mean_absolute(gradient)


def norms_of(job: Job) -> list[NormWatch]:
    """Return what looks at the norms that a Job asks for, if it does."""
    wanted = job.schedule.display_norms
    return [NormWatch(job.phases["train"].graph, job.schedule)] if wanted else []


def _mean_absolute(tensor: Tensor) -> float:
    return float(tensor.detach().abs().double().mean()) if tensor.numel() else 0.0


def _owners(graph: Graph) -> dict[str, str]:
    """Return the first layer that reads each trained parameter, in the net's order."""
    owners: dict[str, str] = {}
    for node in graph.nodes:
        for value in node.inputs:
            parameter = graph.parameters.get(value.name or "") if value is not None else None
            if parameter is not None and parameter.trainable and value is not None:
                owners.setdefault(str(value.name), next(iter(layer_keys(node)), ""))
    return owners
