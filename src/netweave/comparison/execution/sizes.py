"""The sizes of inputs that two nets are compared at, and the nets at these sizes."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution import memory_budget
from netweave.graph import known_shape
from netweave.graph.passes.rewriting import likely_size
from netweave.graph.passes.rotary import join_rotations
from netweave.graph.passes.scaffolding import has_scaffolding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import onnx_ir as ir

    from netweave.comparison.execution.inputs import InputMapping
    from netweave.comparison.prepare import Side
    from netweave.graph import Graph

Sizes = dict[str, tuple[int, ...]]
"""Sizes of inputs by name."""

SizeKey = tuple[tuple[str, tuple[int, ...]], ...]
"""Sizes of inputs by name, in the order of the names."""


class Resizer:
    """Resizes the nets of a pair, each to one size once: a net of thousands of nodes takes a while."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, SizeKey], Side | None] = {}

    def resized(self, side: Side, sizes: Sizes) -> Side | None:
        """Return one net of the pair at other sizes of its inputs; None if it does not take them.

        Args:
            side: The net, always in the same form.
            sizes: Sizes of its own inputs.
        """
        key = side.name, size_key(sizes)
        if key not in self._known:
            graph = memory_budget.resized(side.graph, sizes)
            if graph is not None and graph is not side.graph and has_scaffolding(side.graph):
                join_rotations.edit(graph)  # whose cosines and sines are stored at one length
            self._known[key] = None if graph is None else side.with_graph(graph)
        return self._known[key]


FURTHER_OPEN_SIZES: tuple[Mapping[int, tuple[int, ...]], ...] = (
    {1: (16,), 2: (64, 96), 3: (16, 32, 48)},
    {1: (1024,), 2: (256, 384), 3: (16, 112, 112)},
    {1: (16384,), 2: (224, 224), 3: (64, 64, 96)},
)
"""Sizes of open axes, by how many an input has, for nets that do not take the odd ``OPEN_SIZE`` for each.

A net that halves its image and joins it with a later double of the half takes multiples alone; a sequence
may be bound by a table of positions, and a signal may have to be long. Squares come last: they hide height
and width that are swapped.
"""


def size_key(sizes: Sizes) -> SizeKey:
    """Return sizes as what can be looked up."""
    return tuple(sorted(sizes.items()))


def sizes_text(sizes: Sizes) -> str:
    """Return sizes for people.

    >>> sizes_text({"data": (1, 3, 24, 31)})
    'data 1x3x24x31'
    """
    return ", ".join(f"{name} {'x'.join(map(str, size))}" for name, size in sizes.items())


def declared_sizes(
    a: Graph, b: Graph, mappings: Sequence[InputMapping], *, num_samples: int = memory_budget.NUM_SAMPLES
) -> Sizes:
    """Return input sizes of A: as A declares them, else as B does, else what fits.

    Args:
        a: The first net.
        b: The second net.
        mappings: How A's inputs become B's.
        num_samples: The batch where both nets leave it open; where one does, it is that of the other.
    """
    sizes_a, sizes_b = memory_budget.base_sizes(a), memory_budget.base_sizes(b)
    pairs = [(m.a, sizes_a[m.a], m.sizes_of_a(sizes_b[m.b])) for m in mappings]
    batch = _batch([(own[0], other[0]) for _, own, other in pairs if own and other], num_samples)
    known: OpenSizes = {}
    for name, own, other in pairs:
        if len(own) != len(other):
            other = (None,) * len(own)
        both = [x if x is not None else y for x, y in zip(own, other, strict=True)]
        both[:1] = [batch if x is None else x for x in both[:1]]
        known[name] = tuple(both)

    def fit(sizes: Sizes) -> bool:
        sizes_b = {mapping.b: mapping.sizes_of_b(sizes[mapping.a]) for mapping in mappings}
        return all(memory_budget.resized(net, own) is not None for net, own in ((a, sizes), (b, sizes_b)))

    traced: list[OpenSizes] = [
        {m.a: a.assumed.get(m.a, ()) for m in mappings},
        {m.a: m.sizes_of_a(b.assumed[m.b]) if m.b in b.assumed else () for m in mappings},
    ]
    return _first_fitting(known, lambda: likely_size(a) or likely_size(b), fit, traced)


