"""From the sources of a Job to the batches of a phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.training.data import BatchShare, BatchTurns, Loader, Order, Source, Turns, open_source
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.iterable import Iterated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.graph import Graph
    from netweave.job import DataSource, Phase
    from netweave.runtime.engine import Engine, Variable

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
        turns: Where ranks take turns at whole batches instead.
    """

    engine: Engine
    seed: int
    dtype: type[np.floating[Any]] = np.float32
    threads: int | None = None
    share: tuple[int, int] | None = None
    turns: Turns | None = None


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

    Raises:
        UsageError: An input has no data, or data of another shape.
        SourceError: A source cannot be opened.
    """

    def __init__(self, name: str, phase: Phase, given: Given, config: LoaderConfig) -> None:
        self._inputs = {value.name or "": value.shape for value in phase.graph.inputs}
        unknown = [key for key in given if key not in self._inputs]
        if unknown:
            raise UsageError(
                f"phase {name!r}: arrays are given for {', '.join(unknown)}, the net has inputs "
                f"{', '.join(self._inputs) or 'none'}"
            )
        self.batch_size = phase.data[0].batch_size if phase.data else 1
        self.offset = self.samples = 0
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
        found: dict[str, torch.Tensor] = {}
        variables: list[Variable] = []
        for number, loader in enumerate(self._loaders):
            batch = loader.take(idle_since=idle_since)
            if not number:
                self.offset = batch.offset
                self.samples = batch.count
            arrays = {name: array for name, array in batch.arrays.items() if name in self._inputs}
            found |= {name: torch.from_numpy(array) for name, array in arrays.items()}
            variables.extend(batch.variables)
        return found, variables

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
            found, wanted = shapes[key][1:], tuple(expected or ())[1:]
            if not _fits(found, wanted):
                raise UsageError(
                    f"{place}: a record of {key!r} is {_in_words(found)}, the net was read for "
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
) -> Order | BatchShare | BatchTurns:
    """Return the order in which one of several ranks takes records."""
    if config.turns is None and config.share is None:
        return order
    if isinstance(records, Iterated):
        raise UsageError(
            f"{place}: records that come one after another cannot be shared among several ranks; give them "
            "as a sequence or a file"
        )
    if config.turns is not None:
        return BatchTurns(order, config.turns)
    assert config.share is not None
    return BatchShare(order, *config.share, place)


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
