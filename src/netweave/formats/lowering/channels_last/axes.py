"""Operators along axes: the axes are those of the source, wherever the value has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.lowering.channels_last.tensor import (
    Operand,
    Tensor,
    is_first,
    position,
    to_first,
    to_last,
)
from netweave.formats.lowering.indexing import FAR, part_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.formats.lowering.channels_last.layer import ChannelsLastLayer
    from netweave.formats.lowering.indexing import Index


def along(
    ctx: ChannelsLastLayer, op_type: str, x: Operand, axis: int, attributes: Mapping[str, Any] | None = None
) -> Tensor:
    """Add an operator with an attribute ``axis`` that keeps all sizes: Softmax, LogSoftmax."""
    at, value, first = _at(ctx, x, axis)
    return Tensor(ctx.add(op_type, [value], {**(attributes or {}), "axis": at}), first)


def concat(ctx: ChannelsLastLayer, operands: Sequence[Operand], axis: int) -> Tensor:
    """Join tensors along an axis.

    Raises:
        ReadError: There are none.
    """
    if not operands:
        raise ctx.read_error("joins no tensors, expected one or more")
    rank = max(map(ctx.rank, operands))
    first = any(map(is_first, operands))
    at = position(ctx.axis(axis, rank), rank, first=first)
    values = [ctx.ordered(x, first=first) for x in operands]
    if len(values) == 1:
        return Tensor(values[0], first)
    return Tensor(ctx.add("Concat", values, {"axis": at}), first)


def split(ctx: ChannelsLastLayer, x: Operand, sizes: Sequence[int], axis: int) -> list[Tensor]:
    """Cut a tensor along an axis into pieces of the given sizes."""
    at, value, first = _at(ctx, x, axis)
    if len(sizes) == 1:
        return [Tensor(value, first)]
    pieces = ctx.add_many("Split", [value, ctx.integers(sizes)], {"axis": at}, outputs=len(sizes))
    return [Tensor(piece, first) for piece in pieces]


def reduce(ctx: ChannelsLastLayer, op_type: str, x: Operand, axes: Sequence[int], *, keep: bool) -> Tensor:
    """Add a ReduceMean, ReduceSum, ... over some axes, with sizes of 1 in their place or without them."""
    value, places = _removable(ctx, x, axes, keep=keep)
    reduced = ctx.add(op_type, [value, ctx.integers(places)], {"keepdims": int(keep)})
    return Tensor(reduced, keep and is_first(x))


def arg(ctx: ChannelsLastLayer, op_type: str, x: Operand, axis: int) -> Tensor:
    """Add an ArgMax or ArgMin over an axis, which goes."""
    rank = ctx.rank(x)
    axis = ctx.axis(axis, rank)
    first = is_first(x) and axis == rank - 1  # without the channels the other axes are in the source's order
    attributes = {"axis": 1 if first else axis, "keepdims": 0}
    return Tensor(ctx.add(op_type, [ctx.ordered(x, first=first)], attributes))


def pad(
    ctx: ChannelsLastLayer,
    x: Operand,
    amounts: Sequence[tuple[int, int]],
    *,
    mode: str = "constant",
    fill: float = 0,
) -> Tensor:
    """Pad each axis by (begin, end) elements."""
    rank = len(amounts)
    first = is_first(x)
    value = ctx.ordered(x, first=first)
    order = to_first(rank) if first else range(rank)
    begins, ends = ([amounts[axis][side] for axis in order] for side in (0, 1))
    more: list[ir.Value | None] = [ctx.scalar(fill, value)] if mode == "constant" else []
    return Tensor(ctx.add("Pad", [value, ctx.integers([*begins, *ends]), *more], {"mode": mode}), first)


def cut(ctx: ChannelsLastLayer, x: Operand, bounds: Mapping[int, tuple[int, int, int]]) -> Tensor:
    """Take the elements from begin to before end in steps, along each axis that is named."""
    if not bounds:
        return ctx.tensor(x)
    rank = ctx.rank(x)
    first = is_first(x)
    value = ctx.ordered(x, first=first)
    rows = list(bounds.values())
    lists = [[row[i] for row in rows] for i in (0, 1)]
    lists.append([position(axis, rank, first=first) for axis in bounds])
    lists.append([row[2] for row in rows])
    return Tensor(ctx.add("Slice", [value, *map(ctx.integers, lists)]), first)


def flip(ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Turn a tensor the other way round along some axes."""
    rank = ctx.rank(x)
    return cut(ctx, x, {ctx.axis(axis, rank): (-1, -FAR, -1) for axis in axes})


