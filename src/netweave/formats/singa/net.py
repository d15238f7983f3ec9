"""Nets of SINGA."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError
from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.files.unknown_names import UnknownLayer, refuse_unknown_layers
from netweave.formats.singa.checkpoint import Parameters, Weights
from netweave.formats.singa.context import Output, SingaLayer
from netweave.formats.singa.inputs import INPUTS, InputLayer, Inputs, SizesOfRecords, is_input
from netweave.formats.singa.layers import LAYERS, REASONS
from netweave.formats.singa.unroll import Unit, forward_sources, kind_of, unroll
from netweave.graph import Graph, GraphBuilder, Layer, Origin
from netweave.job import Checkpoints, Policy, Schedule, Solver

PHASES = {"TRAIN": "kTrain", "VALIDATE": "kVal", "TEST": "kTest"}
"""SINGA's names of the phases."""


def included(layers: Sequence[Message], phase: str, *, place: str) -> list[Message]:
    """Return the layers that are part of a phase, in the order of the file.

    Args:
        layers: All layers of the file.
        phase: One of ``PHASES``.
        place: Name of the file, for errors.

    Raises:
        ReadError: Layers have rules of both sorts, or two of one name are left.
    """
    with_rules = [layer for layer in layers if layer["include"] or layer["exclude"]]
    for layer in with_rules:
        if bool(layer["include"]) != bool(with_rules[0]["include"]):
            first = with_rules[0]
            raise ReadError(
                f"layer {layer['name']!r} has '{_sort(layer)}' and layer {first['name']!r} (line "
                f"{first.line}) '{_sort(first)}', expected only one of the two in all layers",
                place=f"{place}:{layer.line_of(_sort(layer))}",
            )
    name = PHASES[phase]
    kept = [layer for layer in layers if _is_in(layer, name)]
    lines: dict[str, int | None] = {}
    for layer in kept:
        if layer["name"] in lines:
            raise ReadError(
                f"layer {layer['name']!r} appears again in phase {name}, first on line "
                f"{lines[layer['name']]}; give it another name, or 'include' it in another phase",
                place=f"{place}:{layer.line}",
            )
        lines[layer["name"]] = layer.line
    if not kept:
        raise ReadError(f"no layer is part of the net in phase {name}", place=place)
    return kept


def _is_in(layer: Message, name: str) -> bool:
    return name in layer["include"] if layer["include"] else name not in layer["exclude"]


def _sort(layer: Message) -> str:
    return "include" if layer["include"] else "exclude"


_OWN = "a layer of the user's own, whose code is not in the file"

_NOT_SETTINGS = {"name", "type", "user_type", "srclayers"}


@dataclass(slots=True)
class Net:
    """A net of one phase.

    Attributes:
        graph: What it computes.
        losses: Names of the values that make its objective, with their weights.
        feeds: Its input layers by name.
        machines: Its RBMs: the visible and the hidden layer of each.
        shares: How many layers hold a parameter, by key, where it is more than one.
    """

    graph: Graph
    losses: dict[str, float] = field(default_factory=dict)
    feeds: dict[str, InputLayer] = field(default_factory=dict)
    machines: list[tuple[Unit, Unit]] = field(default_factory=list)
    shares: dict[str, int] = field(default_factory=dict)


def build(
    job: Message, source: Source, weights: Weights | None, look_up: SizesOfRecords | None = None
) -> Net:
    """Write the net of a phase as a Graph; of RBMs the way up.

    Args:
        job: The whole file.
        source: Its name, the phase and the caller's wishes.
        weights: Stored arrays, if there are any.
        look_up: Looks for sizes of inputs that neither file nor caller give.

    Raises:
        SourceError: The net is wrong, holds a layer that is not read, or does not fit its weights.
    """
    maker, units = maker_of(job, source, weights, look_up)
    for unit in units:
        maker.make(unit)
    maker.inputs.finish()
    notes = (*maker.notes(), *maker.parameters.finish())
    graph = replace(maker.builder.finish(maker.outputs()), notes=notes)
    losses = {name: weight for made in maker.made.values() for name, weight in made.losses.items()}
    return Net(graph, losses, maker.feeds, maker.machines(), maker.parameters.shares())


