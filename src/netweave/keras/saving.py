"""Models as files that Keras 3 reads, and arrays from files that it wrote."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.files.output_files import replacing_file, write_file
from netweave.files.source import Source
from netweave.formats.keras.config import LayerConfig, parse_model
from netweave.formats.keras.opening import ARRAYS, CONFIG, open_model, open_weights
from netweave.formats.keras.weights import Weights, snake_case
from netweave.installation import install_command
from netweave.keras.layer import Layer, Network
from netweave.keras.objects import missing, to_json
from netweave.keras.optimizer_files import PLACE

VERSION = "3.15.0"
"""The version of Keras whose form the files have."""


def save_model(model: Any, filepath: Any, *, overwrite: bool = True, include_optimizer: bool = True) -> None:
    """Write a model: ``.keras`` as Keras 3 has it, or ``.h5``, which does not hold what ``compile`` was told.

    Raises:
        UsageError: The name has another ending, the file is there, or h5py is not installed.
        WriteError: The file cannot be written; the old one is untouched.
    """
    path = _writable(filepath, (".keras", ".h5"), overwrite=overwrite)
    if path.name.endswith(".weights.h5"):
        raise UsageError(f"{path}: a name with this ending is for save_weights")
    if path.suffix == ".h5":
        write_file(path, _legacy_file(model))
        return
    compiled = _compile_config(model) if include_optimizer else None
    settings = {**model.to_json(), "compile_config": compiled}
    settings["build_config"] = {"input_shape": to_json(list(model.inputs[0].shape))}
    about = {"keras_version": VERSION, "date_saved": datetime.now(UTC).strftime("%Y-%m-%d@%H:%M:%S")}
    with replacing_file(path) as new, zipfile.ZipFile(new, "w") as archive:
        archive.writestr("metadata.json", json.dumps(about))
        archive.writestr(CONFIG, json.dumps({**settings, "registered_name": settings["class_name"]}))
        archive.writestr(ARRAYS, _weights_file(model, model.optimizer_variables() if compiled else ()))


def save_weights(model: Any, filepath: Any, *, overwrite: bool = True) -> None:
    """Write all arrays to a ``.weights.h5``.

    Raises:
        UsageError: The name has another ending, the file is there, or h5py is not installed.
        WriteError: The file cannot be written; the old one is untouched.
    """
    write_file(_writable(filepath, (".weights.h5",), overwrite=overwrite), _weights_file(model))


def load_weights(model: Any, filepath: Any) -> None:
    """Replace all arrays by those of a file.

    Raises:
        SourceError: The file cannot be read, or does not fit.
    """
    path = Path(filepath)
    if path.name.endswith(".weights.h5"):
        weights: Weights | None = open_weights(path)
    else:
        weights = open_model(Source(path)).weights
    assert weights is not None, "a model's file holds arrays"
    assign_arrays(model, weights)


def assign_arrays(model: Network, weights: Weights) -> None:
    """Replace all arrays of a model by those of a file."""
    description = {"class_name": model.class_name, "config": model.get_config()}
    _assign_layers(model, weights, (), (), description)


def _assign_layers(
    network: Network,
    weights: Weights,
    path: tuple[Sequence[LayerConfig], ...],
    names: tuple[str, ...],
    description: dict[str, Any],
) -> None:
    inside = (*path, parse_model(description, place=weights.file).layers)
    for layer in network.layers:
        way = (*names, layer.name)
        if isinstance(layer, Network):
            inner = {"class_name": layer.class_name, "config": layer.get_config()}
            _assign_layers(layer, weights, inside, way, inner)
            continue
        arrays = weights.of(inside, way) if layer.variables else None
        for variable in layer.variables:
            assert arrays is not None
            variable.assign(arrays.take(variable.name, variable.shape, inside=variable.spec.inside))


# Writing.


def _writable(filepath: Any, endings: tuple[str, ...], *, overwrite: bool) -> Path:
    path = Path(filepath)
    if not path.name.endswith(endings):
        raise UsageError(f"{path}: expected a name that ends in {' or '.join(endings)}")
    if path.exists() and not overwrite:
        raise UsageError(f"{path} is there; remove it, or say overwrite=True")
    return path


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise UsageError(f"Keras' files need h5py; install it with: {install_command('hdf5')}") from error
    return h5py


def _weights_file(model: Network, of_optimizer: Sequence[np.ndarray] = ()) -> bytes:
    stream = io.BytesIO()
    with _h5py().File(stream, "w") as file:
        _write_layers(file, model, "")
        for number, array in enumerate(of_optimizer):
            file.require_group(PLACE)[str(number)] = array
    return stream.getvalue()


def _write_layers(file: Any, network: Network, prefix: str) -> None:
    """Write the arrays as Keras 3 numbers them: by class, in the order of the layers."""
    used: dict[str, int] = {}
    # a class of the user's own has its layers in another order than the functional model that is written
    layers = [one for one in network.call_graph.operations if isinstance(one, (Layer, Network))]
    for layer in layers:
        stem = snake_case(layer.class_name)
        number = used.get(stem, 0)
        used[stem] = number + 1
        place = f"{prefix}layers/{stem}_{number}" if number else f"{prefix}layers/{stem}"
        if isinstance(layer, Network):
            _write_layers(file, layer, f"{place}/")
            continue
        file.require_group(f"{place}/vars").attrs["name"] = layer.name
        for variable in layer.variables:
            group = "/".join(filter(None, (place, variable.spec.inside, "vars")))
            file.require_group(group)[str(variable.spec.number)] = variable.numpy()


def _legacy_file(model: Any) -> bytes:
    """Return a file in the form that Keras had before ``.keras``, without what ``compile`` was told."""
    stream = io.BytesIO()
    with _h5py().File(stream, "w") as file:
        settings = {"class_name": model.class_name, "config": model.get_config()}
        file.attrs["model_config"] = json.dumps(settings).encode()
        file.attrs["keras_version"], file.attrs["backend"] = VERSION, "tensorflow"
        root = file.create_group("model_weights")
        root.attrs["backend"], root.attrs["keras_version"] = "tensorflow", VERSION
        root.attrs["layer_names"] = [layer.name.encode() for layer in model.call_graph.operations]
        root.create_group("top_level_model_weights").attrs["weight_names"] = np.array([], "S1")
        for operation in model.call_graph.operations:
            group = root.create_group(operation.name)
            variables = [*getattr(operation, "trainable_weights", []),
                         *getattr(operation, "non_trainable_weights", [])]  # fmt: skip
            group.attrs["weight_names"] = np.array([one.path.encode() for one in variables] or [], "S200")
            for variable in variables:
                group[variable.path] = variable.numpy()
    return stream.getvalue()


def _compile_config(model: Any) -> dict[str, Any] | None:
    """Return what ``compile`` was told, as Keras' files hold it; None where a function is among it."""
    if not model.compiled:
        return None
    compiled = model.compiled_settings
    try:
        config = {
            "optimizer": to_json(compiled.optimizer),
            "loss": _named(compiled.loss),
            "loss_weights": to_json(compiled.loss_weights),
            "metrics": _named(compiled.metrics),
            "weighted_metrics": _named(compiled.weighted_metrics),
        }
        json.dumps(config)
    except (UsageError, TypeError):
        return None
    return {**config, "run_eagerly": False, "steps_per_execution": 1, "jit_compile": False}


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_named(item) for item in value]
    if callable(value) and hasattr(value, "__name__") and not isinstance(value, type):
        from netweave.keras import losses, metrics

        if value.__name__ in losses.LOSSES.classes or value.__name__ in metrics.METRICS.classes:
            return value.__name__
    return to_json(value)


def __getattr__(name: str) -> Any:
    raise missing("keras.saving", name, globals())
