"""Preparation of ``fit``, ``evaluate`` and single steps: nets for the records, measures, update rule."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.models.model import Model as Fitted
from netweave.api.models.model import goes_on
from netweave.api.models.records import batches
from netweave.errors import UnsupportedError, UsageError
from netweave.keras import constraints
from netweave.keras.callbacks.constrained import Constrained
from netweave.keras.compiling import Compiled, Measured
from netweave.keras.layer import object_for
from netweave.keras.nets import Nets
from netweave.keras.network import Network
from netweave.keras.objective import Records, TrainingNet
from netweave.keras.optimizer_files import optimizer_arrays, updater_state
from netweave.keras.records import Given, given_records
from netweave.keras.state import next_seed
from netweave.keras.stepping import Stepper
from netweave.training.parallel.devices import as_contexts

if TYPE_CHECKING:
    from netweave.api.models.callbacks import Callbacks
    from netweave.api.models.events import History
    from netweave.job import Solver
    from netweave.keras.losses import Loss
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.trainer import Trainer


class ArrayOutputs:
    """Outputs of a net that are arrays already, as ``Measured`` asks for them."""

    def __init__(self, outputs: Mapping[str, np.ndarray]) -> None:
        self._outputs = outputs

    def array(self, name: str) -> np.ndarray:
        """Return an output."""
        return self._outputs[name]


class Prepared(Network, Fitted, ABC):
    """A network with its nets, what it measures, and how it is updated.

    Args:
        class_name: ``Functional`` or ``Sequential``.
        name: Its name.
        device: Where to compute, as torch names it.
    """

    def __init__(self, class_name: str, *, name: str, device: str) -> None:
        Network.__init__(self, class_name, name=name)
        Fitted.__init__(self, contexts=as_contexts(device))
        self._nets = Nets(self, self._device)
        self._compiled: Compiled | None = None
        self._losses: list[Loss | None] | None = None
        self._of_file: list[np.ndarray] = []
        self._stepper: Stepper | None = None
        self._measured: Measured | None = None
        self._measures_of: dict[TrainingNet, Measured] = {}
        self.history: History | None = None

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"model {self.name!r}"

    @property
    def net(self) -> TorchNet:
        """The net handle of the net that is trained; see ``TorchNet``.

        Raises:
            UsageError: No records were seen yet.
        """
        if self._nets.training is None:
            raise UsageError("the net is made for its records by fit or train_on_batch; call one first")
        return self._nets.to_train(self._nets.training)

    def _require_compiled(self) -> Compiled:
        if self._compiled is None:
            raise UsageError("the model is not compiled; call compile(optimizer, loss=...) first")
        return self._compiled

    @property
    def compiled_settings(self) -> Compiled:
        """The arguments of ``compile``.

        Raises:
            UsageError: It was not called.
        """
        return self._require_compiled()

    def _require_built(self, x: Any) -> None:
        """Find out the sizes of the input from records, where they are not known yet."""

    def _given(self, x: Any, y: Any, sample_weight: Any, class_weight: Any, batch_size: int | None) -> Given:
        self._require_built(x)
        return given_records(
            self,
            x,
            y,
            sample_weight=sample_weight,
            class_weight=class_weight,
            batch_size=batch_size,
            outputs=self.output_names,
        )

    def _batch(
        self, x: Any, y: Any, sample_weight: Any, class_weight: Any
    ) -> tuple[TrainingNet, dict[str, np.ndarray]]:
        """Return the model with its losses, and one batch by the names of inputs."""
        first: Any = x
        while isinstance(first, (Mapping, list, tuple)):
            first = next(iter(first.values())) if isinstance(first, Mapping) else first[0]
        given = self._given(x, y, sample_weight, class_weight, len(np.asarray(first)))
        training = self._prepare(given)
        return training, {
            name: np.asarray(part, np.float32)
            for name, part in zip(training.inputs, _whole(given), strict=True)
        }

    def _prepare(self, given: Given) -> TrainingNet:
        """Return the model with its losses for records of these parts."""
        compiled = self._require_compiled()
        shapes = [np.shape(part) for part in given.source.peek()]
        first = len(self.inputs)
        wanted = first + given.num_labels + sum(given.weighted)
        if len(shapes) != wanted:
            raise UsageError(f"a record has {len(shapes)} parts, expected {wanted}: inputs, labels, weights")
        weights = iter(shapes[first + given.num_labels :])
        records = Records(
            tuple(tuple(shape) for shape in shapes[first : first + given.num_labels]),
            tuple(tuple(next(weights)) if weighted else None for weighted in given.weighted),
        )
        if self._losses is None:
            self._losses = compiled.losses(self.output_names, [one.shape for one in self.outputs])
        factors = compiled.factors(self.output_names)
        return self._nets.prepare(self._losses, factors, records, compiled.optimizer.excluded)

    def _measure(self, training: TrainingNet) -> Measured:
        """Return what is measured, with what was measured before by the same losses."""
        if training not in self._measures_of:
            compiled = self._require_compiled()
            shapes = [one.shape for one in self.outputs]
            self._measures_of[training] = Measured(
                training.loss,
                training.losses,
                compiled.metrics_of(self.output_names, training.label_shapes, shapes),
                predictions=training.predictions,
                labels=training.labels,
                weights=training.weights,
                masks=training.masks,
            )
        self._measured = self._measures_of[training]
        return self._measured

    def _judged(
        self, training: TrainingNet, given: Given, steps: int | None, told: Callbacks
    ) -> dict[str, Any]:
        """Return what is measured over all records, or over some batches, in test mode."""
        net, measured = self._nets.to_judge(training), self._measure(training)
        measured.reset()
        told.tell_objects("on_test_begin", {})
        for number, batch in enumerate(batches(given.source, training.inputs, given.batch_size)):
            if steps is not None and number >= steps:
                break
            told.tell_objects("on_test_batch_begin", number, {})
            found = measured.take(ArrayOutputs(net.run(batch)), len(next(iter(batch.values()))))
            told.tell_objects("on_test_batch_end", number, found)
        found = measured.result()
        told.tell_objects("on_test_end", found)
        return found

    def _validation(
        self, data: Any, batch_size: int, steps: int | None, frequency: int | Sequence[int], told: Callbacks
    ) -> Callable[[int], Mapping[str, Any]] | None:
        """Return what judges after an epoch; it gives nothing where the epoch is not due."""
        if data is None:
            return None
        x, y, weights = (*data, None, None)[:3] if isinstance(data, (tuple, list)) else (data, None, None)
        given = self._given(x, y, weights, None, batch_size if y is not None else None)

        def validate(epoch: int) -> Mapping[str, Any]:
            number = epoch + 1
            due = number % frequency == 0 if isinstance(frequency, int) else number in frequency
            if not due:
                return {}
            training = self._prepare(given)  # a weight of its own makes another net
            return self._judged(training, given, steps, told)

        return validate

    def _constrained(self) -> list[Constrained]:
        """Return what brings arrays back into their constraints after each update."""
        rows = []
        for layer, variable in self.variables_by_key().values():
            found = object_for(layer, variable.spec, "constraint", constraints.get)
            if found is not None and layer.trainable:
                rows.append((variable, found))
        return [Constrained(rows)] if rows else []

    # The update rule.

    def _solver(self, compiled: Compiled) -> Solver:
        if type(compiled.optimizer).__name__ != "Adafactor":
            return compiled.optimizer.solver({})
        axes = {}
        for key, (_, variable) in self.variables_by_key().items():
            if len(variable.shape) > 1:
                axes[key] = _last_axes(key, variable)
        return compiled.optimizer.solver(axes)

    def _step_with(self, compiled: Compiled, training: TrainingNet) -> Stepper:
        """Return what updates by hand; it goes on from the last fit."""
        net = self._nets.to_train(training)
        self._use_file(compiled)
        solver = self._solver(compiled)
        if self._stepper is None or self._stepper.loss != training.loss or self._stepper.net is not net:
            self._leave_steps()
            before, state = self._updated or (None, None)
            assert self._nets.graph is not None
            self._stepper = Stepper(
                self._nets.graph,
                net,
                training.loss,
                solver,
                state=state if goes_on(before, solver) else None,
                seed=next_seed(),
            )
            self._use_policy(self._stepper.updater.policy)
        return self._stepper

    def _leave_steps(self) -> None:
        """Hand what steps by hand have kept over to whatever comes next."""
        if self._stepper is not None:
            self._updated = (self._stepper.solver, self._stepper.updater.state_dict())
            self._stepper = None

    def optimizer_variables(self) -> list[np.ndarray]:
        """Return what the optimizer keeps as Keras' files have it; nothing before the first update."""
        if self._of_file:
            return self._of_file
        self._leave_steps()
        compiled = self._require_compiled()
        before, state = self._updated or (None, None)
        if state is None or not goes_on(before, self._solver(compiled)):
            return []
        return optimizer_arrays(self, compiled.optimizer, state) or []

    def adopt_optimizer_variables(self, arrays: Sequence[np.ndarray]) -> None:
        """Go on from what ``optimizer_variables`` returned, here or in Keras, when training begins."""
        self._of_file = list(arrays)

    def _use_file(self, compiled: Compiled) -> None:
        """Give what a file holds of the optimizer to the net that is trained, once there is one."""
        arrays, self._of_file = self._of_file, []
        if not arrays:
            return
        assert self._nets.graph is not None
        assert self._nets.training is not None
        solver = self._solver(compiled)
        net = self._nets.to_train(self._nets.training)
        state = updater_state(
            self, compiled.optimizer, arrays, net=net, graph=self._nets.graph, solver=solver
        )
        self._updated = None if state is None else (solver, state)

    def _use_policy(self, policy: Any, *, resumed: bool = False) -> None:
        """Have the optimizer's ``learning_rate`` be that of a policy; a checkpoint's rate counts."""
        optimizer = self._require_compiled().optimizer
        if not resumed and hasattr(policy, "now"):
            policy.now = optimizer.learning_rate
        optimizer.policy_in_use = policy

    def _started(self, trainer: Trainer, *, resumed: bool) -> None:
        self._use_policy(trainer.updater.policy, resumed=resumed)
        self._nets.guard(trainer.program.wait_for_access)
        self.net.guard(trainer.program.wait_for_access)

    def _ended(self) -> None:
        optimizer = self._require_compiled().optimizer
        in_use = optimizer.policy_in_use
        optimizer.policy_in_use = None
        if in_use is not None and hasattr(in_use, "now"):
            optimizer.learning_rate = in_use.now
        self._nets.guard(None)


def _whole(given: Given) -> Sequence[np.ndarray]:
    parts = given.source.read_many(np.arange(len(given.source)))
    assert parts is not None, "one batch is arrays"
    return list(parts)


def _last_axes(key: str, variable: Any) -> tuple[int, int]:
    """Return where the last axis of an array, and the one before, are in the tensor that a net holds."""
    stored = variable.stored
    steps = () if stored is None else stored.steps
    axes = list(range(len(variable.shape)))
    for kind, numbers in steps:
        if kind != "transpose":
            raise UnsupportedError(
                f"{key}: Adafactor looks at the last two axes of an array, which this layer stores in "
                "another form; take another optimizer"
            )
        axes = [axes[at] for at in numbers]
    return axes.index(len(axes) - 1), axes.index(len(axes) - 2)
