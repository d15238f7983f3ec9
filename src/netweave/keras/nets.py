"""The nets of a model on torch, with shared arrays: one is trained, one judges, one predicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.installation import install_command
from netweave.keras.layer import Layer, Network
from netweave.keras.losses import Loss
from netweave.keras.objective import Records, TrainingNet, lower_model, training_net

if TYPE_CHECKING:
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.backends.torch.parameters import ParameterStore


class Nets:
    """The nets of one model.

    Args:
        network: The model.
        device: Where to compute, as torch names it.

    Attributes:
        training: The model with its losses that is trained; None before that.
        graph: The Graph of the net that is trained.
    """

    def __init__(self, network: Network, device: str) -> None:
        self._network, self._device = network, device
        self._store: ParameterStore | None = None
        self._nets: dict[str, TorchNet] = {}
        self._training_nets: dict[Records, TrainingNet] = {}
        self._judges: dict[TrainingNet, TorchNet] = {}
        self.training: TrainingNet | None = None
        self.graph: Graph | None = None

    def forget(self) -> None:
        """Forget what losses and frozen layers have a part in."""
        self.training = self.graph = None
        self._training_nets.clear()
        self._judges.clear()
        self._nets.pop("train", None)

    def prepare(
        self,
        losses: Sequence[Loss | None],
        factors: Sequence[float],
        records: Records,
        excluded: Sequence[str],
        frozen: Collection[Layer] | None,
    ) -> TrainingNet:
        """Return the model with its losses, for records of these parts; the same one for the same."""
        if records not in self._training_nets:
            made = training_net(self._network, losses, factors, records, excluded, frozen)
            self._training_nets[records] = made
        return self._training_nets[records]

    def to_train(self, training: TrainingNet) -> TorchNet:
        """Return the net that is trained."""
        if "train" not in self._nets or self.training is not training:
            self.training, self.graph = training, training.lowered(training=True)
            self._nets["train"] = self._made(self.graph)
        return self._nets["train"]

    def to_judge(self, training: TrainingNet) -> TorchNet:
        """Return the net with losses, as it computes when it is not trained."""
        if training not in self._judges:
            self._judges[training] = self._made(training.lowered(training=False)).eval()
        return self._judges[training]

    def to_predict(self) -> TorchNet:
        """Return the net without losses."""
        if "predict" not in self._nets:
            self._nets["predict"] = self._made(lower_model(self._network.call_graph.config("net"))).eval()
        return self._nets["predict"]

    def _made(self, graph: Graph) -> TorchNet:
        try:
            from netweave.runtime.backends.torch import TorchNet
            from netweave.runtime.backends.torch.device import find_device
            from netweave.runtime.backends.torch.parameters import ParameterStore
        except ImportError as error:
            raise UsageError(
                f"models compute with torch; install it with: {install_command('torch')}"
            ) from error
        if self._store is None:
            self._store = ParameterStore()
        variables = {
            key: variable
            for key, (_, variable) in self._network.variables_by_key().items()
            if key in graph.parameters
        }
        for key, variable in variables.items():
            if variable.stored is not None and key not in self._store:
                self._store.share(graph.parameters[key], variable.stored)
        net = TorchNet(graph, store=self._store).to(find_device(self._device))
        for key, variable in variables.items():
            if variable.stored is None:
                variable.hold(self._store[key])
        return net

    def guard(self, wait: Any) -> None:
        """Say what each access to an array waits for; None for nothing."""
        for variable in self._network.weights:
            variable.wait = wait
