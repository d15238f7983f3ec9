"""Loading of what is trained, and its state in checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from netweave.errors import ShapeError, UsageError
from netweave.files.checksums import require_as_written
from netweave.formats.registry import find_state_reader, find_weights_reader
from netweave.graph import Graph, known_shape, unread_arrays
from netweave.graph.summary import names_text
from netweave.job import DataSource, FoundState, Job, Phase, RunState
from netweave.runtime.backends.torch import ParameterStore, TorchNet
from netweave.runtime.backends.torch.node_memory import memories, to_array
from netweave.runtime.engine import Engine, Variable
from netweave.training.checkpoint_file import SUFFIX, Checkpoint, nested, parameters_in, read_checkpoint
from netweave.training.data import (
    BatchShards,
    BatchShare,
    BatchTurns,
    Loader,
    Order,
    Shards,
    Source,
    Turns,
    open_source,
)
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.composed import Iterated
from netweave.training.metrics import make_metric
from netweave.training.optim import Trained, Updater
from netweave.training.optim.first_values import first_values

Given = Mapping[str, Any]
"""What feeds a phase: arrays of all records by input, or a ``data.Source`` by its first input."""


@dataclass(frozen=True, slots=True)
class LoaderConfig:
    """Settings of the loader that makes batches.

    Attributes:
        engine: Where.
        seed: Of the Job.
        dtype: Floating-point type of the batches.
        threads: Of decoding; None to find the number by itself.
        share: Number of this rank, and number of ranks, where each takes a part of every batch.
        turns: Where ranks take turns at whole batches instead, or shards of each batch.
        groups: Number of this worker group, and number of groups, where groups take turns at whole batches.
    """

    engine: Engine
    seed: int
    dtype: type[np.floating[Any]] = np.float32
    threads: int | None = None
    share: tuple[int, int] | None = None
    turns: Turns | Shards | None = None
    groups: tuple[int, int] = (0, 1)


class PhaseLoader:
    """The batches of one phase.

    Args:
        name: Of the phase, for messages.
        phase: The phase.
        given: What the caller feeds it with instead.
        config: How batches are made.

    Attributes:
        batch_size: Records in a whole batch of the first source.
        offset: Place of the last batch's first record in the whole batch, of which it may be a share.
        samples: Records in the last batch.
        beside: What the phase's metric reads of the last batch and the net does not.

    Raises:
        UsageError: An input has no data, or data of another shape.
        SourceError: A source cannot be opened.
    """

    def __init__(self, name: str, phase: Phase, given: Given, config: LoaderConfig) -> None:
        self._inputs = {value.name or "": value.shape for value in phase.graph.inputs}
        metric = make_metric(phase)
        self._beside = set(metric.inputs) - self._inputs.keys() if metric is not None else set()
        unknown = [key for key in given if key not in self._inputs and key not in self._beside]
        if unknown:
            raise UsageError(
                f"phase {name!r}: arrays are given for {', '.join(unknown)}, the net has inputs "
                f"{', '.join(self._inputs) or 'none'}"
            )
        self.batch_size = phase.data[0].batch_size if phase.data else 1
        self.offset = self.samples = 0
        self.beside: dict[str, torch.Tensor] = {}
        self._turns = config.turns
        self._loaders: list[Loader] = []
        try:
            for number, source in enumerate(phase.data):
                seeded = replace(config, seed=config.seed + number)
                self._loaders.append(_loader(source, given, seeded))
                if name == "train":
                    _require_a_batch(source, self._loaders[-1])
            self._check(name, phase.data, phase.graph)
        except BaseException:
            self.close()
            raise

    @property
    def batches_per_epoch(self) -> float | None:
        """Batches in one way through the records of the first source; None where they have no end."""
        return self._loaders[0].batches_per_epoch if self._loaders else None

    def take(
        self, idle_since: Callable[[], float] = lambda: 0.0
    ) -> tuple[dict[str, torch.Tensor], list[Variable]]:
        """Return the next batch, one tensor for each input, and what a task that reads it must name.

        The batch before must not be used any more, but by tasks that have been pushed.

        Args:
            idle_since: Returns since when nothing is computed, by ``perf_counter``; infinity while
                something is.
        """
        tensors: dict[str, torch.Tensor] = {}
        variables: list[Variable] = []
        for number, loader in enumerate(self._loaders):
            batch = loader.take(idle_since=idle_since)
            if not number:
                self.offset = batch.offset
                self.samples = batch.count
            made = {name: torch.from_numpy(array) for name, array in batch.arrays.items()}
            tensors |= {name: tensor for name, tensor in made.items() if name in self._inputs}
            self.beside |= {name: tensor for name, tensor in made.items() if name in self._beside}
            variables.extend(batch.variables)
        return tensors, variables

    def state(self) -> list[dict[str, int]]:
        """Return where the loaders are, for a checkpoint; the same for any number of ranks."""
        states = [loader.state() for loader in self._loaders]
        turns = self._turns
        return states if turns is None else [{"batch": turns.whole_number(one["batch"])} for one in states]

    def restore(self, state: Sequence[Mapping[str, int]]) -> None:
        """Go on where ``state`` was called."""
        turns = self._turns
        for loader, saved in zip(self._loaders, state, strict=True):
            loader.restore(saved if turns is None else {"batch": turns.own_number(saved["batch"])})

    def skip(self, batches: int) -> None:
        """Go on behind so many batches from the beginning."""
        self.restore([{"batch": batches}] * len(self._loaders))

    def close(self) -> None:
        """Let go of all sources."""
        for loader in self._loaders:
            loader.close()

    def _check(self, name: str, data: Sequence[DataSource], graph: Graph) -> None:
        places = {output: source.place for source in data for output in source.outputs}
        shapes = {key: shape for loader in self._loaders for key, shape in loader.shapes.items()}
        for key, expected in self._inputs.items():
            place = places.get(key) or graph.name
            if key not in shapes:
                raise UsageError(f"{place}: input {key!r} of phase {name!r} has no data")
            sizes, wanted = shapes[key][1:], tuple(expected or ())[1:]
            if not _fits(sizes, wanted):
                raise UsageError(
                    f"{place}: a record of {key!r} is {_in_words(sizes)}, the net was read for "
                    f"{_in_words(wanted)}"
                )


def _fits(found: Sequence[int], wanted: Sequence[Any]) -> bool:
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(not isinstance(size, int) or size == n for n, size in pairs)


def _in_words(sizes: Sequence[Any]) -> str:
    return " x ".join(map(str, sizes)) or "one number"


def _loader(source: DataSource, given: Given, config: LoaderConfig) -> Loader:
    records, transforms = _records(source, given), source.transforms
    if any(name in given for name in source.outputs):
        transforms = ()
    try:
        made = Order(
            num_records=None if records.endless else len(records),
            batch_size=source.batch_size,
            seed=config.seed,
            groups=records.groups,
            **source.order,
        )
        order = _of_rank(made, records, source.place, config)
    except ValueError as error:
        records.close()
        raise UsageError(f"{source.place}: {error}") from error
    except UsageError:
        records.close()
        raise
    return Loader(
        records,
        source.outputs,
        engine=config.engine,
        order=order,
        transforms=transforms,
        threads=config.threads,
        dtype=config.dtype,
    )


def _of_rank(
    order: Order, records: Source, place: str, config: LoaderConfig
) -> Order | BatchShare | BatchShards | BatchTurns:
    """Return the order in which one of several ranks takes records."""
    if config.turns is None and config.share is None:
        return order
    taken: Order | BatchTurns = order
    if isinstance(records, Iterated):
        raise UsageError(
            f"{place}: records that come one after another cannot be shared among several ranks; give them "
            "as a sequence or a file"
        )
    if isinstance(config.turns, Shards):
        return BatchShards(order, config.turns, place)
    if config.turns is not None:
        return BatchTurns(order, config.turns)
    assert config.share is not None
    group, num_groups = config.groups
    if num_groups > 1:
        taken = BatchTurns(order, Turns(group, num_groups, num_groups))
    return BatchShare(taken, *config.share, place)


def _require_a_batch(source: DataSource, loader: Loader) -> None:
    """Refuse to train on fewer records than a batch has: Caffe would take them twice, and say nothing."""
    whole = loader.batches_per_epoch
    if whole is not None and whole < 1:
        count = round(whole * source.batch_size)
        path = source.settings.get("path")
        raise UsageError(
            f"{source.place}: there are {count} records{f' in {path}' if path else ''}, fewer than the "
            f"{source.batch_size} of a batch; set batch_size to {count} or less, or add records"
        )


def _records(source: DataSource, given: Given) -> Source:
    names = [name for name in source.outputs if name in given]
    if not names:
        if source.kind == "given":
            raise UsageError(
                f"{source.place}: holds no records itself; give arrays for {', '.join(source.outputs)}"
            )
        return open_source(source)
    first = given[names[0]]
    if isinstance(first, Source):
        return first
    missing = [name for name in source.outputs if name not in given and not name.endswith("@label")]
    if missing:
        raise UsageError(
            f"{source.place}: arrays are given for {', '.join(names)} and not for {', '.join(missing)}"
        )
    arrays = [np.asarray(given[name]) for name in names]
    arrays += [np.zeros(len(arrays[0]))] * (len(source.outputs) - len(names))
    return Arrays(*arrays, names=names)


NAMED = 12
"""So many names without a counterpart are told: about the layers of a small net."""


def make_nets(
    phases: Mapping[str, Phase],
    *,
    weights: Sequence[str | Path] = (),
    taps: Sequence[str] = (),
    train_taps: Sequence[str] = (),
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, TorchNet]:
    """Return the net of each phase, with first values or those of weights.

    Args:
        phases: The phases by name.
        weights: Files whose arrays replace the first values, in order.
        taps: Names of values to give besides outputs and losses.
        train_taps: Names of values that the training net gives besides those.
        seed: Of what is drawn.
        device: Where to compute.
        dtype: Type of the numbers.
        tell: Called with a sentence for what of the weights and of the nets found no counterpart.

    Raises:
        UsageError: A filler is unknown or cannot fill its parameter.
        SourceError: A file of weights cannot be read, or does not fit; or phases have an array in common that
            is of other sizes in each.
        RunError: An operator has no lowering.
    """
    _require_same_shapes(phases)
    store = ParameterStore()
    nets = {
        name: TorchNet(
            phase.graph,
            taps=[*phase.losses, *taps, *(train_taps if name == "train" else ())],
            store=store,
        )
        for name, phase in phases.items()
    }
    for phase in phases.values():
        for key, array in unread_arrays(phase.graph).items():
            store.add_constant(phase.graph.parameters[key], array)
    # files first: what they hold needs no rule for its first values, as in SINGA's stacks of machines
    known: set[str] = set()
    for file in map(Path, weights):
        known |= load_weights(phases, nets, file)
        if unused := _unused(file, phases):
            tell(f"{file}: ignoring {names_text(unused, NAMED)}, which the net does not have")
    if weights and (without := _without_values(phases, known)):
        files = " and ".join(map(str, weights))
        tell(f"{files}: no values for {names_text(without, NAMED)}, which the run starts from fresh ones")
    for name, phase in phases.items():
        for key, parameter in phase.graph.parameters.items():
            if key not in known and not parameter.loaded:
                values = first_values(parameter, source=phase.graph.format, seed=seed)
                nets[name].params[key] = torch.from_numpy(values)
        known |= phase.graph.parameters.keys()
    for net in nets.values():
        net.to(device).to(dtype)
    return nets


def load_weights(phases: Mapping[str, Phase], nets: Mapping[str, TorchNet], file: Path) -> set[str]:
    """Replace the arrays that a file of weights has, and return their keys.

    Args:
        phases: The phases by name.
        nets: The net of each phase.
        file: A file of the nets' own format, or a checkpoint of Netweave's.

    Raises:
        SourceError: The file cannot be read, is not as a run has written it, or does not fit.
        UsageError: It has none of the arrays.
    """
    if file.suffix != SUFFIX:  # a checkpoint holds its own checksum
        require_as_written(file)
    loaded: set[str] = set()
    for name, net in nets.items():
        graph = phases[name].graph
        arrays = parameters_in(file, graph) if file.suffix == SUFFIX else _weights_for(file, graph)
        loaded |= arrays.keys()
        for key, array in arrays.items():
            net.params[key] = torch.from_numpy(np.array(array))
    if not loaded:
        names = " and ".join(dict.fromkeys(phase.graph.name for phase in phases.values()))
        raise UsageError(f"{file}: contains no weights for any layer of {names}")
    return loaded


def _weights_for(file: Path, graph: Graph) -> dict[str, np.ndarray]:
    row = find_weights_reader(graph.format)
    if row is None:
        raise UsageError(f"{file}: a net of {graph.format} can begin from a {SUFFIX} only")
    arrays: dict[str, np.ndarray] = row.load_training().weights_for(file, graph)
    return arrays


def _unused(file: Path, phases: Mapping[str, Phase]) -> list[str]:
    """Return the names in a file of weights that stand for no parameter of any phase."""
    keys = {key for phase in phases.values() for key in phase.graph.parameters}
    if file.suffix == SUFFIX:
        return [name for name, _ in nested(read_checkpoint(file).arrays, "param") if name not in keys]
    row = find_weights_reader(next(iter(phases.values())).graph.format)
    assert row is not None  # the file has been read by it
    unused: list[str] = row.load_training().unused_in(file, keys)
    return unused


def _without_values(phases: Mapping[str, Phase], known: Container[str]) -> list[str]:
    """Return the parameters that neither weights nor the file of the net has values for."""
    parameters = {key: one for phase in phases.values() for key, one in phase.graph.parameters.items()}
    return [key for key, one in parameters.items() if key not in known and not one.loaded]


def trained(graph: Graph, net: TorchNet, gradient_mult: Mapping[str, float] | None = None) -> list[Trained]:
    """Return what a solver changes; no gradient is computed for what has a rate of 0.

    Args:
        graph: The training net.
        net: The net on torch.
        gradient_mult: Factors on gradients by key, where they are not 1.
    """
    factors = gradient_mult or {}
    parameters = []
    for key, parameter in graph.parameters.items():
        tensor = net.store[key].tensor
        if not parameter.trainable or not tensor.is_floating_point():
            continue
        tensor.requires_grad_(parameter.lr_mult != 0)
        factor = factors.get(key, 1.0)
        parameters.append(Trained(key, tensor, parameter.lr_mult, parameter.decay_mult, factor))
    return parameters


def moving_states(net: TorchNet) -> list[torch.Tensor]:
    """Return the arrays that forward passes change in training, in the order of their keys."""
    rows = [net.store[key] for key in sorted(net.store)]
    return [
        row.tensor
        for row in rows
        if not row.parameter.trainable and not row.constant and row.tensor.is_floating_point()
    ]


def layer_numbers(graph: Graph) -> dict[str, int]:
    """Return the number of each parameter's layer, by key: what stands before the last mark in its key."""
    layers: dict[str, int] = {}
    return {
        key: layers.setdefault(key.rpartition("/")[0] or key.rpartition("_")[0] or key, len(layers))
        for key in graph.parameters
    }


