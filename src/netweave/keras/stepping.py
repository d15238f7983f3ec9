"""Updates one by one, on batches that a program hands over: ``train_on_batch``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from netweave.graph import Graph
    from netweave.job import Solver
    from netweave.runtime.backends.torch import TorchNet


class Stepper:
    """The update rule of a fit, applied by hand; a fit goes on from its state, and it from a fit's.

    Args:
        graph: The Graph of the net that is trained.
        net: The net.
        loss: Name of what is made small.
        solver: How gradients change parameters.
        state: That of the updater of a fit; None to begin.
        seed: Of what is drawn.

    Attributes:
        updater: Rule, policy and their state.
        solver: How gradients change parameters.
    """

    def __init__(
        self,
        graph: Graph,
        net: TorchNet,
        loss: str,
        solver: Solver,
        *,
        state: Mapping[str, Any] | None,
        seed: int,
    ) -> None:
        from netweave.training.loading import trained
        from netweave.training.optim import Updater

        self.net, self.loss, self._seed, self.solver = net, loss, seed, solver
        self.updater = Updater(solver, trained(graph, net, solver.gradient_mult), seed=seed)
        if state is not None:
            self.updater.load_state_dict(state)

    def step(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """Update once, and return the outputs of the net on the batch, with ``array(name)``."""
        import torch

        from netweave.training.metrics import OutputElements

        net = self.net.train()
        device = next(iter(self.updater.parameters.values())).device
        inputs = {name: torch.as_tensor(array).to(device) for name, array in arrays.items()}
        if net.draws is not None:
            samples = len(next(iter(arrays.values())))
            net.draws.at(seed=self._seed, step=self.updater.iteration, first=0, samples=samples)
        for tensor in self.updater.parameters.values():
            tensor.requires_grad_(True)  # a model that has these layers frozen may have stepped meanwhile
        net.zero_grad()
        outputs = net.compute(inputs)
        loss = outputs[self.loss]
        loss.backward()
        self.updater.step(float(loss.detach()))
        if net.draws is not None:
            net.draws.release()
        return OutputElements(outputs)
