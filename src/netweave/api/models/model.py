"""Models as Keras and MXNet use them."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from netweave.api import kvstore
from netweave.api.models.epochs import EpochRecord, Epochs, MeanMeasures
from netweave.api.models.events import History
from netweave.api.models.monitoring import look_of
from netweave.api.models.records import batches
from netweave.api.runs import need_torch, stopping
from netweave.errors import UnsupportedError, UsageError
from netweave.job import Checkpoints, Phase
from netweave.runtime.engine import ThreadedEngine
from netweave.training.parallel.devices import Context
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from netweave.api.models.epochs import Measures
    from netweave.api.models.monitoring import BatchMonitor
    from netweave.api.models.records import Callbacks
    from netweave.formats.mxnet.symbol import Initializer
    from netweave.formats.mxnet.symbol.training import FitConfig
    from netweave.graph import Graph
    from netweave.job import Solver
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training import Checkpoint
    from netweave.training.data import Source
    from netweave.training.devices import SeveralDevices
    from netweave.training.loop import FitCheckpoints
    from netweave.training.monitor import Monitor
    from netweave.training.parallel.kvstore import KVStore
    from netweave.training.trainer import Trainer


def store_for(
    asked: str | KVStore | None, num_contexts: int, compression: Mapping[str, Any]
) -> KVStore | None:
    """Return the store of a fit; None where one device needs none (``_create_kvstore`` of MXNet 1.9.1).

    Args:
        asked: A kind of store, or a fresh store.
        num_contexts: Devices of this process.
        compression: Settings of gradient compression; empty for none.

    Raises:
        UsageError: There is no such kind, several devices have no store, or the store cannot compress.
    """
    if asked is None:
        if num_contexts > 1:
            raise UsageError(
                "kvstore=None would train each context by itself; give kvstore='local' or 'device', which "
                "sum their gradients"
            )
        return None
    if isinstance(asked, str):
        if num_contexts == 1 and "dist" not in asked:
            return None
        store = kvstore.create(asked)
    else:
        store = asked
    if compression:
        store.set_gradient_compression(compression)
    return store


def checkpoints_of(store: KVStore | None, checkpoints: Checkpoints) -> Checkpoints:
    """Return the checkpoints that this worker takes part in: the first writes those of all.

    Raises:
        UsageError: Each worker has residuals to put into them, and not all of them are to do so.
    """
    if store is None or store.num_workers == 1:
        return checkpoints
    if store.is_compressed:
        due = [checkpoints.interval, checkpoints.at_end]
        store.require_equal(
            due,
            "checkpoint interval and end",
            "each worker keeps residuals of gradient compression: give all the same checkpoint_prefix and "
            "checkpoint_interval",
        )
        return checkpoints
    return checkpoints if store.rank == 0 else Checkpoints(at_end=False)


class Trainable(Protocol):
    """A net with what is made small: a symbol with its metrics, or a model of Keras with its losses."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that records have parts for, in their order."""

    def graph(self, shapes: Mapping[str, Sequence[int]]) -> tuple[Graph, dict[str, str], list[str]]:
        """Return the Graph, the values of its metrics by name, and the values to sum."""


