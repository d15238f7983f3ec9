"""Layers and networks of Keras."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from netweave.errors import UsageError
from netweave.keras import constraints, initializers, regularizers
from netweave.keras.objects import Configured, check_arguments, serialize
from netweave.keras.older import layer_arguments
from netweave.keras.operation import (
    KerasTensor,
    Meaning,
    Node,
    Operation,
    Shape,
    Variable,
    WeightSpec,
    image_data_format,
    meaning_of,
    tensors_in,
    unique_name,
)

COMMON = ("activity_regularizer", "trainable", "dtype", "name", "input_shape", "input_dim", "autocast")
"""Arguments that every layer has."""

NOT_WRITTEN = frozenset({"use_cudnn", "weights"})
"""Arguments that say how Keras computes, and that its files do not hold."""

FIRST_BY_ROLE = {"gamma": "ones", "beta": "zeros", "bias": "zeros", "mean": "zeros", "variance": "ones"}
"""First values of arrays that no setting is for, by their role."""

FIRST_BY_NAME = {
    ("Attention", "scale"): "ones",
    ("AdditiveAttention", "scale"): "glorot_uniform",
    ("RMSNormalization", "scale"): "ones",
    ("PReLU", "alpha"): "zeros",
}
"""The same by class of the layer and name."""


UNDECLARED: dict[str, dict[str, Any]] = {"LayerNormalization": {"rms_scaling": False}}
"""Settings that Keras writes to its files and that are no argument; only their defaults are taken."""


BY_KEYWORD: dict[str, dict[str, Any]] = {
    kind: {"zero_output_for_mask": False} for kind in ("GRU", "LSTM", "SimpleRNN")
}
"""Arguments that Keras takes through ``**kwargs``, so that its signatures lack them, with their defaults."""


class Layer(Operation):
    """One layer.

    Args:
        args: The layer's own arguments, in Keras' order.
        kwargs: The same by name, and ``name``, ``trainable``, ``dtype``; ``input_shape`` for a first layer.

    Raises:
        UsageError: An argument is unknown or missing; the message names the nearest one.
    """

    signature: ClassVar[inspect.Signature] = inspect.Signature()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind = type(self).__name__
        kwargs = layer_arguments(self._own(), kwargs)
        for key, default in UNDECLARED.get(kind, {}).items():
            if kwargs.get(key) == default:
                del kwargs[key]
        by_keyword = {key: kwargs.pop(key, default) for key, default in BY_KEYWORD.get(kind, {}).items()}
        common = {name: kwargs.pop(name) for name in COMMON if name in kwargs and name not in self._own()}
        known = [*self._own(), *by_keyword, *COMMON]
        unknown = [name for name in kwargs if name not in self._own()]
        if unknown:
            from netweave.keras.objects import suggestion

            raise UsageError(f"{kind} has no argument {unknown[0]!r}{suggestion(unknown[0], known)}")
        bound = check_arguments(kind, self.signature, args, kwargs)
        bound.apply_defaults()
        name = str(common.get("name") or unique_name(kind))
        self.inner = {key: value for key, value in bound.arguments.items() if isinstance(value, Layer)}
        settings = {
            key: _setting(key, value) for key, value in bound.arguments.items() if key not in NOT_WRITTEN
        }
        settings |= by_keyword
        settings["trainable"] = bool(common.get("trainable", True))
        settings["dtype"] = common.get("dtype") or "float32"
        if common.get("activity_regularizer") is not None:
            settings["activity_regularizer"] = _setting(
                "activity_regularizer", common["activity_regularizer"]
            )
        super().__init__(kind, settings, module="keras.layers", name=name)
        self.given_shape = _given_shape(common)
        self.variables: list[Variable] = []
        self.built = False

    @classmethod
    def _own(cls) -> Mapping[str, inspect.Parameter]:
        return cls.signature.parameters

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Layer:
        """Return a layer with settings that ``get_config`` returned."""
        from_files = {"build_config", "batch_input_shape", "quantization_config", "lora_rank", "lora_alpha"}
        settings = {key: value for key, value in config.items() if key not in from_files}
        if isinstance(settings.get("dtype"), Mapping):
            settings["dtype"] = settings["dtype"].get("config", {}).get("name")
        return cls(**{key: _object(key, value) for key, value in settings.items()})

    @property
    def trainable(self) -> bool:
        """True if a fit changes its arrays; ``compile`` takes it as it is then."""
        return bool(self.config["trainable"])

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.config["trainable"] = bool(value)

    @property
    def weights(self) -> list[Variable]:
        """Its arrays, in Keras' order: those that are learnt before moving statistics."""
        return sorted(self.variables, key=lambda one: one.is_statistic)

    @property
    def trainable_weights(self) -> list[Variable]:
        """Its arrays that a fit changes."""
        return [one for one in self.weights if self.trainable and not one.is_statistic]

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """Its arrays that no gradient changes."""
        learnt = set(map(id, self.trainable_weights))
        return [one for one in self.weights if id(one) not in learnt]

    def get_weights(self) -> list[np.ndarray]:
        """Return copies of its arrays."""
        return [one.numpy() for one in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replace its arrays.

        Raises:
            UsageError: There are more or fewer, or one has other sizes.
        """
        assign_all(self.weights, weights, f"layer {self.name!r}")

    def count_params(self) -> int:
        """Return how many numbers its arrays hold."""
        return sum(int(np.prod(one.shape)) for one in self.variables)

    def results(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Shape, str], ...]:
        """Return the sizes and element types of what it makes; the first call makes its arrays."""
        meaning = meaning_of(self.class_name, self.config, args, kwargs, name=self.name)
        self._build(meaning)
        return meaning.outputs

    def _build(self, found: Meaning) -> None:
        if not self.built:
            self.variables = [Variable(spec, self.name, partial(self._first, spec)) for spec in found.weights]
            self.built = True
            return
        for variable, spec in zip(self.variables, found.weights, strict=True):
            if variable.shape != spec.shape:
                raise UsageError(
                    f"layer {self.name!r}: its {spec.name!r} is {variable.shape} since its first call, and "
                    f"would be {spec.shape} for this input"
                )

    def _first(self, spec: WeightSpec) -> np.ndarray:
        """Draw the first values of an array."""
        config = config_of(self.config, spec)
        given = config.get(setting_name(spec, "initializer", config))
        if given is None:
            given = FIRST_BY_NAME.get((self.class_name, spec.name)) or FIRST_BY_ROLE.get(
                spec.role, "glorot_uniform"
            )
        initializer = initializers.get(given)
        if isinstance(initializer, initializers.Initializer):
            values = initializer(spec.shape, key=f"{self.name}/{spec.key}")
        else:
            values = np.asarray(initializer(spec.shape), np.float32)
        if spec.name == "bias" and config.get("unit_forget_bias"):
            units = spec.shape[-1] // 4
            values = np.array(values)
            values[..., units : 2 * units] = 1.0
        return values

    def __repr__(self) -> str:
        return f"<{self.class_name} name={self.name}>"


def config_of(config: Mapping[str, Any], spec: WeightSpec) -> Mapping[str, Any]:
    """Return the settings of the layer that owns an array: of one inside the layer, or its own."""
    if "layer" not in config or not isinstance(config["layer"], Mapping):
        return config
    is_back = spec.inside.startswith("backward") and config.get("backward_layer")
    inner: Mapping[str, Any] = config["backward_layer" if is_back else "layer"]["config"]
    return inner


def setting_name(spec: WeightSpec, ending: str, config: Mapping[str, Any]) -> str:
    """Return the setting for an array: ``recurrent_initializer`` of ``recurrent_kernel``."""
    stem = spec.name
    if f"{stem}_{ending}" not in config:
        stem = stem.removesuffix("_kernel")
    if stem == "kernel" and f"depthwise_{ending}" in config:  # Keras 3 has another name for the array alone
        stem = "depthwise"
    return f"{stem}_{ending}"


def object_for(layer: Layer, spec: WeightSpec, ending: str, get: Callable[[Any], Any]) -> Any:
    """Return the regularizer or the constraint of an array; None if it has none."""
    config = config_of(layer.config, spec)
    return get(config.get(setting_name(spec, ending, config)))


def assign_all(variables: Sequence[Variable], values: Sequence[Any], what: str) -> None:
    """Replace arrays.

    Raises:
        UsageError: There are more or fewer, or one has other sizes; nothing is changed then.
    """
    arrays = [np.asarray(value, np.float32) for value in values]
    if len(arrays) != len(variables):
        raise UsageError(f"{what} has {len(variables)} arrays, but {len(arrays)} are given")
    for variable, array in zip(variables, arrays, strict=True):
        if array.shape != variable.shape:
            raise UsageError(
                f"array {variable.path!r} has the shape {array.shape}, expected {variable.shape}"
            )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def _setting(name: str, value: Any) -> Any:
    """Return an argument as Keras' files hold it."""
    family = _family(name)
    if family is not None and value is not None:
        configured = family(value)
        if isinstance(configured, Configured):
            return serialize(configured)
        raise UsageError(f"{name}: a function cannot be stored; give one of Keras' classes")
    if name == "data_format" and value is None:
        return image_data_format()
    if isinstance(value, Operation):
        return value.to_json()
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    if isinstance(value, (tuple, list)):
        return [_setting("", item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _object(name: str, value: Any) -> Any:
    if name in {"layer", "backward_layer"} and isinstance(value, Mapping):
        return layer_from_json(value)
    if name == "activation" and isinstance(value, Mapping):
        return value.get("config")
    return value


def layer_from_json(content: Mapping[str, Any]) -> Layer:
    """Return the layer that a configuration describes.

    Raises:
        UsageError: Its class is unknown.
    """
    name = str(content.get("class_name"))
    if name not in LAYERS:
        from netweave.keras.objects import suggestion

        raise UsageError(f"unknown layer {name!r}{suggestion(name, LAYERS)}")
    return LAYERS[name].from_config(content.get("config") or {})


LAYERS: dict[str, type[Layer]] = {}
"""The classes of layers by name."""


def _family(name: str) -> Callable[[Any], Any] | None:
    if name.endswith("_initializer"):
        return initializers.get
    if name.endswith("_regularizer"):
        return regularizers.get
    return constraints.get if name.endswith("_constraint") else None


def _given_shape(common: Mapping[str, Any]) -> tuple[int | None, ...] | None:
    if common.get("input_shape") is not None:
        return tuple(common["input_shape"])
    return None if common.get("input_dim") is None else (int(common["input_dim"]),)


def layer_class(name: str, parameters: str, doc: str, **methods: Callable[..., Any]) -> type[Layer]:
    """Return a class of layers.

    Args:
        name: Keras' name for it.
        parameters: Its own parameters, as Python writes them.
        doc: What the layer does.
        methods: Methods that it alone has.
    """
    scope: dict[str, Any] = {}
    exec(f"def arguments({parameters}): pass", {}, scope)
    members = {"signature": inspect.signature(scope["arguments"]), "__doc__": doc, **methods}
    LAYERS[name] = type(name, (Layer,), members)
    return LAYERS[name]


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
        variables = [variable for _, layer in self.named_layers() for variable in layer.weights]
        return list({id(one): one for one in variables}.values())

    @property
    def trainable_weights(self) -> list[Variable]:
        """The arrays that a fit changes."""
        variables = [one for _, layer in self.named_layers() for one in layer.trainable_weights]
        return list({id(one): one for one in variables}.values())

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
