"""A model's configuration as calls of layers, whichever age of Keras wrote it.

Keras 2 writes a call as a list of ``[layer, call, output, settings]``; Keras 3 writes the arguments of the
call, with ``__keras_tensor__`` in the place of tensors. A Sequential model is a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from netweave.errors import ReadError

MODELS = frozenset({"Functional", "Model", "Sequential"})
"""Classes of models, which may be layers of other models."""

MAX_CALLS = 100_000
"""More calls of one layer are refused: each becomes nodes of its own."""

Ref = tuple[str, int, int]
"""A tensor: the layer that makes it, at which call, and which of its outputs."""


OPERATIONS = ("keras.src.ops", "keras.ops")
"""Where Keras has the operations that lie between layers."""


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """One layer of a model.

    Attributes:
        name: Its name.
        type: Its class.
        settings: Its settings as written.
        calls: The arguments of each call: tensors as ``Ref``, everything else as written.
        build: Sizes that it was built with, if the file says them.
        is_operation: Whether it is a function of ``keras.ops`` and no layer; some have a layer's name.
    """

    name: str
    type: str
    settings: Mapping[str, Any]
    calls: tuple[Arguments, ...] = ()
    build: Any = None
    is_operation: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call of a layer."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[Ref]:
        """Return the tensors among the arguments, in order."""
        return [*_refs(list(self.args)), *_refs(list(self.kwargs.values()))]


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A tensor among arguments."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Array:
    """An array among arguments.

    Attributes:
        name: Its name in the file; empty if the argument holds the values.
        values: Its values; None if the file holds them elsewhere.
    """

    name: str = ""
    values: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A model.

    Attributes:
        name: Its name.
        layers: Its layers, in the order of the file.
        inputs: The tensors that it is given.
        outputs: The tensors that it gives.
    """

    name: str
    layers: tuple[LayerConfig, ...]
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]


def parse_model(description: Any, *, place: str) -> Model:
    """Return the model that a configuration describes.

    Args:
        description: The configuration, as JSON values: its class and its settings.
        place: Name of the file, for errors.

    Raises:
        ReadError: It is no configuration of a model, or is one of a class that is code.
    """
    kind = _get(description, "class_name", str, place)
    if kind not in MODELS:
        raise ReadError(
            f"contains a model of the class {kind!r}, whose code is not in the file; "
            f"save it as a SavedModel, or export it to ONNX",
            place=place,
        )
    settings = description.get("config")
    if isinstance(settings, list):  # the oldest files of Sequential are a list of layers
        settings = {"name": "sequential", "layers": settings}
    if not isinstance(settings, Mapping):
        raise ReadError(f"the model of class {kind!r} has no settings", place=place)
    layers = [_layer(item, place) for item in _get(settings, "layers", list, place)]
    name = str(settings.get("name") or "model")
    if len({layer.name for layer in layers}) < len(layers):
        raise ReadError(f"the model {name!r} has two layers with the same name", place=place)
    if kind == "Sequential":
        return _chain(name, layers, settings, place)
    inputs = _ends(_get(settings, "input_layers", list, place), place)
    outputs = _ends(_get(settings, "output_layers", list, place), place)
    if _is_keras3(settings["layers"]):
        types = {layer.name: layer.type for layer in layers}
        # Keras 3 counts the calls of a model from 1 in this list, and from 0 among arguments
        outputs = tuple(
            (n, c - 1, i) if types.get(n) == "Functional" and c else (n, c, i) for n, c, i in outputs
        )
        return Model(name, tuple(layers), inputs, outputs)
    return Model(name, tuple(_counted(layers, outputs)), inputs, outputs)


def _is_keras3(layers: Sequence[Any]) -> bool:
    """Return whether calls are written with their arguments by position and by name."""
    calls = (
        call for layer in layers if isinstance(layer, Mapping) for call in layer.get("inbound_nodes") or ()
    )
    return any(isinstance(call, Mapping) for call in calls)


def _counted(layers: Sequence[LayerConfig], outputs: Sequence[Ref]) -> list[LayerConfig]:
    """Return layers whose calls are counted as tensors count them.

    Keras 2 counts the calls of a model that is a layer from 1, since making it was a call; it lists none.
    """
    read = {(ref[0], ref[1]) for layer in layers for call in layer.calls for ref in call.tensors()}
    read |= {(ref[0], ref[1]) for ref in outputs}
    return [
        replace(layer, calls=(Arguments(), *layer.calls))
        if layer.type in MODELS and (layer.name, 0) not in read
        else layer
        for layer in layers
    ]


def _layer(item: Any, place: str) -> LayerConfig:
    kind = _get(item, "class_name", str, place)
    settings = item.get("config")
    if not isinstance(settings, Mapping):
        raise ReadError(f"a layer of class {kind!r} has no settings", place=place)
    name = str(item.get("name") or settings.get("name") or kind.lower())
    build = item.get("build_config") or {}
    calls = item.get("inbound_nodes") or []
    if not isinstance(calls, list) or len(calls) > MAX_CALLS:
        raise ReadError(f"the calls of the layer {name!r} are not a list", place=place)
    return LayerConfig(
        name,
        kind,
        settings,
        tuple(_arguments(call, name, place) for call in calls),
        build.get("input_shape") if isinstance(build, Mapping) else None,
        str(item.get("module") or "").startswith(OPERATIONS),
    )