def units_of(job: Message, source: Source) -> tuple[list[Unit], list[Message]]:
    """Return the layers of the net that runs in a phase, in order, and those of the file that are in it."""
    net, place = job["neuralnet"], str(source.net)
    kept = included(net["layer"], source.phase, place=place)
    refuse_unknown(kept, place)
    return unroll(kept, default=net["unroll_len"], of=net["layer"], place=place), kept


def maker_of(
    job: Message, source: Source, weights: Weights | None, look_up: SizesOfRecords | None = None
) -> tuple[NetMaker, list[Unit]]:
    """Return what writes the net of a phase, and the layers that it has to write."""
    units, kept = units_of(job, source)
    builder = builder_of(job, source, weights)
    parameters = Parameters(builder, kept, weights, place=str(source.net))
    partition_dim = job["neuralnet"].get("partition_dim", None)
    return NetMaker(builder, parameters, source, units, partition_dim, look_up), units


def builder_of(job: Message, source: Source, weights: Weights | None) -> GraphBuilder:
    """Return where the nodes of a net go."""
    files = [str(source.net), *(weights.file.split(",") if weights else [])]
    return GraphBuilder(job["name"] or source.net.stem, format="singa", files=files)


class NetMaker:
    """Layers in order, and what each of them gives.

    Args:
        builder: Where nodes go.
        parameters: The stored arrays.
        source: The name of the file, the phase and the caller's wishes.
        units: The layers of the net that runs, in order.
        partition_dim: That of the net, if the file has one.
        look_up: Looks for sizes of inputs that neither file nor caller give.

    Attributes:
        builder: Where nodes go.
        parameters: The stored arrays.
        made: What each layer gives, by name.
        feeds: The input layers by name.
        inputs: The inputs of the net.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        parameters: Parameters,
        source: Source,
        units: Sequence[Unit],
        partition_dim: int | None,
        look_up: SizesOfRecords | None = None,
    ) -> None:
        self._partition_dim = partition_dim
        self.parameters = parameters
        self.made: dict[str, Output] = {}
        self.feeds: dict[str, InputLayer] = {}
        self.inputs = Inputs(builder, source, [unit.name for unit in units], look_up)
        self.builder = builder
        self._source = source
        self._by_name = {unit.name: unit for unit in units}
        self._joined: dict[tuple[str, ...], ir.Value] = {}
        reads = [name for unit in units for name in forward_sources(unit, self._by_name)]
        self._readers = Counter(reads)

    def context(
        self, layer: Layer, unit: Unit, sources: Sequence[Output | InputLayer] = (), *, training: bool = True
    ) -> SingaLayer:
        """Return what a layer is lowered with; in phase TRAIN it is trained, unless the caller says no."""
        return SingaLayer(
            self.builder,
            place=layer.place,
            layer=layer,
            unit=unit,
            sources=sources,
            parameters=self.parameters,
            training=training and self._source.phase == "TRAIN",
            readers=self._readers[unit.name],
            joined=self._joined,
        )

    def entry(self, unit: Unit) -> Layer:
        """Return a layer's row of the table, which it is not in yet."""
        spec, partition_dim = unit.spec, self._partition_dim
        inherited = {} if partition_dim is None else {"partition_dim": partition_dim}
        settings = {key: value for key, value in spec.to_json().items() if key not in _NOT_SETTINGS}
        origin, outputs = Origin(str(self._source.net), spec.line), (unit.name,)
        layer = self.builder.layers.new(
            unit.name, kind_of(spec), inherited | settings, origin=origin, outputs=outputs
        )
        return replace(layer, call=unit.index)

    def make(self, unit: Unit) -> None:
        """Write one layer."""
        layer = self.entry(unit)
        names = forward_sources(unit, self._by_name)
        if is_input(unit):
            origin = self.feeds.get(names[0]) if names else None
            self.feeds[unit.name] = InputLayer(unit, origin, self.inputs)
            self.builder.layers.add(layer)
            return
        sources: list[Output | InputLayer] = [self.feeds.get(name) or self.made[name] for name in names]
        with self.builder.layer(layer):
            ctx = self.context(layer, unit, sources)
            _check_sources(ctx)
            made = self.made[unit.name] = LAYERS[unit.spec["type"]].read(ctx)
        values = [*made.results.values()] or [*made.values]
        keys = self.parameters.keys(layer.key)
        self.builder.record(layer, inputs=dict.fromkeys(ctx.read), outputs=values, parameters=keys)

    def outputs(self) -> list[ir.Value]:
        """Return the values that leave the net: losses, metrics, and what no layer reads."""
        self.name_inputs()
        heads: dict[str, ir.Value] = {}
        for name, made in self.made.items():
            values = list(made.results.values())
            if not values and not self._readers[name]:
                values = list(made.values)
            heads |= {value.name or "": value for value in values}
        return self.builder.own_outputs(list(heads.values()))

    def name_inputs(self) -> None:
        """Note in the entries of input layers which inputs of the net they have become."""
        for name in self.feeds:
            key = next(key for key, layer in self.builder.layers.items() if layer.name == name)
            layer = self.builder.layers[key]
            self.builder.layers.add(replace(layer, outputs=tuple(self.inputs.read_by.get(name, ()))))

    def notes(self) -> tuple[str, ...]:
        """Return what of the file is not in the graph."""
        loops = [
            (unit, unit.spec["rnn_dummy_conf"]["dynamic_srclayer"])
            for unit in self._by_name.values()
            if unit.spec["type"] == "kRNNDummy" and unit.spec["rnn_dummy_conf"]["dynamic_srclayer"]
        ]
        return tuple(
            f"{self._source.net}:{unit.spec.line}: from the second step on SINGA feeds {source!r} back into "
            f"{unit.name!r}; the graph is one step"
            for unit, source in loops
        )

    def machines(self) -> list[tuple[Unit, Unit]]:
        """Return the visible and the hidden layer of each RBM."""
        pairs = []
        for unit in self._by_name.values():
            above = [self._by_name[name] for name in unit.sources]
            pairs += [
                (unit, each)
                for each in above
                if unit.spec["type"] == "kRBMVis" and each.spec["type"] == "kRBMHid"
            ]
        return pairs