def sizes_to_run(graph: Graph) -> Sizes:
    """Return sizes of a net's inputs, in the order of the inputs: the known ones, and open ones that fit.

    Args:
        graph: The net, in the form that it is run in; an open batch is 1.
    """
    known = {
        str(value.name): tuple(1 if size is None and not axis else size for axis, size in enumerate(shape))
        for value in graph.inputs
        for shape in [known_shape(value) or ()]
    }
    return _first_fitting(
        known, lambda: likely_size(graph), lambda s: memory_budget.resized(graph, s) is not None
    )


OpenSizes = dict[str, tuple[int | None, ...]]
"""Sizes of inputs by name, None for one that is open."""


def _first_fitting(
    known: OpenSizes,
    likely: Callable[[], int | None],
    fit: Callable[[Sizes], bool],
    traced: Sequence[OpenSizes] = (),
) -> Sizes:
    """Return sizes with those filled in that are open: the first that fit, or else the first of all.

    Args:
        known: The sizes.
        likely: Returns a size that the net asks for.
        fit: Returns whether the nets take some sizes.
        traced: Sizes that code was traced with, tried last; one whose layers mix all places takes few others.
    """
    if not any(None in sizes for sizes in known.values()):
        return _filled(known, 0, {})
    size = likely() or memory_budget.OPEN_SIZE
    choices = [_filled(known, size, choice) for choice in ({}, *FURTHER_OPEN_SIZES)]
    for sizes in traced:
        if all(len(sizes[name]) == len(own) for name, own in known.items()):
            taken = {name: _completed(own, sizes[name]) for name, own in known.items()}
            choices.append(_filled(taken, size, {}))
    return next(filter(fit, choices), choices[0])


def _completed(sizes: Sequence[int | None], others: Sequence[int | None]) -> tuple[int | None, ...]:
    return tuple(other if size is None else size for size, other in zip(sizes, others, strict=True))


def _filled(known: OpenSizes, size: int, choice: Mapping[int, tuple[int, ...]]) -> Sizes:
    """Return sizes with the open ones of a choice, or all alike where it has none for so many."""
    filled = {}
    for name, sizes in known.items():
        count = sizes.count(None)
        chosen = iter(choice.get(count, (size,) * count))
        filled[name] = tuple(next(chosen) if each is None else each for each in sizes)
    return filled


def oblong(sizes: Sizes, mappings: Sequence[InputMapping]) -> Sizes:
    """Return sizes whose images are neither square nor even, so that rules show that depend on it.

    A square image hides height and width that are swapped, an even one how windows are rounded.

    Args:
        sizes: Sizes of A's inputs.
        mappings: How they become B's, with the axis of the channels.
    """
    channels = {mapping.a: mapping.channel_axis for mapping in mappings}
    changed = dict(sizes)
    for name, size in sizes.items():
        if len(size) == 4:
            height, width = (1, 2) if channels.get(name) == 3 else (2, 3)
            steps = {height: 5, width: 12}
            changed[name] = tuple(each + steps.get(axis, 0) for axis, each in enumerate(size))
    return changed


def frozen_side(a: Graph, b: Graph) -> str | None:
    """Return the net that computes what holds at its declared size alone; None if neither does.

    It was traced so, and the other net takes other sizes. Or both nets declare all sizes, and the other one
    does not resize to the same numbers: it has factors, perhaps.
    """
    for name, net, other in (("A", a, b), ("B", b, a)):
        is_open = any(None in sizes[1:] for sizes in memory_budget.base_sizes(other).values())
        if net.is_fixed and is_open:
            return name
    declared = [sizes for net in (a, b) for sizes in memory_budget.base_sizes(net).values()]
    if any(size is None for sizes in declared for size in sizes[1:]):
        return None
    of_a, of_b = _resized_to(a), _resized_to(b)
    return None if of_a == of_b else "A" if len(of_a) > len(of_b) else "B"


def _resized_to(graph: Graph) -> list[tuple[float, ...]]:
    """Return the sizes that a net resizes to by numbers, but for the batch, in order."""
    sizes = [_numbers(node, 3) for node in graph.nodes if node.op_type == "Resize"]
    return sorted(tuple(numbers[1:]) for numbers in sizes if numbers)


