"""What models have in common: one net, bound to sizes when they are known, and the one trainer."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.models.events import BatchEnd, EpochEnd, History
from netweave.api.models.records import as_source, batches, record_shapes
from netweave.api.nets import predicting
from netweave.api.training import need_torch, stopping
from netweave.engine import ThreadedEngine
from netweave.errors import UsageError
from netweave.job import Phase
from netweave.symbol.infer import to_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.api.models.events import Callback
    from netweave.backends.torch import TorchNet
    from netweave.data import Source
    from netweave.graph import Graph
    from netweave.symbol import Initializer, Symbol
    from netweave.symbol.training import Course, Trainable
    from netweave.training.events import Event
    from netweave.training.trainer import Trainer

_log = logging.getLogger("netweave.fit")


class Model:
    """A net that learns.

    Args:
        device: Where to compute, as torch names it.
    """

    def __init__(self, *, device: str = "cpu") -> None:
        self._device = device
        self._bound: tuple[Trainable, Graph, dict[str, str], list[str]] | None = None
        self._net: TorchNet | None = None
        self._predictor: TorchNet | None = None
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._updated: tuple[Any, dict[str, Any]] | None = None
        self._trainer: Trainer | None = None
        self._fits = 0

    @property
    def net(self) -> TorchNet:
        """The net handle: parameters and gradients by name, to be read and changed at any time.

        Raises:
            UsageError: The sizes of its inputs are not known yet.
        """
        if self._net is None:
            raise UsageError("the net has no arrays yet, its inputs no sizes; call bind or fit first")
        return self._net

    def stop(self) -> None:
        """Ask a fit, from one of its callbacks, to end after the present batch."""
        if self._trainer is not None:
            self._trainer.stop()

    def _make(
        self,
        trainable: Trainable,
        shapes: Mapping[str, Sequence[int]],
        *,
        initializer: Initializer | None = None,
        seed: int | None = None,
    ) -> None:
        """Make the net for these sizes; arrays that are there stay."""
        sizes = {name: tuple(shape[1:]) for name, shape in shapes.items()}
        if self._bound is not None and self._bound[0] is trainable and self._sizes == sizes:
            return
        need_torch()
        from netweave.backends.torch import TorchNet
        from netweave.backends.torch.device import find_device
        from netweave.training.nets import make_nets
        from netweave.training.trainer import DTYPES

        graph, measured, heads = trainable.graph(shapes)
        if self._net is None:
            phase = Phase(graph, losses=dict.fromkeys(heads, 1.0))
            first = {
                "initializer": initializer.filler if initializer else None,
                "seed": seed or 0,
                "device": find_device(self._device),
                "dtype": next(iter(DTYPES)),
            }
            self._net = make_nets({"train": phase}, **first)["train"]
        else:
            self._net = TorchNet(graph, taps=heads, store=self._net.store).to(self._device)
        self._bound = (trainable, graph, measured, heads)
        self._sizes = sizes
        self._predictor = None

    def _run(
        self,
        source: Source,
        course: Course,
        *,
        epochs: int,
        steps_per_epoch: int | None,
        judge: Source | None,
        loss: bool,
        callbacks: Sequence[Callback],
        threads: int | None,
    ) -> History:
        """Train over some epochs; the course's iterations are those of this run."""
        from netweave.training.trainer import Trainer

        assert self._bound is not None
        trainable, graph, measured, heads = self._bound
        count = steps_per_epoch or _batches(source, course.batch_size)
        before, state = self._updated or (None, None)
        go_on = state is not None and before == course.solver
        first = int(state["iteration"]) if go_on and state else 0
        job = replace(course, max_iterations=first + epochs * count).job(graph, trainable.inputs, heads)
        names = {value: name for name, value in measured.items()}
        rest = 0 if source.endless or course.last != "short" else len(source) % course.batch_size
        shape = _Epochs(first, count, course.batch_size, rest or course.batch_size)
        record = _Record(self, shape, names, judge, loss, callbacks)
        seed = None if course.seed is None else course.seed + self._fits
        with ThreadedEngine() as engine:
            self._trainer = Trainer(
                job,
                engine=engine,
                data={"train": {trainable.inputs[0]: source}},
                device=self._device,
                threads=threads,
                seed=seed,
                nets={"train": self.net},
                watch=record.watch,
            )
            try:
                if go_on and state:
                    self._trainer.load_solver_state(state)
                with stopping(self._trainer):
                    self._trainer.run()
                self._updated = (course.solver, self._trainer.updater.state_dict())
            finally:
                self._trainer.close()
                self._trainer = None
        self._fits += 1
        return History(tuple(record.epochs))

    def _judge(self, source: Source, batch_size: int, *, loss: bool) -> dict[str, float]:
        """Return the means of the metrics over all records, in test mode."""
        assert self._bound is not None
        trainable, _, measured, heads = self._bound
        wanted = {**({"loss": heads[0]} if loss else {}), **measured}
        totals, count = dict.fromkeys(wanted, 0.0), 0
        self.net.eval()
        for batch in batches(source, trainable.inputs, batch_size):
            size = len(next(iter(batch.values())))
            outputs = self.net.run(batch)
            for name, value in wanted.items():
                totals[name] += float(outputs[value].reshape(-1)[0]) * size
            count += size
        return {name: total / count for name, total in totals.items()}

    def _predict(self, symbol: Symbol, data: Any, inputs: Sequence[str], batch_size: int) -> Any:
        """Return the outputs of a symbol for all records: an array, or one for each output."""
        from netweave.backends.torch import TorchNet

        source = as_source(data, None, inputs)
        if self._predictor is None:
            shapes = record_shapes(source, inputs)
            graph = to_graph(symbol, {name: (batch_size, *shape) for name, shape in shapes.items()})
            self._predictor = TorchNet(predicting(graph), store=self.net.store).to(self._device).eval()
        found = [self._predictor.run(batch) for batch in batches(source, inputs, batch_size)]
        joined = [np.concatenate([row[name] for row in found]) for name in self._predictor.names]
        return joined[0] if len(joined) == 1 else joined


