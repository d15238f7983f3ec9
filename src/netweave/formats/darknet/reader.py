"""Reader of Darknet."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, WeightError
from netweave.files import Source, read_bytes
from netweave.files.unknown_names import (
    UnknownLayer,
    UnknownSetting,
    check_input_names,
    refuse_unknown_layers,
    refuse_unknown_settings,
)
from netweave.formats.darknet.config import SETTINGS, Section, read_config
from netweave.formats.darknet.context import HEADS, DarknetLayer, Training
from netweave.formats.darknet.layers import LAYERS, REASONS
from netweave.formats.lowering import ParameterStore
from netweave.graph import Graph, GraphBuilder, Layer, Origin, layer_keys
from netweave.graph.ops.regions import TRUTH_COLUMNS
from netweave.graph.passes import prune

# The order within a layer is that of ``load_convolutional_weights`` and its like in parser.c; a file says
# nothing about sizes, so that a wrong net is noticed by the length alone.

_VERSION = struct.Struct("<iii")
_HEADER = struct.Struct("<iiiQ")


def encode_weights(arrays: Iterable[np.ndarray], *, seen: int) -> bytes:
    """Return the bytes of a file: version 0.2, then the arrays in the order of the layers.

    Args:
        arrays: In Darknet's order and layout.
        seen: Images that training has seen, from which Darknet goes on.
    """
    numbers = [np.ascontiguousarray(array, "<f4").tobytes() for array in arrays]
    return b"".join([_HEADER.pack(0, 2, 0, seen), *numbers])


class WeightFile:
    """The arrays of a file, taken one after another.

    Args:
        path: The file.

    Attributes:
        transposed: Whether dense layers are stored as (inputs, outputs): files of before 2015.

    Raises:
        ReadError: The file cannot be read.
        WeightError: It is too short for a header, or its length is no whole number of float32.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        content = read_bytes(path)
        if len(content) < _VERSION.size + 4:
            raise WeightError(f"has {len(content)} bytes, too few for a header of Darknet", place=self.file)
        major, minor, _ = _VERSION.unpack_from(content)
        if not (0 <= major < 1 << 16 and 0 <= minor < 1 << 16):
            raise WeightError(
                f"begins with version {major}.{minor}, expected a file of weights of Darknet", place=self.file
            )
        begin = _VERSION.size + (8 if major * 10 + minor >= 2 else 4)
        if len(content) < begin or (len(content) - begin) % 4:
            raise WeightError(
                f"has {len(content):,} bytes, expected a header and float32 numbers; "
                f"was it copied completely?",
                place=self.file,
            )
        self.transposed = major > 1000 or minor > 1000
        self._numbers = np.frombuffer(content, dtype="<f4", offset=begin)
        self._next = 0

    @property
    def num_left(self) -> int:
        """Number of values that have not been read."""
        return len(self._numbers) - self._next

    def take(self, shape: Sequence[int], *, place: str, name: str) -> np.ndarray:
        """Return the next array.

        Args:
            shape: Its sizes.
            place: The layer that needs it, for messages.
            name: What it is, for messages.

        Raises:
            WeightError: The file ends before it does.
        """
        size = math.prod(shape)
        left = self.num_left
        if size > left:
            raise WeightError(
                f"ends in {name} of {place}: {size:,} numbers are needed, but only {left:,} are left; the "
                "file belongs to another net, or contains only its first layers",
                place=self.file,
            )
        taken = self._numbers[self._next : self._next + size].reshape(tuple(shape))
        self._next += size
        return taken

    def finish(self) -> None:
        """Check that nothing is left.

        Raises:
            WeightError: Numbers are left over: the file is of another net.
        """
        if self.num_left:
            raise WeightError(
                f"contains {len(self._numbers):,} numbers, but the net needs {self._next:,}; the file "
                f"belongs to another net",
                place=self.file,
            )


_HEAD = re.compile(rb"\A(\xef\xbb\xbf)?(\s*[#;][^\n]*\n|\s+)*\[net(work)?\]")

INPUT = "data"
"""Name of the net's input; Darknet gives it none."""

TRUTH = "truth"
"""Name of the input for ground-truth boxes, of a net with losses."""


def match(source: Source) -> bool:
    """Return whether the file's first section is ``[net]`` or ``[network]``."""
    return _HEAD.match(source.head()) is not None


def read(source: Source) -> Graph:
    """Read a net of Darknet: ``NET.cfg`` and, if there is one, ``NET.weights``.

    What training alone needs (``[cost]``, dropout, the settings of ``[net]``) makes no node. The net's
    outputs are its heads (``[yolo]``, ``[region]``, ``[detection]``) in their order, or else its last layer.
    """
    weights = source.weights or find_weights(source.net)
    return build(read_config(source.net), source, weights).graph


@dataclass(frozen=True, slots=True)
class Net:
    """A net that was read.

    Attributes:
        graph: Its graph.
        losses: Names of the values that make its objective, with their weights.
    """

    graph: Graph
    losses: Mapping[str, float]


def build(
    sections: Sequence[Section],
    source: Source,
    weights: Path | None,
    *,
    max_boxes: int = 0,
) -> Net:
    """Write a net as a Graph: as it predicts, or with the losses of its heads.

    With losses, phase ``TRAIN`` gives them and what Darknet prints of them, ``TEST`` the heads and them.

    Args:
        sections: The sections of the file.
        source: Its name, the phase and the caller's wishes.
        weights: The file of its arrays.
        max_boxes: Ground-truth boxes of an image, for a net with losses; 0 for one that predicts.
    """
    net, body = sections[0], sections[1:]
    if not body:
        raise ReadError("contains no layer after [net]", place=net.place)
    _check_names(sections)
    file = WeightFile(weights) if weights else None
    builder = GraphBuilder(
        source.net.stem, format="darknet", files=[str(source.net), *([str(weights)] if weights else [])]
    )
    outputs = [builder.input(INPUT, _input_shape(net, source))]
    training = None
    if max_boxes:
        truth = builder.input(TRUTH, (None, max_boxes, TRUTH_COLUMNS))
        training = Training(net, truth, updates=source.phase == "TRAIN")
    reading = _Reading(builder, ParameterStore(builder), file, training, _num_frozen(body))
    for index, section in enumerate(body):
        outputs.append(reading.layer(section, index, outputs))
    if file:
        file.finish()
    heads = _heads(body, outputs[1:], builder)
    if training is None:
        return Net(builder.finish(heads), {})
    losses = {loss.name or "": 1.0 for loss in training.losses}
    if not training.updates:
        return Net(builder.finish([*heads, *training.losses]), losses)
    given = [value for pair in zip(training.losses, training.statistics, strict=True) for value in pair]
    graph = builder.finish(given)
    prune.edit(graph)  # the heads' own nodes
    return Net(graph, losses)


def _num_frozen(body: Sequence[Section]) -> int:
    """Return up to which layer, counted from the first, training leaves weights alone (``stopbackward``)."""
    return max((index + 1 for index, section in enumerate(body) if section.flag("stopbackward")), default=0)


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


@dataclass(frozen=True, slots=True)
class _Reading:
    """The state shared by the readers of all layers."""

    builder: GraphBuilder
    parameters: ParameterStore
    weights: WeightFile | None
    training: Training | None
    num_frozen: int

    def layer(self, section: Section, index: int, outputs: Sequence[ir.Value]) -> ir.Value:
        """Write one layer, and return its output."""
        builder, parameters = self.builder, self.parameters
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
                weights=self.weights,
                training=self.training,
                is_frozen=index < self.num_frozen or section.flag("dont_update"),
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
