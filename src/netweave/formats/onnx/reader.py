"""Reading an ONNX file into a Graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.formats.onnx import metadata
from netweave.formats.onnx.batch import Batch, BatchBoundError, keep_batch, open_batch
from netweave.formats.onnx.layers import make_layers, make_parameters
from netweave.formats.onnx.model import inline, parse, rename_twins, to_model
from netweave.formats.onnx.operators import check_operators
from netweave.formats.onnx.opset import modernise
from netweave.graph import BATCH, Graph, known_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from netweave.files import Source


def read(source: Source) -> Graph:
    """Read an ONNX net of any opset.

    The graph comes in opset ``OPSET``, without functions, with the batch size free where the net allows
    it. A file that Netweave wrote gives back the layers, parameters and declared shapes of its source.

    Raises:
        SourceError: The file cannot be read, or holds something unknown.
        UsageError: Input sizes are given for something that is no input.
    """
    if source.weights is not None:
        raise UsageError(f"an ONNX net holds its weights itself; leave out {str(source.weights)!r}")
    proto = parse(source.net)
    try:
        return _read(source, proto, free_batch=True)
    except BatchBoundError as error:
        graph = _read(source, proto, free_batch=False)
        graph.notes = (f"{source.net}: the batch size stays as declared, since {error}",)
        return graph


def _read(source: Source, proto: onnx.ModelProto, *, free_batch: bool) -> Graph:
    place = str(source.net)
    model = to_model(proto, source.net)
    saved = metadata.load(model, place=place)
    layers = saved.layers if saved else make_layers(model, file=place)
    inline(model, place=place)
    rename_twins(model)
    check_operators(model, place=place)
    declared = _declared(model)
    batch = Batch() if saved else (open_batch if free_batch else keep_batch)(model.graph.inputs)
    _resize_inputs(model, source.input_shapes)
    modernise(model, batch, place=place)
    batch.check_outputs(model.graph.outputs)
    if saved:
        saved.tag(model, place=place)
        return saved.graph(model)
    parameters = make_parameters(model, layers)
    return Graph(model, layers, parameters, declared, "onnx", (place,))


def _declared(model: ir.Model) -> dict[str, tuple[int | None, ...]]:
    shapes = {value.name: known_shape(value) for value in model.graph.inputs}
    return {name: shape for name, shape in shapes.items() if name and shape is not None}


def _resize_inputs(model: ir.Model, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Give inputs the sizes that the caller wants; a free batch stays free."""
    inputs = {value.name: value for value in model.graph.inputs}
    unknown = [name for name in wanted if name not in inputs]
    if unknown:
        there = ", ".join(map(str, inputs)) or "none"
        raise UsageError(
            f"no input named {', '.join(map(repr, unknown))} in {model.graph.name!r}; has: {there}"
        )
    for name, sizes in wanted.items():
        old = inputs[name].shape
        if old is not None and len(old) != len(sizes):
            raise UsageError(f"input {name!r} has {len(old)} axes, but {len(sizes)} sizes are given")
        first = [BATCH] if old is not None and len(old) and old[0] == BATCH else list(sizes[:1])
        inputs[name].shape = ir.Shape([*first, *sizes[1:]])
