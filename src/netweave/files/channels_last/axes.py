"""Operators along axes: the axes are those of the source, wherever the value has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.channels_last.tensor import Operand, Tensor, position, to_first, to_last

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.files.channels_last.writer import Writer

FAR = 2**31 - 1
"""An end of a slice that stands for the end of the axis."""


def along(
    writer: Writer, op_type: str, x: Operand, axis: int, attributes: Mapping[str, Any] | None = None
) -> Tensor:
    """Write an operator with an attribute ``axis`` that keeps all sizes: Softmax, LogSoftmax."""
    at, value, first = _at(writer, x, axis)
    return Tensor(writer.add(op_type, [value], {**(attributes or {}), "axis": at}), first)


def concat(writer: Writer, operands: Sequence[Operand], axis: int) -> Tensor:
    """Join tensors along an axis."""
    rank = max(len(writer.shape(x)) for x in operands)
    first = any(isinstance(x, Tensor) and x.first for x in operands)
    at = position(writer.axis(axis, rank), rank, first=first)
    values = [writer.first(x) if first else writer.source(x) for x in operands]
    if len(values) == 1:
        return Tensor(values[0], first)
    return Tensor(writer.add("Concat", values, {"axis": at}), first)


def split(writer: Writer, x: Operand, sizes: Sequence[int], axis: int) -> list[Tensor]:
    """Cut a tensor along an axis into pieces of the given sizes."""
    at, value, first = _at(writer, x, axis)
    if len(sizes) == 1:
        return [Tensor(value, first)]
    made = writer.add_many("Split", [value, writer.integers(sizes)], {"axis": at}, num_outputs=len(sizes))
    return [Tensor(piece, first) for piece in made]


def reduce(writer: Writer, op_type: str, x: Operand, axes: Sequence[int], *, keep: bool) -> Tensor:
    """Write a ReduceMean, ReduceSum, ... over some axes, with sizes of 1 in their place or without them."""
    rank = len(writer.shape(x))
    gone = {writer.axis(axis, rank) for axis in axes}
    first = isinstance(x, Tensor) and x.first
    left = [position(axis, rank, first=first) for axis in range(rank) if axis not in gone]
    if first and not keep and left != sorted(left):
        first = False
    value = writer.first(x) if first else writer.source(x)
    places = sorted(position(axis, rank, first=first) for axis in gone)
    made = writer.add(op_type, [value, writer.integers(places)], {"keepdims": int(keep)})
    return Tensor(made, first and keep)


def arg(writer: Writer, op_type: str, x: Operand, axis: int) -> Tensor:
    """Write an ArgMax or ArgMin over an axis, which goes."""
    rank = len(writer.shape(x))
    if isinstance(x, Tensor) and x.first and writer.axis(axis, rank) == rank - 1:
        return Tensor(writer.add(op_type, [x.value], {"axis": 1, "keepdims": 0}))
    value = writer.source(x)
    return Tensor(writer.add(op_type, [value], {"axis": writer.axis(axis, rank), "keepdims": 0}))


def pad(
    writer: Writer, x: Operand, amounts: Sequence[tuple[int, int]], *, mode: str = "constant", fill: float = 0
) -> Tensor:
    """Pad each axis by (begin, end) elements."""
    rank = len(amounts)
    first = isinstance(x, Tensor) and x.first
    value = writer.first(x) if first else writer.source(x)
    order = to_first(rank) if first else range(rank)
    begins, ends = ([amounts[axis][side] for axis in order] for side in (0, 1))
    more: list[ir.Value | None] = [writer.number(fill, value)] if mode == "constant" else []
    return Tensor(writer.add("Pad", [value, writer.integers([*begins, *ends]), *more], {"mode": mode}), first)


def cut(writer: Writer, x: Operand, bounds: Mapping[int, tuple[int, int, int]]) -> Tensor:
    """Take the elements from begin to before end in steps, along each axis that is named."""
    if not bounds:
        return x if isinstance(x, Tensor) else Tensor(writer.source(x))
    rank = len(writer.shape(x))
    first = isinstance(x, Tensor) and x.first
    value = writer.first(x) if first else writer.source(x)
    rows = list(bounds.values())
    lists = [[row[i] for row in rows] for i in (0, 1)]
    lists.append([position(axis, rank, first=first) for axis in bounds])
    lists.append([row[2] for row in rows])
    return Tensor(writer.add("Slice", [value, *map(writer.integers, lists)]), first)


def drop(writer: Writer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Take out axes of size 1."""
    if not axes:
        return x if isinstance(x, Tensor) else Tensor(writer.source(x))
    rank = len(writer.shape(x))
    gone = {writer.axis(axis, rank) for axis in axes}
    first = isinstance(x, Tensor) and x.first
    left = [position(axis, rank, first=first) for axis in range(rank) if axis not in gone]
    first = first and left == sorted(left)
    value = writer.first(x) if first else writer.source(x)
    places = sorted(position(axis, rank, first=first) for axis in gone)
    return Tensor(writer.add("Squeeze", [value, writer.integers(places)]))


