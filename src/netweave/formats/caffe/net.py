"""Nets of Caffe and their wiring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.files import Source
from netweave.files.partial_reading import left_out_note, split_readable
from netweave.files.protobuf import Message
from netweave.files.prototext import unknown_fields
from netweave.files.unknown_names import UnknownLayer, refuse_unknown_layers
from netweave.formats.caffe.context import CaffeLayer
from netweave.formats.caffe.inputs import INPUTS, NetInput, brings_data, find_inputs
from netweave.formats.caffe.layers import LAYERS
from netweave.formats.caffe.parameters import Blobs
from netweave.formats.caffe.priors import mark_dense_priors
from netweave.formats.caffe.python_code import type_of
from netweave.formats.caffe.weights import Weights
from netweave.graph import Graph, GraphBuilder, Layer, Origin

_RCNN = "a layer of the Faster R-CNN branch"
_OHEM = "which the R-FCN branch trains with; give the net that it tests with"
_INTEL = "a layer of the Intel branch"

UNSUPPORTED = {
    "Proposal": _RCNN,
    "BoxAnnotatorOHEM": _OHEM,
    "SmoothL1LossOHEM": _OHEM,
    "SoftmaxWithLossOHEM": _OHEM,
    "RegionLoss": _INTEL,
    "SpatialDropout": _INTEL,
}
"""By type, who brought it."""


MEASURES = frozenset(
    {
        "BboxAccuracy",
        "DetectionEvaluate",
        "DetectionGroupAccuracy",
        "EvalDetection",
        "SegAccuracy",
        "SegmentationEvaluate",
    }
)
"""Their types; each gives numbers for people, from a prediction and the truth."""


LOSSES = frozenset({"BoxAnnotatorOHEM", "RegionLoss", "SmoothL1LossOHEM", "SoftmaxWithLossOHEM"})
"""Types of losses, and of what only losses read, that are known by name and not read."""


def without_unlabelled(specs: Sequence[Message]) -> tuple[list[Message], tuple[str, ...]]:
    """Return a net's layers but for accuracies of labels that nothing brings, and a note on each of these.

    Whoever makes a net for prediction from one for training cuts off the data and often leaves the accuracy,
    which Caffe refuses.

    Args:
        specs: The layers, in the order of the file.
    """
    made = {blob for spec in specs for blob in spec["top"]}
    left_out = [spec for spec in specs if spec["type"] == "Accuracy" and not made.issuperset(spec["bottom"])]
    rest = [spec for spec in specs if spec not in left_out]
    if not left_out or not rest or any(set(spec["bottom"]) & _tops(left_out) for spec in rest):
        return list(specs), ()
    return rest, tuple(
        f"layer {spec['name']!r} (Accuracy) reads "
        f"{', '.join(repr(blob) for blob in spec['bottom'] if blob not in made)}, which no layer makes; "
        "it is left out"
        for spec in left_out
    )


def _tops(specs: Sequence[Message]) -> set[str]:
    return {blob for spec in specs for blob in spec["top"]}


def without_losses(specs: Sequence[Message], phase: str) -> tuple[list[Message], tuple[str, ...]]:
    """Return a net's layers but for losses that are not supported, and a note on each of these.

    One that a layer reads which stays is kept, and refused like any unknown layer; so are all of a net that
    trains, or that has nothing else.
    """
    left_out = [spec for spec in specs if spec["type"] in LOSSES] if phase != "TRAIN" else []
    while True:
        read = {blob for spec in specs if spec not in left_out for blob in spec["bottom"]}
        rest = [spec for spec in left_out if not read.intersection(spec["top"])]
        if len(rest) == len(left_out):
            break
        left_out = rest
    kept = [spec for spec in specs if spec not in left_out]
    if not any(spec["bottom"] for spec in kept):
        return list(specs), ()
    return kept, tuple(
        f"layer {spec['name']!r} ({spec['type']}) is for training and not supported; it is left out"
        for spec in left_out
    )


def without_measures(specs: Sequence[Message]) -> tuple[list[Message], tuple[str, ...], frozenset[str]]:
    """Return a net's layers but for those that measure it, a note on each of these, and what only they read.

    One whose top another layer reads stays, and is refused like any unknown layer.
    """
    read = {blob for spec in specs for blob in spec["bottom"]}
    left_out = [spec for spec in specs if spec["type"] in MEASURES and not read.intersection(spec["top"])]
    notes = tuple(
        f"layer {spec['name']!r} ({spec['type']}) measures what the net predicts and is left out"
        for spec in left_out
    )
    rest = [spec for spec in specs if spec not in left_out]
    still_read = {blob for spec in rest for blob in spec["bottom"]}
    measured = {blob for spec in left_out for blob in spec["bottom"]}
    return rest, notes, frozenset(measured - still_read)


# Rules: ``net.cpp`` (FilterNet, StateMeetsRule, AppendTop, AppendBottom). Layers run in the order of the
# file. A layer that writes over its own bottom makes a new value here: the last one has the blob's plain
# name, those before it are ``<blob>@<layer that wrote it>``; an input of the net always keeps the plain
# name.


@dataclass(frozen=True, slots=True)
class State:
    """Caffe's NetState: phase, level and stages for which a net is read."""

    phase: str
    level: int
    stages: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wired:
    """One layer with the names of the values that it reads and writes."""

    spec: Message
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wiring:
    """The layers of a net, and the values that none of them reads, in the order of their blobs' names."""

    layers: tuple[Wired, ...]
    outputs: tuple[str, ...]