class Model(ABC):
    """A net that learns.

    Args:
        contexts: The devices that share each batch.
        compression: Settings of the key-value store's gradient compression; none for no compression.
    """

    def __init__(
        self,
        *,
        contexts: tuple[Context, ...] = (Context("cpu"),),
        compression: Mapping[str, Any] | None = None,
    ) -> None:
        self._contexts = contexts
        self._compression = dict(compression or {})
        self._device = contexts[0].torch_name
        self._bound: tuple[Trainable, Graph, dict[str, str], list[str]] | None = None
        self._net: TorchNet | None = None
        self._predictor: TorchNet | None = None
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._updated: tuple[Any, dict[str, Any]] | None = None
        self._trainer: Trainer | None = None
        self._fits = 0
        self._stopped = False
        self._record: EpochRecord | None = None

    @property
    def net(self) -> TorchNet:
        """The net handle: parameters and gradients by name, to be read and changed at any time.

        Raises:
            UsageError: The sizes of its inputs are not known yet.
        """
        if self._net is None:
            raise UsageError("the net is not bound to input sizes yet; call bind or fit first")
        return self._net

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name in messages."""

    def parameters_for_callbacks(self) -> tuple[Any, Any, Any]:
        """Return the net, its learnt arrays and its states, as MXNet tells ``epoch_end_callback``."""
        raise NotImplementedError

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

    def _make(
        self,
        training_graph: Trainable,
        shapes: Mapping[str, Sequence[int]],
        *,
        initializer: Initializer | None = None,
        seed: int | None = None,
    ) -> None:
        """Make the net for these sizes; arrays that are there stay."""
        sizes = {name: tuple(shape[1:]) for name, shape in shapes.items()}
        if self._bound is not None and self._bound[0] is training_graph and self._sizes == sizes:
            return
        need_torch()
        from netweave.runtime.backends.torch import TorchNet
        from netweave.runtime.backends.torch.device import find_device
        from netweave.training.loading import make_nets
        from netweave.training.passes import DTYPES

        graph, measured, heads = training_graph.graph(shapes)
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
        self._bound = (training_graph, graph, measured, heads)
        self._sizes = sizes
        self._predictor = None

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
        store: KVStore | None = None,
        sync_batch_norm: bool = False,
        monitor: Monitor | BatchMonitor | None = None,
        initial_epoch: int = 0,
    ) -> History:
        """Train over some epochs; the config's iterations are those of this run."""
        from netweave.training.ranks import STAGES
        from netweave.training.trainer import Trainer

        assert self._bound is not None
        training_graph, graph, _, heads = self._bound
        count = steps_per_epoch or _batches(source, config.batch_size)
        resumed_from = checkpoints.find()
        kept = None if resumed_from is None else resumed_from[1].state.get("fit")
        _require_of_fit(resumed_from, kept)
        before, state = self._updated or (None, None)
        go_on = state is not None and goes_on(before, config.solver) and resumed_from is None
        first = int(kept["first"]) if kept else int(state["iteration"]) if go_on and state else 0
        config = replace(
            config,
            max_iterations=first + epochs * count,
            checkpoints=checkpoints_of(store, checkpoints.settings(count)),
            seed=_seed_of(store, config.seed, self._fits),
        )
        shape = Epochs(first, count, config.batch_size, _last_size(source, config), epochs, initial_epoch)
        record = self._new_record(shape, measures, validate, callbacks)
        if resumed_from is not None and kept:
            record.restore(kept, int(resumed_from[1].state["iteration"]))
        look = look_of(monitor, graph, self)
        taps = [] if look is None else look.taps
        with ThreadedEngine() as engine, self._giving(taps):
            several = None
            if store is not None:
                several = self._several(store.on(engine), config.batch_size, sync_batch_norm, taps)

                store.require_equal(count, "batches in an epoch", "give each worker as many records")
            self._trainer = Trainer(
                config.job(graph, training_graph.inputs, heads),
                TrainOptions(
                    data={"train": {training_graph.inputs[0]: source}},
                    threads=threads,
                    keep=checkpoints.keep,
                    resume=resumed_from[0] if resumed_from else False,
                    num_stages=1 if several is None else STAGES,
                ),
                engine=engine,
                device=self._device,
                nets={"train": self.net},
                content=lambda: {"fit": record.state()},
                several=several,
                looks=[] if look is None else [look],
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

    def _started(self, trainer: Trainer, *, resumed: bool) -> None:  # noqa: B027 - most need nothing
        """Do what has to be done when a run is ready to begin."""

    @contextmanager
    def _giving(self, taps: Sequence[str]) -> Iterator[None]:
        """Have the net give further values, until the context ends."""
        from netweave.runtime.backends.torch import TorchNet

        assert self._bound is not None
        plain = self.net
        if taps:
            _, graph, _, heads = self._bound
            self._net = TorchNet(graph, taps=[*heads, *taps], store=plain.store).to(self._device)
        try:
            yield
        finally:
            self._net = plain

    def _several(
        self, store: KVStore, batch_size: int, sync_batch_norm: bool, taps: Sequence[str]
    ) -> SeveralDevices:
        """Return the net on each device, bound to the size of its part of a batch."""
        from netweave.runtime.backends.torch import TorchNet
        from netweave.runtime.backends.torch.device import find_device
        from netweave.runtime.backends.torch.node_memory import memories
        from netweave.training.devices import SeveralDevices, net_on
        from netweave.training.passes import split_bounds

        assert self._bound is not None
        training_graph = self._bound[0]
        devices = tuple(find_device(context.torch_name) for context in self._contexts)
        bounds = split_bounds(batch_size, len(devices))
        graphs: dict[int, tuple[Graph, list[str]]] = {}
        nets: list[TorchNet] = []
        for number, (start, stop) in enumerate(bounds):
            if stop - start not in graphs:
                shapes = {name: (stop - start, *sizes) for name, sizes in self._sizes.items()}
                graph, _, heads = training_graph.graph(shapes)
                graphs[stop - start] = (graph, [*heads, *taps])
            graph, heads = graphs[stop - start]
            first = TorchNet(graph, taps=heads, store=self.net.store).to(devices[0])
            nets.append(net_on(devices[number], graph, heads, first) if number else first)
        keeping = ", ".join(memories(nets[0].module))
        if keeping and len(devices) > 1:
            raise UnsupportedError(
                f"{self.label}: {keeping} keep their state from batch to batch, so several devices "
                "cannot train them; use one context"
            )
        return SeveralDevices(devices, tuple(nets), store, sync_batch_norm)

    def _measures(self) -> MeanMeasures:
        """Return what measures the metrics that the net computes."""
        assert self._bound is not None
        return MeanMeasures({value: name for name, value in self._bound[2].items()})

    def _judge(self, source: Source, batch_size: int) -> dict[str, float]:
        """Return the means of the metrics over all records, in test mode."""
        assert self._bound is not None
        training_graph, _, wanted, _ = self._bound
        totals, count = dict.fromkeys(wanted, 0.0), 0
        self.net.eval()
        for batch in batches(source, training_graph.inputs, batch_size):
            size = len(next(iter(batch.values())))
            outputs = self.net.run(batch)
            for name, value in wanted.items():
                totals[name] += float(outputs[value].reshape(-1)[0]) * size
            count += size
        return {name: total / count for name, total in totals.items()}


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


def _seed_of(store: KVStore | None, seed: int | None, num_fits: int) -> int | None:
    """Return the seed of a fit: another one for each fit of a model, and the same for all workers."""
    if seed is not None:
        return seed + num_fits
    return None if store is None else int(store.share(secrets.randbits(31), "seed"))


def _batches(source: Source, batch_size: int) -> int:
    if source.endless:
        raise UsageError(f"{source.place}: its length is unknown; give the number of batches per epoch")
    return -(-len(source) // batch_size)
