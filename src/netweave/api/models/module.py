"""Fitting a symbol, in the manner of MXNet's Module."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.models.model import Model, store_for
from netweave.api.models.records import Callbacks, as_source, batches, record_shapes
from netweave.api.reading import to_inference
from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.shapes import to_graph
from netweave.formats.mxnet.symbol.training import FitConfig, TrainingGraph, find_metric, mxnet_solver
from netweave.training.loop import FitCheckpoints
from netweave.training.parallel.devices import as_contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from netweave.api.models.events import Callback, History
    from netweave.api.models.monitoring import BatchMonitor
    from netweave.api.models.records import BatchEndCallback, EpochEndCallback, KerasCallback
    from netweave.formats.mxnet.symbol import Initializer, Symbol
    from netweave.training.monitor import Monitor
    from netweave.training.parallel.devices import Context
    from netweave.training.parallel.kvstore import KVStore

    Metric = str | Callable[[Symbol, Symbol], Symbol]


class Module(Model):
    """A symbol with its arrays.

    The rules are those of MXNet 1.9's ``Module.fit``: gradients are divided by the batch size, weight decay
    is for weights and gammas, arrays are first drawn by their names, the last batch of an epoch is filled
    up with its first records.

    >>> module = Module(net)                                                        # doctest: +SKIP
    >>> module.fit(images, labels, num_epoch=5, batch_size=64)["accuracy"]          # doctest: +SKIP
    >>> module.score(images, labels)                                                # doctest: +SKIP

    Args:
        symbol: The net; its outputs have gradients of their own (``SoftmaxOutput``, ``MakeLoss``, ...) or are
            to be made small.
        data_names: Inputs that are data, in the order of the parts of a record.
        label_names: Inputs that are labels; None for those whose names end in ``label``.
        device: Where to compute, as torch names it.
        context: Where to compute, as MXNet has it: ``cpu()``, ``gpu(0)``, or a list of several, such as
            ``[cpu(0), cpu(1)]``, which split each batch.
        compression_params: Compression of what contexts and workers push to the store, as MXNet has it:
            ``{"type": "2bit", "threshold": 0.5}``.

    Raises:
        UsageError: The symbol has no such argument, or a device is named twice.
    """

    def __init__(
        self,
        symbol: Symbol,
        *,
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] | None = None,
        device: str | None = None,
        context: Context | str | Sequence[Context | str] | None = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        if device is not None and context is not None:
            raise UsageError("device and context both say where to compute; give only one")
        contexts = as_contexts(context if context is not None else device or "cpu")
        super().__init__(contexts=contexts, compression=compression_params)
        arguments = symbol.list_arguments()
        labels = [name for name in arguments if name.endswith("label")]
        self._symbol = symbol
        self._training_graphs: dict[tuple[Metric, ...], TrainingGraph] = {}
        self.data_names = tuple(data_names)
        self.label_names = tuple(labels if label_names is None else label_names)
        missing = [name for name in (*data_names, *(label_names or ())) if name not in arguments]
        if missing:
            raise UsageError(f"the symbol has no argument {missing[0]!r}; it has: {', '.join(arguments)}")

    @property
    def symbol(self) -> Symbol:
        """The net."""
        return self._symbol

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self._symbol.name or "net"

    def parameters_for_callbacks(self) -> tuple[Any, Any, Any]:
        """Return the symbol, the learnt arrays and the states."""
        return (self._symbol, *self.get_params())

    def get_params(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return copies of all arrays: those that are learnt, and the auxiliary states."""
        states = set(self.symbol.list_auxiliary_states())
        arrays = {key: np.array(tensor.detach().cpu().numpy()) for key, tensor in self.net.params.items()}
        learnt = {key: array for key, array in arrays.items() if key not in states}
        return learnt, {key: array for key, array in arrays.items() if key in states}

    def bind(
        self,
        *,
        initializer: Initializer | None = None,
        eval_metric: Metric | Sequence[Metric] = (),
        seed: int | None = None,
        **shapes: Sequence[int],
    ) -> Module:
        """Make the net for some sizes, with first values; ``fit`` does it by itself.

        Args:
            initializer: For weights that have no rule of their own; None for MXNet's own, Uniform(0.01).
            eval_metric: What is to be measured.
            seed: Of what is drawn; None for a fresh one.
            shapes: Sizes of data and labels by name, batch size first.

        Raises:
            SourceError: Sizes do not fit.
            UsageError: A metric is unknown, or torch is not installed.
        """
        drawn = secrets.randbits(31) if seed is None else seed
        self._make(self._training_graph(eval_metric), shapes, initializer=initializer, seed=drawn)
        return self

    def fit(
        self,
        data: Any,
        labels: Any = None,
        *,
        num_epoch: int,
        batch_size: int = 128,
        optimizer: str = "sgd",
        optimizer_params: Mapping[str, Any] | None = None,
        initializer: Initializer | None = None,
        arg_params: Mapping[str, np.ndarray] | None = None,
        aux_params: Mapping[str, np.ndarray] | None = None,
        eval_data: Any = None,
        eval_metric: Metric | Sequence[Metric] = "accuracy",
        callbacks: Sequence[Callback | KerasCallback] = (),
        batch_end_callback: BatchEndCallback | Sequence[BatchEndCallback] | None = None,
        epoch_end_callback: EpochEndCallback | Sequence[EpochEndCallback] | None = None,
        monitor: Monitor | BatchMonitor | None = None,
        kvstore: str | KVStore | None = "local",
        sync_batch_norm: bool = False,
        shuffle: bool = False,
        steps_per_epoch: int | None = None,
        seed: int | None = None,
        threads: int | None = None,
        checkpoint_prefix: str | Path | None = None,
        checkpoint_interval: int | None = None,
        keep: int | None = None,
        resume: bool | str | Path = False,
    ) -> History:
        """Train and return the history; a further call continues from the current state.

        Args:
            data: An array of all records, several by input, a ``data.Source``, or an object with ``len`` and
                ``[]``, or an iterable, of records (data, label).
            labels: An array of all labels, if ``data`` is an array.
            num_epoch: Number of passes over all records.
            batch_size: Records in a batch.
            optimizer: MXNet's name: ``sgd``, ``nag``, ``adam``, ...
            optimizer_params: Its settings by MXNet's names; see ``mxnet_solver``.
            initializer: For weights that have no rule of their own; None for MXNet's own, Uniform(0.01).
            arg_params: Arrays to start from, by name.
            aux_params: The same of auxiliary states.
            eval_data: Records to evaluate on after each epoch, as ``data``, or a pair of arrays.
            eval_metric: Names of metrics, or functions of prediction and label to a symbol of one number.
            callbacks: Called for each batch and epoch: functions of ``BatchEnd`` and ``EpochEnd``, or objects
                with Keras's methods (``EarlyStopping``).
            batch_end_callback: MXNet's, called for each batch with a ``BatchEndParam``.
            epoch_end_callback: MXNet's, called for each epoch with (epoch, symbol, arg_params, aux_params).
            monitor: Values to look at: a ``netweave.training.Monitor``, whose statistics are logged, or an
                object with the methods of MXNet's Monitor (``install``, ``tic``, ``toc_print``).
            kvstore: What sums the gradients of several contexts: ``local`` or ``device``; ``dist_sync`` sums
                those of all workers too, processes that ``torchrun`` started, each with records of its own.
                Or a store that ``netweave.kvstore.create`` made.
            sync_batch_norm: Whether batch normalisation takes the statistics of the batches of all contexts
                together; as MXNet, each context takes its own by default.
            shuffle: Whether to shuffle the records in each epoch.
            steps_per_epoch: Number of batches in an epoch, if the records have no known end.
            seed: Random seed; None for a fresh one.
            threads: Number of decoder threads; None to choose it automatically.
            checkpoint_prefix: Path that the names of checkpoints start with; None to write none.
            checkpoint_interval: Updates between two checkpoints; None for one at the end of each epoch.
            keep: Number of checkpoints to keep; 3 by default.
            resume: A checkpoint to resume from, bit for bit; True for the latest complete one. Pass the same
                records, batch size and optimizer again.

        Raises:
            SourceError: A record cannot be read, or sizes do not fit.
            UsageError: An optimizer, a metric or an array is unknown or wrong; torch is not installed.
            RunError: The loss became NaN or infinite.
        """
        inputs = (*self.data_names, *self.label_names)
        source = as_source(data, labels, inputs)
        shapes = {name: (batch_size, *shape) for name, shape in record_shapes(source, inputs).items()}
        self.bind(initializer=initializer, eval_metric=eval_metric, seed=seed, **shapes)
        self.set_params(arg_params or {}, aux_params or {})
        store = store_for(kvstore, len(self._contexts), self._compression)
        whole_batch = batch_size * (1 if store is None else store.num_workers)
        settings = dict(optimizer_params or {})
        config = FitConfig(
            batch_size=batch_size,
            max_iterations=0,
            solver=mxnet_solver(optimizer, settings, rescale_grad=1.0 / whole_batch),
            shuffle=shuffle,
            last="wrap" if source.endless else "pad",
            seed=seed,
        )
        told = Callbacks(self, callbacks, batch_end=batch_end_callback, epoch_end=epoch_end_callback)
        owned = store if store is not None and store is not kvstore else nullcontext()
        with owned:
            return self._run(
                source,
                config,
                epochs=num_epoch,
                steps_per_epoch=steps_per_epoch,
                measures=self._measures(),
                validate=self._validation(eval_data, inputs, batch_size),
                callbacks=told,
                threads=threads,
                checkpoints=FitCheckpoints(checkpoint_prefix, checkpoint_interval, keep, resume),
                store=store,
                sync_batch_norm=sync_batch_norm,
                monitor=monitor,
            )

    def _validation(
        self, data: Any, inputs: Sequence[str], batch_size: int
    ) -> Callable[[int], Mapping[str, float]] | None:
        if data is None:
            return None
        source = as_source(data, None, inputs)
        return lambda epoch: self._judge(source, batch_size)

    def score(
        self,
        data: Any,
        labels: Any = None,
        *,
        eval_metric: Metric | Sequence[Metric] = "accuracy",
        batch_size: int = 128,
    ) -> dict[str, float]:
        """Return the metrics over all records, in test mode.

        Raises:
            UsageError: A metric is unknown, or the net has no arrays yet.
            SourceError: A record cannot be read.
        """
        inputs = (*self.data_names, *self.label_names)
        source = as_source(data, labels, inputs)
        shapes = {name: (batch_size, *shape) for name, shape in record_shapes(source, inputs).items()}
        _ = self.net
        self._make(self._training_graph(eval_metric), shapes)
        return self._judge(source, batch_size)

    def predict(self, data: Any, *, batch_size: int = 128) -> Any:
        """Return the outputs for all records: an array, or a list of one for each output.

        Raises:
            UsageError: The net has no arrays yet.
            SourceError: A record cannot be read.
        """
        return self._predict(self.symbol, data, self.data_names, batch_size)

    def set_params(
        self, arg_params: Mapping[str, np.ndarray], aux_params: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Replace some arrays.

        Raises:
            UsageError: The net has no such array, or one of other sizes.
        """
        params = self.net.params
        for key, array in {**arg_params, **(aux_params or {})}.items():
            if key not in params:
                raise UsageError(f"the net has no array {key!r}; it has: {', '.join(params)}")
            wanted, given = tuple(params[key].shape), np.shape(array)
            if wanted != given:
                raise UsageError(f"array {key!r} has the shape {given}, expected {wanted}")
            params[key] = params[key].new_tensor(np.asarray(array))

    def _training_graph(self, metrics: Metric | Sequence[Metric]) -> TrainingGraph:
        wanted = (metrics,) if isinstance(metrics, str) or callable(metrics) else tuple(metrics)
        if wanted in self._training_graphs:
            return self._training_graphs[wanted]
        pairs = list(zip(self.symbol, self._labels(), strict=False))
        metric_symbols: dict[str, Symbol] = {}
        for metric in wanted:
            function = find_metric(metric) if isinstance(metric, str) else metric
            name = metric if isinstance(metric, str) else metric.__name__
            for number, (prediction, label) in enumerate(pairs):
                metric_symbols[name if len(pairs) == 1 else f"{name}_{number}"] = function(prediction, label)
        made = TrainingGraph(self.symbol, (*self.data_names, *self.label_names), metric_symbols)
        return self._training_graphs.setdefault(wanted, made)

    def _labels(self) -> list[Symbol]:
        internals = self.symbol.get_internals()
        return [internals[name] for name in self.label_names]

    def _predict(self, symbol: Symbol, data: Any, inputs: Sequence[str], batch_size: int) -> Any:
        """Return the outputs of a symbol for all records: an array, or one for each output."""
        from netweave.runtime.backends.torch import TorchNet
        from netweave.runtime.backends.torch.node_memory import memories

        source = as_source(data, None, inputs)
        if self._predictor is None:
            shapes = record_shapes(source, inputs)
            graph = to_graph(symbol, {name: (batch_size, *shape) for name, shape in shapes.items()})
            self._predictor = TorchNet(to_inference(graph), store=self.net.store).to(self._device).eval()
        for name, memory in memories(self.net.module).items():
            if hasattr(self._predictor.module, name):  # what the operators of the net keep by now
                setattr(self._predictor.module, name, memory)
        batch_outputs = [self._predictor.run(batch) for batch in batches(source, inputs, batch_size)]
        joined = [np.concatenate([row[name] for row in batch_outputs]) for name in self._predictor.names]
        return joined[0] if len(joined) == 1 else joined
