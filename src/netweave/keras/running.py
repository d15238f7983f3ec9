"""The run of a fit: a Job on a ``Trainer``, told as epochs; updates one by one, for ``train_on_batch``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.job import Checkpoints, DataSource, Job, Phase, Schedule, Solver
from netweave.keras.epochs import EpochRecord, Epochs, History, Measures
from netweave.runtime.engine import ThreadedEngine
from netweave.training import Checkpoint
from netweave.training.data import Source
from netweave.training.loop import stopping
from netweave.training.parallel.devices import as_contexts
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    import numpy as np

    from netweave.keras.epochs import Callbacks
    from netweave.keras.objective import TrainingNet
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.loop import FitCheckpoints
    from netweave.training.trainer import Trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """Updates of the parameters in a fit, and the order of its records.

    Attributes:
        training: The net with its losses.
        graph: Its Graph.
        solver: How gradients change parameters.
        batch_size: Records in a batch, >= 1.
        shuffle: Whether each epoch has an order of its own.
        last: What happens to the last records of an epoch; see ``data.Order``.
        seed: Of everything that is drawn.
    """

    training: TrainingNet
    graph: Graph
    solver: Solver
    batch_size: int
    shuffle: bool
    last: str
    seed: int

    def job(self, *, max_iterations: int, checkpoints: Checkpoints, seed: int) -> Job:
        """Return the Job; its records are given with the call that runs it."""
        order = {"shuffle": self.shuffle, "last": self.last}
        graph, inputs = self.graph, self.training.inputs
        data = DataSource("given", inputs, self.batch_size, order=order, place=f"fit of {graph.name!r}")
        return Job(
            name=graph.name,
            phases={"train": Phase(graph, (data,), losses={self.training.loss: 1.0})},
            solver=self.solver,
            schedule=Schedule(max_iterations, display_at_end=False),
            checkpoints=checkpoints,
            seed=seed,
        )


class Fitted(ABC):
    """A net that learns from records, epoch by epoch.

    Args:
        device: Where to compute, as torch names it.
    """

    def __init__(self, device: str) -> None:
        self._device = as_contexts(device)[0].torch_name
        self._updated: tuple[Any, dict[str, Any]] | None = None
        self._trainer: Trainer | None = None
        self._fits = 0
        self._stopped = False
        self._record: EpochRecord | None = None

    @property
    @abstractmethod
    def net(self) -> TorchNet:
        """The net handle of the net that is trained: parameters and gradients by name."""

    def stop(self) -> None:
        """Ask a fit, from one of its callbacks, to end after the present batch."""
        if self._trainer is not None:
            self._stopped = True
            self._trainer.stop()

    @property
    def stop_training(self) -> bool:
        """True if the fit has been asked to end; Keras' callbacks set it."""
        return self._stopped

    @stop_training.setter
    def stop_training(self, value: bool) -> None:
        if value:
            self.stop()

    def _run(
        self,
        source: Source,
        config: FitConfig,
        *,
        epochs: int,
        steps_per_epoch: int | None,
        measures: Measures,
        validate: Callable[[int], Mapping[str, float]] | None,
        callbacks: Callbacks,
        threads: int | None,
        checkpoints: FitCheckpoints,
        initial_epoch: int = 0,
    ) -> History:
        """Train over some epochs."""
        from netweave.training.trainer import Trainer

        count = steps_per_epoch or _batches(source, config.batch_size)
        resumed_from = checkpoints.find()
        kept = None if resumed_from is None else resumed_from[1].state.get("fit")
        _require_of_fit(resumed_from, kept)
        before, state = self._updated or (None, None)
        go_on = state is not None and goes_on(before, config.solver) and resumed_from is None
        first = int(kept["first"]) if kept else int(state["iteration"]) if go_on and state else 0
        shape = Epochs(first, count, config.batch_size, _last_size(source, config), epochs, initial_epoch)
        record = self._new_record(shape, measures, validate, callbacks)
        if kept:
            record.restore(kept)
        with ThreadedEngine() as engine:
            self._trainer = Trainer(
                config.job(
                    max_iterations=shape.end,
                    checkpoints=checkpoints.settings(count),
                    seed=config.seed + self._fits,  # another one for each fit of a model
                ),
                TrainOptions(
                    data={"train": {config.training.inputs[0]: source}},
                    threads=threads,
                    keep=checkpoints.keep,
                    resume=resumed_from[0] if resumed_from else False,
                    num_stages=1,
                ),
                engine=engine,
                device=self._device,
                nets={"train": self.net},
                content=lambda: {"fit": record.state()},
                watch=record.watch,
            )
            try:
                if go_on and state:
                    self._trainer.load_solver_state(state)
                self._started(self._trainer, resumed=resumed_from is not None)
                callbacks.begin()
                record.begin(self._trainer.iteration)
                with stopping(self._trainer):
                    self._trainer.run()
                callbacks.end()
                self._updated = (config.solver, self._trainer.updater.state_dict())
            finally:
                self._trainer.close()
                self._trainer = None
        self._fits += 1
        return History(tuple(record.epochs), initial_epoch)

    def _new_record(
        self,
        shape: Epochs,
        measures: Measures,
        validate: Callable[[int], Mapping[str, float]] | None,
        callbacks: Callbacks,
    ) -> EpochRecord:
        """Return what takes in a run that begins; it was not asked to stop yet."""
        self._stopped = False
        self._record = EpochRecord(
            shape, measures, validate=validate, callbacks=callbacks, is_stopped=lambda: self._stopped
        )
        return self._record

    @abstractmethod
    def _started(self, trainer: Trainer, *, resumed: bool) -> None:
        """Do what has to be done when a run is ready to begin."""


def goes_on(before: Solver | None, solver: Solver) -> bool:
    """Return whether what one solver has kept is of use to another: the same rule and settings.

    A constant rate of Keras may differ: people set it between two fits.
    """
    if before is None or before.policy.kind != solver.policy.kind:
        return False
    is_set = solver.policy.kind == "keras.constant"
    return before == (replace(solver, policy=before.policy) if is_set else solver)


def _require_of_fit(found: tuple[Path, Checkpoint] | None, kept: Any) -> None:
    if found is not None and kept is None:
        raise UsageError(f"{found[0]}: is a checkpoint of a solver's run, expected one of a fit")


def _last_size(source: Source, config: FitConfig) -> int:
    """Return how many records the last batch of an epoch has."""
    rest = 0 if source.endless or config.last != "short" else len(source) % config.batch_size
    return rest or config.batch_size


def _batches(source: Source, batch_size: int) -> int:
    if source.endless:
        raise UsageError(f"{source.place}: its length is unknown; give the number of batches per epoch")
    return -(-len(source) // batch_size)


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
