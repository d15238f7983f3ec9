"""The program that the guarded child process runs: a model's code to ``net.keras``. It is never imported.

It is given a request as JSON, and leaves ``net.keras``, ``lines.json`` and ``sizes.json`` in its working
folder, ``net.onnx``, ``tables.json`` and ``sizes.json`` if the code is to be traced, or ``error.json``.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
from pathlib import Path
from typing import Any

gc.disable()  # until it answers: what the imports make lives on, and the search is a quarter of their time
os.environ["KERAS_BACKEND"] = "torch"  # the one that Netweave has; a model is built alike by all
os.environ["KERAS_HOME"] = str(Path.cwd())

import keras

from netweave.errors import WeightError, shortened
from netweave.files.construction_lines import Lines, recording
from netweave.files.missing_modules import importing, without
from netweave.files.model_imports import Wanted, construct, imported, in_folder, own_factories
from netweave.files.seccomp import answer
from netweave.formats.keras.functional import Followed
from netweave.formats.keras.traced import trace


def main(request: dict[str, Any]) -> None:
    """Make the model that a request names and save it."""
    net = request["net"]
    with (
        without(request["missing"], request["templates"]),
        in_folder(request["trusted_folder"]),
        recording(keras.Layer, {net}) as constructed,
    ):
        with importing():
            code = imported(
                Path(net),
                name=request["name"],
                folders=request["folders"],
                first=request["first"],
                is_own_used=request["is_own_used"],
            )
        classes, functions = own_factories(code, keras.Model)
        sizes: dict[str, int] = {}
        wanted = Wanted.of_request(
            request, keras.Model, noun="a keras.Model", adapted=lambda made: _at_size(made, request, sizes)
        )
        model = construct(code, functions or classes, wanted).model
    if request["loads_weights"]:
        _load_weights(model, request["weights"], place=request["weights_place"])
    Path("sizes.json").write_text(json.dumps(sizes), encoding="utf-8")
    if request["is_traced"]:
        tables = trace(
            model,
            Path("net.onnx"),
            input_shapes=request["input_shapes"],
            likely_shapes=request["likely_shapes"],
            constructed=constructed,
        )
        Path("tables.json").write_text(json.dumps(tables), encoding="utf-8")
        return
    followed = Followed({net})
    model = followed.model(model, request["input_shapes"], request["likely_shapes"])
    followed.save(model, Path("net.keras"))
    lines = followed.lines | _lines(model, constructed)
    Path("lines.json").write_text(json.dumps(lines), encoding="utf-8")


AXES = {"height": 0, "h": 0, "rows": 0, "width": 1, "w": 1, "columns": 1, "size": 0, "side": 0}
"""Axis of a picture that an argument is for, by its name."""

MOST_CHANNELS = 4
"""A picture has at most so many; a larger size is not taken for channels."""


def _at_size(made: Any, request: dict[str, Any], sizes: dict[str, int]) -> Any:
    """Return the model that a function of the size of pictures makes; anything else stays as it is.

    Args:
        made: What the code constructs.
        request: What the child process was asked for.
        sizes: What the function was called with is added here, if nobody gave it.
    """
    if isinstance(made, keras.Model) or not inspect.isfunction(made):
        return made
    names = list(inspect.signature(made).parameters)
    if not names or not all(name.lower() in AXES for name in names):
        return made
    given = [shape for shape in request["input_shapes"].values() if len(shape) == PICTURE_RANK]
    likely = [shape for shape in request["likely_shapes"] if len(shape) == PICTURE_RANK]
    shape = next(iter([*given, *likely]), USUAL_PICTURE)
    are_first = shape[1] <= MOST_CHANNELS < shape[-1]
    picture = shape[2:] if are_first else shape[1:-1]
    arguments = {name: picture[AXES[name.lower()]] for name in names}
    if not given:
        sizes |= arguments
    return made(**arguments)


PICTURE_RANK = 4

USUAL_PICTURE = (1, 224, 224, 3)
"""The size of an input where nobody says one; only its height and width are used."""


def _load_weights(model: keras.Model, path: str, *, place: str) -> None:
    """Load weights into a model, all of them.

    Raises:
        WeightError: The file has no weights, or not those of the model.
    """
    try:
        model.load_weights(path)
    except Exception as error:  # Keras and h5py raise errors of many types
        reason = " ".join(str(error).split())
        raise WeightError(
            f"Keras cannot load it into the model of the code: {type(error).__name__}: "
            f"{shortened(reason, 400)}; name the file that the same model saved with model.save_weights",
            place=place,
        ) from error


def _lines(model: Any, constructed: Lines, *, before: str = "") -> dict[str, int]:
    """Return the line of each layer by its name, which has the names of the models around it before it."""
    lines: dict[str, int] = {}
    for layer in getattr(model, "layers", ()):
        name = f"{before}{layer.name}"
        if layer in constructed:
            lines[name] = constructed[layer][0][1]
        lines |= _lines(layer, constructed, before=f"{name}/")
    return lines


if __name__ == "__main__":
    answer(main)
