"""Fitting of Keras's models."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import RunError, UnsupportedError, UsageError
from netweave.job import Solver
from netweave.keras import constraints, optimizers
from netweave.keras.callbacks.stopping import Constrained, Progress
from netweave.keras.compiling import Compiled, Measured
from netweave.keras.epochs import Callbacks, History
from netweave.keras.layer import Layer, Network, object_for
from netweave.keras.losses import Loss
from netweave.keras.nets import Nets
from netweave.keras.objective import Records, TrainingNet
from netweave.keras.older import OlderMethods, with_older_names
from netweave.keras.operation import names_of_training, next_seed
from netweave.keras.optimizer_files import optimizer_arrays, updater_state
from netweave.keras.records import Given, batches, by_name, given_records, split_off
from netweave.keras.running import FitConfig, Fitted, Stepper, goes_on
from netweave.training.loop import FitCheckpoints

if TYPE_CHECKING:
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
        Fitted.__init__(self, device)
        self._nets = Nets(self, self._device)
        self._compiled: Compiled | None = None
        self._losses: list[Loss | None] | None = None
        self._frozen: frozenset[Layer] | None = None
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

    def _given(
        self,
        x: Any,
        y: Any,
        sample_weight: Any,
        class_weight: Any,
        batch_size: int | None,
        *,
        once: bool = True,
    ) -> Given:
        self._require_built(x)
        return given_records(
            self,
            x,
            y,
            sample_weight=sample_weight,
            class_weight=class_weight,
            batch_size=batch_size,
            outputs=self.output_names,
            once=once,
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
        return self._nets.prepare(self._losses, factors, records, compiled.optimizer.excluded, self._frozen)

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
            values = measured.take(ArrayOutputs(net.run(batch)), len(next(iter(batch.values()))))
            told.tell_objects("on_test_batch_end", number, values)
        values = measured.result()
        told.tell_objects("on_test_end", values)
        return values

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
            return self._judged(training, given, steps or given.num_batches, told)

        return validate

    def _constrained(self) -> list[Constrained]:
        """Return what brings arrays back into their constraints after each update."""
        rows = []
        for layer, variable in self.variables_by_key().values():
            constraint = object_for(layer, variable.spec, "constraint", constraints.get)
            if constraint is not None and layer.trainable:
                rows.append((variable, constraint))
        return [Constrained(rows)] if rows else []

    def _fit_config(
        self, compiled: Compiled, given: Given, training: TrainingNet, *, shuffle: bool, seed: int | None
    ) -> FitConfig:
        """Return the settings of a fit on records, which goes on from the steps by hand and the file."""
        self._nets.to_train(training)
        assert self._nets.graph is not None
        self._leave_steps()
        self._use_file(compiled)
        return FitConfig(
            training=training,
            graph=self._nets.graph,
            solver=self._solver(compiled),
            batch_size=given.batch_size,
            shuffle=shuffle and not given.source.endless,
            last="wrap" if given.source.endless else "short",
            seed=next_seed() if seed is None else seed,
        )

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
        self._nets.guard(trainer.program.wait)
        self.net.guard(trainer.program.wait)

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


class FitNetwork(OlderMethods, Prepared):
    """A network that learns."""

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: Any = "auto",
        auto_scale_loss: bool = True,
    ) -> None:
        """Say how to train.

        Args:
            optimizer: A name, an optimizer, or a dictionary with a ``name`` and settings.
            loss: A name, a loss, a function of labels and predictions that uses ``netweave.keras.ops``; or a
                list or dictionary of them by output.
            loss_weights: Factors on the losses of several outputs.
            metrics: A list of names, metrics or functions; or lists by output.
            weighted_metrics: The same, for which the weights of records count.
            run_eagerly: Of no effect, as the three that follow: they say how Keras computes.
            steps_per_execution: Of no effect.
            jit_compile: Of no effect.
            auto_scale_loss: Of no effect.

        Raises:
            UsageError: A name is unknown, or a setting is.
        """
        made = optimizers.get(optimizer)
        if not isinstance(made, optimizers.Optimizer):
            raise UsageError(f"optimizer is {optimizer!r:.60}, expected a name or one of keras.optimizers")
        self._compiled = Compiled(made, loss, loss_weights, metrics, weighted_metrics)
        self._frozen = None  # of a model without sizes, what is frozen when it gets them
        if self._graph is not None:
            self._check_compiled(self._compiled)
            self._frozen = frozenset(
                layer for layer, _ in self.variables_by_key().values() if not layer.trainable
            )
        self._nets.forget()
        self._updated = self._stepper = self._measured = self._losses = None
        self._of_file = []
        self._measures_of.clear()

    def _check_compiled(self, compiled: Compiled) -> None:
        """Refuse unknown names when they are given, not when records are."""
        shapes = [tensor.shape for tensor in self.outputs]
        with names_of_training():
            compiled.losses(self.output_names, shapes)
            compiled.metrics_of(self.output_names, shapes, shapes)

    @property
    def compiled(self) -> bool:
        """True if ``compile`` was called."""
        return self._compiled is not None

    @property
    def optimizer(self) -> Any:
        """The optimizer.

        Raises:
            UsageError: ``compile`` was not called.
        """
        return self._require_compiled().optimizer

    @property
    def loss(self) -> Any:
        """The loss, as ``compile`` was told."""
        return None if self._compiled is None else self._compiled.loss

    @property
    def metrics(self) -> list[Any]:
        """The metrics of the last fit or evaluation."""
        return [] if self._measured is None else [metric for *_, metric in self._measured.metrics]

    @property
    def metrics_names(self) -> list[str]:
        """Names of what ``evaluate`` returns."""
        return ["loss"] if self._measured is None else ["loss", *(row[0] for row in self._measured.metrics)]

    def reset_metrics(self) -> None:
        """Forget what ``train_on_batch`` and ``test_on_batch`` have measured."""
        if self._measured is not None:
            self._measured.reset()

    @with_older_names
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | Sequence[int] = 1,
        *,
        seed: int | None = None,
        threads: int | None = None,
        checkpoint_prefix: str | Path | None = None,
        checkpoint_interval: int | None = None,
        keep: int | None = None,
        resume: bool | str | Path = False,
    ) -> History:
        """Train, and return what was measured; called again it goes on from where it was.

        Args:
            x: Arrays: one, a list, or by the names of inputs; or what yields batches (x, y); or a source.
            y: Labels, if ``x`` is arrays.
            batch_size: Records in a batch; 32 if ``x`` is arrays.
            epochs: Number of the last epoch, counted from 1.
            verbose: 0 prints nothing, 1 a bar for each epoch, 2 a line; ``auto`` is 1.
            callbacks: Objects of ``keras.callbacks``, or functions of ``BatchEnd`` and ``EpochEnd``.
            validation_split: Share of the arrays, their last records, to judge by after each epoch.
            validation_data: Records to judge by: (x, y), (x, y, sample_weight), or what yields batches.
            shuffle: Whether each epoch has an order of its own; what has no known end is not shuffled.
            class_weight: A weight for each class.
            sample_weight: A weight for each record.
            initial_epoch: Number of the first epoch, from 0.
            steps_per_epoch: Batches in an epoch.
            validation_steps: Batches to judge by; None for all.
            validation_batch_size: Records in a batch that is judged; as ``batch_size`` if None.
            validation_freq: So many epochs from one judgement to the next, or the epochs, from 1.
            seed: Of orders and dropout; None for the series of ``set_random_seed``, or a fresh one.
            threads: Of decoding; None to find the number by itself.
            checkpoint_prefix: Path that the names of checkpoints start with; None for none.
            checkpoint_interval: Updates between two checkpoints; None for one at the end of each epoch.
            keep: How many checkpoints are kept; the last three if nothing is said.
            resume: A checkpoint to go on from, bit for bit; True for the latest that is whole.

        Raises:
            SourceError: A record cannot be read.
            UsageError: ``compile`` was not called, or arrays do not fit.
            RunError: The loss is no number any more.
        """
        compiled = self._require_compiled()
        if validation_split and validation_data is None:
            (x, held_x), (y, held_y) = split_off(x, validation_split), split_off(y, validation_split)
            sample_weight, held_weight = split_off(sample_weight, validation_split)
            validation_data = (held_x, held_y, held_weight)
        given = self._given(x, y, sample_weight, class_weight, batch_size, once=False)
        training = self._prepare(given)
        config = self._fit_config(compiled, given, training, shuffle=shuffle, seed=seed)
        objects = _objects(callbacks)
        told = Callbacks(self, [*self._constrained(), *objects, Progress(verbose)])
        steps_per_epoch = steps_per_epoch or given.num_batches
        steps = steps_per_epoch or _num_batches(given)
        told.tell_objects("set_params", {"verbose": verbose, "epochs": epochs, "steps": steps})
        judged_size = validation_batch_size or given.batch_size
        validate = self._validation(validation_data, judged_size, validation_steps, validation_freq, told)
        self.history = self._run_told(
            told,
            objects,
            source=given.source,
            config=config,
            epochs=max(0, epochs - initial_epoch),
            steps_per_epoch=steps_per_epoch,
            measures=self._measure(training),
            validate=validate,
            threads=threads,
            checkpoints=FitCheckpoints(checkpoint_prefix, checkpoint_interval, keep, resume),
            initial_epoch=initial_epoch,
        )
        return self.history

    def _run_told(self, told: Callbacks, objects: Sequence[Any], **settings: Any) -> History:
        """Run a fit; one that ends by a loss that is no number ends well where a callback asks for that."""
        try:
            return self._run(callbacks=told, **settings)
        except RunError:
            ended = [one for one in objects if getattr(one, "ends_on_nan", False)]
            if not ended or self._record is None:
                raise
            for one in ended:
                one.stopped = True
            told.end()
            return History(tuple(self._record.epochs), settings["initial_epoch"])
        finally:
            self._ended()

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Return the loss and the metrics over all records: a list, one number where there are no metrics.

        Args:
            x: As for ``fit``, like all that follow.
            y: Labels.
            batch_size: Records in a batch.
            verbose: 0 prints nothing, 1 and 2 a line.
            sample_weight: A weight for each record.
            steps: Batches; None for all.
            callbacks: Told as for ``fit``.
            return_dict: Return a dictionary by name.

        Raises:
            UsageError: ``compile`` was not called, or arrays do not fit.
            SourceError: A record cannot be read.
        """
        self._require_compiled()
        given = self._given(x, y, sample_weight, None, batch_size)
        training = self._prepare(given)
        told = Callbacks(self, [*_objects(callbacks), Progress(verbose)])
        told.tell_objects("set_model", self)
        values = self._judged(training, given, steps or given.num_batches, told)
        return values if return_dict else _as_list(values)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Return the outputs for all records: an array, or a list of one for each output.

        Raises:
            UsageError: Arrays do not fit the inputs.
        """
        self._require_built(x)
        given = given_records(self, x, batch_size=batch_size, outputs=(), once=True)
        net = self._nets.to_predict()
        told = Callbacks(self, _objects(callbacks))
        told.tell_objects("on_predict_begin", {})
        rows = []
        for number, batch in enumerate(batches(given.source, self.input_names, given.batch_size)):
            if steps is not None and number >= steps:
                break
            told.tell_objects("on_predict_batch_begin", number, {})
            rows.append(net.run(batch))
            told.tell_objects("on_predict_batch_end", number, {"outputs": rows[-1]})
        told.tell_objects("on_predict_end", {})
        joined = [np.concatenate([row[name] for row in rows]) for name in net.names]
        return joined[0] if len(joined) == 1 else joined

    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for one batch."""
        self._require_built(x)
        arrays = by_name(x, self.input_names, "input")
        outputs = list(self._nets.to_predict().run(dict(zip(self.input_names, arrays, strict=True))).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Update once on one batch, and return its loss and metrics, as Keras 3.15 does.

        Raises:
            UsageError: ``compile`` was not called, or arrays do not fit.
        """
        compiled = self._require_compiled()
        training, arrays = self._batch(x, y, sample_weight, class_weight)
        stepper = self._step_with(compiled, training)
        measured = self._measure(training)
        measured.reset()
        outputs = stepper.step(arrays)
        for one in self._constrained():
            one.on_train_batch_end(0, {})
        values = measured.take(outputs, len(next(iter(arrays.values()))))
        return values if return_dict else _as_list(values)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Return the loss and the metrics of one batch.

        Raises:
            UsageError: ``compile`` was not called, or arrays do not fit.
        """
        self._require_compiled()
        training, arrays = self._batch(x, y, sample_weight, None)
        measured = self._measure(training)
        measured.reset()
        outputs = ArrayOutputs(self._nets.to_judge(training).run(arrays))
        values = measured.take(outputs, len(next(iter(arrays.values()))))
        return values if return_dict else _as_list(values)


def _objects(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]


def _num_batches(given: Any) -> int | None:
    return None if given.source.endless else -(-len(given.source) // given.batch_size)


def _as_list(found: Mapping[str, Any]) -> Any:
    """Return what Keras returns of measurements: a list, or the loss where it is alone."""
    values = list(found.values())
    return values[0] if len(values) == 1 else values
