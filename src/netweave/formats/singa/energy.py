"""Energy models of SINGA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from netweave.errors import ReadError, SourceError, UnsupportedError
from netweave.files import Source
from netweave.files.protobuf import Message
from netweave.formats.singa.checkpoint import Weights
from netweave.formats.singa.context import Output, SingaLayer
from netweave.formats.singa.inputs import SizesOfRecords
from netweave.formats.singa.layers.windows import downwards
from netweave.formats.singa.net import Net, NetMaker, maker_of
from netweave.formats.singa.unroll import Unit
from netweave.graph import Graph, scale_gradients

# SINGA (``CDWorker`` in ``worker.cc``, ``rbm.cc``) has no objective, only the gradient: the statistics of
# the end of the chain minus those of the data, over the batch. It is the gradient of the mean difference
# between the free energies of the data and of the end of the chain, where that end counts as a constant.
# With this as the loss, a machine is trained by the same steps as every other net.


@dataclass(frozen=True, slots=True)
class Machine:
    """A restricted Boltzmann machine, and where its nodes go.

    Attributes:
        visible: The visible layer, which has the matrix [hidden, visible] and its own bias.
        hidden: The hidden layer, which shares the matrix.
        gaussian: Whether hidden units are linear with noise of variance 1, and not binary.
    """

    visible: SingaLayer
    hidden: SingaLayer
    gaussian: bool


def sampled_chain(
    machine: Machine, data: ir.Value, states: ir.Value, *, steps: int, objective: bool
) -> tuple[ir.Value, ir.Value | None]:
    """Add the chain behind the way up; return the squared error of its first step, and the loss.

    Args:
        machine: The machine.
        data: The values of the visible units.
        states: Probabilities of the hidden units, or their means; what the way up gives.
        steps: Steps of the chain (``cd_k``), >= 1.
        objective: Whether there is to be a loss.
    """
    top = machine.hidden
    first = top.flatten(data)
    weight, bias, visible_bias = _arrays(machine, first)
    error = end = None
    for _ in range(steps):
        end = _down(machine, _sample(machine, states), weight, visible_bias)
        error = error or _squared_error(machine, first, end)
        states = _up(machine, end, weight, bias)
    assert error is not None
    assert end is not None
    if not objective:
        return error, None
    constant = top.add("Identity", [end])
    scale_gradients(constant, {0: 0.0})
    energies = [_free_energy(machine, v, weight, bias, visible_bias) for v in (first, constant)]
    name = f"{machine.visible.unit.name}/free_energy"
    loss = top.add("ReduceMean", [top.add("Sub", energies)], {"keepdims": 0}, name=name)
    return error, loss


def _arrays(machine: Machine, data: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the matrix, the bias of the hidden units and that of the visible ones."""
    hidden, visible = machine.hidden, machine.visible
    num_hidden, num_visible = hidden.spec["rbm_conf"]["hdim"], hidden.size(1, data)
    weight = visible.parameter(0, (num_hidden, num_visible), "weight")
    return (
        weight,
        hidden.parameter(1, (num_hidden,), "bias"),
        visible.parameter(1, (num_visible,), "bias"),
    )


def _sample(machine: Machine, states: ir.Value) -> ir.Value:
    top = machine.hidden
    if machine.gaussian:
        return top.add("Add", [states, top.add("RandomNormalLike", [states])])
    return top.add("Bernoulli", [states])


def _down(machine: Machine, sample: ir.Value, weight: ir.Value, bias: ir.Value) -> ir.Value:
    """Return the visible units, which SINGA does not sample (as in Hinton's paper)."""
    ctx = machine.visible
    return ctx.add("Sigmoid", [ctx.add("Gemm", [sample, weight, bias])])


def _up(machine: Machine, v: ir.Value, weight: ir.Value, bias: ir.Value) -> ir.Value:
    ctx = machine.hidden
    inputs = ctx.add("Gemm", [v, weight, bias], {"transB": 1})
    return inputs if machine.gaussian else ctx.add("Sigmoid", [inputs])


def _free_energy(
    machine: Machine, v: ir.Value, weight: ir.Value, bias: ir.Value, visible_bias: ir.Value
) -> ir.Value:
    """Return the free energy of each record: -c v - sum log(1 + exp(W v + b)).

    With linear hidden units the sum is that of (W v + b)^2 / 2.
    """
    ctx = machine.hidden
    axes = ctx.integers([1])
    inputs = ctx.add("Gemm", [v, weight, bias], {"transB": 1})
    if machine.gaussian:
        terms = ctx.add("Mul", [ctx.add("Mul", [inputs, inputs]), ctx.constant(0.5)])
    else:
        terms = ctx.add("Softplus", [inputs])
    linear = ctx.add("ReduceSum", [ctx.add("Mul", [v, visible_bias]), axes], {"keepdims": 0})
    hidden = ctx.add("ReduceSum", [terms, axes], {"keepdims": 0})
    return ctx.add("Neg", [ctx.add("Add", [linear, hidden])])


def _squared_error(machine: Machine, data: ir.Value, end: ir.Value) -> ir.Value:
    """Return the squared error of a reconstruction, over the batch: ``RBMVisLayer::ComputeFeature``."""
    ctx = machine.visible
    difference = ctx.add("Sub", [data, end])
    square = ctx.add("Mul", [difference, difference])
    rows = ctx.add("ReduceSum", [square, ctx.integers([1])], {"keepdims": 0})
    return ctx.add("ReduceMean", [rows], {"keepdims": 0}, name=f"{ctx.unit.name}/squared_error")


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
        samples = sampled_chain(
            Machine(visible, hidden, gaussian=gaussian), data, states, steps=steps, objective=objective
        )
    for ctx in contexts:
        builder.layers.add(replace(ctx.layer, parameters=maker.parameters.keys(ctx.layer.key)))
    return samples


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
