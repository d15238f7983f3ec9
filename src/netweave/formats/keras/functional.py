"""Models of code as functional models of Keras' own layers and operations; for the child process alone.

What a layer or a model of the code's own computes is in no file that Keras saves. Its ``call`` is followed
with symbolic tensors instead, and takes its place.
"""

from __future__ import annotations

import inspect
import io
import itertools
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np

from netweave.errors import UnsupportedError, shortened
from netweave.files.construction_lines import callers
from netweave.formats.keras.opening import OPERANDS

LONG = 33
"""Length of the texts that code is followed with: one that it was built on may be too short for a window."""

AS_BUILT = 0
"""The length that a model was built on."""

BATCH = 61
"""The size of a batch where code wants a number: a prime that no net has as another size."""

KERAS_OWN = frozenset({"mask", "training"})
"""Arguments that Keras adds to calls of layers."""


@dataclass(slots=True)
class Followed:
    """Record of a model's code that is followed with symbolic tensors.

    Attributes:
        files: The full paths of the files whose lines count.
        arrays: The arrays that operations read, by name.
        lines: The line that calls each operation, by its name.
    """

    files: Collection[str]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    _within: list[str] = field(default_factory=list)
    _named: set[int] = field(default_factory=set)

    def model(self, model: keras.Model, shapes: Mapping[str, Any], likely: Collection[Any]) -> keras.Model:
        """Return a functional model that computes the same; the model itself if it has no code of its own.

        Args:
            model: The model, with its weights.
            shapes: Sizes of inputs that the caller says, by name.
            likely: Sizes to try for the only input of a model that does not know its own.

        Raises:
            UnsupportedError: Its code does something else than calling layers and operations of Keras.
        """
        if not is_own(model):
            return model
        failure: Exception | None = None
        for length, batch in itertools.product(_lengths(model, shapes, likely), (None, BATCH)):
            self.lines.clear()
            try:
                inputs = symbolic_inputs(model, shapes, likely, batch, length=length)
                with self._following():
                    outputs = model.call(*inputs.args, **_accepted(model.call, inputs.kwargs))
                made = keras.Model(inputs.all, outputs, name=model.name)
                if batch is not None:
                    _open_batch(made)
            except Exception as error:  # noqa: BLE001  # the code's own, of any type
                failure = error
                continue
            return made
        assert failure is not None
        reason = shortened(" ".join(str(failure).split()), 300)
        places = _lines_of(failure, self.files)
        where = f", line {places[-1]}" if places else ""
        raise UnsupportedError(
            f"the code of {type(model).__name__!r} cannot be followed with symbolic tensors{where}: "
            f"{type(failure).__name__}: {reason}; call layers and keras.ops only, or name the sizes of its "
            "inputs (--input-shape)"
        ) from failure

    def save(self, model: keras.Model, file: Path) -> None:
        """Save a functional model as Keras does, with the arrays that its operations read in ``OPERANDS``."""

        def config(variable: Any) -> dict[str, str]:
            self.arrays[variable.path] = keras.ops.convert_to_numpy(variable.value)
            return {"array": variable.path}

        with patch.object(keras.Variable, "get_config", config, create=True):
            model.save(file)
        if self.arrays:
            content = io.BytesIO()
            np.savez(content, allow_pickle=False, **self.arrays)
            with zipfile.ZipFile(file, "a") as archive:
                archive.writestr(OPERANDS, content.getvalue())

    @contextmanager
    def _following(self) -> Iterator[None]:
        layer_call: Callable[..., Any] = keras.Layer.__call__
        note_node: Callable[..., Any] = keras.Operation.symbolic_call

        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if not layer.built:
                layer_call(layer, *args, **kwargs)  # its arrays have names without those of layers around it
            self._rename(layer)
            if not is_own(layer) or not _has_symbols(args, kwargs):
                return layer_call(layer, *args, **kwargs)
            _refuse_masks(layer, args)
            self._within.append(layer.name)
            try:
                return layer.call(*args, **_accepted(layer.call, kwargs))
            finally:
                self._within.pop()

        def symbolic_call(operation: Any, *args: Any, **kwargs: Any) -> Any:
            if type(operation).__name__ == "ConvertToTensor" and operation.dtype in (None, args[0].dtype):
                return args[0]  # what models do with their inputs
            if not isinstance(operation, keras.Layer):
                self._rename(operation)
            places = callers(operation, sys._getframe(1), self.files)
            if places:
                self.lines.setdefault(operation.name, places[0][1])
            return note_node(operation, *args, **kwargs)

        with (
            patch.object(keras.Layer, "__call__", call),
            patch.object(keras.Operation, "symbolic_call", symbolic_call),
        ):
            yield

    def _rename(self, operation: Any) -> None:
        """Give what an own layer calls a name that the whole model has once."""
        if self._within and id(operation) not in self._named:
            self._named.add(id(operation))
            operation.name = f"{self._within[-1]}.{operation.name}"


