"""Values tapped while nets run."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.memory_budget import check_budget, cut_net
from netweave.comparison.stopwatch import Stopwatch
from netweave.errors import RunError
from netweave.runtime.backends import prepare, prepare_nodes
from netweave.runtime.engine.malloc import give_back_large_buffers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.comparison.execution.memory_budget import MemoryBudget, NetSlice
    from netweave.graph import Graph
    from netweave.runtime.backends import Runner


class TappedValues(Mapping[str, np.ndarray]):
    """The inputs, the outputs and the tapped values of a net, by name.

    A net whose values fit into a share of the store is run at once. Of a larger one, a slice is run when one
    of its values is asked for; what the store had to drop is computed again. So values are best asked for in
    the order of the net.

    Args:
        graph: The net, with its shapes inferred.
        probe: Its inputs.
        taps: Names of the values to return besides the outputs.
        store: Holds the values.
        stage: What the time of running the net is counted as.

    Raises:
        RunError: The net cannot be run, as far as it is run at once. Otherwise a look-up raises it.
        UsageError: The budget of the store was promised, and the net does not fit into it.
    """

    def __init__(
        self,
        graph: Graph,
        probe: memory_budget.Probe,
        taps: Sequence[str],
        store: ValueStore,
        *,
        stage: str = "run a net",
    ) -> None:
        self._stage = stage
        self._graph = graph
        self._store = store
        self._inputs = memory_budget.inputs_of(graph, probe)
        self._given = dict(self._inputs)
        names = [*(str(value.name) for value in graph.outputs), *taps]
        values = {name: value for name, value in graph.find(names).items() if name not in self._given}
        for name, value in values.items():
            if value.producer() is None and value.const_value is not None:
                self._given[name] = value.const_value.numpy()
        wanted = {name: value for name, value in values.items() if name not in self._given}
        batch = next((x.shape[0] for x in self._given.values() if x.ndim), 1)
        if store.budget is not None:
            check_budget(graph, wanted, batch=batch, budget=store.budget)
        self._slices = cut_net(graph, wanted, batch=batch, max_bytes=store.share_bytes)
        self._slice_of = {name: i for i, part in enumerate(self._slices) for name in part.outputs}
        self._wanted = tuple(wanted)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._number = store.register(self, _last_readers(self._slices))
        if len(self._slices) == 1:
            self._compute(0)
        else:  # what the store drops makes room only if it leaves the process
            give_back_large_buffers()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise KeyError(name)
        return self._value(name)

    def __contains__(self, name: object) -> bool:
        return name in self._given or name in self._slice_of

    def __iter__(self) -> Iterator[str]:
        return iter((*self._given, *self._wanted))

    def __len__(self) -> int:
        return len(self._given) + len(self._wanted)

    def ahead(self, name: str) -> np.ndarray:
        """Return a value that is looked at ahead of others: what is held of those makes no room for it."""
        with self._store.looking_ahead(self._number):
            return self[name]

    @property
    def is_held(self) -> bool:
        """True if all values were computed at once."""
        return len(self._slices) == 1

    @property
    def working_bytes(self) -> int | None:
        """Bytes that a caller may hold besides; None for any number."""
        return self._store.share_bytes

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a value; None if there is none of the name."""
        if name in self._given:
            return self._given[name].shape
        if name not in self._slice_of:
            return None
        if name not in self._shapes:
            self._compute(self._slice_of[name])
        return self._shapes[name]

    def _value(self, name: str) -> np.ndarray:
        if name in self._given:
            return self._given[name]
        index = self._slice_of[name]
        held = self._store.get(self._number, index, name)
        return self._compute(index)[name] if held is None else held

    def _compute(self, index: int) -> dict[str, np.ndarray]:
        """Run a slice, and those before it whose values it needs and which are not held."""
        for earlier in self._missing_before(index):
            self._run(earlier)
        return self._run(index)

    def _missing_before(self, index: int) -> list[int]:
        missing: set[int] = set()
        todo = [index]
        while todo:
            for name in self._slices[todo.pop()].inputs:
                before = self._slice_of.get(name)
                if before is None or before in missing or self._store.holds(self._number, before, name):
                    continue
                missing.add(before)
                todo.append(before)
        return sorted(missing)

    def _run(self, index: int) -> dict[str, np.ndarray]:
        part = self._slices[index]
        is_whole = len(self._slices) == 1
        inputs = self._inputs if is_whole else {name: self._value(name) for name in part.inputs}
        self._store.reserve(self._number, index, part.num_bytes)
        with self._store.clock.time(self._stage):
            computed = self._prepared(part).run(inputs)
        made = {name: computed[name] for name in part.outputs}
        for name, x in made.items():
            if isinstance(x, list):
                maker = next(node for node in self._graph.nodes if name in {v.name for v in node.outputs})
                raise RunError(
                    f"{self._graph.place_of(maker)}: {maker.op_type} makes a list of tensors that sizes "
                    "decide on, and lists cannot be compared; write it with torch.cat or an index"
                )
        self._shapes.update((name, x.shape) for name, x in made.items())
        self._store.put(self._number, index, made, part.boundary)
        return made

    def _prepared(self, part: NetSlice) -> Runner:
        if len(self._slices) == 1:
            return prepare(self._graph, taps=part.outputs)
        return prepare_nodes(self._graph, part.nodes, inputs=part.read, outputs=part.made)


def _last_readers(slices: Sequence[NetSlice]) -> list[int]:
    """Return, by slice, the last one that reads one of its values; itself if none does."""
    maker = {name: index for index, part in enumerate(slices) for name in part.boundary}
    last = list(range(len(slices)))
    for index, part in enumerate(slices):
        for name in part.inputs:
            if name in maker:
                last[maker[name]] = index
    return last


