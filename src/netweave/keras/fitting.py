"""Models that learn, in Keras' manner: ``compile``, ``fit``, ``evaluate``, ``predict`` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.models.callbacks import Callbacks
from netweave.api.models.events import History
from netweave.api.models.records import batches
from netweave.api.models.resuming import FitCheckpoints
from netweave.errors import RunError, UsageError
from netweave.formats.mxnet.symbol.training import FitConfig
from netweave.keras import optimizers
from netweave.keras.callbacks.progress import Progress
from netweave.keras.compiling import Compiled
from netweave.keras.preparing import ArrayOutputs, Prepared
from netweave.keras.records import by_name, given_records, split_off
from netweave.keras.state import names_of_training, next_seed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class FitNetwork(Prepared):
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
        if self._graph is not None:
            self._check_compiled(self._compiled)
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
        given = self._given(x, y, sample_weight, class_weight, batch_size)
        training = self._prepare(given)
        self._net = self._nets.to_train(training)
        assert self._nets.graph is not None
        self._bound = (training, self._nets.graph, {}, [training.loss])
        self._leave_steps()
        self._use_file(compiled)
        solver = self._solver(compiled)
        config = FitConfig(
            batch_size=given.batch_size,
            max_iterations=0,
            solver=solver,
            shuffle=shuffle and not given.source.endless,
            last="wrap" if given.source.endless else "short",
            seed=next_seed() if seed is None else seed,
        )
        objects = _objects(callbacks)
        told = Callbacks(self, [*self._constrained(), *objects, Progress(verbose)])
        steps = steps_per_epoch or _num_batches(given)
        told.tell_objects("set_params", {"verbose": verbose, "epochs": epochs, "steps": steps})
        self.history = self._run_told(
            told,
            objects,
            source=given.source,
            config=config,
            epochs=max(0, epochs - initial_epoch),
            steps_per_epoch=steps_per_epoch,
            measures=self._measure(training),
            validate=self._validation(
                validation_data,
                validation_batch_size or given.batch_size,
                validation_steps,
                validation_freq,
                told,
            ),
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
        found = self._judged(training, given, steps, told)
        return found if return_dict else _as_list(found)

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
        given = given_records(self, x, batch_size=batch_size, outputs=())
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
        found = list(self._nets.to_predict().run(dict(zip(self.input_names, arrays, strict=True))).values())
        return found[0] if len(found) == 1 else found

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
        found = measured.take(outputs, len(next(iter(arrays.values()))))
        return found if return_dict else _as_list(found)

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
        found = measured.take(outputs, len(next(iter(arrays.values()))))
        return found if return_dict else _as_list(found)


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
