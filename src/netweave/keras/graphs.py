"""The operations between symbolic tensors in Keras' order, and their configuration as its files have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.operation import KerasTensor, Node, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CallGraph:
    """The calls between the inputs and the outputs of a model.

    Args:
        inputs: The inputs.
        outputs: The outputs.

    Attributes:
        operations: The operations in Keras' order: by their distance from the outputs, then as the outputs
            reach them (``keras.src.ops.function.map_graph``); so are the arrays of ``get_weights``.
        nodes: Their calls, each after those that make its tensors.

    Raises:
        UsageError: An output does not follow from the inputs, or two operations have one name.
    """

    def __init__(self, inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor]) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._given = {id(tensor) for tensor in inputs}
        self._reached: dict[Operation, int] = {}
        self.nodes = self._in_order()
        self.operations = self._by_depth()
        self._check()

    def _in_order(self) -> list[Node]:
        done: set[int] = set()
        order: list[Node] = []
        stack = [(output.node, output, False) for output in reversed(self.outputs)]
        while stack:
            node, tensor, finished = stack.pop()
            if finished:
                order.append(node)
                continue
            if id(node) in done:
                continue
            done.add(id(node))
            if node.tensors and id(tensor) in self._given:
                continue
            self._reached.setdefault(node.operation, len(self._reached))
            stack.append((node, tensor, True))
            stack += [(before.node, before, False) for before in reversed(node.tensors)]
        return order

    def _by_depth(self) -> list[Operation]:
        depths: dict[int, int] = {}
        of_operation: dict[Operation, int] = {}
        inside = {id(node) for node in self.nodes}
        for node in reversed(self.nodes):
            depth = max(depths.get(id(node), 0), of_operation.get(node.operation, 0))
            of_operation[node.operation] = depths[id(node)] = depth
            for before in node.tensors:
                if id(before.node) in inside:
                    depths[id(before.node)] = max(depth + 1, depths.get(id(before.node), 0))
        for tensor in self.inputs:
            if tensor.node.operation not in of_operation:
                of_operation[tensor.node.operation] = 0
                self._reached[tensor.node.operation] = -1
                self.nodes.insert(0, tensor.node)
        return sorted(of_operation, key=lambda one: (-of_operation[one], self._reached[one]))

    def _check(self) -> None:
        known = set(self._given)
        for node in self.nodes:
            missing = [tensor for tensor in node.tensors if id(tensor) not in known]
            if missing or (not node.tensors and id(node.outputs[0]) not in known):
                tensor = missing[0] if missing else node.outputs[0]
                raise UsageError(
                    f"{tensor!r}, which the outputs need, does not follow from the inputs of the model; "
                    "name its input among them"
                )
            known |= {id(tensor) for tensor in node.outputs}
        names = [operation.name for operation in self.operations]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UsageError(f"two layers have the name {twice[0]!r}; give one of them another name")

    def config(self, name: str, *, trainable: bool = True) -> dict[str, Any]:
        """Return the settings of the functional model, JSON values."""
        inside = {id(node) for node in self.nodes}
        numbers: dict[int, int] = {}
        for operation in self.operations:
            calls = [node for node in operation.nodes if id(node) in inside]
            numbers |= {id(node): number for number, node in enumerate(calls)}
        layers = [
            {
                **operation.to_json(),
                "name": operation.name,
                "inbound_nodes": [
                    _call(node, numbers) for node in operation.nodes if id(node) in inside and node.tensors
                ],
            }
            for operation in self.operations
        ]
        return {
            "name": name,
            "trainable": trainable,
            "layers": layers,
            "input_layers": [_place(tensor, numbers) for tensor in self.inputs],
            "output_layers": [_end(tensor, numbers) for tensor in self.outputs],
        }


def _place(tensor: KerasTensor, numbers: Mapping[int, int]) -> list[Any]:
    return [tensor.name, numbers[id(tensor.node)], tensor.index]


def _end(tensor: KerasTensor, numbers: Mapping[int, int]) -> list[Any]:
    """Return an output; Keras counts the calls of a model from 1 here, and from 0 among arguments."""
    name, number, index = _place(tensor, numbers)
    return [name, number + 1 if tensor.node.operation.class_name == "Functional" else number, index]


def _call(node: Node, numbers: Mapping[int, int]) -> dict[str, Any]:
    return {
        "args": [_argument(value, numbers) for value in node.args],
        "kwargs": {key: _argument(value, numbers) for key, value in node.kwargs.items()},
    }


def _argument(value: Any, numbers: Mapping[int, int]) -> Any:
    """Return an argument as Keras 3's files hold it."""
    if isinstance(value, KerasTensor):
        settings = {"shape": list(value.shape), "dtype": value.dtype, "keras_history": _place(value, numbers)}
        return {"class_name": "__keras_tensor__", "config": settings}
    if isinstance(value, slice):
        bounds = {"start": value.start, "stop": value.stop, "step": value.step}
        return {"class_name": "__slice__", "config": bounds}
    if value is Ellipsis:
        return {"class_name": "__ellipsis__", "config": {}}
    if isinstance(value, np.ndarray):
        return {"class_name": "__numpy__", "config": {"value": value.tolist(), "dtype": str(value.dtype)}}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_argument(item, numbers) for item in value]
    return value
