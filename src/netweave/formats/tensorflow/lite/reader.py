"""From a file of TFLite to its Graph."""

from __future__ import annotations

from dataclasses import replace

from netweave.errors import UsageError
from netweave.files import Source
from netweave.files.unknown_names import UnknownLayer, refuse_unknown_layers
from netweave.formats.tensorflow.folding import check_written_out, needed
from netweave.formats.tensorflow.lite.context import LiteInterpreter
from netweave.formats.tensorflow.lite.operators import LITE_READERS, REASONS
from netweave.formats.tensorflow.lite.program import OPERANDS, TENSOR, open_net
from netweave.formats.tensorflow.lite.tensors import LiteTensor
from netweave.formats.tensorflow.nodes import Program
from netweave.formats.tensorflow.reader import lower, wanted_outputs
from netweave.graph import Graph


def read(source: Source) -> Graph:
    """Read a net of TFLite: its weights and activations as the real numbers that they stand for."""
    if source.weights is not None:
        raise UsageError(f"a TFLite file contains its weights; do not give {str(source.weights)!r}")
    opened = open_net(source)
    check_written_out(opened.program)
    nodes = needed(opened.program, [ref for _, ref in wanted_outputs(opened)])
    refuse_unknown_layers(
        [
            UnknownLayer(node.op, node.name)
            for node in nodes
            if OPERANDS in node.attributes and node.op not in LITE_READERS
        ],
        place=opened.program.file,
        noun="operator",
        known=LITE_READERS,
        reasons=REASONS,
        how_to="add-a-tensorflow-operator",
    )
    graph = lower(
        opened,
        name=source.net.stem,
        format_name="tensorflow.lite",
        input_shapes=source.input_shapes,
        interpreter=LiteInterpreter,
    )
    return _with_stored_formats(graph, opened.program)


def _with_stored_formats(graph: Graph, program: Program) -> Graph:
    """Note on the parameters in how many bits the file stores them."""
    for name, node in program.main.nodes.items():
        tensor: LiteTensor | None = node.attributes.get(TENSOR)
        parameter = graph.parameters.get(name)
        if parameter is not None and tensor is not None and tensor.array is not None:
            graph.parameters[name] = replace(parameter, stored_format=tensor.stored_format)
    return graph
