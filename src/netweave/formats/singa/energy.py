"""Nets with a restricted Boltzmann machine: its way down, and contrastive divergence of a whole net."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.errors import ReadError, UnsupportedError
from netweave.formats.singa.context import Output
from netweave.formats.singa.contrastive import Machine, sampled_chain
from netweave.formats.singa.layers.connected import downwards
from netweave.formats.singa.net import Net, NetMaker, maker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.errors import SourceError
    from netweave.files import Source
    from netweave.files.protobuf import Message
    from netweave.formats.singa.checkpoint import Weights
    from netweave.formats.singa.inputs import SizesOfRecords
    from netweave.formats.singa.unroll import Unit
    from netweave.graph import Graph


def build_contrastive(
    job: Message,
    source: Source,
    *,
    steps: int,
    objective: bool,
    look_up: SizesOfRecords | None = None,
) -> Net:
    """Write the net of a phase with an RBM as its contrastive divergence: see ``contrastive``.

    Only the machine is trained: what lies below it has no gradient in SINGA (``CDWorker``).

    Args:
        job: The whole file.
        source: Its name, the phase and the caller's wishes.
        steps: Steps of the chain, >= 1.
        objective: Whether there is to be a loss; else only the error of the reconstruction is measured.
        look_up: Looks for sizes of inputs that neither file nor caller give.

    Raises:
        SourceError: The net is wrong, or has not one RBM.
    """
    maker, units = maker_of(job, source, None, look_up)
    machines = maker.machines()
    if len(machines) != 1:
        raise _not_one_machine(machines, str(source.net))
    for unit in units:
        maker.make(unit)
    maker.inputs.finish()
    error, loss = _chain(maker, machines[0], steps=steps, objective=objective)
    maker.name_inputs()
    graph = replace(maker.builder.finish([error]), notes=(*maker.notes(), *maker.parameters.finish()))
    losses = {} if loss is None else {loss.name or "": 1.0}
    names = {unit.name for unit in machines[0]}
    return Net(_frozen_below(graph, names), losses, maker.feeds, machines, maker.parameters.shares())


def _chain(
    maker: NetMaker, machine: tuple[Unit, Unit], *, steps: int, objective: bool
) -> tuple[ir.Value, ir.Value | None]:
    """Add the chain of a machine behind its way up; return the error and the loss."""
    builder = maker.builder
    layers = {layer.name: layer for layer in builder.layers.values()}
    contexts = [maker.context(layers[unit.name], unit) for unit in machine]
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
    maker, _ = maker_of(job, source, weights)
    builder, keys = maker.builder, maker.parameters.keys
    visible, hidden = net.machines[-1]
    weight = net.graph.parameters[net.graph.layers[hidden.name].parameters[0]]
    size, num_visible = weight.shape
    states = builder.input(hidden.name, (None, size))
    builder.layers.add(replace(maker.entry(hidden), outputs=(hidden.name,)))
    layer = maker.entry(visible)
    with builder.layer(layer):
        made = downwards(maker.context(layer, visible, [Output([states])], training=False), num_visible)
    layer = replace(layer, inputs=(hidden.name,), outputs=(visible.name,), parameters=keys(layer.key))
    builder.layers.add(layer)
    return replace(builder.finish(made.values), notes=maker.parameters.finish())
