"""Values that a net computes on a probe, slice by slice, on demand (decision 0186)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution import probes
from netweave.comparison.execution.net_slices import check_budget, cut_net
from netweave.graph.passes.extract import Extractor
from netweave.runtime.backends import prepare
from netweave.runtime.engine.malloc import give_back_large_buffers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.comparison.execution.net_slices import NetSlice
    from netweave.comparison.execution.value_store import ValueStore
    from netweave.graph import Graph


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
        probe: probes.Probe,
        taps: Sequence[str],
        store: ValueStore,
        *,
        stage: str = "run a net",
    ) -> None:
        self._stage = stage
        self._graph = graph
        self._store = store
        self._inputs = probes.inputs_of(graph, probe)
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
        self._parts: dict[int, Graph] = {}
        self._extractor: Extractor | None = None
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
            computed = prepare(self._graph_of(index), taps=part.outputs).run(inputs)
        made = {name: computed[name] for name in part.outputs}
        self._shapes.update((name, x.shape) for name, x in made.items())
        self._store.put(self._number, index, made, part.boundary)
        return made

    def _graph_of(self, index: int) -> Graph:
        if len(self._slices) == 1:
            return self._graph
        if index not in self._parts:
            part = self._slices[index]
            self._extractor = self._extractor or Extractor(self._graph)
            self._parts[index] = self._extractor.extract(inputs=part.inputs, outputs=part.outputs)
        return self._parts[index]


def _last_readers(slices: Sequence[NetSlice]) -> list[int]:
    """Return, by slice, the last one that reads one of its values; itself if none does."""
    maker = {name: index for index, part in enumerate(slices) for name in part.boundary}
    last = list(range(len(slices)))
    for index, part in enumerate(slices):
        for name in part.inputs:
            if name in maker:
                last[maker[name]] = index
    return last
