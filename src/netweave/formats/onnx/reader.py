"""Reading an ONNX file into a Graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.files.checksums import CHANGED
from netweave.files.onnx import Rows, metadata, read_model
from netweave.files.onnx.layers import make_layers, make_parameters
from netweave.files.onnx.model import parse
from netweave.files.onnx.seal import is_as_sealed
from netweave.graph import Graph

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files import Source
    from netweave.graph import Parameter


def read(source: Source) -> Graph:
    """Read an ONNX net of any opset.

    The graph comes in opset ``OPSET``, without functions, with the batch size free where the net allows
    it. A file that Netweave wrote gives back the layers, parameters and declared shapes of its source; drawn
    values that it wrote are first values now, since the file holds them and anybody may have changed them.

    Raises:
        SourceError: The file cannot be read, or holds something unknown.
        UsageError: Input sizes are given for something that is no input.
    """
    if source.weights is not None:
        raise UsageError(f"an ONNX file contains its weights; do not give {str(source.weights)!r}")
    place = str(source.net)
    saved: metadata.Saved | None = None

    def rows(model: ir.Model) -> Rows:
        nonlocal saved
        saved = metadata.load(model, place=place)
        layers = saved.layers if saved else make_layers(model, file=place)
        return Rows(layers, batch_is_named=saved is not None)

    found = read_model(
        parse(source.net), source.net, rows, input_shapes=source.input_shapes, partial=source.partial
    )
    if not is_as_sealed(source.net):
        found = replace(found, notes=(*found.notes, f"{place}: {CHANGED}"))
    if saved:
        saved.tag(found.model, place=place)
        graph = replace(saved.graph(found.model), files=(place,), assumed={})
        graph.notes += tuple(note for note in found.notes if note.endswith(CHANGED))
        graph.parameters = {key: _held(parameter) for key, parameter in saved.parameters.items()}
    else:
        parameters = make_parameters(found.model, found.layers)
        graph = Graph(found.model, found.layers, parameters, found.declared, "onnx", (place,), found.notes)
    graph.declared |= source.input_shapes  # the caller declares the sizes that the file leaves open
    return graph


def _held(parameter: Parameter) -> Parameter:
    """Return a stored array as one whose values the file holds."""
    return parameter if parameter.loaded else replace(parameter, loaded=True, initial=True)
