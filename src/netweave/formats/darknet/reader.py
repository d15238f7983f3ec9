"""From the files of a net in Darknet to its Graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from netweave.errors import ReadError, ShapeError
from netweave.files.unknown import (
    UnknownLayer,
    UnknownSetting,
    check_input_names,
    refuse_unknown_layers,
    refuse_unknown_settings,
)
from netweave.formats.darknet.config import SETTINGS, Section, read_config
from netweave.formats.darknet.context import HEADS, DarknetLayer
from netweave.formats.darknet.layers import LAYERS, REASONS
from netweave.formats.darknet.weights import WeightFile
from netweave.graph import Graph, GraphBuilder, Layer, Origin, layer_keys
from netweave.lowering import ParameterStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import onnx_ir as ir

    from netweave.files import Source

_HEAD = re.compile(rb"\A(\xef\xbb\xbf)?(\s*[#;][^\n]*\n|\s+)*\[net(work)?\]")

INPUT = "data"
"""Name of the net's input; Darknet gives it none."""


def match(source: Source) -> bool:
    """Whether the file's first section is ``[net]`` or ``[network]``."""
    return _HEAD.match(source.head()) is not None


def read(source: Source) -> Graph:
    """Read a net of Darknet: ``NET.cfg`` and, if there is one, ``NET.weights``.

    What training alone needs (``[cost]``, dropout, the settings of ``[net]``) makes no node. The net's
    outputs are its heads (``[yolo]``, ``[region]``, ``[detection]``) in their order, or else its last layer.
    """
    sections = read_config(source.net)
    net, body = sections[0], sections[1:]
    if not body:
        raise ReadError("contains no layer after [net]", place=net.place)
    _check_names(sections)
    weights = source.weights or find_weights(source.net)
    file = WeightFile(weights) if weights else None
    builder = GraphBuilder(
        source.net.stem, format="darknet", files=[str(source.net), *([str(weights)] if weights else [])]
    )
    outputs = [builder.input(INPUT, _input_shape(net, source))]
    parameters = ParameterStore(builder)
    for index, section in enumerate(body):
        outputs.append(_read_layer(builder, section, index, outputs, parameters, file))
    if file:
        file.finish()
    return builder.finish(_heads(body, outputs[1:], builder))


def find_weights(net: Path) -> Path | None:
    """Return the weights that lie beside a net under its name, or None."""
    path = net.with_suffix(".weights")
    return path if path.is_file() else None


def _input_shape(net: Section, source: Source) -> tuple[int | None, ...]:
    check_input_names(source.input_shapes, [INPUT], place=str(source.net))
    if INPUT in source.input_shapes:
        given = source.input_shapes[INPUT]
        if len(given) != 4 or min(given) < 1:
            raise ShapeError(
                f"{list(given)} is given for {INPUT!r}, expected batch, channels, height and width",
                place=str(source.net),
            )
        return given
    if net.has("inputs") and not (net.has("height") and net.has("width")):
        return (net.integer("batch", 1, least=1), net.integer("inputs", 0, least=1))
    height, width = (net.integer(name, 0, least=1) for name in ("height", "width"))
    return (net.integer("batch", 1, least=1), net.integer("channels", 0, least=1), height, width)


def _check_names(sections: Sequence[Section]) -> None:
    """Refuse a net with unknown types of layers or unknown settings, naming each with its lines."""
    refuse_unknown_layers(
        [UnknownLayer(s.type, "", s.line) for s in sections[1:] if s.type not in LAYERS],
        place=sections[0].file,
        noun="layer",
        known=LAYERS,
        reasons=REASONS,
    )
    refuse_unknown_settings(
        [
            UnknownSetting(name, value, UnknownLayer(section.type, "", section.lines[name]), known=SETTINGS)
            for section in sections
            for name, value in section.settings.items()
            if name not in SETTINGS
        ],
        place=sections[0].file,
    )


def _read_layer(
    builder: GraphBuilder,
    section: Section,
    index: int,
    outputs: Sequence[ir.Value],
    parameters: ParameterStore,
    weights: WeightFile | None,
) -> ir.Value:
    key = f"{section.type}_{index}"
    origin = Origin(section.file, section.line)
    layer = Layer(key=key, name=key, type=section.type, settings=dict(section.settings), origin=origin)
    with builder.layer(layer):
        ctx = DarknetLayer(
            builder,
            place=layer.place,
            layer=layer,
            section=section,
            index=index,
            outputs=outputs,
            parameters=parameters,
            weights=weights,
        )
        output = LAYERS[section.type].read(ctx)
        producer = output.producer()
        if producer is not None and key in layer_keys(producer):
            builder.rename(output, key)
    builder.record(layer, inputs=ctx.read, outputs=[output], parameters=parameters.keys(key))
    return output


def _heads(body: Sequence[Section], outputs: Sequence[ir.Value], builder: GraphBuilder) -> list[ir.Value]:
    heads = [value for section, value in zip(body, outputs, strict=True) if section.type in HEADS]
    return builder.own_outputs(heads or [outputs[-1]])
