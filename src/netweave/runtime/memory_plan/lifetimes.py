"""Lifetimes of values and buffers that they share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import onnx_ir as ir

from netweave.graph import Graph, gradient_factors, known_shape
from netweave.runtime.memory_plan.behaviour import behaviour_of


@dataclass(frozen=True, slots=True)
class Buffer:
    """One piece of memory.

    Attributes:
        name: What it holds, for people.
        kind: One of ``KINDS``.
        num_bytes: Its size.
        first: The step that allocates it, counted from 0.
        last: The last step that needs it, >= ``first``.
    """

    name: str
    kind: str
    num_bytes: int
    first: int
    last: int


KINDS = ("value", "gradient", "kept", "workspace", "parameter gradient")
"""Values of the net; gradients of values; what backward keeps beside values (indices, masks, statistics);
what a kernel needs while it runs; gradients of parameters."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The buffers of one run, or of one training step.

    Attributes:
        steps: What runs at each step: the name of a node, with ``forward``, ``recompute`` or ``backward``.
        buffers: All buffers.
        recompute_multiply_adds: Multiply-adds of what is computed a second time.
        recompute_bytes: Bytes that it reads and writes.
    """

    steps: Sequence[tuple[str, str]]
    buffers: Sequence[Buffer]
    recompute_multiply_adds: int = 0
    recompute_bytes: int = 0

    @property
    def total(self) -> int:
        """Bytes of all buffers, as if no memory were ever used again."""
        return sum(buffer.num_bytes for buffer in self.buffers)

    @property
    def peak(self) -> int:
        """The most bytes alive at once: no plan needs less."""
        return max(self.live_bytes(), default=0)

    def live_bytes(self) -> list[int]:
        """Return the bytes alive at each step."""
        changes = [0] * (len(self.steps) + 1)
        for buffer in self.buffers:
            changes[buffer.first] += buffer.num_bytes
            changes[buffer.last + 1] -= buffer.num_bytes
        return list(accumulate(changes[:-1]))

    def without(self, kind: str) -> Timeline:
        """Return the timeline without the buffers of one kind."""
        return self._with([buffer for buffer in self.buffers if buffer.kind != kind])

    def only(self, kind: str) -> Timeline:
        """Return the timeline with the buffers of one kind."""
        return self._with([buffer for buffer in self.buffers if buffer.kind == kind])

    def _with(self, rest: Sequence[Buffer]) -> Timeline:
        return Timeline(self.steps, rest, self.recompute_multiply_adds, self.recompute_bytes)


@dataclass(frozen=True, slots=True)
class Overwrite:
    """An input that a node writes its output over.

    Attributes:
        position: Of the input.
        in_training: Whether it does so in training too.
    """

    position: int
    in_training: bool


def overwrites(graph: Graph, wanted: Collection[ir.Value] = ()) -> dict[ir.Node, Overwrite]:
    """Return the nodes that may write over an input, and over which.

    A node may if it is the only reader of the input, the input is memory that its producer made for it, and
    output and input have the same shape and type. In training the producer's backward must not read it.

    Args:
        graph: The graph.
        wanted: Values that must keep what they hold, besides the outputs.
    """
    kept = {*graph.outputs, *wanted}
    rows = {}
    for node in graph.nodes:
        overwrite = _overwrite(node, kept)
        if overwrite is not None:
            rows[node] = overwrite
    return rows


def _overwrite(node: ir.Node, kept: Collection[ir.Value]) -> Overwrite | None:
    behaviour = behaviour_of(node)
    if gradient_factors(node):  # a scaled gradient comes through a view
        return None
    for position in behaviour.overwrites:
        value = node.inputs[position] if position < len(node.inputs) else None
        if value is not None and value not in kept and _is_free(value, node.outputs[0]):
            maker = value.producer()
            assert maker is not None
            fresh = behaviour_of(maker).fresh and value is maker.outputs[0]
            return Overwrite(position, in_training=fresh and behaviour.overwrites_in_training)
    return None


def _is_free(value: ir.Value, output: ir.Value) -> bool:
    maker = value.producer()
    if maker is None or len(value.uses()) != 1 or not behaviour_of(maker).owned:
        return False
    return value.dtype == output.dtype and _may_be_alike(known_shape(value), known_shape(output))


def _may_be_alike(ours: tuple[int | None, ...] | None, theirs: tuple[int | None, ...] | None) -> bool:
    """Return whether two shapes can be the same; a lowering looks again where a size is not known."""
    if ours is None or theirs is None:
        return True
    return len(ours) == len(theirs) and all(
        a is None or b is None or a == b for a, b in zip(ours, theirs, strict=True)
    )


ALIGNMENT = 64
"""Places are multiples of this many bytes: a cache line, and what vector instructions want."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Offsets of the buffers.

    Attributes:
        offsets: The first byte of each buffer, in the order given.
        num_bytes: Size of the block.
    """

    offsets: tuple[int, ...]
    num_bytes: int


def share(buffers: Sequence[Buffer]) -> Sharing:
    """Return places for buffers: one after the other, each into the tightest gap that is free all its life.

    MXNet gives out freed blocks while it walks the net (nnvm's ``PlanMemory``), so that a block is as
    large as the largest buffer that was ever in it. Placing in another order than that of time needs the
    whole schedule beforehand, which is known here, and comes closer to the bound (Pisarchyk and Lee 2020).
    No order is the best for all nets: the largest first is for most, the longest alive first for AlexNet.

    >>> from netweave.runtime.memory_plan.lifetimes import Buffer
    >>> a, b, c = (Buffer(n, "value", 64, i, i + 1) for i, n in enumerate("abc"))
    >>> share([a, b, c])
    Sharing(offsets=(0, 64, 0), num_bytes=128)
    """
    best = Sharing((), 0)
    if buffers:
        lives = _Lives.of(buffers)
        for keys in lives.orders():
            one = lives.placed(np.lexsort(keys))
            best = min(best, one, key=lambda each: each.num_bytes) if best.offsets else one
            if best.num_bytes == lives.bound:
                break
    return best


@dataclass(frozen=True, slots=True)
class _Lives:
    """Sizes of buffers, and the first and last steps of their lives, by number of the buffer.

    Attributes:
        around: The most bytes alive at once while each is alive.
        bound: The most bytes alive at once: no placing needs less.
    """

    sizes: np.ndarray
    first: np.ndarray
    last: np.ndarray
    around: np.ndarray
    bound: int

    @classmethod
    def of(cls, buffers: Sequence[Buffer]) -> _Lives:
        sizes = np.array([_aligned(buffer.num_bytes) for buffer in buffers], np.int64)
        first = np.array([buffer.first for buffer in buffers], np.int64)
        last = np.array([buffer.last for buffer in buffers], np.int64)
        changes = np.zeros(int(last.max()) + 2, np.int64)
        np.add.at(changes, first, sizes)
        np.subtract.at(changes, last + 1, sizes)
        live = np.cumsum(changes)
        around = np.array([live[a : b + 1].max() for a, b in zip(first, last, strict=True)], np.int64)
        return cls(sizes, first, last, around, int(live.max()))

    def orders(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield orders to place in, as keys for ``np.lexsort``: the last key counts most."""
        life = self.last - self.first + 1
        yield self.first, -self.sizes
        yield self.first, -self.sizes, -self.around
        yield self.first, -self.sizes, -life
        yield self.first, -self.sizes * life

    def placed(self, order: np.ndarray) -> Sharing:
        """Return places for the buffers, given in an order."""
        offsets = np.zeros(len(self.sizes), np.int64)
        placed = np.zeros(len(self.sizes), bool)
        for index in order:
            alive = placed & (self.first <= self.last[index]) & (self.last >= self.first[index])
            begins, ends = offsets[alive], (offsets + self.sizes)[alive]
            offsets[index] = _tightest(begins, ends, int(self.sizes[index]))
            placed[index] = True
        return Sharing(tuple(offsets.tolist()), int((offsets + self.sizes).max()))


def _tightest(begins: np.ndarray, ends: np.ndarray, size: int) -> int:
    """Return the begin of the smallest gap that holds a size; behind all if there is none."""
    best, place, top = None, 0, 0
    for begin, end in sorted(zip(begins.tolist(), ends.tolist(), strict=True)):
        gap = begin - top
        if gap >= size and (best is None or gap < best):
            best, place = gap, top
        top = max(top, end)
    return place if best is not None else top


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT
