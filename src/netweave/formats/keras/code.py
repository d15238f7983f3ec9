"""Models of Keras as Python files: made by a guarded child process, which saves them as Keras does."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from netweave.errors import ReadError, SourceError, UnsupportedError, UsageError
from netweave.files import Source
from netweave.files.json_text import read_json
from netweave.files.model_imports import imports_of_source
from netweave.files.python_code import MAX_CODE_BYTES, imports_package, naming, run_reader, weights_of_written
from netweave.formats.pytorch.exported import Tables, read_exported
from netweave.graph import Graph, LayerTable, Origin
from netweave.installation import install_command

WEIGHTS = (".weights.h5", ".h5", ".keras")
"""How the names of files end that ``Model.load_weights`` of Keras reads."""

CHILD = Path(__file__).with_name("child.py")


def is_code(path: Path) -> bool:
    """Return whether a file is Python that imports Keras."""
    if path.suffix != ".py":
        return False
    try:
        with path.open("rb") as file:
            return imports_package(file.read(MAX_CODE_BYTES), "keras", "keras_hub")
    except OSError:
        return False


def read_code(source: Source, read: Callable[[Source], Graph]) -> Graph:
    """Read the model that a file makes.

    Of the two functions of a port that Netweave wrote, the one that loads its weights is called, if no
    function is named: those that the caller names, or those that lie beside it under its name. Into the
    model of other code, Keras loads the weights that the caller names.

    Args:
        source: The file, and its weights.
        read: Reads a model that is saved.

    Raises:
        SourceError: The code fails, or may not run.
        UnsupportedError: Keras is not installed.
        UsageError: The weights are in a file that Keras does not load.
        WeightError: The weights are no weights, or not those of the model.
    """
    place = str(source.net)
    if find_spec("keras") is None or find_spec("torch") is None:
        raise UnsupportedError(
            f"needs Keras on PyTorch, which is not installed: {install_command('keras')}; "
            "or save the model with model.save, and give Netweave that file",
            place=place,
        )
    written = weights_of_written(source)
    is_named = written is not None and source.weights is not None and source.entry in {"load", written[1]}
    if written is not None and (source.entry is None or is_named):
        source = replace(source, weights=written[0], entry="load", arguments=repr(str(written[0].resolve())))
        loads_weights = False  # the code does
    else:
        loads_weights = source.weights is not None
        _check_weights(source)
    beside = [
        path
        for suffix in (".npz", ".weights.h5", ".h5")
        if (path := source.net.with_name(source.net.stem + suffix)).is_file()
    ]
    imports = imports_of_source(source)
    ask = partial(
        run_reader,
        source,
        CHILD,
        readable=[*beside, *imports.files],
        loads_weights=loads_weights,
        **imports.request(),
    )
    try:
        graph, called_with = _followed(ask, source, read)
    except UnsupportedError as refusal:
        try:
            graph, called_with = _traced(ask, source)
        except SourceError as error:
            raise refusal from error
    files = (place, str(source.weights)) if source.weights is not None else (place,)
    graph.files = files
    if called_with:
        call = ", ".join(f"{name}={size}" for name, size in called_with.items())
        note = f"nobody said the size of its input: the function that makes the model was called with {call}"
        graph.notes += (f"{note}; say another by --input-shape",)
        if len(graph.declared) == 1:
            ((name, shape),) = graph.declared.items()
            graph.assumed = {name: (1, *(size or 1 for size in shape[1:]))}
    return graph


def _followed(
    ask: Callable[..., AbstractContextManager[list[Path]]], source: Source, read: Callable[[Source], Graph]
) -> tuple[Graph, dict[str, int]]:
    """Return the graph of the model as Keras saves it, and the sizes that its code was called with."""
    place = str(source.net)
    with ask(["net.keras", "lines.json", "sizes.json"], is_traced=False) as (saved, lines, sizes):
        with naming(place, instead_of=str(saved)):
            graph = read(Source(saved, input_shapes=source.input_shapes))
        layers = _at_lines(graph, lines, place=place)
        return replace(graph, layers=layers), _numbers(sizes, place=place)


def _traced(
    ask: Callable[..., AbstractContextManager[list[Path]]], source: Source
) -> tuple[Graph, dict[str, int]]:
    """Return the graph of the model as PyTorch traces it, and the sizes that its code was called with."""
    place = str(source.net)
    files = {str(source.net.resolve()): place}
    with ask(["net.onnx", "tables.json", "sizes.json"], is_traced=True) as (net, tables, sizes):
        graph = read_exported(net, Tables.parse(read_json(tables), place=place), place=place, files=files)
        graph.format = "keras"
        return graph, _numbers(sizes, place=place)


def _check_weights(source: Source) -> None:
    """Refuse weights whose file Keras does not load by its name.

    Raises:
        UsageError: The name of the file ends otherwise.
    """
    if source.weights is not None and not source.weights.name.endswith(WEIGHTS):
        raise UsageError(
            f"{source.weights}: cannot be loaded into the model of {source.net}: Keras loads files that end "
            f"in {', '.join(WEIGHTS)}; save them with model.save_weights('NAME.weights.h5')"
        )


def _at_lines(graph: Graph, written: Path, *, place: str) -> LayerTable:
    """Return the layers at the lines that construct them, which a saved model does not say.

    Args:
        graph: The graph of the saved model.
        written: The lines by layer, as the child process wrote them.
        place: The file with the code.

    Raises:
        ReadError: They are something else: the code has written there itself.
    """
    lines, layers = _numbers(written, place=place), graph.layers.values()
    return LayerTable(replace(layer, origin=Origin(place, lines.get(layer.name))) for layer in layers)


def _numbers(written: Path, *, place: str) -> dict[str, int]:
    """Return the whole numbers by name that the child process wrote.

    Raises:
        ReadError: The file holds something else.
    """
    try:
        numbers = json.loads(written.read_bytes())
    except (ValueError, RecursionError):
        numbers = None
    if not isinstance(numbers, dict) or not all(type(each) is int and each > 0 for each in numbers.values()):
        raise ReadError(
            f"its code wrote to {written.name}, where Netweave notes lines and sizes, expected nothing "
            "else to write there; write elsewhere",
            place=place,
        )
    return numbers
