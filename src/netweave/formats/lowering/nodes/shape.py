"""Operators that move elements, decoded for writers: ranges, sizes, growth of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable

if TYPE_CHECKING:
    from netweave.files.node_writer import GraphNode


def slice_ranges(node: GraphNode) -> list[tuple[int, int, int, int]]:
    """Return the ranges of a Slice as (axis counted from the front, begin, end, step >= 1).

    Raises:
        NotWritable: A range goes backwards.
    """
    rank, starts, ends = node.rank(0), node.ints(1), node.ints(2)
    axes = node.ints(3) if node.has(3) else range(len(starts))
    steps = node.ints(4) if node.has(4) else [1] * len(starts)
    if min(steps, default=1) < 1:
        raise NotWritable("a step back is not written")
    return [
        (axis % rank, begin, end, step)
        for axis, begin, end, step in zip(axes, starts, ends, steps, strict=True)
    ]


def permutation(node: GraphNode) -> list[int]:
    """Return the order of the axes that a Transpose makes; all in reverse by default."""
    return list(node.get("perm") or range(node.rank(0))[::-1])


def reshaped_sizes(node: GraphNode) -> list[int]:
    """Return the sizes that a node makes, for frameworks where 0 keeps an axis and -1 takes what is left.

    The first axis stays as it is if it is the batch, so that its size stays open, as do others that are open.

    Raises:
        NotWritable: They are computed, or more than one is open.
    """
    old, new = node.value(0).shape, node.outputs[0].shape
    if old is None or new is None:
        raise NotWritable("its sizes are computed")
    sizes = []
    for axis, size in enumerate(new):
        # of attention, the first axis is the batch times the heads: open sizes are told apart by their names
        is_kept = axis < len(old) and old[axis] == size and (axis == 0 or not isinstance(size, int))
        sizes.append(0 if is_kept else size if isinstance(size, int) else -1)
    if sizes.count(-1) > 1:
        raise NotWritable("more than one of its sizes is not known; give the input's sizes")
    return sizes


def repeats_elements(node: GraphNode) -> bool:
    """Return whether a Resize to nearest elements by whole factors repeats each element that often."""
    rule = node.get("coordinate_transformation_mode")
    nearest = node.get("nearest_mode")
    return (
        nearest == "floor" if rule == "asymmetric" else "half_pixel" in rule and nearest.startswith("round")
    )
