"""The isolated layer test: feed A's real inputs of a group to B's nodes, and look at what comes out.

It separates the group that is wrong from the groups that only propagate an earlier error. All groups of a
comparison are put into one graph and run at once, or into a few where they are very many (decision 0010).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from netweave.comparison.layout.change import LayoutChange
from netweave.comparison.layout.tensors import candidate_layouts, solve_layout
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError, RunError
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.groups import Draft


Sizes = tuple[int, ...]

MAX_TOGETHER = 1500
"""Most groups in one run."""

_LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class IsolatedTest:
    """The result of an isolated test of one group.

    Attributes:
        error: Worst error of the group's outputs; None if it could not be run.
        feeds: A's inputs in B's layout, by B's signal.
        sizes: B's own values for what views in the group compute sizes from, by B's signal.
        sources: A's signal of each feed.
        layouts: How it became the feed.
        rewired: A's signal that A's nodes read where B's read another one, by B's signal.
        instead: Its tensor in B's layout.
        wanted: A's outputs in B's layout as far as it is known, by B's signal.
        changes: Layout of each output, by B's signal, as far as it is known.
        reason: Why it could not be run.
    """

    error: float | None = None
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    sizes: dict[str, np.ndarray] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    layouts: dict[str, LayoutChange] = field(default_factory=dict)
    rewired: dict[str, str] = field(default_factory=dict)
    instead: dict[str, np.ndarray] = field(default_factory=dict)
    wanted: dict[str, np.ndarray] = field(default_factory=dict)
    changes: dict[str, LayoutChange] = field(default_factory=dict)
    reason: str = ""

    @property
    def is_equal(self) -> bool:
        """True if B's nodes do what A's do."""
        return self.error is not None and self.error <= LOCAL_TOLERANCE


class IsolatedTester:
    """Runs isolated tests.

    Args:
        alignment: The pairs of signals; of B's tensors, as far as it could be run, the sizes are used.
    """

    def __init__(self, alignment: Alignment) -> None:
        self._alignment = alignment
        self._a, self._b = alignment.sides

    def run(self, drafts: Sequence[Draft]) -> Iterator[IsolatedTest]:
        """Yield the test of each group, in order: many are run at once, those of a failed run in two halves.

        A test holds tensors, so use one before the next is asked for: they need not all be there together.
        """
        for batch in self._batches(drafts):
            tests = [self._feed(draft) for draft in batch]
            ready = [(d, t) for d, t in zip(batch, tests, strict=True) if not t.reason]
            if ready:
                self._run(ready)
            yield from tests

    def _batches(self, drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
        """Yield groups that are tested in one run: as many as there may be tensors of at once."""
        limit = self._a.tensors.working_bytes
        batch: list[Draft] = []
        filled = 0
        for draft in drafts:
            size = 0 if limit is None else self._num_bytes(draft)
            if batch and (len(batch) == MAX_TOGETHER or (limit is not None and filled + size > limit)):
                yield batch
                batch, filled = [], 0
            batch.append(draft)
            filled += size
        if batch:
            yield batch

    def _num_bytes(self, draft: Draft) -> int:
        """Return about how many bytes a test holds: what B's nodes read and make, and what A's make."""
        read = self._a.signals.reads_from_outside(draft.nodes_a)
        names = [*read, *(name for name, _ in draft.outputs for _ in range(2))]
        shapes = [self._a.tensors.shape_of(name) for name in names]
        return 4 * sum(prod(shape) for shape in shapes if shape is not None)

    def run_alone(self, nodes: Sequence[ir.Node], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Run nodes that only B has on A's values of what they read.

        Args:
            nodes: The nodes, in topological order; they read one signal.
            outputs: Signals that they make.

        Returns:
            What they read and make by B's signals; empty if A has no counterpart, or they do not run on it.
        """
        (name_b,) = self._b.signals.reads_from_outside(nodes)
        pair = self._b.pairs.get(name_b)
        change = None if pair is None else self.layout(pair.a, name_b)
        if pair is None or change is None:
            return {}
        feeds = {name_b: change.apply(self._a.tensors[pair.a])}
        builder = SubgraphBuilder(self._b.signals)
        try:
            fed = builder.add(nodes, outputs, {name_b: feeds[name_b].shape}, prefix="")
            feeds |= self._sizes([name for name in fed if name != name_b])
            return feeds | prepare(builder.finish()).run(feeds)
        except NetweaveError as error:
            _LOGGER.debug("not run alone: %s", error)
            return {}

    def layout(self, name_a: str, name_b: str) -> LayoutChange | None:
        """Return how A's tensor becomes B's: as their values say, or else as most of the net's tensors do."""
        pair = self._b.pairs.get(name_b)
        if pair is not None and pair.a == name_a and pair.change is not None:
            return pair.change
        shape_a = self._a.tensors.shape_of(name_a)
        return None if shape_a is None else self._likely(shape_a, self._b.tensors.shape_of(name_b))

    def _run(self, rows: Sequence[tuple[Draft, IsolatedTest]]) -> None:
        try:
            self._run_rows(rows)
        except NetweaveError as error:
            if len(rows) > 1:
                self._run(rows[: len(rows) // 2])
                self._run(rows[len(rows) // 2 :])
                return
            rows[0][1].reason = "B's layer does not run on A's inputs, whose sizes do not fit it"
            _LOGGER.debug("isolated test failed: %s", error)

    def _run_rows(self, rows: Sequence[tuple[Draft, IsolatedTest]]) -> None:
        builder = SubgraphBuilder(self._b.signals)
        feeds: dict[str, np.ndarray] = {}
        for index, (draft, test) in enumerate(rows):
            shapes = {name: x.shape for name, x in test.feeds.items()}
            prefix = f"g{index}/"
            fed = builder.add(draft.nodes_b, [b for _, b in draft.outputs], shapes, prefix=prefix)
            test.sizes = self._sizes([name for name in fed if name not in test.feeds])
            feeds |= {prefix + name: {**test.feeds, **test.sizes}[name] for name in fed}
        computed = prepare(builder.finish()).run(feeds)
        for index, (draft, test) in enumerate(rows):
            self._measure(draft, test, {b: computed[f"g{index}/{b}"] for _, b in draft.outputs})

    def _sizes(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return B's own values of signals that only the sizes of views are computed from."""
        missing = [name for name in names if name not in self._b.tensors]
        if missing:
            raise RunError(f"B computes sizes from {', '.join(missing)}, which no layer of the group reads")
        return {name: self._b.tensors[name] for name in names}

    def _measure(self, draft: Draft, test: IsolatedTest, computed: Mapping[str, np.ndarray]) -> None:
        errors = []
        for name_a, name_b in draft.outputs:
            wanted, actual = self._a.tensors[name_a], computed[name_b]
            solved = solve_layout(
                wanted,
                actual,
                tolerance=LOCAL_TOLERANCE,
                hints=self._alignment.hints(),
                orientation=self._alignment.orientation,
            )
            change, error = solved or self._nearest(wanted, actual)
            errors.append(error)
            test.wanted[name_b] = wanted if change is None else change.apply(wanted)
            if change is not None:
                test.changes[name_b] = change
        test.error = max(errors, default=None)

    def _nearest(self, wanted: np.ndarray, made: np.ndarray) -> tuple[LayoutChange | None, float]:
        """Return the likeliest layout of a tensor whose values differ, and the error under it."""
        change = self._likely(wanted.shape, made.shape)
        if change is None:
            return None, float("inf")
        return change, relative_error(change.apply(wanted), made)

    def _likely(self, shape_a: Sizes, shape_b: Sizes | None) -> LayoutChange | None:
        """Return the layout that most of the net's tensors of such sizes have; sizes may differ."""
        votes, hints = self._alignment.votes, self._alignment.hints()
        layouts = (
            list(candidate_layouts(shape_a, shape_b, hints, self._alignment.orientation)) if shape_b else []
        )
        if layouts:
            return max(layouts, key=self._alignment.num_votes)
        if shape_b is not None and len(shape_a) != len(shape_b):
            return None
        known = [axes for axes, _ in votes.most_common() if len(axes) in {0, len(shape_a)}]
        fitting = [axes for axes in (*known, ()) if _keeps_channels(shape_a, shape_b, axes)]
        axes = next(iter((*fitting, *known)), ())
        return LayoutChange(axes=axes or None)

    def _feed(self, draft: Draft) -> IsolatedTest:
        """Find A's tensors for what B's nodes read."""
        test = IsolatedTest()
        if not draft.outputs:
            test.reason = "no output of the group has a counterpart"
            return test
        for name_a, name_b in self._frontier(draft, test):
            if name_a is None:
                test.reason = f"no counterpart of {name_b!r} is known"
                return test
            change = self.layout(name_a, name_b)
            if change is None:
                test.reason = f"{name_a!r} and {name_b!r} have different sizes"
                return test
            test.sources[name_b] = name_a
            test.layouts[name_b] = change
            test.feeds[name_b] = change.apply(self._a.tensors[name_a])
        for name_b, name_a in test.rewired.items():
            change = self.layout(name_a, name_b)
            if change is not None:
                test.instead[name_b] = change.apply(self._a.tensors[name_a])
        return test

    def _frontier(self, draft: Draft, test: IsolatedTest) -> list[tuple[str | None, str]]:
        """Return (signal of A, signal of B) for everything that B's nodes read from outside.

        What holds the values of another signal of A than A's nodes read is fed as what it is, and noted, if B
        has both: a layer that B lacks makes another finding.
        """
        reads_b = self._b.signals.reads_from_outside(draft.nodes_b)
        free_a = self._a.signals.reads_from_outside(draft.nodes_a)
        sources: dict[str, str] = {}
        for name_b in reads_b:
            pair = self._b.pairs.get(name_b)
            if pair is not None and pair.a in free_a:
                sources[name_b] = pair.a
                free_a.remove(pair.a)
        free_b = [name for name in reads_b if name not in sources]
        if len(free_a) == len(free_b):
            sources |= dict(zip(free_b, free_a, strict=True))
        for name_b in free_b:
            pair, source = self._b.pairs.get(name_b), sources.get(name_b, "")
            has_both = pair is not None and all(map(self._alignment.has_equal_values, (pair.a, source)))
            if pair is not None and has_both:
                test.rewired[name_b], sources[name_b] = source, pair.a
        return [(sources.get(name), name) for name in reads_b]


def _keeps_channels(shape_a: Sizes, shape_b: Sizes | None, axes: Sizes) -> bool:
    """Return whether a permutation of axes can be right though the images have other sizes."""
    moved = [shape_a[axis] for axis in axes] if axes else shape_a
    return sum(x == y for x, y in zip(moved, shape_b or (), strict=False)) > 1
