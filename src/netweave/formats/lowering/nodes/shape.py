"""Operators that move elements, decoded for writers: ranges, sizes, growth of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.graph import known_shape

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

    The first axis stays as it is if it is the batch, so that its size stays open.

    Raises:
        NotWritable: They are computed, or more than one is open.
    """
    old, new = node.shape(0), known_shape(node.outputs[0])
    if new is None:
        raise NotWritable("its sizes are computed")
    is_batch = bool(old and new) and old[0] == new[0]
    sizes = [0 if axis == 0 and is_batch else -1 if size is None else size for axis, size in enumerate(new)]
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
