"""Layers: a Keras configuration, its arrays, and the reader's rule for what they mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from netweave.errors import UsageError
from netweave.keras import constraints, initializers, regularizers
from netweave.keras.objects import Configured, check_arguments, serialize
from netweave.keras.operation import Meaning, Operation, Shape, WeightSpec, meaning_of
from netweave.keras.state import image_data_format, unique_name
from netweave.keras.variable import Variable

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
        """True if a fit changes its arrays; to be set before ``compile``."""
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
        found = meaning_of(self.class_name, self.config, args, kwargs, name=self.name)
        self._build(found)
        return found.outputs

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
        found = family(value)
        if isinstance(found, Configured):
            return serialize(found)
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
