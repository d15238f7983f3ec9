"""Nodes around recurrent ones: ONNX has steps first and directions apart, frameworks do not.

T steps, N examples, H hidden units, D directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import known_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

BATCH_FIRST = [1, 0, 2]


def batch_first(node: ir.Node) -> ir.Value | None:
    """Return what is transposed into the sequence of a recurrent node, if the batch comes first there."""
    maker = node.inputs[0].producer() if node.inputs[0] is not None else None
    return maker.inputs[0] if maker is not None and _is(maker, "Transpose", perm=BATCH_FIRST) else None


def joined(output: ir.Value, columns: int) -> ir.Value | None:
    """Return (T, N, D * H) if nothing but that is made of the output: what frameworks give."""
    reader = _only_reader(output)
    if reader is not None and _is(reader, "Squeeze"):
        axes = reader.inputs[1].const_value if len(reader.inputs) > 1 and reader.inputs[1] else None
        return reader.outputs[0] if axes is not None and axes.numpy().tolist() == [1] else None
    return _reshaped(reader, [0, 2, 1, 3], columns)


def by_batch(output: ir.Value, columns: int) -> ir.Value | None:
    """Return (N, T, D * H) if nothing but that is made of the output: as the batch comes first."""
    if (made := _reshaped(_only_reader(output), [2, 0, 1, 3], columns)) is not None:
        return made
    by_step = joined(output, columns)
    turned = _only_reader(by_step) if by_step is not None else None
    return turned.outputs[0] if turned is not None and _is(turned, "Transpose", perm=BATCH_FIRST) else None


def last_state(state: ir.Value, columns: int) -> ir.Value | None:
    """Return (N, D * H) if nothing but that is made of a last state, (D, N, H): what frameworks give."""
    reader = _only_reader(state)
    if reader is not None and _is(reader, "Squeeze"):
        shape = known_shape(reader.outputs[0])
        return reader.outputs[0] if shape and len(shape) == 2 and shape[1] == columns else None
    return _reshaped(reader, BATCH_FIRST, columns, rank=2)


def first_state(state: ir.Value) -> ir.Value | None:
    """Return the (N, H) that a first state, (1, N, H), is made of by an axis more, if it is."""
    maker = state.producer()
    return maker.inputs[0] if maker is not None and _is(maker, "Unsqueeze") else None


def _reshaped(
    transpose: ir.Node | None, perm: Sequence[int], columns: int, *, rank: int = 3
) -> ir.Value | None:
    """Return what directions and units are put together in, behind a transpose that brings them together."""
    if transpose is None or not _is(transpose, "Transpose", perm=perm):
        return None
    reshape = _only_reader(transpose.outputs[0])
    shape = known_shape(reshape.outputs[0]) if reshape is not None and _is(reshape, "Reshape") else None
    return reshape.outputs[0] if reshape and shape and len(shape) == rank and shape[-1] == columns else None


def _only_reader(value: ir.Value) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


def _is(node: ir.Node, op_type: str, *, perm: Sequence[int] | None = None) -> bool:
    if node.domain or node.op_type != op_type:
        return False
    return perm is None or list(node.attributes.get_ints("perm", [])) == list(perm)
