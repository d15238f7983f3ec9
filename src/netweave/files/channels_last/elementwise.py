"""Operators on each element by itself; they keep the layout of what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.files.channels_last.tensor import Operand, Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.files.channels_last.writer import Writer


def unary(
    writer: Writer,
    op_type: str,
    x: Operand,
    attributes: Mapping[str, Any] | None = None,
    more: Sequence[ir.Value | None] = (),
) -> Tensor:
    """Write an operator on each element of one tensor.

    Args:
        writer: Where to.
        op_type: ONNX's name.
        x: The tensor.
        attributes: Its attributes.
        more: Further inputs without axes: limits, a ratio.
    """
    if isinstance(x, Tensor):
        return Tensor(writer.add(op_type, [x.value, *more], attributes), x.first)
    return Tensor(writer.add(op_type, [writer.source(x), *more], attributes))


def broadcast(
    writer: Writer, op_type: str, operands: Sequence[Operand], attributes: Mapping[str, Any] | None = None
) -> Tensor:
    """Write an operator that broadcasts its inputs, counted from the source's last axis."""
    rank = max(len(writer.shape(x)) for x in operands)
    first = any(isinstance(x, Tensor) and x.first and len(writer.shape(x)) == rank for x in operands)
    values = [writer.aligned(x, rank) if first else writer.source(x) for x in operands]
    return Tensor(writer.add(op_type, values, attributes), first)
