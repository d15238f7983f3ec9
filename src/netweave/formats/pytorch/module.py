"""Modules of PyTorch."""

from __future__ import annotations

import inspect
import logging
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import TreeSpec, tree_leaves

from netweave.deferred import collector_at_rest
from netweave.errors import CodeError
from netweave.files.library_errors import is_machinery, root_cause
from netweave.formats.pytorch.cached_steps import compare_steps
from netweave.formats.pytorch.complex_numbers import write_as_pairs
from netweave.formats.pytorch.exporting import (
    byte_masks,
    join_along_axes,
    read_as_written,
    return_tensors_alone,
    shared_tables,
    without_autocast,
)
from netweave.formats.pytorch.module_inputs import (
    Inputs,
    find_inputs,
    given_inputs,
    joined,
    left_out,
    lengths_of,
    mapped,
    members_of,
    named_arguments,
)
from netweave.formats.pytorch.stepwise_calls import has_cache, returned_caches
from netweave.formats.pytorch.traced_sizes import settle_symbols

# It is used for a module in memory, and by the guarded child process for one that it made from files.

OPSET_VERSION = 22


@collector_at_rest()
def export(
    module: torch.nn.Module,
    path: Path,
    *,
    input_shapes: Mapping[str, Sequence[int]],
    examples: Sequence[Any] | None = None,
    likely_shapes: Sequence[Sequence[int]] = (),
    open_axes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Write a module as an ONNX file as it predicts, unoptimised, and return what else a reader needs.

    The sizes of the batch, and others that nobody gave, stay open where the module's code allows it.

    Args:
        module: The module; its mode is as before afterwards.
        path: The file.
        input_shapes: Sizes by the names of ``forward``'s arguments, the batch first.
        examples: Inputs to trace it with, instead of sizes.
        likely_shapes: Sizes to try before the usual ones, where nobody says those of the only input.
        open_axes: Axes of each example whose sizes stay open, by input; otherwise its batch alone.

    Returns:
        ``modules`` (class and settings by name), ``state`` (names of stored arrays), ``trainable`` (those
        that are parameters), ``notes``, ``is_flat`` (whether it returns a tensor, or several in a tuple or
        list), ``assumed`` (sizes of inputs that nobody gave), ``lengths`` and ``left_out`` (see
        ``Trace``), ``has_cache`` (whether it may be called step by step), and ``caches`` (places of
        those of its outputs that it takes back). JSON values only.

    Raises:
        ShapeError: Sizes are missing.
        UsageError: Sizes name no input.
        CodeError: The module's code fails, or cannot be traced.
    """
    notes: list[str] = []
    names = list(input_shapes) or ["x", *(f"x{i}" for i in range(1, len(examples or ())))]
    with (
        _in_evaluation_mode(module), without_autocast(notes), byte_masks(), named_arguments(module, names)
    ):  # fmt: skip
        inputs = find_inputs(module, input_shapes, examples, likely_shapes)
        notes += inputs.notes
        try:
            program, is_fixed = _written(module, inputs, path, notes, open_axes)
        except CodeError as error:
            if MUTATED not in str(error):
                raise
            with _tensors_as_buffers(module):  # a cache of keys that is a plain attribute, for example
                program, is_fixed = _written(module, inputs, path, notes, open_axes)
        with _quiet():
            caches = returned_caches(module, inputs.values)
    return describe(module, notes) | {
        "is_flat": _is_flat(program.call_spec.out_spec),
        "assumed": {name: list(sizes) for name, sizes in inputs.assumed.items()},
        "is_fixed": is_fixed,
        "lengths": {str(number): name for number, name in lengths_of(module).items()},
        "left_out": left_out(module, inputs.values),
        "has_cache": caches is not None or has_cache(module, inputs.values),
        "caches": caches or [],
    }


MUTATED = "is mutated in the forward method"
"""PyTorch's words for a tensor that the code writes to though it is an attribute and no buffer."""


def _written(
    module: torch.nn.Module,
    inputs: Inputs,
    path: Path,
    notes: list[str],
    open_axes: Mapping[str, Sequence[int]] | None,
) -> tuple[torch.export.ExportedProgram, bool]:
    """Trace a module and write it as an ONNX file; notes are added.

    Returns:
        What was traced, and whether it holds for the sizes alone that it was traced with.
    """
    is_fixed = True
    likely = _beyond_channels(inputs.values) if inputs.assumed else {}
    program = _traced(module, inputs.values, likely if open_axes is None else open_axes)
    if _unrolls_open_steps(program):
        program = _with_sizes(module, inputs.values)
        notes.append("nn.RNN is written out step by step: all sizes are those that it was traced with")
    elif _pools_open_sizes(program):
        program = _traced(module, inputs.values, {})
        notes.append(
            "the windows of an adaptive pooling follow the size of its input: all sizes but the batch "
            "are those that it was traced with"
        )
    else:
        is_fixed = False
    if closed := _closed(program, open_axes or {}):
        sizes = ", ".join(f"{name} {'x'.join(map(str, ['N', *shape[1:]]))}" for name, shape in closed.items())
        notes.append(f"its code could be traced with one size alone: {sizes}")
    try:
        write(program, path)
    except CodeError:
        if not program.range_constraints:  # no size is open
            raise
        write(_with_sizes(module, inputs.values), path)
        notes.append("it cannot be written with open sizes: all sizes are those that it was traced with")
        is_fixed = True
    return program, is_fixed


def _closed(
    program: torch.export.ExportedProgram, open_axes: Mapping[str, Sequence[int]]
) -> dict[str, tuple[Any, ...]]:
    """Return the sizes of inputs that a program fixes though they were to stay open, by input."""
    shapes = {
        node.name: tuple(node.meta["val"].shape)
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in open_axes
    }
    return {
        name: shape
        for name, shape in shapes.items()
        if any(isinstance(shape[axis], int) for axis in open_axes[name] if axis)
    }


@contextmanager
def _tensors_as_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Make buffers of the tensors that a module and its parts keep as plain attributes."""
    plain = [
        (part, name, value)
        for part in module.modules()
        for name, value in vars(part).items()
        if isinstance(value, torch.Tensor)
    ]
    for part, name, value in plain:
        delattr(part, name)
        part.register_buffer(name, value.clone(), persistent=False)
    try:
        yield
    finally:
        for part, name, value in plain:
            delattr(part, name)
            setattr(part, name, value)


@collector_at_rest()
def outputs_of(
    module: torch.nn.Module, batches: Sequence[Mapping[str, np.ndarray]]
) -> list[list[np.ndarray] | None]:
    """Run a module as it predicts, without tracing it, and return its tensors for each batch of inputs.

    Args:
        module: The module; its mode is as before afterwards.
        batches: Inputs by the names that ``export`` gives them.

    Returns:
        For each batch the tensors in the order in which an export has them; None if the code fails on it.
    """
    computed: list[list[np.ndarray] | None] = []
    names = list(batches[0]) if batches else []
    with (
        _in_evaluation_mode(module),
        without_autocast([]),
        byte_masks(),
        _quiet(),
        named_arguments(module, names),
    ):
        arguments = list(inspect.signature(module.forward).parameters)
        for batch in batches:
            tensors = {name: torch.from_numpy(x) for name, x in batch.items()}
            members = members_of(arguments, batch)
            lists = {name: joined(name, {leaf: tensors[leaf] for leaf in of}) for name, of in members.items()}
            plain = {name: x for name, x in tensors.items() if name in arguments}
            try:
                made = module(**plain, **lists)
            except Exception:  # noqa: BLE001 - any code's any error
                computed.append(None)
                continue
            leaves = tree_leaves(made)
            computed.append([leaf.float().numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)])
    return computed


@collector_at_rest()
def steps_of(
    module: torch.nn.Module, batches: Sequence[Mapping[str, np.ndarray]], tolerance: float
) -> dict[str, Any]:
    """Compare single steps of a decoder through its cache with one pass (``cached_steps.compare_steps``).

    Args:
        module: The module; its mode is as before afterwards.
        batches: Inputs by the names that ``export`` gives them, the shortest sequences first.
        tolerance: Largest relative error of what agrees.
    """
    names = list(batches[0])
    with (
        _in_evaluation_mode(module),
        without_autocast([]),
        byte_masks(),
        _quiet(),
        named_arguments(module, names),
    ):
        tensors = [{name: torch.from_numpy(x) for name, x in batch.items()} for batch in batches]
        return compare_steps(module, tensors, tolerance)


def _is_flat(outputs: TreeSpec | None) -> bool:
    """Return whether a module returns a tensor, or two or more in a tuple or list that holds nothing else."""
    if outputs is None:
        return False
    made = outputs.unflatten(range(outputs.num_leaves))  # a number for each tensor
    is_listed = type(made) in {tuple, list} and len(made) > 1
    return isinstance(made, int) or (is_listed and all(isinstance(part, int) for part in made))


def write(program: torch.export.ExportedProgram, path: Path) -> None:
    """Write an exported program as an ONNX file, without the exporter's optimisations.

    Raises:
        CodeError: It has operators that ONNX cannot say.
    """
    return_tensors_alone(program)
    join_along_axes(program)
    read_as_written(program)
    with _quiet(), shared_tables():
        try:
            try:
                made = _exported(program)
            except torch.onnx.OnnxExporterError:
                if not write_as_pairs(program):
                    raise
                made = _exported(program)
            settle_symbols(made.model)
            made.save(str(path))
        except torch.onnx.OnnxExporterError as error:
            raise CodeError(f"cannot be written as ONNX: {root_cause(error)}") from error


def _exported(program: torch.export.ExportedProgram) -> Any:
    return torch.onnx.export(program, dynamo=True, optimize=False, opset_version=OPSET_VERSION, verbose=False)


def write_script(script: torch.jit.ScriptModule, path: Path, input_shapes: Mapping[str, Any]) -> None:
    """Write a TorchScript module as an ONNX file; its code is a graph already, and not traced again.

    Raises:
        ShapeError: Sizes are missing.
        UsageError: Sizes name no input.
        CodeError: It fails, or has operators that ONNX cannot say.
    """
    names = [argument.name for argument in script.forward.schema.arguments[1:]]
    inputs = given_inputs(names, input_shapes)
    with _quiet():
        try:
            torch.onnx.export(
                script.eval(),
                tuple(inputs.values()),
                str(path),
                dynamo=False,
                do_constant_folding=False,
                training=torch.onnx.TrainingMode.PRESERVE,  # otherwise BatchNorm is folded
                input_names=list(inputs),
                dynamic_axes={name: {0: "N"} for name in inputs},
            )
        except (RuntimeError, torch.onnx.OnnxExporterError) as error:
            raise CodeError(f"cannot be written as ONNX: {root_cause(error)}") from error


def describe(module: torch.nn.Module, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return class and settings of each part of a module, and the names of its arrays, as JSON values."""
    state = module.state_dict(keep_vars=True)
    return {
        "modules": {
            name: {"type": type(part).__name__, "settings": _settings(part)}
            for name, part in module.named_modules()
        },
        "state": [name for name, value in state.items() if isinstance(value, torch.Tensor)],
        "trainable": [name for name, value in state.items() if isinstance(value, torch.nn.Parameter)],
        "notes": list(notes),
    }


def _settings(part: torch.nn.Module) -> dict[str, Any]:
    """Return a part's public attributes that are plain values: what its constructor was told."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(part).items()
        if not name.startswith("_") and name != "training" and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, bool | int | float | str)


@contextmanager
def _in_evaluation_mode(module: torch.nn.Module) -> Iterator[None]:
    modes = {part: part.training for part in module.modules()}
    try:
        module.eval()
    except Exception:  # noqa: BLE001 - a class with a method ``train`` of its own that trains
        for part in modes:
            part.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter says of absent packages, and the tracer of errors that it raises as well."""
    levels = {"torch.onnx": logging.ERROR, "torch._subclasses.fake_tensor": logging.CRITICAL}
    loggers = {logging.getLogger(name): level for name, level in levels.items()}
    before = {logger: logger.level for logger in loggers}
    for logger, level in loggers.items():
        logger.setLevel(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


@contextmanager
def _named_data() -> Iterator[None]:
    """Let code call ``torch.tensor(data=...)``: the tracer of PyTorch 2.13 takes data by position only."""
    made = torch.tensor

    def tensor(data: Any, **settings: Any) -> torch.Tensor:
        return made(data, **settings)

    torch.tensor = tensor
    try:
        yield
    finally:
        torch.tensor = made


def _beyond_channels(inputs: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    """Return the axes of each input that may stay open where nobody gave its size."""
    most = {name: max((x.ndim for x in tree_leaves(value)), default=0) for name, value in inputs.items()}
    return {name: range(2, rank) for name, rank in most.items()}


def _traced(
    module: torch.nn.Module, inputs: Mapping[str, Any], open_axes: Mapping[str, Sequence[int]]
) -> torch.export.ExportedProgram:
    """Trace a module with as many open sizes as its code and PyTorch's solver of inequalities bear.

    Args:
        module: The module.
        inputs: Its inputs, by name.
        open_axes: Axes whose sizes are to stay open besides the batch, by input.
    """
    auto = torch.export.Dim.AUTO

    def opened(name: str, value: Any) -> Any:
        axes = {0, *open_axes.get(name, ())}
        return mapped(lambda x: {axis: auto for axis in range(x.ndim) if axis in axes}, value)

    dynamic = {name: opened(name, value) for name, value in inputs.items()}
    with _quiet(), _named_data():
        try:
            return torch.export.export(module, (), dict(inputs), dynamic_shapes=dynamic)
        except Exception as open_error:  # noqa: BLE001 - any code's any error
            if open_axes:
                return _traced(module, inputs, {})
            return _with_sizes(module, inputs, open_error)


def _with_sizes(
    module: torch.nn.Module, inputs: Mapping[str, Any], cause: Exception | None = None
) -> torch.export.ExportedProgram:
    """Trace a module with no size open.

    With copies of its inputs: an attempt to trace it with open sizes marks the tensors that it is given.
    """
    fresh = mapped(torch.clone, dict(inputs))
    with _quiet(), _named_data():
        try:
            return torch.export.export(module, (), fresh)
        except Exception as error:  # noqa: BLE001 - any code's any error
            raise CodeError(f"its code cannot be traced: {_why_untraced(error)}") from cause or error


def _why_untraced(error: Exception) -> str:
    """Return the cause, and what to do against the most common one."""
    if isinstance(error, GuardOnDataDependentSymNode):
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if not is_machinery(frame.filename)
        ]
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        return (
            f"it decides by a value that it computes{where}; name a class or function that ends before, such "
            "as the net without its post-processing, or write the decision with torch.where"
        )
    return root_cause(error)


def _unrolls_open_steps(program: torch.export.ExportedProgram) -> bool:
    """Return whether a plain recurrent layer has open steps.

    The exporter unrolls such a layer to the number of steps of the example.
    """
    aten = torch.ops.aten
    layers = {aten.rnn_tanh.input, aten.rnn_relu.input}
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in layers:
            sizes = node.args[0].meta["val"].shape
            if not isinstance(sizes[1 if node.args[-1] else 0], int):
                return True
    return False


def _pools_open_sizes(program: torch.export.ExportedProgram) -> bool:
    """Return whether an adaptive pooling to several values has open sizes.

    The exporter would write the windows that it has at the example's size, and they would be wrong at others.
    """
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in _ADAPTIVE:
            wanted = node.args[1] if isinstance(node.args[1], list | tuple) else [node.args[1]]
            sizes = node.args[0].meta["val"].shape[-len(wanted) :]
            if any(size != 1 for size in wanted) and not all(isinstance(size, int) for size in sizes):
                return True
    return False


_ADAPTIVE = frozenset(
    getattr(torch.ops.aten, f"adaptive_{kind}_pool{rank}d").default
    for kind in ("avg", "max")
    for rank in (1, 2, 3)
)


# Compiling says nothing about the net, fails where an operator is not registered that nothing of the net
# calls, and hides what is inside from tracing.


@contextmanager
def unscripted() -> Iterator[None]:
    """Let ``torch.jit.script`` give what it is given, until the context ends."""
    with patch.object(torch.jit, "script", _as_it_is):
        yield


def _as_it_is(obj: Any = None, *_: Any, **__: Any) -> Any:
    return obj
