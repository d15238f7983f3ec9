"""From an ONNX message to the nodes and tables of a Graph; each format says what its layers are."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.files.onnx.batch import Batch, BatchBoundError, keep_batch, open_batch
from netweave.files.onnx.model import inline, rename_twins, to_model
from netweave.files.onnx.operators import check_operators
from netweave.files.onnx.opset import modernise
from netweave.files.onnx.partial import remove_unreadable
from netweave.files.unknown import check_input_names
from netweave.graph import BATCH, known_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import onnx

    from netweave.graph import LayerTable


@dataclass(frozen=True, slots=True)
class Rows:
    """Information that a format gives about a model before its functions are inlined.

    Attributes:
        layers: The layer table; the nodes name their layers.
        batch_is_named: The batch already has its symbol, as in files that Netweave wrote.
    """

    layers: LayerTable
    batch_is_named: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """A model as it was read.

    Attributes:
        model: Opset ``OPSET``, shapes inferred, the batch free where the net allows it.
        layers: The layer table.
        declared: Input shapes as the message declares them, by name.
        notes: What a user should know about the reading.
    """

    model: ir.Model
    layers: LayerTable
    declared: dict[str, tuple[int | None, ...]]
    notes: tuple[str, ...] = ()


def read_model(
    proto: onnx.ModelProto,
    path: Path,
    rows: Callable[[ir.Model], Rows],
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    partial: bool = False,
) -> Read:
    """Return the model of a message in opset ``OPSET``, without functions.

    Args:
        proto: The message, as ``parse`` returns it.
        path: Its file, for messages and for the arrays beside it.
        rows: Makes the layer table of the sorted model; called again if the batch cannot be freed.
        input_shapes: New sizes of inputs, by name.
        partial: Leave out unknown operators and what needs them.

    Raises:
        SourceError: The model holds something unknown, or does not fit together.
        UsageError: Input sizes are given for something that is no input.
    """
    once = functools.partial(_read, proto, path, rows, input_shapes or {}, partial=partial)
    try:
        return once(free_batch=True)
    except BatchBoundError as error:
        read = once(free_batch=False)
        note = f"{path}: the batch size stays as declared, since {error}"
        return Read(read.model, read.layers, read.declared, (*read.notes, note))


def _read(
    proto: onnx.ModelProto,
    path: Path,
    rows: Callable[[ir.Model], Rows],
    input_shapes: Mapping[str, tuple[int, ...]],
    *,
    free_batch: bool,
    partial: bool,
) -> Read:
    place = str(path)
    model = to_model(proto, path)
    found = rows(model)
    inline(model, place=place)
    rename_twins(model)
    notes = remove_unreadable(model, place=place) if partial else ()
    check_operators(model, place=place)
    declared = _declared(model)
    if found.batch_is_named:
        batch = Batch()
    else:
        batch = (open_batch if free_batch else keep_batch)(model.graph.inputs)
    _resize_inputs(model, input_shapes)
    modernise(model, batch, place=place)
    batch.check_outputs(model.graph.outputs)
    return Read(model, found.layers, declared, notes)


def _declared(model: ir.Model) -> dict[str, tuple[int | None, ...]]:
    shapes = {value.name: known_shape(value) for value in model.graph.inputs}
    return {name: shape for name, shape in shapes.items() if name and shape is not None}


def _resize_inputs(model: ir.Model, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Give inputs the sizes that the caller wants; a free batch stays free."""
    inputs = {value.name: value for value in model.graph.inputs}
    check_input_names(wanted, map(str, inputs), place=model.graph.name or "the model")
    for name, sizes in wanted.items():
        old = inputs[name].shape
        if old is not None and len(old) != len(sizes):
            raise UsageError(f"input {name!r} has {len(old)} axes, but {len(sizes)} sizes are given")
        first = [BATCH] if old is not None and len(old) and old[0] == BATCH else list(sizes[:1])
        inputs[name].shape = ir.Shape([*first, *sizes[1:]])
