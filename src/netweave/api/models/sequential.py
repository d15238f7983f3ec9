"""Layers in a row, in the manner of Keras."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.models.callbacks import Callbacks
from netweave.api.models.model import Model
from netweave.api.models.records import as_source, record_shapes
from netweave.api.models.resuming import FitCheckpoints
from netweave.errors import UsageError
from netweave.graph.summary import layer_summaries
from netweave.parallel.devices import as_contexts
from netweave.symbol import NameManager, Variable
from netweave.symbol.infer import to_graph
from netweave.symbol.metrics import find_metric
from netweave.symbol.objectives import find_objective
from netweave.symbol.symbol import operator_function
from netweave.symbol.training import FitConfig, TrainingGraph, mxnet_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from netweave.api.models.callbacks import KerasCallback
    from netweave.api.models.events import Callback, History
    from netweave.graph import Graph
    from netweave.job import Solver
    from netweave.symbol import Symbol
    from netweave.symbol.layers import Layer

    Metric = str | Callable[[Symbol, Symbol], Symbol]

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("sgd", {"learning_rate": 0.01, "momentum": 0.0}),
    "nesterov": ("nag", {"learning_rate": 0.01, "momentum": 0.9}),
    "adam": ("adam", {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}),
    "rmsprop": ("rmsprop", {"learning_rate": 0.001, "gamma1": 0.9, "epsilon": 1e-7}),
}
"""Keras's optimizers as MXNet's of the same formula, with Keras's defaults."""

SETTINGS = {"beta_1": "beta1", "beta_2": "beta2", "rho": "gamma1", "clipvalue": "clip_gradient"}
"""Keras's names of their settings, and MXNet's."""

CLASSES = frozenset({"sparse_categorical_crossentropy"})
"""Losses whose label is one whole number for each record."""


