"""A PyTorch module as ONNX, with what only the module knows beside it; the one file that imports torch.

It is used for a module in memory, and by the guarded child process for one that it made from files.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import CodeError, ShapeError
from netweave.files.unknown import check_input_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

OPSET_VERSION = 22

VOLUME_SIZES = (16, 32, 64, 112)
"""The same for each axis of a volume, small ones first: 224 in each of three would take minutes."""

SIZES = (224, 32, 24, 28, 48, 12, 64, 96, 112, 128, 227, 256, 299, 320, 416, 448, 512)
"""Heights and widths that are tried, in this order, where nobody says one."""

STEPS = 16
"""Length of a sequence where nobody says one."""


def export(
    module: torch.nn.Module,
    path: Path,
    *,
    input_shapes: Mapping[str, Sequence[int]],
    examples: Sequence[Any] | None = None,
    likely_shapes: Sequence[Sequence[int]] = (),
) -> dict[str, Any]:
    """Write a module as an ONNX file as it predicts, unoptimised, and return what else a reader needs.

    The sizes of the batch, and others that nobody gave, stay open where the module's code allows it.

    Args:
        module: The module; its mode is as before afterwards.
        path: The file.
        input_shapes: Sizes by the names of ``forward``'s arguments, the batch first.
        examples: Inputs to trace it with, instead of sizes.
        likely_shapes: Sizes to try before the usual ones, where nobody says those of the only input.

    Returns:
        ``modules`` (class and settings by name), ``state`` (names of stored arrays), ``trainable`` (those
        that are parameters), ``notes``. JSON values only.

    Raises:
        ShapeError: Sizes are missing.
        UsageError: Sizes name no input.
        CodeError: The module's code fails, or cannot be traced.
    """
    with _in_evaluation_mode(module):
        inputs, notes, is_open = _inputs(module, input_shapes, examples, likely_shapes)
        program = _traced(module, inputs, is_open=is_open)
        if _unrolls_open_steps(program):
            program = _with_sizes(module, inputs)
            notes = [
                *notes,
                "nn.RNN is written out step by step: all sizes are those that it was traced with",
            ]
        write(program, path)
    return describe(module, notes)


def write(program: torch.export.ExportedProgram, path: Path) -> None:
    """Write an exported program as an ONNX file, without the exporter's optimisations.

    Raises:
        CodeError: It has operators that ONNX cannot say.
    """
    with _quiet():
        try:
            torch.onnx.export(
                program, dynamo=True, optimize=False, opset_version=OPSET_VERSION, verbose=False
            ).save(str(path))
        except torch.onnx.OnnxExporterError as error:
            raise CodeError(f"cannot be written as ONNX: {_root(error)}") from error


def write_script(script: torch.jit.ScriptModule, path: Path, input_shapes: Mapping[str, Any]) -> None:
    """Write a TorchScript module as an ONNX file; its code is a graph already, and not traced again.

    Raises:
        ShapeError: Sizes are missing.
        UsageError: Sizes name no input.
        CodeError: It fails, or has operators that ONNX cannot say.
    """
    names = [argument.name for argument in script.forward.schema.arguments[1:]]
    inputs = _given(names, input_shapes)
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
            raise CodeError(f"cannot be written as ONNX: {_root(error)}") from error


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
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's talk of packages that are not installed to itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
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


def _traced(
    module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], *, is_open: bool
) -> torch.export.ExportedProgram:
    """Trace a module with as many open sizes as its code and PyTorch's solver of inequalities bear."""
    auto = torch.export.Dim.AUTO
    open_axes = {
        name: {axis: auto for axis in range(value.ndim) if axis == 0 or (is_open and axis > 1)}
        for name, value in inputs.items()
    }
    with _quiet(), _named_data():
        try:
            return torch.export.export(module, (), dict(inputs), dynamic_shapes=open_axes)
        except Exception as open_error:  # noqa: BLE001 - any code's any error
            if is_open:
                return _traced(module, inputs, is_open=False)
            return _with_sizes(module, inputs, open_error)


def _with_sizes(
    module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], cause: Exception | None = None
) -> torch.export.ExportedProgram:
    """Trace a module with no size open.

    With copies of its inputs: an attempt to trace it with open sizes marks the tensors that it is given.
    """
    fresh = {name: value.clone() for name, value in inputs.items()}
    with _quiet(), _named_data():
        try:
            return torch.export.export(module, (), fresh)
        except Exception as error:  # noqa: BLE001 - any code's any error
            raise CodeError(f"its code cannot be traced: {_root(error)}") from cause or error


