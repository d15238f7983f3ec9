"""What models have in common: one net, bound to sizes when they are known, and the one trainer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.models.epochs import EpochRecord, Epochs
from netweave.api.models.events import History
from netweave.api.models.monitoring import look_of
from netweave.api.models.records import as_source, batches, record_shapes
from netweave.api.models.stores import checkpoints_of
from netweave.api.nets import to_inference
from netweave.api.running import need_torch, stopping
from netweave.engine import ThreadedEngine
from netweave.errors import UnsupportedError, UsageError
from netweave.job import Phase
from netweave.parallel.devices import Context
from netweave.symbol.infer import to_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from netweave.api.models.callbacks import Callbacks
    from netweave.api.models.monitoring import BatchMonitor
    from netweave.api.models.resuming import FitCheckpoints
    from netweave.backends.torch import TorchNet
    from netweave.data import Source
    from netweave.graph import Graph
    from netweave.parallel.kvstore import KVStore
    from netweave.symbol import Initializer, Symbol
    from netweave.symbol.training import FitConfig, TrainingGraph
    from netweave.training.devices import SeveralDevices
    from netweave.training.monitor import Monitor
    from netweave.training.trainer import Trainer


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
        self._bound: tuple[TrainingGraph, Graph, dict[str, str], list[str]] | None = None
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
            raise UsageError("the net is not bound to input sizes yet; call bind or fit first")
        return self._net

    @property
    @abstractmethod
    def symbol(self) -> Symbol:
        """The net."""

    def get_params(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return copies of all arrays: those that are learnt, and the auxiliary states."""
        states = set(self.symbol.list_auxiliary_states())
        arrays = {key: np.array(tensor.detach().cpu().numpy()) for key, tensor in self.net.params.items()}
        learnt = {key: array for key, array in arrays.items() if key not in states}
        return learnt, {key: array for key, array in arrays.items() if key in states}

    def stop(self) -> None:
        """Ask a fit, from one of its callbacks, to end after the present batch."""
        if self._trainer is not None:
            self._trainer.stop()

    def _make(
        self,
        training_graph: TrainingGraph,
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
        from netweave.backends.torch import TorchNet
        from netweave.backends.torch.device import find_device
        from netweave.training.begin import DTYPES
        from netweave.training.nets import make_nets

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
        judge: Source | None,
        loss: bool,
        callbacks: Callbacks,
        threads: int | None,
        checkpoints: FitCheckpoints,
        store: KVStore | None = None,
        sync_batch_norm: bool = False,
        monitor: Monitor | BatchMonitor | None = None,
    ) -> History:
        """Train over some epochs; the config's iterations are those of this run."""
        from netweave.training.ranks import STAGES
        from netweave.training.trainer import KEPT, Trainer

        assert self._bound is not None
        training_graph, graph, metrics, heads = self._bound
        count = steps_per_epoch or _batches(source, config.batch_size)
        found = checkpoints.find()
        kept = None if found is None else found[1].state.get("fit")
        if found is not None and kept is None:
            raise UsageError(f"{found[0]}: is a checkpoint of a solver's run, expected one of a fit")
        before, state = self._updated or (None, None)
        go_on = state is not None and before == config.solver and found is None
        first = int(kept["first"]) if kept else int(state["iteration"]) if go_on and state else 0
        config = replace(
            config,
            max_iterations=first + epochs * count,
            checkpoints=checkpoints_of(store, checkpoints.settings(count)),
            seed=None if config.seed is None else config.seed + self._fits,
        )
        rest = 0 if source.endless or config.last != "short" else len(source) % config.batch_size
        judged = None if judge is None else partial(self._judge, judge, config.batch_size, loss=loss)
        record = EpochRecord(
            Epochs(first, count, config.batch_size, rest or config.batch_size),
            {value: name for name, value in metrics.items()},
            judge=judged,
            loss=loss,
            callbacks=callbacks,
        )
        if kept:
            record.restore(kept)
        look = look_of(monitor, graph, self)
        taps = [] if look is None else look.taps
        with ThreadedEngine() as engine, self._giving(taps):
            several = None
            if store is not None:
                several = self._several(store.on(engine), config.batch_size, sync_batch_norm, taps)

                store.require_equal(count, "batches in an epoch", "give each worker as many records")
            self._trainer = Trainer(
                config.job(graph, training_graph.inputs, heads),
                engine=engine,
                data={"train": {training_graph.inputs[0]: source}},
                device=self._device,
                threads=threads,
                nets={"train": self.net},
                keep=checkpoints.keep or KEPT,
                resume=found[0] if found else None,
                content=lambda: {"fit": record.state()},
                several=several,
                looks=[] if look is None else [look],
                num_stages=1 if several is None else STAGES,
                watch=record.watch,
            )
            try:
                if go_on and state:
                    self._trainer.load_solver_state(state)
                callbacks.begin()
                with stopping(self._trainer):
                    self._trainer.run()
                callbacks.end()
                self._updated = (config.solver, self._trainer.updater.state_dict())
            finally:
                self._trainer.close()
                self._trainer = None
        self._fits += 1
        return History(tuple(record.epochs))

    @contextmanager
    def _giving(self, taps: Sequence[str]) -> Iterator[None]:
        """Have the net give further values, until the context ends."""
        from netweave.backends.torch import TorchNet

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
        from netweave.backends.torch import TorchNet
        from netweave.backends.torch.device import find_device
        from netweave.backends.torch.node_memory import memories
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
                f"{self.symbol.name}: {keeping} keep their state from batch to batch, so several devices "
                "cannot train them; use one context"
            )
        return SeveralDevices(devices, tuple(nets), store, sync_batch_norm)

    def _judge(self, source: Source, batch_size: int, *, loss: bool) -> dict[str, float]:
        """Return the means of the metrics over all records, in test mode."""
        assert self._bound is not None
        training_graph, _, measured, heads = self._bound
        wanted = {**({"loss": heads[0]} if loss else {}), **measured}
        totals, count = dict.fromkeys(wanted, 0.0), 0
        self.net.eval()
        for batch in batches(source, training_graph.inputs, batch_size):
            size = len(next(iter(batch.values())))
            outputs = self.net.run(batch)
            for name, value in wanted.items():
                totals[name] += float(outputs[value].reshape(-1)[0]) * size
            count += size
        return {name: total / count for name, total in totals.items()}

    def _predict(self, symbol: Symbol, data: Any, inputs: Sequence[str], batch_size: int) -> Any:
        """Return the outputs of a symbol for all records: an array, or one for each output."""
        from netweave.backends.torch import TorchNet
        from netweave.backends.torch.node_memory import memories

        source = as_source(data, None, inputs)
        if self._predictor is None:
            shapes = record_shapes(source, inputs)
            graph = to_graph(symbol, {name: (batch_size, *shape) for name, shape in shapes.items()})
            self._predictor = TorchNet(to_inference(graph), store=self.net.store).to(self._device).eval()
        for name, memory in memories(self.net.module).items():
            if hasattr(self._predictor.module, name):  # what the operators of the net keep by now
                setattr(self._predictor.module, name, memory)
        found = [self._predictor.run(batch) for batch in batches(source, inputs, batch_size)]
        joined = [np.concatenate([row[name] for row in found]) for name in self._predictor.names]
        return joined[0] if len(joined) == 1 else joined


def _batches(source: Source, batch_size: int) -> int:
    if source.endless:
        raise UsageError(f"{source.place}: its length is unknown; give the number of batches per epoch")
    return -(-len(source) // batch_size)
