"""One standard node on stored arrays, by ONNX's reference evaluator."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from netweave.graph import OPSET

if TYPE_CHECKING:
    from collections.abc import Sequence


def evaluate_node(node: onnx.NodeProto, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a standard node without subgraphs.

    Args:
        node: The node.
        arrays: Its inputs in order, without those that it leaves out.

    Raises:
        Exception: The evaluator does not know the operator, or cannot compute it for these inputs; it has no
            type of its own for either.
    """
    from onnx.reference import ReferenceEvaluator  # loaded when first needed: it takes 0.2 s

    names = [name for name in node.input if name]
    feeds = dict(zip(names, arrays, strict=True))
    graph = onnx.GraphProto(name="constant")
    graph.node.append(node)
    for name in dict.fromkeys(names):
        graph.input.append(onnx.helper.make_tensor_value_info(name, _element_type(feeds[name]), None))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    evaluator = ReferenceEvaluator(model, new_ops=[_gather_elements()])
    return [np.asarray(array) for array in evaluator.run(None, feeds)]


def _element_type(array: np.ndarray) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


@cache
def _gather_elements() -> type[Any]:
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):
        """GatherElements-13: ``data[..., indices[i][j], ...]``, where the other axes may be read in part.

        The evaluator's own takes ``np.choose``, which knows no more than 64 choices (BERT looks among 512
        positions), and refuses indices that are of another size than the data on other axes.
        """

        def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
            axis %= data.ndim
            part = tuple(slice(None if i == axis else size) for i, size in enumerate(indices.shape))
            return (np.take_along_axis(data[part], indices, axis),)

    return GatherElements