SLICE_SHARE = 4
"""A net is computed in slices of at most this part of the limit, so that A's, B's and what is made of them
fit together."""


@dataclass(slots=True)
class _Run:
    """The values kept of one run.

    Attributes:
        last_readers: By slice of the net, the last slice that reads one of its values.
        position: The slice that was looked at last.
        is_ahead: Whether slices are looked at ahead of it, which do not move it.
        slices: Values by slice and name, but for those that later slices read.
        boundary: Values that later slices read, likewise.
    """

    last_readers: Sequence[int]
    position: int = 0
    is_ahead: bool = False
    slices: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    boundary: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)

    def move(self, index: int) -> None:
        """Note that a slice is looked at."""
        if not self.is_ahead:
            self.position = index

    def rank(self, index: int, *, of_boundary: bool) -> tuple[bool, float, bool]:
        """Return what orders the tensors of slices, those that make room first in front.

        Passes go through a net in its order: the slice farthest ahead, round the end, is looked at last.
        """
        is_read_next = of_boundary and index <= self.position <= self.last_readers[index]
        ahead = (index - self.position) % len(self.last_readers)
        return index == self.position or is_read_next, -ahead / len(self.last_readers), of_boundary


class ValueStore:
    """Tensors of several runs within one limit; what is looked at again last makes room for others.

    The slices that are looked at now, one of each run, go last: the values of A and B are asked for in turns,
    and would make room for each other at every look-up. So do the values that slices from there on read: what
    follows can be computed again from them, and not from the inputs of the net.

    Args:
        budget: What the comparison may take; None for any amount.
        clock: Takes the times of running nets.

    Attributes:
        budget: What the comparison may take.
        clock: Takes the times of running nets.
        num_bytes: What is held now.
        peak_bytes: The most that was held or reserved at once.
    """

    def __init__(self, budget: MemoryBudget | None = None, clock: Stopwatch | None = None) -> None:
        self.budget = budget
        self.clock = clock or Stopwatch()
        self.max_bytes = None if budget is None else budget.value_bytes
        self.num_bytes = 0
        self.peak_bytes = 0
        self._runs: dict[int, _Run] = {}
        self._numbers = itertools.count()

    @property
    def share_bytes(self) -> int | None:
        """Most bytes of one slice of a net, and of what is made of its values at once."""
        return None if self.max_bytes is None else max(self.max_bytes // SLICE_SHARE, 1)

    def register(self, run: object, last_readers: Sequence[int]) -> int:
        """Return a number for a run; what is held of it goes when the run is dropped.

        Args:
            run: The run.
            last_readers: By slice of its net, the last slice that reads one of its values.
        """
        number = next(self._numbers)
        self._runs[number] = _Run(last_readers)
        weakref.finalize(run, self._forget, number)
        return number

    @contextmanager
    def looking_ahead(self, run: int) -> Iterator[None]:
        """Let slices of a run be looked at while those that were looked at before are still needed first."""
        of_run = self._runs[run]
        of_run.is_ahead = True
        try:
            yield
        finally:
            of_run.is_ahead = False

    def holds(self, run: int, index: int, name: str) -> bool:
        """Return whether a tensor of a slice of a run is held."""
        of_run = self._runs[run]
        return any(name in held.get(index, ()) for held in (of_run.slices, of_run.boundary))

    def get(self, run: int, index: int, name: str) -> np.ndarray | None:
        """Return a tensor of a slice of a run; None if it is not held."""
        of_run = self._runs[run]
        of_run.move(index)
        for held in (of_run.slices, of_run.boundary):
            if name in held.get(index, ()):
                return held[index][name]
        return None

    def put(self, run: int, index: int, tensors: Mapping[str, np.ndarray], boundary: frozenset[str]) -> None:
        """Hold what a slice of a run computed; others make room for it.

        Args:
            run: The number of the run.
            index: The slice.
            tensors: Its tensors by signal.
            boundary: Which of them later slices read.
        """
        of_run = self._runs[run]
        for held in (of_run.slices, of_run.boundary):
            self.num_bytes -= _size(held.pop(index, {}))
        self.reserve(run, index, _size(tensors))
        of_run.slices[index] = {name: x for name, x in tensors.items() if name not in boundary}
        of_run.boundary[index] = {name: x for name, x in tensors.items() if name in boundary}
        self.num_bytes += _size(tensors)

    def reserve(self, run: int, index: int, num_bytes: int) -> None:
        """Drop tensors until a slice of a run fits besides, as far as there are any that may go.

        Args:
            run: The number of the run.
            index: The slice, which is looked at from now on.
            num_bytes: What its tensors take.
        """
        self._runs[run].move(index)
        while self.max_bytes is not None and self.num_bytes + num_bytes > self.max_bytes and self._drop():
            pass
        self.peak_bytes = max(self.peak_bytes, self.num_bytes + num_bytes)

    def _drop(self) -> bool:
        """Drop what is looked at again last; say if there was anything."""
        held = [
            (run.rank(index, of_boundary=of_boundary), tensors, index)
            for run in self._runs.values()
            for tensors, of_boundary in ((run.slices, False), (run.boundary, True))
            for index in tensors
        ]
        if not held:
            return False
        _, tensors, index = min(held, key=lambda row: row[0])
        self.num_bytes -= _size(tensors.pop(index))
        return True

    def _forget(self, run: int) -> None:
        dropped = self._runs.pop(run)
        self.num_bytes -= sum(map(_size, (*dropped.slices.values(), *dropped.boundary.values())))


def _size(tensors: Mapping[str, np.ndarray]) -> int:
    return sum(x.nbytes for x in tensors.values())