LARGEST_CONSTANT_SIZE = 4096
"""Constants beyond it are no sizes that a comparison reaches."""

LARGEST_INPUT = 1 << 22
"""Elements of an input that is made larger than usual to reach beyond a constant size."""

SIZE_STEP = 3
"""Distance beyond a constant size at which nets are compared."""


def constant_sizes(graph: Graph) -> set[tuple[int, str]]:
    """Return the numbers of a net that may be sizes of its inputs, each with what it is there for.

    They are ends of slices, rows of tables, and bounds.

    Args:
        graph: A net.
    """
    sizes_with_use: set[tuple[int, str]] = set()
    for node in graph.nodes:
        for index in SIZES_OF.get(node.op_type, ()):
            value = node.inputs[index] if index < len(node.inputs) else None
            array = value.const_value.numpy() if value is not None and value.const_value is not None else None
            if array is None:
                continue
            if index == 0:
                sizes_with_use |= {(size, node.op_type) for size in array.shape}
            elif array.dtype.kind in "iu":
                use = f"{node.op_type} {_stored(node, 3)}" if node.op_type == "Slice" else node.op_type
                sizes_with_use |= {(int(size), use) for size in array.reshape(-1)[:64]}
    return {(size, use) for size, use in sizes_with_use if 2 <= size <= LARGEST_CONSTANT_SIZE}


def window_ends(graph: Graph) -> set[tuple[int, str]]:
    """Return where slices of a net end along axes of open size, each as in ``constant_sizes``.

    Args:
        graph: A net.
    """
    ends_with_use: set[tuple[int, str]] = set()
    for node in graph.nodes:
        source = node.inputs[0] if node.op_type == "Slice" else None
        shape = None if source is None else known_shape(source)
        if shape is None:
            continue
        ends = _stored(node, 2)
        axes = _stored(node, 3)
        rows = zip(ends, axes or range(len(ends)), strict=False)
        ends_with_use |= {(end, f"Slice {axes}") for end, axis in rows if axis and shape[axis] is None}
    return {(end, use) for end, use in ends_with_use if 2 <= end <= LARGEST_CONSTANT_SIZE}


def _stored(node: ir.Node, index: int) -> list[int]:
    return list(map(int, _numbers(node, index)))


def _numbers(node: ir.Node, index: int) -> list[float]:
    value = node.inputs[index] if index < len(node.inputs) else None
    array = None if value is None or value.const_value is None else value.const_value.numpy()
    return [] if array is None else array.reshape(-1).tolist()


SIZES_OF = {
    "Slice": (0, 1, 2),
    "Gather": (0,),
    "Clip": (1, 2),
    "Min": (1,),
    "Max": (1,),
    "Less": (1,),
    "LessOrEqual": (1,),
    "Greater": (1,),
    "GreaterOrEqual": (1,),
    "Mod": (1,),
    "Range": (1,),
    "Expand": (1,),
    "Reshape": (1,),
    "Resize": (3,),
    "TopK": (1,),
}
"""Inputs of operators whose numbers may be sizes; of the first input, its own sizes are."""


def sizes_beyond(a: Graph, b: Graph, mappings: Sequence[InputMapping]) -> list[Sizes]:
    """Return sizes of A's inputs beyond the least and the largest constant size that only one net has.

    Sequences of open length come in one other length at least.

    Args:
        a: The first net.
        b: The second net.
        mappings: How A's inputs become B's.
    """
    sizes_a, sizes_b = memory_budget.base_sizes(a), memory_budget.base_sizes(b)
    pairs = {m.a: (sizes_a[m.a], m.sizes_of_a(sizes_b[m.b])) for m in mappings}
    known: OpenSizes = {}
    for name, (own, other) in pairs.items():
        other = other if len(own) == len(other) else (None,) * len(own)
        both = [x if x is not None else y for x, y in zip(own, other, strict=True)]
        both[:1] = [1 if x is None else x for x in both[:1]]
        known[name] = tuple(both)
    if not any(None in sizes for sizes in known.values()):
        return []
    of_a, of_b = constant_sizes(a), constant_sizes(b)
    has_same_axes = _slice_axes(a) == _slice_axes(
        b
    )  # if not, a length that both compute may cut another axis
    constants = {size for size, _ in (of_a ^ of_b if has_same_axes else of_a | of_b)}
    if any(None in sizes and len(sizes) != 4 for sizes in known.values()):  # images come in two sizes anyway
        constants.add(memory_budget.OPEN_SIZE)
    candidates = []
    for constant in sorted(constants):
        size = constant + SIZE_STEP
        sizes = _filled(known, size, {2: (size, size + 7)})
        if all(prod(each) <= LARGEST_INPUT for each in sizes.values()):
            candidates.append(sizes)
    return [candidates[i] for i in sorted({0, len(candidates) - 1})] if candidates else []


