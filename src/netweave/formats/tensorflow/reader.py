"""From the files of a net of TensorFlow to its Graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.errors import ReadError, UnsupportedError
from netweave.files.unknown import UnknownLayer, refuse_unknown_layers, refuse_unknown_settings
from netweave.formats.lowering.channels_last import ChannelsLastLayer, ChannelsLastNet, Stored, Tensor
from netweave.formats.tensorflow.attribute_names import unknown_attributes
from netweave.formats.tensorflow.folding import can_fold
from netweave.formats.tensorflow.inputs import Inputs
from netweave.formats.tensorflow.interpreter import Interpreter
from netweave.formats.tensorflow.opening import open_net
from netweave.formats.tensorflow.operators import READERS, REASONS
from netweave.formats.tensorflow.outputs import find_outputs
from netweave.formats.tensorflow.reach import check_written_out, needed
from netweave.formats.tensorflow.variables import Variables
from netweave.graph import Graph, GraphBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.files import Source
    from netweave.formats.tensorflow.nodes import Program, Ref
    from netweave.formats.tensorflow.opening import Opened
    from netweave.formats.tensorflow.operands import Item


def read(source: Source) -> Graph:
    """Read a net of TensorFlow: a frozen graph, a MetaGraph with its checkpoint, or a SavedModel."""
    opened = open_net(source)
    check_written_out(opened.program)
    _check_operators(opened.program, [ref for _, ref in wanted_outputs(opened)])
    return lower(opened, name=_name(source), format_name="tensorflow", input_shapes=source.input_shapes)


def lower(
    opened: Opened,
    *,
    name: str,
    format_name: str,
    input_shapes: Mapping[str, tuple[int, ...]],
    interpreter: type[Interpreter] = Interpreter,
) -> Graph:
    """Return the Graph of a net that was opened.

    Args:
        opened: The net as its files hold it.
        name: Its name.
        format_name: Name of the format.
        input_shapes: Sizes that the caller gave, by the input's name.
        interpreter: Who reads its nodes.
    """
    wanted = wanted_outputs(opened)
    builder = GraphBuilder(name, format=format_name, files=opened.files)
    output_names = [name for name, _ in wanted]
    net = ChannelsLastNet(builder, reserved=output_names)
    names = {tensor.partition(":")[0]: key for tensor, key in opened.inputs.items()}
    inputs = Inputs(builder, names=names, shapes=input_shapes, file=opened.program.file)
    variables = Variables(opened.program, opened.bundle)
    items = interpreter(opened.program, net, variables=variables, inputs=inputs).run(
        [ref for _, ref in wanted]
    )
    inputs.check()
    outputs = _output_tensors(output_names, items, opened.program)
    whole_net = ChannelsLastLayer(net, place=opened.program.file)
    graph = builder.finish(whole_net.net_outputs(outputs, output_names))
    return replace(graph, notes=tuple(inputs.notes))


def _name(source: Source) -> str:
    path = source.net
    return path.parent.name if path.name.startswith("saved_model.") else path.stem


def wanted_outputs(opened: Opened) -> list[tuple[str, Ref]]:
    """Return the net's outputs by name: those of its signature, or the ends of its graph."""
    if not opened.outputs:
        return [(name, (name, number)) for name, number in find_outputs(opened.program)]
    wanted = []
    for key, tensor in opened.outputs.items():
        name, _, number = tensor.partition(":")
        if name not in opened.program.main.nodes or (number and not number.isdecimal()):
            raise ReadError(
                f"its signature names the output {tensor!r}, which the graph does not contain",
                place=opened.program.file,
            )
        wanted.append((key, (name, int(number or 0))))
    return wanted


def _output_tensors(names: Sequence[str], items: Sequence[Item], program: Program) -> list[Tensor | Stored]:
    tensors = [item for item in items if isinstance(item, (Tensor, Stored))]
    if len(tensors) < len(items):
        name = next(n for n, item in zip(names, items, strict=True) if not isinstance(item, (Tensor, Stored)))
        raise UnsupportedError(f"the output {name!r} is not a tensor", place=program.file)
    return tensors


def _check_operators(program: Program, wanted: Sequence[Ref]) -> None:
    """Refuse a net with unknown operators, naming each once with its nodes, or with unknown attributes."""
    nodes = list(needed(program, wanted))
    unknown = [
        UnknownLayer(node.op, node.name, node.line)
        for node in nodes
        if node.op not in READERS and not can_fold(node.op) and node.op not in program.functions
    ]
    refuse_unknown_layers(
        unknown,
        place=program.file,
        noun="operator",
        known=READERS,
        reasons=REASONS,
        how_to="add-a-tensorflow-operator",
    )
    refuse_unknown_settings(
        (attribute for node in nodes for attribute in unknown_attributes(node)), place=program.file
    )
