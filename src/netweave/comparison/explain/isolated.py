"""Layers run in isolation."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.layout.change import LayoutChange
from netweave.comparison.layout.tensors import candidate_layouts, solve_layout
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.result.comparison import Group, Status, TensorValues
from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError, RunError
from netweave.formats.dialect import dialect_of
from netweave.graph import attributes_of, known_shape
from netweave.graph.ops.pooling import PoolWindows
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.value_matching import Draft
    from netweave.formats.dialect import Dialect, PoolCalls


# It separates the group that is wrong from the groups that only propagate an earlier error. All groups of a
# comparison are put into one graph and run at once, or into a few where they are very many (decision 0010).

Sizes = tuple[int, ...]

MAX_TOGETHER = 1500
"""Most groups in one run."""

FEW_ELEMENTS = 64
"""Signals of so many elements may hold the same values by chance."""

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
        made_a = {name for node in draft.nodes_a for name in self._a.signals.outputs_of(node)}
        free_b = [name for name in reads_b if name not in sources]
        if len(free_a) == len(free_b):
            sources |= dict(zip(free_b, free_a, strict=True))
        for name_b in free_b:
            pair, source = self._b.pairs.get(name_b), sources.get(name_b, "")
            has_both = pair is not None and all(map(self._has_counterpart, (pair.a, source)))
            if pair is not None and has_both and pair.a not in made_a:
                test.rewired[name_b], sources[name_b] = source, pair.a
        return [(sources.get(name), name) for name in reads_b]

    def _has_counterpart(self, name_a: str) -> bool:
        """Return whether B has a signal with the values of A's.

        Few elements alone pair no signals, but they are enough for those that are paired by other evidence.
        """
        if self._alignment.has_equal_values(name_a):
            return True
        pair, shape = self._a.pairs.get(name_a), self._a.tensors.shape_of(name_a)
        change = None if pair is None else self.layout(name_a, pair.b)
        if pair is None or change is None or shape is None or prod(shape) > FEW_ELEMENTS:
            return False
        if pair.b not in self._b.tensors:
            return False
        x, y = change.apply(self._a.tensors[name_a]), self._b.tensors[pair.b]
        return relative_error(x, y) <= LOCAL_TOLERANCE


def _keeps_channels(shape_a: Sizes, shape_b: Sizes | None, axes: Sizes) -> bool:
    """Return whether a permutation of axes can be right though the images have other sizes."""
    moved = [shape_a[axis] for axis in axes] if axes else shape_a
    return sum(x == y for x, y in zip(moved, shape_b or (), strict=False)) > 1


MAP_SIDE = 32
"""Rows and columns of a map: of a larger channel, blocks are shown."""

BINS = 24
"""Parts of the range in which values are counted."""

MAX_GROUPS = 400
"""Groups whose values are kept; of more, those that differ come first."""

MAX_COUNTED = 250_000
"""Elements that are counted, evenly picked from a larger tensor."""

ORDER = (
    Status.DIFFERENT,
    Status.LATENT,
    Status.UNKNOWN,
    Status.PROPAGATED,
    Status.MAPPED,
    Status.STRUCTURE,
    Status.EQUAL,
)


def with_values(alignment: Alignment, drafts: Sequence[Draft], groups: Sequence[Group]) -> list[Group]:
    """Return groups with the values of their outputs.

    Args:
        alignment: Both nets, run.
        drafts: The drafts of the groups, in the same order.
        groups: The groups, judged.
    """
    order = sorted(range(len(groups)), key=lambda number: _rank(groups[number]))
    shown = list(groups)
    for number in order[:MAX_GROUPS]:
        values = _group_values(alignment, drafts[number])
        if values is not None:
            shown[number] = replace(groups[number], values=values)
    return shown


def _rank(group: Group) -> int:
    return ORDER.index(group.status) if group.status in ORDER else len(ORDER)


def _group_values(alignment: Alignment, draft: Draft) -> TensorValues | None:
    """Return the values of a group's output that differs most; None where a net has no such tensor."""
    of_outputs = [
        values
        for name_a, name_b in draft.outputs
        if (values := _of_pair(alignment, name_a, name_b)) is not None
    ]
    return max(of_outputs, key=lambda values: max(values.channel_errors, default=0.0), default=None)


