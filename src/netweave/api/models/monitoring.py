"""``fit(monitor=...)``: a ``Monitor``, or any object with the methods of MXNet's ``mx.mon.Monitor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from netweave.training.monitor import Monitor, ValueWatch, layer_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from netweave.api.models.model import Model
    from netweave.graph import Graph
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.monitor import Look

    Callback = Callable[[str, Tensor], Any]


class BatchMonitor(Protocol):
    """The methods of MXNet's Monitor, in the order of their calls (``BaseModule.fit``)."""

    def install(self, exe: MonitoredNet) -> None:
        """Look at a net from now on."""

    def tic(self) -> None:
        """Begin a batch."""

    def toc_print(self) -> None:
        """End a batch, after its update; show what was seen."""


class MonitoredNet:
    """The part of MXNet's executor that monitors in MXNet's style use.

    Args:
        model: The model that is fitted.

    Attributes:
        callbacks: What is called with the name and value of each layer's output.
    """

    def __init__(self, model: Model) -> None:
        self.callbacks: list[Callback] = []
        self._model = model

    def set_monitor_callback(self, callback: Callback, monitor_all: bool = False) -> None:
        """Have outputs of layers passed to a function, by MXNet's names (``conv1_output``).

        Args:
            callback: Called with a name and a tensor.
            monitor_all: As MXNet has it; inputs of layers are outputs of others, and not passed again.
        """
        self.callbacks.append(callback)

    @property
    def arg_dict(self) -> dict[str, Tensor]:
        """The learnt arrays by name; reading them waits for the update."""
        return self._arrays(states=False)

    @property
    def aux_dict(self) -> dict[str, Tensor]:
        """The auxiliary states by name."""
        return self._arrays(states=True)

    def _arrays(self, *, states: bool) -> dict[str, Tensor]:
        known = set(self._model.parameters_for_callbacks()[0].list_auxiliary_states())
        return {name: t.detach() for name, t in self._model.net.params.items() if (name in known) == states}


class BatchLook:
    """Calls a monitor in MXNet's manner around each batch of a run.

    Args:
        graph: The training net.
        monitor: The monitor.
        model: The model that is fitted.

    Attributes:
        taps: Names of values that the net must give besides its outputs.
    """

    needs_gradients = False

    def __init__(self, graph: Graph, monitor: BatchMonitor, model: Model) -> None:
        self._layers = layer_values(graph)
        self._monitor = monitor
        self._net = MonitoredNet(model)
        monitor.install(self._net)
        self.taps: Sequence[str] = list(dict.fromkeys(self._layers.values()))

    def is_due(self, step: int) -> bool:
        """Return whether a batch is looked at: the monitor itself counts."""
        return True

    def look(self, net: TorchNet, outputs: Mapping[str, Tensor]) -> None:
        """Begin the batch and pass its values on, in the task that computed them."""
        # by now all values are there, and none was passed on: as good as before the batch
        self._monitor.tic()
        for layer, name in self._layers.items():
            for callback in self._net.callbacks:
                callback(f"{layer}_output", outputs[name].detach())

    def look_at_gradients(self, net: TorchNet) -> None:
        """Look at nothing: MXNet's monitors see none."""

    def event(self, step: int) -> None:
        """End the batch; reading arrays waits for its update."""
        self._monitor.toc_print()


def look_of(monitor: Monitor | BatchMonitor | None, graph: Graph, model: Model) -> Look | None:
    """Return what looks at values for a monitor."""
    if monitor is None:
        return None
    return ValueWatch(graph, monitor) if isinstance(monitor, Monitor) else BatchLook(graph, monitor, model)
