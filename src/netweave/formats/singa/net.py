"""From the layers of one phase to a Graph."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netweave.files.unknown import UnknownLayer, refuse_unknown_layers
from netweave.formats.singa.context import Output, SingaLayer
from netweave.formats.singa.inputs import INPUTS, InputLayer, Inputs, is_input
from netweave.formats.singa.layers import LAYERS, REASONS
from netweave.formats.singa.parameters import Parameters
from netweave.formats.singa.phases import included
from netweave.formats.singa.unroll import Unit, forward_sources, kind_of, unroll
from netweave.graph import Graph, GraphBuilder, Layer, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files import Source
    from netweave.files.protobuf import Message
    from netweave.formats.singa.checkpoint import Weights
    from netweave.formats.singa.inputs import SizesOfRecords

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
        found: dict[str, ir.Value] = {}
        for name, made in self.made.items():
            values = list(made.results.values())
            if not values and not self._readers[name]:
                values = list(made.values)
            found |= {value.name or "": value for value in values}
        return self.builder.own_outputs(list(found.values()))

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
        found = []
        for unit in self._by_name.values():
            above = [self._by_name[name] for name in unit.sources]
            found += [
                (unit, each)
                for each in above
                if unit.spec["type"] == "kRBMVis" and each.spec["type"] == "kRBMHid"
            ]
        return found


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
