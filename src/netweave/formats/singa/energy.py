"""Nets with a restricted Boltzmann machine: its way down, and contrastive divergence of a whole net."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.errors import ReadError, UnsupportedError
from netweave.formats.singa.context import Output, SingaLayer
from netweave.formats.singa.contrastive import Machine, sampled_chain
from netweave.formats.singa.layers.machine import downwards
from netweave.formats.singa.net import Net, NetMaker, builder_of, layer_entry, units_of
from netweave.formats.singa.parameters import Parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.errors import SourceError
    from netweave.files import Source
    from netweave.files.protobuf import Message
    from netweave.formats.singa.checkpoint import Weights
    from netweave.formats.singa.unroll import Unit
    from netweave.graph import Graph, GraphBuilder


def build_contrastive(job: Message, source: Source, *, steps: int, objective: bool) -> Net:
    """Write the net of a phase with an RBM as its contrastive divergence: see ``contrastive``.

    Only the machine is trained: what lies below it has no gradient in SINGA (``CDWorker``).

    Args:
        job: The whole file.
        source: Its name, the phase and the caller's wishes.
        steps: Steps of the chain, >= 1.
        objective: Whether there is to be a loss; else only the error of the reconstruction is measured.

    Raises:
        SourceError: The net is wrong, or has not one RBM.
    """
    units, kept = units_of(job, source)
    builder = builder_of(job, source, None)
    parameters = Parameters(builder, kept, None, place=str(source.net))
    maker = NetMaker(builder, parameters, source, units, job["neuralnet"].get("partition_dim", None))
    machines = maker.machines()
    if len(machines) != 1:
        raise _not_one_machine(machines, str(source.net))
    for unit in units:
        maker.make(unit)
    maker.inputs.finish()
    error, loss = _chain(maker, builder, machines[0], steps=steps, objective=objective)
    maker.name_inputs()
    graph = replace(builder.finish([error]), notes=(*maker.notes(), *parameters.finish()))
    losses = {} if loss is None else {loss.name or "": 1.0}
    names = {unit.name for unit in machines[0]}
    return Net(_frozen_below(graph, names), losses, maker.feeds, machines, parameters.shares())


def _chain(
    maker: NetMaker, builder: GraphBuilder, machine: tuple[Unit, Unit], *, steps: int, objective: bool
) -> tuple[ir.Value, ir.Value | None]:
    """Add the chain of a machine behind its way up; return the error and the loss."""
    contexts = []
    for unit in machine:
        layer = next(layer for layer in builder.layers.values() if layer.name == unit.name)
        contexts.append(
            SingaLayer(
                builder,
                place=layer.place,
                layer=layer,
                unit=unit,
                sources=(),
                parameters=maker.parameters,
                training=True,
                joined={},
            )
        )
    visible, hidden = contexts
    (data,), (states,) = (maker.made[unit.name].values for unit in machine)
    gaussian = hidden.spec["rbm_conf"]["gaussian"]
    with builder.layer(hidden.layer):
        found = sampled_chain(
            Machine(visible, hidden, gaussian=gaussian), data, states, steps=steps, objective=objective
        )
    for ctx in contexts:
        builder.layers.add(replace(ctx.layer, parameters=maker.parameters.keys(ctx.layer.key)))
    return found


def _frozen_below(graph: Graph, names: set[str]) -> Graph:
    """Return a graph in which only the parameters of some layers are trained."""
    own = {key for layer in graph.layers.values() if layer.name in names for key in layer.parameters}
    rows = {key: row if key in own else replace(row, lr_mult=0.0) for key, row in graph.parameters.items()}
    return replace(graph, parameters=rows)


def _not_one_machine(machines: Sequence[tuple[Unit, Unit]], place: str) -> SourceError:
    """Return the error for a net that contrastive divergence cannot train."""
    if not machines:
        return ReadError("has no kRBMVis with a kRBMHid, which the algorithm kCD trains", place=place)
    names = list(dict.fromkeys(visible.name for visible, _ in machines))
    return UnsupportedError(
        f"has {len(names)} RBMs ({', '.join(names)}), expected one: SINGA's layers cannot express a deep "
        "Boltzmann machine, whose hidden layers also read those above. Train the RBMs one after another, "
        "with kInnerProduct and kSigmoid for those below",
        place=place,
    )


def build_downwards(job: Message, source: Source, weights: Weights | None, net: Net) -> Graph:
    """Write the way down of the topmost RBM of a net: from states of its hidden layer to its visible one.

    Args:
        job: The whole file.
        source: Its name, the phase and the caller's wishes.
        weights: Stored arrays, if there are any.
        net: The way up, whose sizes hold here too.
    """
    _, kept = units_of(job, source)
    builder = builder_of(job, source, weights)
    parameters = Parameters(builder, kept, weights, place=str(source.net))
    visible, hidden = net.machines[-1]
    weight = net.graph.parameters[net.graph.layers[hidden.name].parameters[0]]
    size, num_visible = weight.shape
    states = builder.input(hidden.name, (None, size))
    partition_dim = job["neuralnet"].get("partition_dim", None)
    top = layer_entry(builder, hidden, str(source.net), partition_dim)
    builder.layers.add(replace(top, outputs=(hidden.name,)))
    layer = layer_entry(builder, visible, str(source.net), partition_dim)
    with builder.layer(layer):
        ctx = SingaLayer(
            builder,
            place=layer.place,
            layer=layer,
            unit=visible,
            sources=[Output([states])],
            parameters=parameters,
            training=False,
            joined={},
        )
        made = downwards(ctx, num_visible)
    builder.layers.add(
        replace(layer, inputs=(hidden.name,), outputs=(visible.name,), parameters=parameters.keys(layer.key))
    )
    return replace(builder.finish(made.values), notes=parameters.finish())
