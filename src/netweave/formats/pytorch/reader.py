"""Reading PyTorch's files, by a guarded child process, and modules in memory, in place."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.json_text import read_json
from netweave.files.model_imports import Imports, imports_of_source
from netweave.files.npy import read_npz
from netweave.files.persistent_child import kept_children
from netweave.files.python_code import run_reader, weights_of_written
from netweave.formats.pytorch.exported import Tables, cached_steps, read_exported
from netweave.formats.pytorch.file_types import Kind, holds_weights, kind_of_source
from netweave.formats.pytorch.state import read_state
from netweave.graph import graph_of_weights
from netweave.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from netweave.files import Source
    from netweave.files.persistent_child import Children
    from netweave.graph import CachedSteps, Graph

OWN_MODULES = ("numpy", "torch")
"""Packages that are here, and never looked for beside a model's file."""

CHILD = Path(__file__).with_name("child.py")


def read(source: Source) -> Graph:
    """Read a model's code with its weights, an exported program or TorchScript, in a child process.

    Code that Netweave wrote gets the weights that lie beside it under its name, unless others are named.
    Other code gets only weights that are named.

    Raises:
        SourceError: The files cannot be read, their code fails, or may not run.
        UsageError: Sizes or the factory are missing, or something is named that is not there.
    """
    place, kind = str(source.net), kind_of_source(source)
    if kind is Kind.STATE:
        raise UsageError(
            f"{place}: holds weights only; name the .py file of the model before it: "
            f"model.py,{source.net.name}"
        )
    if source.weights is not None and kind not in {Kind.CODE, Kind.FOLDER}:
        raise UsageError(f"{place} contains its weights; do not give {str(source.weights)!r}")
    _need_torch(place)
    if kind is Kind.CODE:
        source = _with_own_weights(source)
    files = [source.net, *([source.weights] if source.weights else [])]
    imports = _imports(source)
    beside = imports.places(source.net.resolve(), place)
    staying = kept_children()
    with _child(source, imports, ["net.onnx", "tables.json"], staying) as (net, tables):
        traced = Tables.parse(read_json(tables), place=place)
        names = {str(path.resolve()): str(path) for path in files}
        graph = read_exported(net, traced, place=place, files=names, beside=beside)
    has_weights = kind is Kind.FOLDER and holds_weights(source.net)
    if source.weights is None and kind in {Kind.CODE, Kind.FOLDER} and not has_weights:
        graph.notes += (f"{place}: no weights were named; the model's own first values are used",)
        graph.parameters = {key: replace(p, initial=True) for key, p in graph.parameters.items()}
    elif kind in {Kind.CODE, Kind.FOLDER}:
        graph.trace = replace(
            traced.trace(
                partial(_outputs, source, staying), lambda shapes: read(replace(source, input_shapes=shapes))
            ),
            is_apart=True,
            learn=partial(_recorded, source, staying),
            steps=partial(_steps, source, staying) if traced.has_cache else None,
        )
    return graph


def _imports(source: Source) -> Imports:
    is_code = kind_of_source(source) is Kind.CODE
    return imports_of_source(source, known=OWN_MODULES) if is_code else Imports("", (), (), ())


def _child(
    source: Source,
    imports: Imports,
    names: Sequence[str],
    staying: Children | None,
    batches: Sequence[Mapping[str, np.ndarray]] = (),
    **request: Any,
) -> AbstractContextManager[list[Path]]:
    """Return the run of the child process that gives files that it wrote."""
    kind = kind_of_source(source)
    return run_reader(
        source,
        CHILD,
        names,
        readable=imports.files,
        staying=staying,
        batches=batches,
        kind=kind.name if kind else None,
        beside=imports.places(source.net.resolve(), str(source.net)),
        has_weights=kind is Kind.FOLDER and holds_weights(source.net),
        **imports.request(),
        **request,
    )