def _check_sources(ctx: SingaLayer) -> None:
    ctx.check_count("source", len(ctx.unit.sources), LAYERS[ctx.spec["type"]].sources)
    if ctx.spec["type"] == "kRBMVis" and len(ctx.sources) != 1:
        raise ctx.read_error("reads no layer besides kRBMHid, expected one, and its kRBMHid")


def refuse_unknown(specs: Sequence[Message], place: str) -> None:
    """Raise one error that names every layer which is not read, or a setting that no layer has."""
    known = {*INPUTS, *LAYERS}
    unknown = [spec for spec in specs if spec["type"] not in known]
    own = {kind_of(spec) for spec in unknown if spec["type"] == "kUserLayer"}
    refuse_unknown_layers(
        [UnknownLayer(kind_of(spec), spec["name"], spec.line_of("type")) for spec in unknown],
        place=place,
        noun="layer",
        known=known,
        reasons=REASONS | dict.fromkeys(own, _OWN),
    )
    for spec in specs:
        if spec.unknown:
            raise spec.unknown[0]


# Rules: ``updater.cc``, ``worker.cc`` (Run) and ``cluster.cc``.

COMMON = ("weight_decay", "clip_low", "clip_high")

UPDATERS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "kSGD": ("singa.sgd", ("momentum", *COMMON), ""),
    "kNesterov": ("singa.nesterov", ("momentum", *COMMON), ""),
    "kAdaGrad": ("singa.adagrad", COMMON, ""),
    "kRMSProp": ("singa.rmsprop", ("delta", *COMMON), "rmsprop_conf"),
    "kAdaDelta": ("singa.adadelta", ("delta", "weight_decay"), "adadelta_conf"),
    "kAdam": ("singa.adam", ("delta", "weight_decay"), "adam_conf"),
    "kAdamMax": ("singa.adammax", ("delta", "weight_decay"), "adammax_conf"),
}
"""The updaters: the kind in a Job, the fields that they read, and the field of their own settings."""