def drop(ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Take out axes of size 1."""
    if not axes:
        return ctx.tensor(x)
    value, places = _removable(ctx, x, axes, keep=False)
    return Tensor(ctx.add("Squeeze", [value, ctx.integers(places)]))


def index(ctx: ChannelsLastLayer, x: Operand, items: Sequence[Index]) -> Tensor:
    """Take a part of a tensor, as Python and NumPy write it: ``x[:, 1:3, 0, None]``."""
    part = part_of(items, ctx.rank(x))
    taken = drop(ctx, cut(ctx, x, part.bounds), part.removed)
    return widen(ctx, taken, part.added) if part.added else taken


def _removable(
    ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int], *, keep: bool
) -> tuple[ir.Value, list[int]]:
    """Return a value, and where it has axes that may go: the others stay in the source's order."""
    rank = ctx.rank(x)
    gone = {ctx.axis(axis, rank) for axis in axes}
    left = [position(axis, rank, first=True) for axis in range(rank) if axis not in gone]
    first = is_first(x) and (keep or left == sorted(left))
    return ctx.ordered(x, first=first), sorted(position(axis, rank, first=first) for axis in gone)


def widen(ctx: ChannelsLastLayer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Put in axes of size 1; the axes are those of the result."""
    return Tensor(ctx.unsqueeze(x, axes))


def transpose(ctx: ChannelsLastLayer, x: Operand, perm: Sequence[int]) -> Tensor:
    """Reorder axes; between channels first and last nothing is written."""
    rank = len(perm)
    if not isinstance(x, Tensor):
        return Tensor(ctx.add("Transpose", [x], {"perm": list(perm)}))
    if not x.first and rank > 2 and tuple(perm) == to_last(rank):
        return Tensor(x.value, first=True)
    moved = [position(axis, rank, first=x.first) for axis in perm]
    if moved == list(range(rank)):
        return Tensor(x.value)
    return Tensor(ctx.transpose(x.value, moved))


def gather(ctx: ChannelsLastLayer, x: Operand, indices: Operand, axis: int) -> Tensor:
    """Take entries along an axis by their numbers."""
    rank = ctx.rank(x)
    return Tensor(ctx.add("Gather", [x, indices], {"axis": ctx.axis(axis, rank)}))


def flatten(ctx: ChannelsLastLayer, x: Tensor) -> Tensor:
    """Bring all axes but the first into one, in the source's order."""
    shape = ctx.shape(x)
    if len(shape) == 2:
        return x
    value = x.value if x.first and all(size == 1 for size in shape[1:-1]) else ctx.source(x)
    return Tensor(ctx.add("Flatten", [value], {"axis": 1}))


def reshape(ctx: ChannelsLastLayer, x: Operand, sizes: Sequence[int | None]) -> Tensor:
    """Give a tensor other sizes, in the source's order of elements.

    Args:
        ctx: The layer.
        x: The tensor.
        sizes: The new sizes; None or -1 for those that follow from the others.

    Raises:
        ShapeError: More than one size is open.
    """
    shape = ctx.shape(x)
    wanted = [-1 if size is None else size for size in sizes]
    if isinstance(x, Tensor) and _keeps_batch(shape, wanted):
        if len(wanted) == 2:
            return flatten(ctx, x)
        wanted[0] = 0
        if len(shape) == 2 and all(size == 1 for size in wanted[1:-1]):  # a gate over the channels
            turned = [0, shape[1] or -1, *[1] * (len(wanted) - 2)]
            return Tensor(ctx.reshape(x.value, turned), first=True)
    if wanted.count(-1) > 1:
        # an open size that stays where it is can be said; the others cannot
        wanted = [
            0 if size == -1 and axis < len(shape) and axis < wanted.index(-1) + 1 and shape[axis] is None
            else size
            for axis, size in enumerate(wanted)
        ]  # fmt: skip
    if wanted.count(-1) > 1:
        raise ctx.shape_error(
            f"reshapes {_sizes_text(shape)} to {_sizes_text(sizes)}, where more than one size is open; "
            f"{ctx.give_sizes()}"
        )
    return Tensor(ctx.reshape(ctx.source(x), wanted))


def _keeps_batch(shape: Sequence[int | None], wanted: Sequence[int]) -> bool:
    """Return whether the first size stays, since the others hold as many elements as before."""
    if len(shape) < 2 or len(wanted) < 2:
        return False
    rest = [size for size in shape[1:] if size is not None]
    if len(rest) < len(shape) - 1:
        return False
    count = int(np.prod(rest, dtype=object))
    if wanted[0] != -1 and wanted[0] != shape[0]:
        return False
    if -1 in wanted[1:]:
        return wanted[0] == shape[0] and count > 0
    return int(np.prod(wanted[1:], dtype=object)) == count


def _at(ctx: ChannelsLastLayer, x: Operand, axis: int) -> tuple[int, ir.Value, bool]:
    rank = ctx.rank(x)
    first = is_first(x)
    value = ctx.ordered(x, first=first)
    return position(ctx.axis(axis, rank), rank, first=first), value, first


def _sizes_text(sizes: Sequence[int | None]) -> str:
    return "x".join("?" if size is None or size < 0 else str(size) for size in sizes)
