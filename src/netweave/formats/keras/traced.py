"""Keras code as PyTorch's tracer sees it; for the child process alone.

On its PyTorch backend, a model of Keras computes with tensors of PyTorch. What cannot be followed with
symbolic tensors of Keras (a size in a ``range``, an array for each example, masks that layers hand on) is
traced as a module of PyTorch is, with the layers of Keras as its parts.
"""

from __future__ import annotations

import itertools
import re
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import StackSummary
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import torch
from keras.src.backend.common import dtypes
from torch.fx.proxy import TracerBase

from netweave.errors import UnsupportedError
from netweave.files.construction_lines import Lines
from netweave.files.library_errors import is_machinery
from netweave.formats.keras.functional import SymbolicInputs, symbolic_inputs
from netweave.formats.pytorch.module import export

BATCH = 3

SIZES = ((13, 64), (7, 64), (13, 224))
"""Lengths of sequences, and sides of pictures, that are tried where the model leaves them open."""


def trace(
    model: keras.Model,
    path: Path,
    *,
    input_shapes: Mapping[str, Any],
    likely_shapes: Collection[Any],
    constructed: Lines,
) -> dict[str, Any]:
    """Trace a model as it predicts and write it as an ONNX file.

    Args:
        model: The model, with its weights.
        path: The file.
        input_shapes: Sizes of inputs that the caller says, by name.
        likely_shapes: Sizes to try for the only input of a model that does not know its own.
        constructed: Where the code constructs its layers.

    Returns:
        What ``formats.pytorch.exported.Tables`` reads.

    Raises:
        CodeError: Its code cannot be traced.
        UnsupportedError: It fails, or nobody says the sizes of its inputs.
    """
    try:
        inputs = symbolic_inputs(model, input_shapes, likely_shapes, None)
    except ValueError as error:
        raise UnsupportedError(str(error)) from error
    names = [re.sub(r"\W", "_", tensor.name) for tensor in inputs.all]
    module = _Module(model, inputs)
    failure: Exception | None = None
    for steps, side in SIZES:
        examples = [_example(tensor, side if len(tensor.shape) > 3 else steps) for tensor in inputs.all]
        try:
            with torch.no_grad():
                module(*map(torch.as_tensor, examples))
        except Exception as error:  # noqa: BLE001  # the code's own, of any type
            failure = failure or error
            continue
        break
    else:
        raise UnsupportedError(f"its code fails on PyTorch: {failure}") from failure
    with module.calling_parts():
        tables = export(
            module,
            path,
            input_shapes={name: example.shape for name, example in zip(names, examples, strict=True)},
            examples=examples,
            open_axes={
                name: [axis for axis, size in enumerate(tensor.shape) if size is None]
                for name, tensor in zip(names, inputs.all, strict=True)
            },
        )
    return tables | module.describe(constructed)


def _example(tensor: Any, size: int) -> np.ndarray:
    """Return an example of an input: ones for numbers of words, and for masks, which leave nothing out."""
    shape = [size if each is None else each for each in (BATCH, *tensor.shape[1:])]
    if tensor.dtype == "bool" or "int" in tensor.dtype:
        return np.ones(shape, tensor.dtype)
    return np.random.default_rng(0).standard_normal(shape).astype(tensor.dtype)


class _Part(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """A layer of Keras as a part of a module: PyTorch's tracer notes in which parts an operator is called."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        object.__setattr__(self, "layer", layer)  # and no part of this one: Keras' layers are modules as well
        self.variables: dict[str, Any] = {}
        for variable in (*layer._trainable_variables, *layer._non_trainable_variables):
            name = _free(variable.name, self.variables)
            self.variables[name] = variable
            value = variable.value
            if isinstance(value, torch.nn.Parameter) and variable.trainable:
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value.detach())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _LAYER_CALL(self.layer, *args, **kwargs)


_LAYER_CALL = keras.Layer.__call__


class _Module(_Part):
    """A model of Keras as a module of PyTorch whose parts are its layers, by their names."""

    def __init__(self, model: keras.Model, inputs: SymbolicInputs) -> None:
        super().__init__(model)
        self._inputs = inputs
        self._parts: dict[int, _Part] = {id(model): self}
        self._inside: set[int] = {id(model)}
        _add_parts(self, self._parts)

    def forward(self, *args: Any) -> Any:
        given = keras.tree.pack_sequence_as((self._inputs.args, self._inputs.kwargs), list(args))
        stored = [
            (variable, getattr(part, name))
            for part in self._parts.values()
            for name, variable in part.variables.items()
        ]
        with keras.StatelessScope(state_mapping=stored):
            made = _LAYER_CALL(self.layer, *given[0], **given[1], training=False)
        return keras.tree.flatten(made) if isinstance(made, dict) else made

    @contextmanager
    def calling_parts(self) -> Iterator[None]:
        """Let layers be called as their parts, lines be noted, and open sizes be integers to Keras."""

        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            part = self._parts.get(id(layer))
            if part is None or id(layer) in self._inside:
                return _LAYER_CALL(layer, *args, **kwargs)
            self._inside.add(id(layer))
            try:
                return part(*args, **kwargs)
            finally:
                self._inside.discard(id(layer))

        sizes = patch.dict(dtypes.PYTHON_DTYPES_MAP, {torch.SymInt: dtypes.PYTHON_DTYPES_MAP[int]})
        lines = patch.object(TracerBase, "_filter_traceback_frames", _of_models)
        with sizes, lines, patch.object(keras.Layer, "__call__", call):
            yield

    def describe(self, constructed: Lines) -> dict[str, Any]:
        """Return class, settings and lines of each part, by its name."""
        parts = {name: part.layer for name, part in self.named_modules() if isinstance(part, _Part)}
        return {
            "modules": {
                name: {"type": type(layer).__name__, "settings": _settings(layer)}
                for name, layer in parts.items()
            },
            "lines": {name: constructed[layer] for name, layer in parts.items() if layer in constructed},
        }


def _of_models(tracer: Any, frames: StackSummary) -> StackSummary:
    """Return the frames of models; PyTorch's tracer keeps those of functions named ``forward`` alone."""
    inside = itertools.dropwhile(lambda frame: frame.filename != __file__, frames)
    return StackSummary.from_list(frame for frame in inside if _is_of_model(frame.filename))


def _is_of_model(file: str) -> bool:
    is_python = file.startswith(sysconfig.get_paths()["stdlib"]) and "/site-packages/" not in file
    return not (is_python or is_machinery(file)) and Path(file).is_file()


def _add_parts(module: _Part, known: dict[int, _Part]) -> None:
    """Add the layers inside a layer, each where it is met first, as parts by their names."""
    for layer in module.layer._flatten_layers(recursive=False, include_self=False):
        if id(layer) in known:
            continue
        name = _free(layer.name.replace(".", "_"), {*dict(module.named_children()), *module.variables})
        part = known[id(layer)] = _Part(layer)
        module.add_module(name, part)
        _add_parts(part, known)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken or hasattr(torch.nn.Module, name):
        name += "_"
    return name


def _settings(layer: Any) -> dict[str, Any]:
    """Return the plain values of a layer's settings."""
    try:
        config = layer.get_config()
    except Exception:  # noqa: BLE001  # layers of the code's own seldom have one
        return {}
    plain = (bool, int, float, str)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in config.items()
        if isinstance(value, plain)
        or (isinstance(value, list | tuple) and all(isinstance(one, plain) for one in value))
    }
