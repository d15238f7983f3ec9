"""Nets of ONNX, written with onnx alone, so that a mistake of Netweave's cannot hide in its own benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Sizes = Sequence[int | str] | None


class OnnxWriter:
    """Collects the nodes and arrays of one net.

    Attributes:
        nodes: The nodes, in order.
        arrays: The stored arrays by name.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, values: Any) -> str:
        """Store an array and return its name."""
        self.arrays[name] = np.asarray(values)
        return name

    def add(self, op_type: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add a node and return its output, which is called as the node."""
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def model(
        self,
        name: str,
        inputs: Mapping[str, Sizes],
        outputs: Mapping[str, Sizes],
        *,
        opset: int,
        **settings: Any,
    ) -> onnx.ModelProto:
        """Return the model.

        Args:
            name: Of the graph.
            inputs: Their sizes by name.
            outputs: Sizes of the outputs, None where they are open.
            opset: Version of the operators.
            settings: More for ``make_model``.
        """
        arrays = [numpy_helper.from_array(values, key) for key, values in self.arrays.items()]
        graph = helper.make_graph(self.nodes, name, _infos(inputs), _infos(outputs), arrays)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **settings)


def _infos(sizes: Mapping[str, Sizes]) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