def _arguments(call: Any, name: str, place: str) -> Arguments:
    if isinstance(call, Mapping) and "args" in call:
        args, kwargs = call.get("args") or [], call.get("kwargs") or {}
        if not isinstance(args, list) or not isinstance(kwargs, Mapping):
            raise ReadError(
                f"a call of the layer {name!r} has {args!r:.40} and {kwargs!r:.40}, "
                f"expected a list and a mapping",
                place=place,
            )
        return Arguments(
            tuple(_written(argument, place) for argument in args),
            {key: _written(value, place) for key, value in kwargs.items()},
        )
    if not isinstance(call, list):
        raise ReadError(
            f"a call of the layer {name!r} is {call!r:.40}, which no version of Keras writes", place=place
        )
    rows = [call] if call and isinstance(call[0], str) else call
    tensors = tuple(TensorRef(_ref(row, place)) for row in rows)
    more: Any = next((row[3] for row in rows if isinstance(row, list) and len(row) > 3 and row[3]), {})
    settings = {key: _old(value, place) for key, value in more.items()} if isinstance(more, Mapping) else {}
    return Arguments(tensors, settings)


def _written(value: Any, place: str) -> Any:
    """Return an argument of Keras 3 with its tensors as references, and slices and arrays as they were."""
    if isinstance(value, list):
        return [_written(item, place) for item in value]
    if not isinstance(value, Mapping):
        return value
    settings = value.get("config")
    special = _SPECIAL.get(str(value.get("class_name")))
    if special is None or not isinstance(settings, Mapping):
        return {key: _written(item, place) for key, item in value.items()}
    try:
        return special(settings)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ReadError(f"has {value!r:.60} among the arguments of a layer: {error}", place=place) from error


def _tensor(settings: Mapping[str, Any]) -> TensorRef:
    history = settings.get("keras_history") or ["", 0, 0]
    return TensorRef((str(history[0]), _int(history[1]), _int(history[2])))


def _values(settings: Mapping[str, Any]) -> np.ndarray:
    return np.array(settings["value"], np.dtype(settings.get("dtype")))


_SPECIAL: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "__keras_tensor__": _tensor,
    "__numpy__": lambda settings: _values(settings),
    "__tensor__": lambda settings: Array(values=_values(settings)),
    "Variable": lambda settings: Array(str(settings["array"])),
    "__slice__": lambda settings: slice(*(settings.get(name) for name in ("start", "stop", "step"))),
    "__ellipsis__": lambda _: ...,
}
"""Values that JSON has not, by the class that Keras writes for them."""


def _old(value: Any, place: str) -> Any:
    """Return an argument by name of Keras 2: ``[layer, call, output]`` is a tensor."""
    if isinstance(value, list):
        if len(value) == 3 and isinstance(value[0], str) and all(isinstance(n, int) for n in value[1:]):
            return TensorRef(_ref(value, place))
        return [_old(item, place) for item in value]
    return value


def _refs(values: list[Any]) -> list[Ref]:
    refs: list[Ref] = []
    for value in values:
        if isinstance(value, TensorRef):
            refs.append(value.ref)
        elif isinstance(value, (list, tuple)):
            refs += _refs(list(value))
    return refs


def _ends(value: list[Any], place: str) -> tuple[Ref, ...]:
    """Return the tensors that a model is given or gives: one, or a list."""
    if value and isinstance(value[0], str):
        return (_ref(value, place),)
    return tuple(_ref(item, place) for item in value)


def _ref(row: Any, place: str) -> Ref:
    if not isinstance(row, list) or len(row) < 3 or not isinstance(row[0], str):
        raise ReadError(f"has {row!r:.60}, expected a tensor as [layer, call, output]", place=place)
    return (row[0], _int(row[1]), _int(row[2]))


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _chain(name: str, layers: list[LayerConfig], settings: Mapping[str, Any], place: str) -> Model:
    if not layers:
        raise ReadError(f"the model {name!r} has no layers", place=place)
    if layers[0].type != "InputLayer":
        shape = layers[0].settings.get("batch_input_shape") or layers[0].settings.get("batch_shape")
        shape = shape or settings.get("build_input_shape") or layers[0].build
        kind = layers[0].settings.get("dtype")
        dtype = kind if isinstance(kind, str) else "float32"
        layers = [
            LayerConfig(f"{layers[0].name}_input", "InputLayer", {"batch_shape": shape, "dtype": dtype}),
            *layers,
        ]
    chained = [LayerConfig(layers[0].name, layers[0].type, layers[0].settings, calls=(Arguments(),))]
    for before, layer in pairwise(layers):
        call = Arguments((TensorRef((before.name, 0, 0)),))
        chained.append(replace(layer, calls=(call,)))
    return Model(name, tuple(chained), ((chained[0].name, 0, 0),), ((chained[-1].name, 0, 0),))


def _get(value: Any, name: str, kind: type[Any], place: str) -> Any:
    setting = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(setting, kind):
        raise ReadError(
            f"{name!r} is {setting!r:.40} in the configuration, expected "
            f"{'a list' if kind is list else 'a word'}; is this a model of Keras?",
            place=place,
        )
    return setting
