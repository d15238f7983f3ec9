"""The base of functional models and Sequential: operations with arrays between inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.layer import Layer, assign_all
from netweave.keras.operation import KerasTensor, Operation, Shape, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from netweave.keras.graphs import CallGraph
    from netweave.keras.variable import Variable


class Network(Operation):
    """Operations between inputs and outputs; itself an operation, so that a model can be a layer.

    Args:
        class_name: ``Functional`` or ``Sequential``.
        name: Its name.
    """

    def __init__(self, class_name: str, *, name: str) -> None:
        module = "keras.src.models.functional" if class_name == "Functional" else "keras"
        super().__init__(class_name, {}, module=module, name=name)
        self._graph: CallGraph | None = None

    @property
    def call_graph(self) -> CallGraph:
        """The calls between inputs and outputs.

        Raises:
            UsageError: The sizes of the input are not known yet.
        """
        if self._graph is None:
            raise UsageError(
                f"the sizes of the input of {self.name!r} are not known; begin it with "
                "keras.Input(shape=...), call build(input_shape), or fit it first"
            )
        return self._graph

    @property
    def inputs(self) -> list[KerasTensor]:
        """The tensors that it is given."""
        return self.call_graph.inputs

    @property
    def outputs(self) -> list[KerasTensor]:
        """The tensors that it makes."""
        return self.call_graph.outputs

    @property
    def input(self) -> Any:
        """The tensor that it is given; a list where there are several."""
        return self.inputs[0] if len(self.inputs) == 1 else self.inputs

    @property
    def output(self) -> Any:
        """The tensor that it makes; a list where there are several."""
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    @property
    def input_shape(self) -> Any:
        """Sizes of the input; a list where there are several."""
        return self.inputs[0].shape if len(self.inputs) == 1 else [one.shape for one in self.inputs]

    @property
    def output_shape(self) -> Any:
        """Sizes of the output; a list where there are several."""
        return self.outputs[0].shape if len(self.outputs) == 1 else [one.shape for one in self.outputs]

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return [tensor.name for tensor in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the layers that make the outputs."""
        return [tensor.name for tensor in self.outputs]

    @property
    def layers(self) -> list[Any]:
        """Its layers, models among them, in Keras' order."""
        return [one for one in self.call_graph.operations if isinstance(one, (Layer, Network))]

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """Return a layer by its name or its number.

        Raises:
            UsageError: There is none.
        """
        layers = self.layers
        if index is not None and -len(layers) <= index < len(layers):
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        known = ", ".join(layer.name for layer in layers)
        raise UsageError(f"{self.name!r} has no layer {name if index is None else index!r}; it has: {known}")

    def named_layers(self, prefix: str = "") -> Iterator[tuple[str, Layer]]:
        """Yield its layers and those of models inside, with their names in a Graph of the model."""
        for operation in self.call_graph.operations:
            if isinstance(operation, Network):
                yield from operation.named_layers(f"{prefix}{operation.name}/")
            elif isinstance(operation, Layer):
                yield f"{prefix}{operation.name}", operation

    def variables_by_key(self) -> dict[str, tuple[Layer, Variable]]:
        """Return all arrays, with the layers that own them, by their keys in a Graph of the model."""
        return {
            f"{name}/{variable.spec.key}": (layer, variable)
            for name, layer in self.named_layers()
            for variable in layer.variables
        }

    @property
    def weights(self) -> list[Variable]:
        """All arrays, in Keras' order: layer by layer, each once."""
        found = [variable for _, layer in self.named_layers() for variable in layer.weights]
        return list({id(one): one for one in found}.values())

    @property
    def trainable_weights(self) -> list[Variable]:
        """The arrays that a fit changes."""
        found = [one for _, layer in self.named_layers() for one in layer.trainable_weights]
        return list({id(one): one for one in found}.values())

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """The arrays that no gradient changes."""
        learnt = set(map(id, self.trainable_weights))
        return [one for one in self.weights if id(one) not in learnt]

    @property
    def trainable(self) -> bool:
        """True if a fit changes any of its arrays; set, it holds for all of its layers."""
        return any(layer.trainable for _, layer in self.named_layers())

    @trainable.setter
    def trainable(self, value: bool) -> None:
        for _, layer in self.named_layers():
            if layer.class_name != "InputLayer":
                layer.trainable = value

    def get_weights(self) -> list[np.ndarray]:
        """Return copies of all arrays, in Keras' order."""
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replace all arrays.

        Raises:
            UsageError: There are more or fewer, or one has other sizes.
        """
        assign_all(self.weights, weights, f"model {self.name!r}")

    def count_params(self) -> int:
        """Return how many numbers all arrays hold."""
        return sum(int(np.prod(one.shape)) for one in self.weights)

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        return self.call_graph.config(self.name, trainable=True)

    def to_json(self, **ignored: Any) -> dict[str, Any]:
        """Return the model as Keras 3's files hold it."""
        return {
            "module": self.keras_module,
            "class_name": self.class_name,
            "config": self.get_config(),
            "registered_name": self.class_name if self.class_name == "Functional" else None,
            "name": self.name,
        }

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Shape, str], ...]:
        """Return the sizes of what the model makes of tensors of the sizes that it was built with."""
        given = tensors_in([*args, *kwargs.values()])
        if len(given) != len(self.inputs):
            raise UsageError(
                f"the model {self.name!r} has {len(self.inputs)} inputs, but is called with {len(given)}"
            )
        for tensor, own in zip(given, self.inputs, strict=True):
            if len(tensor.shape) != len(own.shape) or any(
                a is not None and b is not None and a != b
                for a, b in zip(tensor.shape, own.shape, strict=True)
            ):
                raise UsageError(
                    f"the model {self.name!r} is called with {tensor.shape}, its input is {own.shape}"
                )
        return tuple((tensor.shape, tensor.dtype) for tensor in self.outputs)