def _unrolls_open_steps(program: torch.export.ExportedProgram) -> bool:
    """Whether a plain recurrent layer has open steps: the exporter writes out those of the example alone."""
    aten = torch.ops.aten
    layers = {aten.rnn_tanh.input, aten.rnn_relu.input}
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in layers:
            sizes = node.args[0].meta["val"].shape
            if not isinstance(sizes[1 if node.args[-1] else 0], int):
                return True
    return False


def _inputs(
    module: torch.nn.Module,
    shapes: Mapping[str, Sequence[int]],
    examples: Sequence[Any] | None,
    likely_shapes: Sequence[Sequence[int]],
) -> tuple[dict[str, torch.Tensor], list[str], bool]:
    """Return inputs by name, what to tell the user, and whether sizes beyond the batch are open."""
    names = [
        name
        for name, argument in inspect.signature(module.forward).parameters.items()
        if argument.default is argument.empty and argument.kind is argument.POSITIONAL_OR_KEYWORD
    ]
    if examples is not None:
        return dict(zip(names, map(torch.as_tensor, examples), strict=False)), [], False
    if shapes or len(names) != 1:
        given = {name: _in_precision_of(module, x) for name, x in _given(names, shapes).items()}
        return given, [], False
    return _guessed(module, names[0], likely_shapes)


def _given(names: Sequence[str], shapes: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
    check_input_names(shapes, names, place="the module")
    missing = [name for name in names if name not in shapes]
    if missing:
        raise ShapeError(
            f"the size of input {', '.join(map(repr, missing))} is unknown: set it (--input-shape "
            f"{missing[0]}=1x3x224x224)",
            open_inputs=tuple(missing),
        )
    return {name: _drawn([max(2, shapes[name][0]), *shapes[name][1:]]) for name in names}


def _drawn(shape: Sequence[int]) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(0))


def _in_precision_of(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return an input in the precision of a module's weights, which a module in float16 insists on."""
    kinds = {array.dtype for array in module.parameters() if array.dtype.is_floating_point}
    return x.to(kinds.pop()) if len(kinds) == 1 and x.dtype.is_floating_point else x


def _guessed(
    module: torch.nn.Module, name: str, likely_shapes: Sequence[Sequence[int]]
) -> tuple[dict[str, torch.Tensor], list[str], bool]:
    """Find sizes that a module with one input takes, from its first part that says how it wants them."""
    last = "it has no part that says what it takes"
    for drawn in itertools.chain(_likely(module, likely_shapes), _candidates(module)):
        inputs = _in_precision_of(module, drawn)
        try:
            module(inputs)
        except Exception as error:  # noqa: BLE001 - any code's any error
            last = _root(error)
            continue
        sizes = "x".join(map(str, ["N", *inputs.shape[1:]]))
        note = f"nobody said the size of input {name!r}: traced with {sizes}, the first that its code takes"
        return {name: inputs}, [note], True
    raise ShapeError(
        f"the size of input {name!r} is unknown, and none of the usual sizes fits ({last}): set it "
        f"(--input-shape {name}=1x3x224x224)",
        open_inputs=(name,),
    )


def _likely(module: torch.nn.Module, shapes: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
    """Yield inputs of likely sizes that the first part of a module takes; channels may stand last."""
    part = next((p for p in module.modules() if isinstance(p, torch.nn.modules.conv._ConvNd)), None)
    for shape in shapes:
        if part is None:
            yield _drawn([2, *shape[1:]])
        elif len(shape) == len(part.kernel_size) + 2:
            moved = [shape[0], shape[-1], *shape[1:-1]]
            fitting = [sizes for sizes in (shape, moved) if sizes[1] == part.in_channels]
            yield from (_drawn([2, *sizes[1:]]) for sizes in [*fitting, shape][:1])


def _candidates(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    for part in module.modules():
        if isinstance(part, torch.nn.modules.conv._ConvNd):
            rank = len(part.kernel_size)
            sizes = SIZES if rank < 3 else VOLUME_SIZES
            yield from (_drawn([2, part.in_channels, *[size] * rank]) for size in sizes)
        elif isinstance(part, torch.nn.Linear):
            yield _drawn([2, part.in_features])
            yield _drawn([2, STEPS, part.in_features])
        elif isinstance(part, torch.nn.RNNBase):
            yield _drawn([2, STEPS, part.input_size])
        elif isinstance(part, torch.nn.Embedding):
            yield torch.arange(2 * STEPS).reshape(2, STEPS) % part.num_embeddings
        else:
            continue
        return


def _root(error: BaseException) -> str:
    """Return the first cause's kind and message, on one line and not too long."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else text[:300] + "..."