def _require_same_shapes(phases: Mapping[str, Phase]) -> None:
    """Refuse phases whose data give a common array other sizes."""
    first: dict[str, tuple[str, Sequence[int | None]]] = {}
    for name, phase in phases.items():
        for key, parameter in phase.graph.parameters.items():
            other, shape = first.setdefault(key, (name, parameter.shape))
            if tuple(shape) != tuple(parameter.shape):
                sizes = "; ".join(
                    f"{one}: " + ", ".join(f"{v.name} {known_shape(v)}" for v in phases[one].graph.inputs)
                    for one in (other, name)
                )
                raise ShapeError(
                    f"the phases share {key!r}, which is {tuple(shape)} for {other!r} and "
                    f"{tuple(parameter.shape)} for {name!r}; give their data the same sizes ({sizes})"
                )


@dataclass(frozen=True, slots=True)
class TrainState:
    """The mutable state of a run: its nets and its solver."""

    job: Job
    nets: Mapping[str, TorchNet]
    updater: Updater

    def capture(self, state: Mapping[str, Any], beside: Mapping[str, np.ndarray]) -> Checkpoint:
        """Return a copy of everything, with some JSON values and arrays beside it."""
        solver = self.updater.state_dict()
        arrays = {f"param:{key}": array for key, array in self.parameters().items()}
        for key, kept in solver["state"].items():
            arrays |= {f"solver:{name}:{key}": to_array(tensor) for name, tensor in kept.items()}
        for phase, net in self.nets.items():
            for name, memory in memories(net.module).items():
                kept = memory.capture()
                arrays |= {f"memory:{phase}:{name}:{key}": array for key, array in kept.items()}
        numbers = {name: solver[name] for name in ("iteration", "policy", "memory")}
        layout = self.updater.layout.to_json()
        return Checkpoint({**state, "solver": numbers, "layout": layout}, {**arrays, **beside})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on where ``capture`` was called.

        Raises:
            UsageError: The checkpoint is of another net or solver.
        """
        arrays = dict(nested(checkpoint.arrays, "param"))
        present = self.parameters()
        wrong = [
            key
            for key in {**present, **arrays}
            if key not in present or key not in arrays or arrays[key].shape != present[key].shape
        ]
        if wrong:
            raise UsageError(f"the checkpoint belongs to another net: {', '.join(sorted(wrong)[:5])} differ")
        state: dict[str, dict[str, torch.Tensor]] = {key: {} for key in self.updater.state}
        for name, array in nested(checkpoint.arrays, "solver"):
            kind, _, key = name.partition(":")
            state.setdefault(key, {})[kind] = torch.from_numpy(array)
        self.updater.load_state_dict({**checkpoint.state["solver"], "state": state})
        for net in self.nets.values():
            for key in net.params:
                net.params[key] = torch.from_numpy(arrays[key])
        self._recall(checkpoint)

    def _recall(self, checkpoint: Checkpoint) -> None:
        arrays_of: dict[tuple[str, str], dict[str, np.ndarray]] = {}
        for path, array in nested(checkpoint.arrays, "memory"):
            phase, name, key = path.split(":", 2)
            arrays_of.setdefault((phase, name), {})[key] = array
        for phase, net in self.nets.items():
            for name, memory in memories(net.module).items():
                memory.restore(arrays_of.get((phase, name), {}))

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays in the source's layouts."""
        return {key: to_array(tensor) for net in self.nets.values() for key, tensor in net.params.items()}

    def gradients(self) -> dict[str, np.ndarray]:
        """Return copies of the last gradients; zeros where there is none."""
        net = self.nets["train"]
        zeros = {key: np.zeros(tensor.shape) for key, tensor in net.params.items()}
        return zeros | {key: to_array(tensor) for key, tensor in net.grads.items()}

    # The state of the Job's source.

    def as_source(self, parameters: Mapping[str, np.ndarray]) -> RunState:
        """Return the run as the format of the Job's source has it.

        Args:
            parameters: Copies of all arrays.
        """
        store, updater = self.nets["train"].store, self.updater
        kept = {
            name: {key: to_array(store[key].as_source(own[name])) for key, own in updater.state.items()}
            for name in updater.rule.names
        }
        train = self.job.phases["train"]
        batch_size = train.data[0].batch_size if train.data else 0
        return RunState(
            train.graph,
            updater.iteration,
            updater.iteration * self.job.solver.accumulate * batch_size,
            parameters,
            kept,
            updater.policy.state(),
            self.gradients() if self.job.checkpoints.gradients else None,
        )

    def restore_foreign(self, path: Path) -> None:
        """Go on where the program of the Job's source, or a run here, wrote a solver's state.

        Raises:
            UsageError: No format has such a file.
            SourceError: The state or its weights cannot be read, are not as they were written, or are of
                another net or solver.
        """
        row = find_state_reader(path)
        if row is None:
            raise UsageError(f"{path}: is not a solver state that a run can resume from")
        require_as_written(path)
        updater = self.updater
        state: FoundState = row.load_training().read_state(
            path, self.job.phases["train"].graph, updater.rule.names
        )
        load_weights(self.job.phases, self.nets, state.weights)
        store = self.nets["train"].store
        with torch.no_grad():
            for name, arrays in state.kept.items():
                for key, own in updater.state.items():
                    store[key].as_source(own[name]).copy_(torch.from_numpy(arrays[key]))
        updater.iteration = state.iteration
        remembered = updater.policy.state()
        updater.policy.restore({name: n for name, n in state.policy.items() if name in remembered})
