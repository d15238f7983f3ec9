"""Contrastive divergence as one graph: the way up, the chain of samples, and what its gradient is that of.

SINGA (``CDWorker`` in ``worker.cc``, ``rbm.cc``) has no objective, only the gradient: the statistics of the
end of the chain minus those of the data, over the batch. It is the gradient of the mean difference between
the free energies of the data and of the end of the chain, where that end counts as a constant. With this as
the loss, a machine is trained by the same steps as every other net.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.graph import scale_gradients

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.singa.context import SingaLayer


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