@dataclass(slots=True)
class _Version:
    """One value that a blob has on its way through the net."""

    blob: str
    writer: str
    is_input: bool
    read: bool = False
    name: str = ""


def net_state(net: Message, source: Source) -> State:
    """Return the state: what the caller says over what the net says; stages add up."""
    own = net["state"]
    return State(source.phase, source.level or own["level"], frozenset([*own["stage"], *source.stages]))


def included(net: Message, state: State, *, place: str) -> list[Message]:
    """Return the layers that are part of the net in a state.

    Raises:
        ReadError: A layer has rules of both sorts.
    """
    kept = []
    for layer in net["layer"]:
        include, exclude = layer["include"], layer["exclude"]
        if include and exclude:
            raise ReadError(
                "has both 'include' and 'exclude', expected only one of the two", place=_at(layer, place)
            )
        rules = include or exclude
        if (
            any(_is_met(rule, state) for rule in rules)
            if include
            else not any(_is_met(r, state) for r in rules)
        ):
            kept.append(layer)
    return kept


def _is_met(rule: Message, state: State) -> bool:
    return (
        ("phase" not in rule or rule["phase"] == state.phase)
        and ("min_level" not in rule or state.level >= rule["min_level"])
        and ("max_level" not in rule or state.level <= rule["max_level"])
        and state.stages.issuperset(rule["stage"])
        and state.stages.isdisjoint(rule["not_stage"])
    )


def wire(layers: Sequence[Message], *, of: Sequence[Message], place: str) -> Wiring:
    """Resolve the names of blobs into values.

    Args:
        layers: The layers that are part of the net.
        of: Those and the ones that its rules leave out, to say so where one is missed.
        place: Name of the file, for errors.

    Raises:
        ReadError: A bottom is not there, or a top is made twice.
    """
    current: dict[str, _Version] = {}
    versions: list[_Version] = []
    ends: list[tuple[list[_Version], list[_Version]]] = []
    for index, layer in enumerate(layers):
        bottoms = []
        for i, blob in enumerate(layer["bottom"]):
            if blob not in current:
                why = _why_missing(blob, layers[index:], of)
                line = layer.line_of("bottom", i)
                raise ReadError(f"reads the blob {blob!r}, but {why}", place=_at(layer, place, line))
            current[blob].read = True
            bottoms.append(current[blob])
        tops = []
        for number, blob in enumerate(_top_names(layer, current)):
            in_place = number < len(layer["bottom"]) and layer["bottom"][number] == blob
            if blob in current and not in_place:
                raise ReadError(
                    f"writes the blob {blob!r}, which layer {current[blob].writer!r} has already written",
                    place=_at(layer, place, layer.line_of("top", number)),
                )
            tops.append(_Version(blob, layer["name"], is_input=brings_data(layer)))
            current[blob] = tops[-1]
        versions += tops
        ends.append((bottoms, tops))
    _name(versions)
    wired = (
        Wired(layer, tuple(v.name for v in bottoms), tuple(v.name for v in tops))
        for layer, (bottoms, tops) in zip(layers, ends, strict=True)
    )
    unread = sorted(
        (version for version in versions if not version.read and not version.is_input), key=lambda v: v.blob
    )
    return Wiring(tuple(wired), tuple(version.name for version in unread))


def _why_missing(blob: str, later: Sequence[Message], of: Sequence[Message]) -> str:
    for layer in later:
        if blob in layer["top"]:
            line = f" (line {layer.line})" if layer.line else ""
            return (
                f"layer {layer['name']!r}{line} makes it only here or later; layers stand in the order in "
                "which they run, without cycles"
            )
    left_out = [f"{layer['name']!r} ({_rules(layer)})" for layer in of if blob in layer["top"]]
    if left_out:
        return f"what makes it is left out here: {', '.join(left_out)}; choose a phase, stage or level"
    return "no layer before makes it"