@dataclass(frozen=True, slots=True)
class _Epochs:
    """How updates make epochs.

    Attributes:
        first: Number of the first update.
        count: Batches in an epoch.
        batch_size: Records in a batch.
        last_size: Records in the last batch of an epoch.
    """

    first: int
    count: int
    batch_size: int
    last_size: int


class _Record:
    """Turns what the trainer tells into metrics, epochs and calls of callbacks."""

    def __init__(
        self,
        model: Model,
        shape: _Epochs,
        names: Mapping[str, str],
        judge: Source | None,
        loss: bool,
        callbacks: Sequence[Callback],
    ) -> None:
        self.epochs: list[dict[str, float]] = []
        self._model = model
        self._shape = shape
        self._names = names
        self._judge = judge
        self._loss = loss
        self._callbacks = callbacks
        self._sums: dict[str, float] = {}
        self._began = time.perf_counter()

    def watch(self, event: Event) -> None:
        """Take an event of the trainer."""
        from netweave.training.events import Updated

        if not isinstance(event, Updated):
            return
        epoch, batch = divmod(event.iteration - self._shape.first, self._shape.count)
        metrics = {"loss": event.loss} if self._loss else {}
        metrics |= {self._names[value]: numbers[0] for value, numbers in event.outputs.items()}
        size = self._shape.last_size if batch == self._shape.count - 1 else self._shape.batch_size
        for name, number in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + number * size
        self._tell(BatchEnd(epoch, batch, metrics))
        if batch == self._shape.count - 1:
            self._end(epoch)

    def _end(self, epoch: int) -> None:
        records = (self._shape.count - 1) * self._shape.batch_size + self._shape.last_size
        metrics = {name: total / records for name, total in self._sums.items()}
        if self._judge is not None:
            judged = self._model._judge(self._judge, self._shape.batch_size, loss=self._loss)
            metrics |= {f"val_{name}": number for name, number in judged.items()}
        seconds = time.perf_counter() - self._began
        self.epochs.append(metrics)
        shown = "  ".join(f"{name}={number:.6g}" for name, number in metrics.items())
        _log.info("epoch %d  %s  %.1f s", epoch, shown, seconds)
        self._tell(EpochEnd(epoch, metrics, seconds))
        self._sums, self._began = {}, time.perf_counter()

    def _tell(self, event: BatchEnd | EpochEnd) -> None:
        for callback in self._callbacks:
            callback(event)


def _batches(source: Source, batch_size: int) -> int:
    if source.endless:
        raise UsageError(f"{source.place}: its end is not known; say how many batches an epoch has")
    return -(-len(source) // batch_size)