def _of_pair(alignment: Alignment, name_a: str, name_b: str) -> TensorValues | None:
    a, b = alignment.a.tensors.get(name_a), alignment.b.tensors.get(name_b)
    if a is None or b is None:
        return None
    pair = alignment.a.pairs.get(name_a)
    change = pair.change if pair is not None and pair.b == name_b else None
    if change is None:  # what differs in values has no proven layout: the one that most of the net has
        layouts = candidate_layouts(a.shape, b.shape, orientation=alignment.orientation)
        change = max(layouts, key=alignment.num_votes, default=None)
    if change is None:
        return None
    return tensor_values(change.apply(a), b, name_a=name_a, name_b=name_b)


def tensor_values(a: np.ndarray, b: np.ndarray, *, name_a: str, name_b: str) -> TensorValues | None:
    """Return what is shown of a tensor; None if the shapes differ or nothing is in it.

    Args:
        a: A's tensor in B's layout, batch first.
        b: B's tensor.
        name_a: Its name in A.
        name_b: Its name in B.

    >>> x = np.zeros((1, 2, 2, 2), np.float32)
    >>> y = x.copy()
    >>> y[0, 1, 0, 1] = 3
    >>> values = tensor_values(x + 1, y + 1, name_a="conv", name_b="conv")
    >>> values.place, values.value_b, values.channel_errors
    ((0, 1, 0, 1), 4.0, (0.0, 3.0))
    """
    if a.shape != b.shape or not a.size or a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None
    x, y = _canonical(a), _canonical(b)
    difference = _difference(x, y)
    finite = np.where(np.isfinite(x), x, 0)
    rms = np.sqrt(np.einsum("nchw,nchw->n", finite, finite, dtype=np.float64) / (finite[0].size))
    errors = difference.max(axis=(2, 3)) / np.maximum(rms, 1e-37)[:, None]
    errors[difference.max(axis=(2, 3)) == 0] = 0.0
    sample, channel = np.unravel_index(int(errors.argmax()), errors.shape)
    inside = difference[sample, channel]
    row, column = np.unravel_index(int(inside.argmax()), inside.shape)
    block, chosen = _blocks(inside)
    index = int(np.ravel_multi_index((sample, channel, row, column), x.shape))
    low, high = _range(x, y)
    return TensorValues(
        name_a=name_a,
        name_b=name_b,
        shape=a.shape,
        place=tuple(int(i) for i in np.unravel_index(index, a.shape)),
        value_a=float(x[sample, channel, row, column]),
        value_b=float(y[sample, channel, row, column]),
        rms=float(rms[sample]),
        channel_errors=tuple(float(error) for error in errors.max(axis=0)) if a.ndim > 2 else (),
        block=block,
        map_a=x[sample, channel].reshape(-1)[chosen],
        map_b=y[sample, channel].reshape(-1)[chosen],
        worst=(int(row) // block[0], int(column) // block[1]),
        low=low,
        high=high,
        counts_a=_counts(x, low, high),
        counts_b=_counts(y, low, high),
    )


def _canonical(x: np.ndarray) -> np.ndarray:
    """Return a tensor as (samples, channels, height, width); what has no channels has one."""
    if x.ndim == 0:
        shape: tuple[int, ...] = (1, 1, 1, 1)
    elif x.ndim < 3:
        shape = (x.shape[0], 1, 1, -1)
    elif x.ndim == 3:
        shape = (*x.shape[:2], 1, x.shape[2])
    else:
        shape = (*x.shape[:2], -1, x.shape[-1])
    return np.asarray(x, np.float64 if x.dtype == np.float64 else np.float32).reshape(shape)


def _difference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the size of the difference; what is finite in one alone is infinitely far apart."""
    with np.errstate(all="ignore"):
        difference: np.ndarray = np.abs(x - y)
    odd = ~np.isfinite(difference)
    if odd.any():
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        difference = np.where(same, 0, np.where(odd, np.inf, difference))
    return difference


def _blocks(difference: np.ndarray) -> tuple[tuple[int, int], np.ndarray]:
    """Return the size of blocks and, of each, the flat index of the element that differs most."""
    height, width = difference.shape
    tall, wide = -(-height // MAP_SIDE), -(-width // MAP_SIDE)
    rows, columns = -(-height // tall), -(-width // wide)
    padded = np.full((rows * tall, columns * wide), -1.0)
    padded[:height, :width] = difference
    blocks = padded.reshape(rows, tall, columns, wide).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    down, across = np.divmod(blocks.argmax(axis=2), wide)
    chosen = (np.arange(rows)[:, None] * tall + down) * width + np.arange(columns) * wide + across
    return (tall, wide), chosen


def _range(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    finite = [part[np.isfinite(part)] for part in (x, y)]
    known = [part for part in finite if part.size]
    if not known:
        return 0.0, 0.0
    return float(min(part.min() for part in known)), float(max(part.max() for part in known))


def _counts(x: np.ndarray, low: float, high: float) -> tuple[int, ...]:
    flat = x.reshape(-1)[:: max(1, x.size // MAX_COUNTED)]
    flat = flat[np.isfinite(flat)]
    if high <= low:
        return (0,) * (BINS // 2) + (int(flat.size),) + (0,) * (BINS - BINS // 2 - 1)
    bins = np.minimum((flat - low) / (high - low) * BINS, BINS - 1).astype(np.intp)
    return tuple(int(count) for count in np.bincount(bins, minlength=BINS))


POOLS = {"MaxPool": "max", "GlobalMaxPool": "max", "AveragePool": "average", "GlobalAveragePool": "average"}
"""Operators that pool, and how."""


def pooling_call(format: str, node: ir.Node) -> str:  # noqa: A002
    """Return what the code of a format calls to pool as a node does; empty if no call does.

    Args:
        format: The format.
        node: One of ``POOLS``.
    """
    words = dialect_of(format)
    calls = words.poolings
    if calls is None:
        return ""
    kind = POOLS[node.op_type]
    if node.op_type.startswith("Global"):
        shape = known_shape(node.outputs[0])
        template = calls.global_max if kind == "max" else calls.global_average
        return template.format(rank=len(shape) - 2) if shape is not None else ""
    return _of_windows(words, calls, kind, PoolWindows.of(node.domain, attributes_of(node)))


def _of_windows(words: Dialect, calls: PoolCalls, kind: str, windows: PoolWindows) -> str:
    rank = len(windows.kernel)
    template = calls.max if kind == "max" else calls.average
    if "{sizes}" not in template:  # the class alone; its settings are those of the other one
        return template.format(rank=rank)
    roundings = calls.max_roundings if kind == "max" else calls.average_roundings
    counts = kind == "max" or windows.counts_padding or not windows.any_pad
    if (
        rank not in calls.ranks
        or windows.rounding not in roundings
        or windows.begin != windows.end
        or any(size != 1 for size in windows.dilations)
        or not (counts or calls.without_padding)
    ):
        return ""
    names = {"kernel_shape": windows.kernel, "strides": windows.strides, "pads": windows.begin}
    sizes = ", ".join(f"{words.names[name]}={_size(value)}" for name, value in names.items())
    leaves_out = kind == "average" and not windows.counts_padding
    return template.format(
        rank=rank,
        sizes=sizes,
        up=windows.rounding != "floor",
        counts=calls.without_padding or "" if leaves_out else "",
    )


def _size(sizes: Sequence[int]) -> str:
    """Return a size as Python calls take it: one number where all are the same."""
    return str(sizes[0]) if len(set(sizes)) == 1 else f"({', '.join(map(str, sizes))})"
