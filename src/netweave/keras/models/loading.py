"""Models from files, and from their configuration, whichever age of Keras wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netweave.errors import UsageError
from netweave.files.source import Source
from netweave.formats.keras.config import LayerConfig, Ref, TensorRef, parse_model
from netweave.formats.keras.config import Model as ModelConfig
from netweave.formats.keras.layers import READERS
from netweave.formats.keras.opening import Opened, open_model
from netweave.formats.keras.reader import calls_in_order
from netweave.keras.layer import LAYERS, layer_from_json
from netweave.keras.models.model import Model, Sequential
from netweave.keras.objects import suggestion
from netweave.keras.operation import KerasTensor, Operation
from netweave.keras.optimizer_files import PLACE
from netweave.keras.saving import assign_arrays


def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True) -> Any:  # noqa: A002
    """Return the model of a file: ``.keras`` or ``.h5``.

    Args:
        filepath: The file.
        custom_objects: Has to be empty: classes of a user's own are not supported.
        compile: Whether to compile the model as it was when it was written.

    Raises:
        SourceError: The file cannot be read.
        UsageError: It has a layer or an argument that is not supported.
    """
    if custom_objects:
        raise UsageError("custom_objects is not supported: layers and losses are those of Keras")
    opened = open_model(Source(Path(filepath)))
    model = model_from_config(opened.description, place=str(filepath))
    if opened.weights is not None:
        assign_arrays(model, opened.weights)
    settings = _compile_settings(opened) if compile else None
    if settings:
        model.compile(**settings)
        if opened.weights is not None:
            model.adopt_optimizer_variables(opened.weights.numbered(PLACE))
    return model


def _compile_settings(opened: Opened) -> dict[str, Any] | None:
    given = opened.description.get("compile_config") or {}
    names = ("optimizer", "loss", "loss_weights", "metrics", "weighted_metrics")
    settings = {name: given[name] for name in names if given.get(name) is not None}
    return settings if "optimizer" in settings else None


def model_from_config(description: Mapping[str, Any], *, place: str = "configuration") -> Any:
    """Return the model that a configuration describes, with fresh arrays.

    Args:
        description: The configuration, as JSON values.
        place: What errors say it comes from.

    Raises:
        ReadError: It is no configuration of a model.
        UsageError: It has a layer or an argument that is not supported.
    """
    parsed = parse_model(description, place=place)
    config: Any = description.get("config")
    modules = {}
    rows = config if isinstance(config, list) else config.get("layers", [])
    for row in rows:
        name = row.get("name") or (row.get("config") or {}).get("name")
        modules[name] = str(row.get("module") or "")
    operations = {
        layer.name: _operation(layer, modules.get(layer.name, ""), place) for layer in parsed.layers
    }
    if description.get("class_name") == "Sequential":
        return Sequential([operations[layer.name] for layer in parsed.layers], name=parsed.name)
    return _functional(parsed, operations, place)


def _operation(layer: LayerConfig, module: str, place: str) -> Any:
    if layer.type in {"Functional", "Model", "Sequential"}:
        inner = {"class_name": layer.type, "config": {**layer.settings, "name": layer.name}}
        return model_from_config(inner, place=place)
    is_function = module.startswith("keras.src.ops")
    if layer.type in LAYERS and not is_function:
        settings = {"name": layer.name, **layer.settings}
        return layer_from_json({"class_name": layer.type, "config": settings})
    if layer.type in READERS:
        settings = {key: value for key, value in layer.settings.items() if key != "name"}
        return Operation(layer.type, settings, module=module or "keras.src.ops.numpy", name=layer.name)
    raise UsageError(f"{place}: layer {layer.name!r}: unknown {layer.type!r}{suggestion(layer.type, LAYERS)}")


def _functional(parsed: ModelConfig, operations: Mapping[str, Any], place: str) -> Model:
    made: dict[Ref, KerasTensor] = {ref: operations[ref[0]].output for ref in parsed.inputs}
    for layer, number in calls_in_order(parsed, list(made), place=place):
        call = layer.calls[number]
        args = [_bound(value, made) for value in call.args]
        kwargs = {key: _bound(value, made) for key, value in call.kwargs.items() if value is not None}
        output = operations[layer.name](*args, **kwargs)
        tensors: Sequence[KerasTensor] = output if isinstance(output, list) else [output]
        made.update({(layer.name, number, at): tensor for at, tensor in enumerate(tensors)})
    return Model(
        [made[ref] for ref in parsed.inputs], [made[ref] for ref in parsed.outputs], name=parsed.name
    )


def _bound(value: Any, made: Mapping[Ref, KerasTensor]) -> Any:
    if isinstance(value, TensorRef):
        return made[value.ref]
    return [_bound(item, made) for item in value] if isinstance(value, (list, tuple)) else value