def _recorded(
    source: Source,
    staying: Children | None,
    inputs: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
    """Return what code computes in its first updates (``formats.pytorch.training_record``).

    Args:
        source: The files.
        staying: Children that stay.
        inputs: One batch, by name.
        settings: ``loss`` and ``optimizer``, names of functions of the code, or None, and ``num_updates``.

    Raises:
        SourceError: The code cannot be run, or has no such function.
    """
    place, names = str(source.net), ["outputs.npz", "tables.json"]
    with _child(source, _imports(source), names, staying, [inputs], training=dict(settings)) as (
        file,
        tables,
    ):
        arrays, rest = read_npz(file, place=place), read_json(tables)
    if not isinstance(rest, dict):
        raise ReadError("the child process wrote an invalid record", place=place)
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, x in arrays.items():
        kind, _, key = name.partition(":")
        parts.setdefault(kind, {})[key] = x
    return parts, rest


def _outputs(
    source: Source, staying: Children | None, batches: Sequence[Mapping[str, np.ndarray]]
) -> list[list[np.ndarray] | None]:
    """Return what code in files computes of each batch of inputs; None where it fails.

    Raises:
        SourceError: The code cannot be run at all.
    """
    with _child(source, _imports(source), ["outputs.npz"], staying, batches) as (file,):
        made = read_npz(file, place=str(source.net))
    computed: list[list[np.ndarray] | None] = []
    for number in range(len(batches)):
        of_batch = [x for key, x in made.items() if key.startswith(f"{number}/")]
        computed.append(of_batch or None)
    return computed


def _steps(
    source: Source,
    staying: Children | None,
    batches: Sequence[Mapping[str, np.ndarray]],
    tolerance: float,
) -> CachedSteps:
    """Return what single steps of code in files through its cache give, against one pass.

    Raises:
        SourceError: The code cannot be run at all.
    """
    with _child(source, _imports(source), ["tables.json"], staying, batches, steps=tolerance) as (tables,):
        return cached_steps(read_json(tables), place=str(source.net))


def write_tiny(source: Source, to: Path) -> tuple[str, ...]:
    """Write a Hugging Face model folder of the same architecture with small sizes and drawn weights.

    Args:
        source: The folder; its weights are not looked at.
        to: The folder to write to, which exists: ``config.json`` and ``model.safetensors``.

    Returns:
        Which settings were changed, in words.

    Raises:
        SourceError: It is no such folder, or Transformers makes no model of the shrunk settings.
    """
    place = str(source.net)
    if kind_of_source(source) is not Kind.FOLDER:
        raise ReadError("is no Hugging Face model folder (config.json)", place=place)
    _need_torch(place)
    names = ["config.json", "model.safetensors", "tables.json"]
    with _child(source, _imports(source), names, None, tiny=True) as (*files, tables):
        rest = read_json(tables)
        for file, name in zip(files, names, strict=False):
            (to / name).write_bytes(file.read_bytes())
    changes = rest.get("changes") if isinstance(rest, dict) else None
    if not isinstance(changes, list):
        raise ReadError("the child process wrote an invalid record", place=place)
    return tuple(map(str, changes))


def read_structure(source: Source) -> Graph:
    """Read a state dict as a net of layers with stored arrays and without operators; no code of it runs.

    Raises:
        ReadError: The file is damaged.
        UnsupportedError: It is no state dict: code is read with its model, or not at all.
    """
    place = str(source.net)
    if kind_of_source(source) is not Kind.STATE or source.weights is not None:
        raise UnsupportedError("is no state dict", place=place)
    arrays = read_state(source.net)
    if not arrays:
        raise UnsupportedError("holds a dict without tensors", place=place)
    return graph_of_weights(arrays, format_name="pytorch", file=place)


def _with_own_weights(source: Source) -> Source:
    """Return the source with the weights beside it, if it is code that Netweave wrote and no part of it."""
    written = weights_of_written(source)
    if written is None or source.entry not in {None, "load", written[1]}:
        return source
    return replace(source, weights=written[0], entry=source.entry or written[1])


def read_module(
    module: Any,
    *,
    input_shapes: Mapping[str, Sequence[int]],
    examples: Sequence[Any] | None = None,
    likely_shapes: Sequence[Sequence[int]] = (),
) -> Graph:
    """Read a module in memory, in this process: its code is the caller's.

    Args:
        module: An ``nn.Module``; it is not changed.
        input_shapes: Sizes by the names of ``forward``'s arguments, the batch first.
        examples: Inputs to trace it with, instead of sizes.
        likely_shapes: Sizes to try before the usual ones.

    Raises:
        SourceError: Its code fails or cannot be traced, or it has operators that are not read.
        UsageError: Sizes are missing or name no input.
    """
    from netweave.formats.pytorch.module import export, outputs_of, steps_of

    name = type(module).__name__
    _need_torch(name)
    with tempfile.TemporaryDirectory(prefix="netweave-") as folder:
        path = Path(folder) / "net.onnx"
        tables = export(
            module, path, input_shapes=input_shapes, examples=examples, likely_shapes=likely_shapes
        )
        traced = Tables.parse(tables, place=name)
        graph = read_exported(path, traced, place=name, files={})
    graph.files = (name,)
    graph.trace = replace(
        traced.trace(partial(outputs_of, module), lambda shapes: read_module(module, input_shapes=shapes)),
        steps=(lambda *given: cached_steps(steps_of(module, *given), place=name))
        if traced.has_cache
        else None,
    )
    return graph


def _need_torch(place: str) -> None:
    missing = [package for package in ("torch", "onnxscript") if find_spec(package) is None]
    if missing:
        raise UnsupportedError(
            f"is read with PyTorch, and {' and '.join(missing)} is not installed: {install_command('torch')}",
            place=place,
        )
