"""What PyTorch's tracer knew of sizes that its exporter lets the model compute."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netweave.passes.scaffolding import settled_sizes


def settle_reshapes(model: ir.Model) -> None:
    """Give each Reshape its sizes as numbers where they are computed, though the tracer knew them.

    Args:
        model: The model as exported, with the tracer's shapes: a size that is open stays one.
    """
    for node in model.graph:
        if (node.domain, node.op_type) != ("", "Reshape") or node.inputs[1] is None:
            continue
        if node.inputs[1].const_value is None and (sizes := settled_sizes(node)) is not None:
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