class Sequential(Model):
    """Layers in a row; see ``netweave.symbol.layers``. Images are (channels, height, width).

    >>> model = Sequential([Dense(64, "relu"), Dense(10, "softmax")])               # doctest: +SKIP
    >>> model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])  # doctest: +SKIP
    >>> model.fit(images, labels, epochs=5, validation_split=0.2)                   # doctest: +SKIP

    Args:
        layers: The layers.
        name: Name of the net.
        device: Where to compute, as torch names it.
    """

    def __init__(
        self, layers: Sequence[Layer] = (), *, name: str = "sequential", device: str = "cpu"
    ) -> None:
        super().__init__(contexts=as_contexts(device))
        self.name = name
        self.layers = list(layers)
        self._symbol: Symbol | None = None
        self._trained: TrainingGraph | None = None
        self._solver: Solver | None = None
        self._has_classes = False

    def add(self, layer: Layer) -> None:
        """Put a layer at the end.

        Raises:
            UsageError: The net has arrays already.
        """
        if self._net is not None:
            raise UsageError("a layer cannot be added: the net already has arrays; create another Sequential")
        self.layers.append(layer)
        self._symbol = None

    @property
    def symbol(self) -> Symbol:
        """The net as a symbol, from the input ``data``.

        Raises:
            UsageError: There are no layers, or one has a wrong setting.
        """
        if not self.layers:
            raise UsageError("a Sequential without layers; add one")
        if self._symbol is None:
            with NameManager():
                x = Variable("data")
                for layer in self.layers:
                    x = layer(x)
            self._symbol = x
        return self._symbol

    def compile(
        self,
        optimizer: str | Mapping[str, Any] = "rmsprop",
        *,
        loss: Metric,
        metrics: Sequence[Metric] = (),
    ) -> None:
        """Say how to train.

        Args:
            optimizer: ``sgd``, ``nesterov``, ``adam`` or ``rmsprop``; or a mapping with its ``name`` and
                settings by Keras's names.
            loss: Keras's name, or a function of prediction and label to a symbol of one number.
            metrics: Names, or functions likewise.

        Raises:
            UsageError: One of them is unknown.
        """
        objective = find_objective(loss) if isinstance(loss, str) else loss
        label = Variable("label")
        target = operator_function("Reshape")(label, shape=(-1,)) if loss in CLASSES else label
        head = operator_function("make_loss")(objective(self.symbol, target), name="objective")
        measured = {
            metric if isinstance(metric, str) else metric.__name__: (
                find_metric(metric) if isinstance(metric, str) else metric
            )(self.symbol, target)
            for metric in metrics
        }
        self._trained = TrainingGraph(head, ("data", "label"), measured)
        self._solver = _solver(optimizer)
        self._has_classes = loss in CLASSES

    def bind(self, input_shape: Sequence[int] | None = None, *, seed: int | None = None) -> Sequential:
        """Make the net for records of some size, with first values; ``fit`` does it by itself.

        Args:
            input_shape: Sizes of one record; by default the ``input_shape`` of the first layer.
            seed: Of what is drawn; None for a fresh one.

        Raises:
            UsageError: ``compile`` was not called, the sizes are not given, or torch is not installed.
        """
        trained, _ = self._compiled()
        data = (1, *self._record_sizes(input_shape))
        output = tuple(size or 1 for size in self.symbol.infer_shape(data=data)[1][0])
        label = output[:1] if self._has_classes else output
        self._make(
            trained, {"data": data, "label": label}, seed=secrets.randbits(31) if seed is None else seed
        )
        return self

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        epochs: int = 1,
        validation_data: Any = None,
        validation_split: float = 0.0,
        shuffle: bool = True,
        callbacks: Sequence[Callback | KerasCallback] = (),
        steps_per_epoch: int | None = None,
        seed: int | None = None,
        threads: int | None = None,
        checkpoint_prefix: str | Path | None = None,
        checkpoint_interval: int | None = None,
        keep: int | None = None,
        resume: bool | str | Path = False,
    ) -> History:
        """Train, and return what was measured; called again it goes on from where it was.

        Args:
            x: An array of all records, a ``data.Source``, or an object with ``len`` and ``[]``, or an
                iterable, of records (data, label).
            y: An array of all labels, if ``x`` is an array.
            batch_size: Records in a batch.
            epochs: Times that all records are gone through.
            validation_data: Records to judge by after each epoch: a pair of arrays, or as ``x``.
            validation_split: Share of the arrays, their last records, to judge by instead.
            shuffle: Whether each epoch has an order of its own; what has no known end is not shuffled.
            callbacks: Told of each batch and epoch: functions of ``BatchEnd`` and ``EpochEnd``, or objects
                with Keras's methods (``EarlyStopping``).
            steps_per_epoch: Batches in an epoch, of records without a known end.
            seed: Of everything that is drawn; None for a fresh one.
            threads: Of decoding; None to find the number by itself.
            checkpoint_prefix: Path that the names of checkpoints start with; None for none.
            checkpoint_interval: Updates between two checkpoints; None for one at the end of each epoch.
            keep: How many checkpoints are kept; the last three if nothing is said.
            resume: A checkpoint to go on from, bit for bit; True for the latest that is whole. Records,
                batch size and optimizer are to be given again.

        Raises:
            SourceError: A record cannot be read, or sizes do not fit.
            UsageError: ``compile`` was not called, or arrays do not fit; torch is not installed.
            RunError: The loss is no number any more.
        """
        trained, solver = self._compiled()
        if validation_split:
            x, y, validation_data = _split(x, y, validation_split)
        source = as_source(x, y, trained.inputs)
        shapes = {name: (batch_size, *s) for name, s in record_shapes(source, trained.inputs).items()}
        self._make(trained, shapes, seed=secrets.randbits(31) if seed is None else seed)
        config = FitConfig(
            batch_size=batch_size,
            max_iterations=0,
            solver=solver,
            shuffle=shuffle and not source.endless,
            last="wrap" if source.endless else "short",
            seed=seed,
        )
        return self._run(
            source,
            config,
            epochs=epochs,
            steps_per_epoch=steps_per_epoch,
            judge=None if validation_data is None else as_source(validation_data, None, trained.inputs),
            loss=True,
            callbacks=Callbacks(self, callbacks),
            threads=threads,
            checkpoints=FitCheckpoints(checkpoint_prefix, checkpoint_interval, keep, resume),
        )

    def evaluate(self, x: Any, y: Any = None, *, batch_size: int = 32) -> dict[str, float]:
        """Return the loss and the metrics over all records, in test mode.

        Raises:
            UsageError: ``compile`` or ``fit`` was not called, or arrays do not fit.
            SourceError: A record cannot be read.
        """
        trained, _ = self._compiled()
        source = as_source(x, y, trained.inputs)
        _ = self.net
        shapes = {name: (batch_size, *s) for name, s in record_shapes(source, trained.inputs).items()}
        self._make(trained, shapes)
        return self._judge(source, batch_size, loss=True)

    def predict(self, x: Any, *, batch_size: int = 32) -> np.ndarray:
        """Return the output for all records.

        Raises:
            UsageError: The net has no arrays yet.
            SourceError: A record cannot be read.
        """
        found: np.ndarray = self._predict(self.symbol, x, ("data",), batch_size)
        return found

    def graph(self, input_shape: Sequence[int] | None = None) -> Graph:
        """Return the net as a Graph, without weights.

        Args:
            input_shape: Sizes of one record; by default the ``input_shape`` of the first layer.

        Raises:
            UsageError: The sizes are not given.
        """
        return to_graph(self.symbol, {"data": (1, *self._record_sizes(input_shape))}, title=self.name)

    def summary(self, input_shape: Sequence[int] | None = None) -> str:
        """Return a table of the layers with sizes and numbers of parameters, to be printed.

        Raises:
            UsageError: The sizes are not given; see ``graph``.
        """
        graph = self.graph(input_shape)
        rows = [("layer", "type", "output", "parameters")]
        for row in layer_summaries(graph):
            output = str(row.outputs[0]) if row.outputs else ""
            rows.append((row.layer.name, row.layer.type, output, f"{row.cost.parameters:,}"))
        rows.append(("", "", "", f"{graph.num_parameters:,}"))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            "  ".join(
                [
                    *(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)),
                    row[3].rjust(widths[3]),
                ]
            ).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def _record_sizes(self, given: Sequence[int] | None) -> Sequence[int]:
        sizes = given or (self.layers[0].input_shape if self.layers else None)
        if sizes is None:
            raise UsageError("the shape of a record is unknown; give the first layer an input_shape")
        return sizes

    def _compiled(self) -> tuple[TrainingGraph, Solver]:
        if self._trained is None or self._solver is None:
            raise UsageError("the model is not compiled; call compile(optimizer, loss=...) first")
        return self._trained, self._solver


def _solver(optimizer: str | Mapping[str, Any]) -> Solver:
    given = {"name": optimizer} if isinstance(optimizer, str) else dict(optimizer)
    name = str(given.pop("name", "")).lower()
    if name not in OPTIMIZERS:
        raise UsageError(f"unknown optimizer {name!r}; expected one of {', '.join(OPTIMIZERS)}")
    kind, defaults = OPTIMIZERS[name]
    settings = {SETTINGS.get(key, key): value for key, value in given.items()}
    return mxnet_solver(kind, {**defaults, **settings}, rescale_grad=1.0)


def _split(x: Any, y: Any, share: float) -> tuple[Any, Any, tuple[Any, Any]]:
    if not isinstance(x, np.ndarray) or y is None or not 0 < share < 1:
        raise UsageError(
            f"validation_split={share} needs arrays of records and labels, and a fraction between 0 and 1"
        )
    labels, kept = np.asarray(y), int(len(x) * (1 - share))
    return x[:kept], labels[:kept], (x[kept:], labels[kept:])