def _rules(layer: Message) -> str:
    rules = [
        " ".join(f"{name}: {value}" for name, value in rule.items())
        for sort in ("include", "exclude")
        for rule in layer.to_json().get(sort, [])
    ]
    line = f"line {layer.line}; " if layer.line else ""
    return f"{line}{'include' if layer['include'] else 'exclude'} {' or '.join(rules)}"


def _top_names(layer: Message, current: dict[str, _Version]) -> list[str]:
    """Return the names of a layer's tops; a loss without any makes one all the same."""
    tops: list[str] = layer["top"]
    if tops or not layer["type"].endswith("Loss"):
        return tops
    name = layer["name"] or "(automatic)"
    return [f"{name}@loss" if name in current else name]


def _name(versions: Sequence[_Version]) -> None:
    plain: dict[str, _Version] = {}
    for version in versions:
        if version.blob not in plain or not plain[version.blob].is_input:
            plain[version.blob] = version
    for version in versions:
        is_plain = plain[version.blob] is version
        version.name = version.blob if is_plain else f"{version.blob}@{version.writer}"


def _at(layer: Message, place: str, line: int | None = None) -> str:
    line = line or layer.line
    where = place if line is None else f"{place}:{line}"
    return f"{where}: layer {layer['name']!r} ({layer['type']})"


_NOT_SETTINGS = {"name", "type", "bottom", "top", "blobs"}


def build(net: Message, source: Source, weights: Weights | None) -> Graph:
    """Write a net as a Graph.

    Args:
        net: The net in its current form (see ``upgrade``).
        source: Its files and the caller's wishes.
        weights: Its stored arrays, if there are any.

    Raises:
        SourceError: The net is wrong, holds a layer that is not read, or does not fit its weights.
    """
    refused: list[Message] = []
    while True:
        try:
            return _build(net, source, weights, refused)
        except _UnreadableLayerError as error:
            refused.append(error.spec)


class _UnreadableLayerError(Exception):
    """A layer has settings that are not supported, in a net of which only a part is wanted."""

    def __init__(self, spec: Message) -> None:
        super().__init__()
        self.spec = spec


def _build(net: Message, source: Source, weights: Weights | None, refused: Sequence[Message]) -> Graph:
    """Write a net as a Graph; where a part is enough, without the layers that were refused before."""
    place = str(source.net)
    state = net_state(net, source)
    specs, losses = without_losses(included(net, state, place=place), state.phase)
    specs, unlabelled = without_unlabelled(specs)
    specs, notes, measured = without_measures(specs)
    specs, left_out = _readable(specs, refused) if source.partial else (specs, ())
    notes = (*losses, *unlabelled, *notes, *left_out, *_quantised(specs), *mark_dense_priors(specs))
    if not specs:
        raise ReadError(f"no layer is part of the net in phase {state.phase}", place=place)
    _refuse_unknown(specs, place)
    wiring = wire(specs, of=net["layer"], place=place)
    inputs = find_inputs(wiring.layers, source, weights)
    batch = next((declared.shape[0] for declared in inputs.values() if declared.batch), None)
    files = [place, *([weights.file] if weights and weights.file != place else [])]
    builder = GraphBuilder(net["name"] or source.net.stem, format="caffe", files=files)
    blobs = Blobs(builder, weights, net=place)
    values: dict[str, ir.Value] = {}
    for wired in wiring.layers:
        bottoms = [values[name] for name in wired.bottoms]
        layer = entry(builder, wired, place)
        with builder.layer(layer):
            ctx = CaffeLayer(
                builder,
                place=layer.place,
                layer=layer,
                spec=wired.spec,
                bottoms=bottoms,
                tops=wired.tops,
                blobs=blobs,
                phase=state.phase,
                batch=batch,
            )
            tops = _made(ctx, wired, inputs, source)
            values.update(zip(wired.tops, tops, strict=False))
            blobs.check_count(ctx)
        outputs = tops[: len(wired.tops)]
        builder.record(layer, inputs=bottoms, outputs=outputs, parameters=blobs.keys(layer.key))
    blobs.finish()
    graph = replace(builder.finish([values[name] for name in wiring.outputs]), notes=notes)
    for name in measured.intersection(inputs):
        graph.model.graph.inputs.remove(values[name])
    return graph


def _readable(specs: Sequence[Message], refused: Sequence[Message]) -> tuple[list[Message], tuple[str, ...]]:
    """Return the layers that can be read without others before them that cannot, and a note on those."""
    readable, rest = split_readable(
        specs,
        is_unknown=lambda spec: _is_unknown(spec) or any(spec is each for each in refused),
        reads=lambda spec: spec["bottom"],
        makes=lambda spec: spec["top"],
    )
    names = [spec["name"] or spec["type"] for spec in rest]
    return readable, (left_out_note(names, noun="layer"),) if rest else ()