POLICIES: dict[str, tuple[str, str]] = {
    "kFixed": ("singa.fixed", ""),
    "kStep": ("singa.step", "step_conf"),
    "kFixedStep": ("singa.fixed_step", "fixedstep_conf"),
    "kLinear": ("singa.linear", "linear_conf"),
    "kExponential": ("singa.exponential", "exponential_conf"),
    "kInverse": ("singa.inverse", "inverse_conf"),
    "kInverseT": ("singa.inverse_t", "inverset_conf"),
}
"""How the learning rate changes: the kind in a Job, and the field of its settings."""

_WORKER = re.compile(r"(?P<step>.*)-worker\d+(\.bin)?$")
"""Name of a checkpoint; each worker of a group writes the parts of the parameters that it owns."""


def solver_of(message: Message, path: Path, shares: Mapping[str, int]) -> Solver:
    """Return how gradients change parameters.

    Args:
        message: The whole file.
        path: Its name, for errors.
        shares: How many layers hold a parameter, by key, where it is more than one.
    """
    updater = message["updater"]
    if updater["type"] not in UPDATERS:
        name = updater["user_type"] or updater["type"]
        raise UnsupportedError(
            f"the updater {name!r} is user-defined, expected one of {', '.join(UPDATERS)}",
            place=place_of(path, updater, "type"),
        )
    kind, fields, own = UPDATERS[updater["type"]]
    settings = {field: updater[field] for field in fields}
    if own:
        settings |= _all(updater[own])
    # the server divides by the number of layers that sent it a gradient (server.cc, HandleUpdate)
    averages = {key: 1.0 / count for key, count in shares.items()}
    return Solver(kind, _policy(updater["learning_rate"], path), settings, gradient_mult=averages)


def _policy(rate: Message, path: Path) -> Policy:
    if rate["type"] not in POLICIES:
        name = rate["user_type"] or rate["type"]
        raise UnsupportedError(
            f"the change of the learning rate {name!r} is user-defined, expected one of "
            f"{', '.join(POLICIES)}",
            place=place_of(path, rate, "type"),
        )
    kind, field = POLICIES[rate["type"]]
    settings = _all(rate[field]) if field else {}
    if rate["type"] == "kFixedStep" and len(settings["step"]) != len(settings["step_lr"]):
        raise ReadError(
            f"has {len(settings['step'])} 'step' for {len(settings['step_lr'])} 'step_lr', expected "
            "one for each",
            place=place_of(path, rate, field),
        )
    return Policy(kind, rate["base_lr"], settings)


def schedule_of(message: Message) -> Schedule:
    """Return what happens when: ``Worker::Run``."""
    names = {"disp": "display", "test": "test", "validate": "validate", "checkpoint": "checkpoint"}
    return Schedule(
        max_iterations=message["train_steps"],
        display_interval=message["disp_freq"],
        test_interval=message["test_freq"],
        test_at_start=message["test_after"] == 0,
        test_at_end=False,
        display_at_end=False,
        display_means=True,
        display_norms=message["debug"],
        validate_interval=message["validate_freq"],
        first={name: message[f"{old}_after"] for old, name in names.items() if message[f"{old}_after"]},
    )


def checkpoints_of(message: Message, root: Path) -> Checkpoints:
    """Return what is kept, and what the run starts from.

    Args:
        message: The whole file.
        root: The folder that names in it are relative to.
    """
    folder = root / message["cluster"]["workspace"] / "checkpoint"
    return Checkpoints(
        prefix=str(folder / "step"),
        interval=message["checkpoint_freq"],
        at_start=True,  # worker.h, CheckpointNow: step 0 is a multiple of any checkpoint_freq
        formats=("worker0",),
        weights=_by_step([str(root / name) for name in message["checkpoint_path"]]),
    )


def _by_step(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of checkpoints, those of the workers of one step as one, with commas between."""
    steps: dict[str, list[str]] = {}
    for name in names:
        match = _WORKER.fullmatch(name)
        steps.setdefault(match["step"] if match else name, []).append(name)
    return tuple(",".join(files) for files in steps.values())


def _all(message: Message) -> dict[str, Any]:
    """Return all fields of a message, set or not."""
    return {name: message[name] for name in message.type.fields}


def place_of(path: Path, message: Message, field: str) -> str:
    """Return where a field of a message stands."""
    line = message.line_of(field)
    return str(path) if line is None else f"{path}:{line}"