def widen(writer: Writer, x: Operand, axes: Sequence[int]) -> Tensor:
    """Put in axes of size 1; the axes are those of the result."""
    return Tensor(writer.add("Unsqueeze", [writer.source(x), writer.integers(axes)]))


def transpose(writer: Writer, x: Operand, perm: Sequence[int]) -> Tensor:
    """Reorder axes; between channels first and last nothing is written."""
    rank = len(perm)
    if not isinstance(x, Tensor):
        return Tensor(writer.add("Transpose", [writer.source(x)], {"perm": list(perm)}))
    if not x.first and rank > 2 and tuple(perm) == to_last(rank):
        return Tensor(x.value, first=True)
    moved = [position(axis, rank, first=x.first) for axis in perm]
    if moved == list(range(rank)):
        return Tensor(x.value)
    return Tensor(writer.add("Transpose", [x.value], {"perm": moved}))


def gather(writer: Writer, x: Operand, indices: ir.Value, axis: int) -> Tensor:
    """Take entries along an axis by their numbers."""
    rank = len(writer.shape(x))
    return Tensor(writer.add("Gather", [writer.source(x), indices], {"axis": writer.axis(axis, rank)}))


def flatten(writer: Writer, x: Tensor) -> Tensor:
    """Bring all axes but the first into one, in the source's order."""
    shape = writer.shape(x)
    if len(shape) == 2:
        return x
    value = x.value if x.first and all(size == 1 for size in shape[1:-1]) else writer.source(x)
    return Tensor(writer.add("Flatten", [value], {"axis": 1}))


def reshape(writer: Writer, x: Operand, sizes: Sequence[int | None]) -> Tensor:
    """Give a tensor other sizes, in the source's order of elements.

    Args:
        writer: Where to.
        x: The tensor.
        sizes: The new sizes; None or -1 for those that follow from the others.

    Raises:
        ShapeError: More than one size is open.
    """
    shape = writer.shape(x)
    wanted = [-1 if size is None else size for size in sizes]
    if isinstance(x, Tensor) and _keeps_batch(shape, wanted):
        if len(wanted) == 2:
            return flatten(writer, x)
        wanted[0] = 0
        if len(shape) == 2 and all(size == 1 for size in wanted[1:-1]):  # a gate over the channels
            turned = [0, shape[1] or -1, *[1] * (len(wanted) - 2)]
            return Tensor(writer.add("Reshape", [x.value, writer.integers(turned)]), first=True)
    if wanted.count(-1) > 1:
        # an open size that stays where it is can be said; the others cannot
        wanted = [
            0 if size == -1 and axis < len(shape) and axis < wanted.index(-1) + 1 and shape[axis] is None
            else size
            for axis, size in enumerate(wanted)
        ]  # fmt: skip
    if wanted.count(-1) > 1:
        raise writer.wrong(
            f"reshapes {_words(shape)} to {_words(sizes)}, where more than one size is open; give the sizes "
            f"of the net's inputs, as in --input-shape image=1x224x224x3"
        )
    return Tensor(writer.add("Reshape", [writer.source(x), writer.integers(wanted)]))


def _keeps_batch(shape: Sequence[int | None], wanted: Sequence[int]) -> bool:
    """Whether the first size stays, since the others hold as many elements as before."""
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


def _at(writer: Writer, x: Operand, axis: int) -> tuple[int, ir.Value, bool]:
    rank = len(writer.shape(x))
    first = isinstance(x, Tensor) and x.first
    value = writer.first(x) if first else writer.source(x)
    return position(writer.axis(axis, rank), rank, first=first), value, first


def _words(sizes: Sequence[int | None]) -> str:
    return "x".join("?" if size is None or size < 0 else str(size) for size in sizes)