def batches_beyond(a: Graph, b: Graph, mappings: Sequence[InputMapping]) -> list[Sizes]:
    """Return sizes of A's inputs with so many samples that what one net alone does with the batch shows.

    Args:
        a: The first net.
        b: The second net.
        mappings: How A's inputs become B's.
    """
    batches = sorted(constant_batches(a) ^ constant_batches(b))
    if not batches or not all(memory_budget.has_open_batch(value) for net in (a, b) for value in net.inputs):
        return []
    declared = declared_sizes(a, b, mappings)
    return [
        {name: (batch, *sizes[1:]) for name, sizes in declared.items()}
        for batch in dict.fromkeys((batches[0], batches[-1]))
    ]


def constant_batches(graph: Graph) -> set[int]:
    """Return from how many samples on each slice and resizing of a net's batch shows.

    Args:
        graph: A net.
    """
    batches: set[int] = set()
    for node in graph.nodes:
        source = node.inputs[0] if node.op_type in {"Slice", "Resize", "Upsample"} else None
        shape = None if source is None else known_shape(source)
        if not shape or shape[0] is not None:
            continue
        if node.op_type == "Slice":
            starts, ends = _stored(node, 1), _stored(node, 2)
            rows = zip(_stored(node, 3) or range(len(ends)), starts, ends, strict=False)
            bounds = [abs(bound) for axis, *both in rows if axis in {0, -len(shape)} for bound in both]
            batches |= {bound + 1 for bound in bounds if bound <= LARGEST_CONSTANT_SIZE}
            continue
        scales = _numbers(node, 1 if node.op_type == "Upsample" else 2)
        if scales and scales[0] > 1 + float(np.finfo(np.float32).eps):
            batches.add(ceil(1 / (scales[0] - 1)))
        batches |= {int(sizes[0]) + 1 for sizes in [_numbers(node, 3)] if sizes}
    return batches


def _slice_axes(graph: Graph) -> list[list[int]]:
    return sorted(_stored(node, 3) for node in graph.nodes if node.op_type == "Slice")


def unreached_windows(a: Graph, b: Graph, mappings: Sequence[InputMapping]) -> Iterator[tuple[int, str]]:
    """Yield where slices of one net end that the other cannot reach, since its sizes are fixed, and its name.

    A module that is traced at one size has lost the slices that leave out nothing there.

    Args:
        a: The first net.
        b: The second net.
        mappings: How A's inputs become B's.
    """
    sizes_a, sizes_b = memory_budget.base_sizes(a), memory_budget.base_sizes(b)
    pairs = [(sizes_a[m.a], m.sizes_of_a(sizes_b[m.b])) for m in mappings]
    for fixed, graph, other in (("B", a, b), ("A", b, a)):
        longest = 0
        for own, theirs in pairs if fixed == "B" else [pair[::-1] for pair in pairs]:
            if len(own) == len(theirs):
                closed = [y for x, y in zip(own[1:], theirs[1:], strict=True) if x is None and y is not None]
                longest = max([longest, *closed])
        if longest:
            ends = {end for end, _ in window_ends(graph) - constant_sizes(other)}
            yield from ((end, fixed) for end in sorted(ends) if end > longest)


def _batch(firsts: Sequence[tuple[int | None, int | None]], num_samples: int) -> int:
    """Return the batch of both nets from the first sizes of their inputs, None where it is open."""
    for own, other in firsts:
        if (own is None) != (other is None):
            return own or other or 1
    return num_samples if all(first == (None, None) for first in firsts) else 1