def _quantised(specs: Sequence[Message]) -> list[str]:
    """Note that layers are to be run with 8 bits, which they are not here."""
    layers = [spec for spec in specs if "quantization_param" in spec]
    if not layers:
        return []
    noun = "layer has" if len(layers) == 1 else "layers have"
    return [
        f"{len(layers)} {noun} a 'quantization_param': the net is read with its weights as they are stored, "
        "and computes in full precision; how it is rounded to 8 bits, Intel's kernels alone say"
    ]


def entry(builder: GraphBuilder, wired: Wired, place: str) -> Layer:
    """Return the row of a layer in the table: its settings as the file has them."""
    spec = wired.spec
    settings = {key: value for key, value in spec.to_json().items() if key not in _NOT_SETTINGS}
    key = builder.layers.free_key(spec["name"] or spec["type"])
    origin = Origin(place, spec.line)
    return Layer(key, spec["name"], spec["type"], settings, outputs=wired.tops, origin=origin)


def _made(ctx: CaffeLayer, wired: Wired, inputs: dict[str, NetInput], source: Source) -> Sequence[ir.Value]:
    """Return the values of a layer's tops; those that do not fit may follow from a 1 for what is open."""
    if brings_data(wired.spec):
        return _inputs(ctx.builder, wired, inputs)
    try:
        return _written(ctx)
    except UnsupportedError as error:
        if not source.partial:
            raise
        raise _UnreadableLayerError(wired.spec) from error
    except ShapeError as error:
        stand_ins = [
            name
            for name, declared in inputs.items()
            if name not in source.input_shapes and declared.shape[2:] == (1, 1)
        ]
        if not stand_ins:
            raise
        hint = f"the file says 1x1 for {stand_ins[0]!r}: give its size, --input-shape {stand_ins[0]}=NxCxHxW"
        raise ShapeError(f"{error.message}; {hint}", place=error.place) from error


def _inputs(builder: GraphBuilder, wired: Wired, inputs: dict[str, NetInput]) -> list[ir.Value]:
    return [builder.input(name, inputs[name].shape, batch=inputs[name].batch) for name in wired.tops]


def _written(ctx: CaffeLayer) -> Sequence[ir.Value]:
    reader = LAYERS[type_of(ctx.spec)]
    ctx.check_count("bottom", len(ctx.bottoms), reader.bottoms)
    ctx.check_count("top", len(ctx.tops), reader.tops)
    params = ctx.spec["param"]
    tops = reader.read(ctx)
    if len(tops) < len(ctx.tops):
        raise ctx.read_error(
            f"has {len(ctx.tops)} tops, but makes {len(tops)} of its {len(ctx.bottoms)} bottoms; "
            f"remove the top {ctx.tops[len(tops)]!r}",
            ctx.spec.line_of("top", len(tops)),
        )
    num_arrays = len(ctx.blobs.keys(ctx.layer.key))
    if len(params) > num_arrays:
        raise ctx.read_error(
            f"has {len(params)} 'param' entries for {num_arrays} stored arrays", params[num_arrays].line
        )
    weights = ctx.spec["loss_weight"]
    if weights and len(weights) != len(ctx.tops):
        raise ctx.read_error(
            f"has {len(weights)} 'loss_weight' for {len(ctx.tops)} tops, expected none or one for each",
            ctx.spec.line_of("loss_weight"),
        )
    return tops


def _is_unknown(spec: Message) -> bool:
    return type_of(spec) not in LAYERS and not brings_data(spec)


def _refuse_unknown(specs: Sequence[Message], place: str) -> None:
    """Raise one error that names every layer which is not read, or a setting that no layer has."""
    unknown = [spec for spec in specs if _is_unknown(spec)]
    kinds = [type_of(spec) if spec["python_param"]["layer"] else str(spec["type"]) for spec in unknown]
    of_python = {kind for kind, spec in zip(kinds, unknown, strict=True) if spec["type"] == "Python"}
    refuse_unknown_layers(
        [
            UnknownLayer(kind, spec["name"], spec.line_of("type"))
            for kind, spec in zip(kinds, unknown, strict=True)
        ],
        place=place,
        noun="layer",
        known=(*LAYERS, *INPUTS),
        reasons={
            **UNSUPPORTED,
            **dict.fromkeys(of_python, "a Python class, whose code is in a module of its own"),
        },
    )
    fields = [error for spec in specs if type_of(spec) in {*LAYERS, *INPUTS} for error in spec.unknown]
    if fields:
        raise unknown_fields(fields)
