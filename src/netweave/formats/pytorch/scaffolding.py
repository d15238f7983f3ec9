"""What PyTorch's tracer knew of sizes that its exporter lets the model compute, and where it was wrong.

The tracer takes the steps of its example as the size of a GRU's output, open or not, and the exporter writes
that number into a Reshape. What the operator makes is known without: steps, examples, directions, units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.passes.scaffolding import settled_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})

SIDE_BY_SIDE = [0, 2, 1, 3]
"""The order of axes by which the directions of a recurrent operator come to lie beside the units."""


def settle_reshapes(model: ir.Model) -> None:
    """Give each Reshape its sizes as numbers where they are computed, though the tracer knew them.

    Args:
        model: The model as exported, with the tracer's shapes: a size that is open stays one.
    """
    for node in model.graph:
        if (node.domain, node.op_type) != ("", "Reshape") or node.inputs[1] is None:
            continue
        width = _width_of_directions(node)
        if width is not None:
            _write(model, node, [0, 0, width])
            _forget_shapes(node)
        elif node.inputs[1].const_value is None and (sizes := settled_sizes(node)) is not None:
            _write(model, node, sizes)


def _write(model: ir.Model, node: ir.Node, sizes: Sequence[int]) -> None:
    tensor = ir.Tensor(np.array(sizes, np.int64), name=f"{node.outputs[0].name}/sizes")
    value = ir.Value(
        name=tensor.name,
        shape=ir.Shape([len(sizes)]),
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )
    model.graph.register_initializer(value)
    node.replace_input_with(1, value)
    node.attributes.pop("allowzero", None)


def _width_of_directions(node: ir.Node) -> int | None:
    """Return directions times units, if a Reshape joins these two axes of a recurrent operator's steps."""
    turn = node.inputs[0].producer() if node.inputs[0] is not None else None
    made = node.outputs[0].shape
    if turn is None or turn.op_type != "Transpose" or turn.inputs[0] is None or made is None:
        return None
    perm = turn.attributes.get("perm")
    layer = turn.inputs[0].producer()
    if layer is None or layer.op_type not in RECURRENT or turn.inputs[0] is not layer.outputs[0]:
        return None
    units, way = layer.attributes.get("hidden_size"), layer.attributes.get("direction")
    if perm is None or list(perm.as_ints()) != SIDE_BY_SIDE or units is None or len(made) != 3:
        return None
    width = units.as_int() * (2 if way is not None and way.as_string() == "bidirectional" else 1)
    return width if made[2] == width else None


def _forget_shapes(node: ir.Node) -> None:
    """Leave to be inferred what the tracer said of the sizes from a recurrent operator on."""
    stack, seen = [node], set()
    while stack:
        reader = stack.pop()
        if reader in seen:
            continue
        seen.add(reader)
        for value in reader.outputs:
            value.shape = None
            stack += [use.node for use in value.uses()]