def is_own(layer: Any) -> bool:
    """Return whether a layer, or one inside it, is of a class of the code, or calls a function of it."""
    return any(
        not _is_of_keras(type(part))
        or isinstance(part, keras.layers.Lambda)
        or not _is_of_keras(getattr(part, "activation", None) or keras.activations.linear)
        for part in layer._flatten_layers()
    )


def _is_of_keras(something: Any) -> bool:
    return str(getattr(something, "__module__", "keras.")).startswith("keras.")


@dataclass(slots=True)
class SymbolicInputs:
    """Symbolic inputs of a model: as its ``call`` takes them, and all in a row."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    all: list[Any]


def symbolic_inputs(
    model: keras.Model,
    shapes: Mapping[str, Any],
    likely: Collection[Any],
    batch: int | None,
    *,
    length: int | None = None,
) -> SymbolicInputs:
    """Return symbolic inputs: those that a model has, or those that its ``call`` takes.

    Args:
        model: The model.
        shapes: Sizes of inputs that the caller says, by name.
        likely: Sizes to try for the only input of a model that does not know its own.
        batch: Number of examples; None leaves it open.
        length: Number of tokens of a text, if only the model's code says one; None leaves it open.

    Raises:
        ValueError: Nobody says the sizes of one.
    """
    if getattr(model, "inputs", None):
        made = keras.tree.map_structure(
            lambda tensor: _input(
                tensor.name, _filled(tensor.shape, shapes.get(tensor.name)), batch, tensor.dtype
            ),
            model._inputs_struct if hasattr(model, "_inputs_struct") else model.inputs,
        )
        if isinstance(made, list) and len(made) == 1:
            return SymbolicInputs((made[0],), {}, made)
        return SymbolicInputs((made,), {}, keras.tree.flatten(made))
    parameters = inspect.signature(model.call).parameters.values()
    names = [one.name for one in parameters if one.name not in KERAS_OWN]
    built = getattr(model, "_build_shapes_dict", None) or {}
    if len(built) == 1 and "input_shape" in built:
        built = {names[0]: built["input_shape"]}
    known = {name.removesuffix("_shape"): shape for name, shape in built.items()} | dict(shapes)
    required = [one.name for one in parameters if one.default is one.empty and one.name in names]
    if len(required) == 1 and required[0] not in known and likely:
        known[required[0]] = next(iter(likely))
    missing = [name for name in required if name not in known]
    if missing:
        raise ValueError(f"the sizes of its input {missing[0]!r} are not known")
    is_text = _reads_text(model)
    for name, shape in known.items():
        if is_text and name not in shapes and len(shape) == 2 and length != AS_BUILT:
            known[name] = (shape[0], length)
    made = {
        name: _input(name, shape, batch, "int32" if is_text and len(shape) == 2 else "float32")
        for name, shape in known.items()
        if name in names
    }
    return SymbolicInputs((), made, list(made.values()))


def _lengths(model: keras.Model, shapes: Mapping[str, Any], likely: Collection[Any]) -> Iterator[int | None]:
    """Yield lengths of texts to follow a model with: open, then longer than it was built on, then that."""
    yield None
    if shapes or getattr(model, "inputs", None) or not _reads_text(model):
        return
    for length in (*(shape[1] for shape in likely if len(shape) == 2), LONG):
        try:
            model(np.zeros((1, length), "int32"))
        except Exception:  # noqa: BLE001  # the code's own, of any type: it takes no such text
            continue
        yield length
    yield AS_BUILT


def _reads_text(model: keras.Model) -> bool:
    return any(isinstance(part, keras.layers.Embedding) for part in model._flatten_layers())


def _filled(own: Any, given: Any) -> Any:
    """Return a model's own sizes of an input, with those that a caller gives where they are open.

    A caller may give them for both nets of a comparison, with the channels of a picture before its sides.
    """
    for sizes in (
        (given, (given[0], *given[2:], given[1])) if given and len(given) == len(own) > 2 else (given,)
    ):
        if sizes and len(sizes) == len(own):
            pairs = list(zip(own, sizes, strict=True))
            if all(size in (None, said) for size, said in pairs[1:]):
                return tuple(said if size is None else size for size, said in pairs)
    return own


def _input(name: str, shape: Any, batch: int | None, dtype: str) -> Any:
    return keras.Input(batch_shape=(batch, *shape[1:]), dtype=dtype, name=name)


def _has_symbols(args: Any, kwargs: Any) -> bool:
    return any(isinstance(each, keras.KerasTensor) for each in keras.tree.flatten((args, kwargs)))


def _accepted(call: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call in a net that predicts, without Keras' own where ``call`` lacks them."""
    names = inspect.signature(call).parameters
    given = {"training": False} | dict(kwargs)
    if any(one.kind is one.VAR_KEYWORD for one in names.values()):
        return given
    return {name: value for name, value in given.items() if name in names or name not in KERAS_OWN}


def _refuse_masks(layer: Any, args: Any) -> None:
    """Refuse a layer that computes with the mask of what it is given, which is not followed."""
    tensors = keras.tree.flatten(args)
    if "mask" in inspect.signature(layer.call).parameters and any(
        getattr(tensor, "_keras_mask", None) is not None for tensor in tensors
    ):
        raise ValueError(f"the layer {layer.name!r} reads the mask of its input")


def _open_batch(model: keras.Model) -> None:
    """Let a model that was followed with a batch of ``BATCH`` take any.

    Raises:
        ValueError: It has an array or a setting for each example.
    """
    for operation in model.operations:
        if isinstance(operation, keras.Layer):
            continue
        settings = operation._auto_config.config if operation._auto_config is not None else {}
        if type(operation).__name__ == "Reshape" and sum(map(_is_of_batch, operation.output.shape)) == 1:
            shape = (-1 if _is_of_batch(size) else size for size in operation.output.shape)
            operation.newshape = settings["newshape"] = tuple(shape)
        calls = [node.arguments for node in operation._inbound_nodes]
        read = [value for call in calls for value in keras.tree.flatten((call.args, call.kwargs))]
        arrays = [value for value in read if not isinstance(value, keras.KerasTensor) and np.ndim(value)]
        numbers = [*keras.tree.flatten(settings), *(array.shape[0] for array in arrays)]
        if any(map(_is_of_batch, numbers)):
            raise ValueError(f"{operation.name!r} has a number or an array for each example")


def _is_of_batch(number: Any) -> bool:
    """Return whether a number is computed from the size of the batch."""
    return isinstance(number, int) and number > 0 and number % BATCH == 0


def _lines_of(error: BaseException, files: Collection[str]) -> list[int]:
    """Return the lines of files that an error went through, the innermost last."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return lines
