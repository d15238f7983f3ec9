"""Cutting a net into stages: runs of nodes, each with a forward and a backward of its own.

A stage takes all values that are needed from its beginning on, and gives all that are needed behind its end;
what it does not touch it passes through. Its backward starts from the gradients that the next stage sent to
these values. So each value's gradient is summed in the same order as in the whole net, and training with any
number of stages ends with the same bits. A parameter that several stages read is passed from stage to stage
likewise: its gradient is complete when the backward of the first one is done.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch import Tensor, fx
from torch.autograd.graph import GradientEdge, get_gradient_edge

from netweave.errors import UsageError
from netweave.graph import Effect, effects_of
from netweave.graph.costs import node_cost
from netweave.runtime.backends.torch.elementwise import every

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.net import TorchNet


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A run of nodes.

    Attributes:
        index: Its number, from 0.
        module: Computes it: from the values of ``inputs`` to a tuple of those of ``outputs``.
        inputs: Names of the values that it takes.
        outputs: Names of the values that it gives; for the last stage those of the net's module.
        reads: Keys of the arrays that its nodes read: parameters and statistics.
        completes: Keys of the parameters whose gradients are complete after its backward.
        untouched: Names of the values that it takes and gives to a next stage without reading them.
        takes_batch: Whether it takes inputs of the net, which backward may read again.
        nodes: The nodes that it computes.
    """

    index: int
    module: fx.GraphModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reads: tuple[str, ...]
    completes: tuple[str, ...]
    untouched: frozenset[str]
    takes_batch: bool
    nodes: tuple[ir.Node, ...] = field(repr=False)

    @property
    def effects(self) -> frozenset[Effect]:
        """Side effects of its nodes; a stage with effects other than draws must not be run twice."""
        return frozenset(effect for node in self.nodes for effect in effects_of(node))


@dataclass(slots=True)
class StagePass:
    """The tensors of one forward pass of a stage, until its backward.

    Attributes:
        stage: The stage.
        outputs: What it gave, until the next stage has taken it.
        edges: Where its backward begins, for each output; there once the next stage has taken them.
        gradients: Of the values that it was given; there after its backward.
    """

    stage: Stage
    outputs: list[Any]
    gradients: list[Tensor | None]
    edges: list[GradientEdge | None] = field(default_factory=list)

    def release_outputs(self) -> None:
        """Let go of the outputs, of which backward needs the edges alone: what it reads, autograd keeps."""
        self.edges = [
            get_gradient_edge(value)
            if isinstance(value, Tensor) and value.requires_grad and name not in self.stage.untouched
            else None
            for name, value in zip(self.stage.outputs, self.outputs, strict=True)
        ]
        self.outputs = []


def run_stage(net: TorchNet, stage: Stage, given: Sequence[Any]) -> StagePass:
    """Compute a stage.

    Args:
        net: The net that the stage is of.
        stage: The stage.
        given: Outputs of the stage before, or the net's inputs.

    Raises:
        RunError: A layer cannot be computed.
    """
    gradients: list[Tensor | None] = [None] * len(given)
    inputs = list(given)
    root = torch.zeros((), requires_grad=True)
    for index, value in enumerate(given):
        cut_off = stage.index and stage.inputs[index] not in stage.untouched
        if cut_off and isinstance(value, Tensor) and value.requires_grad:
            inputs[index] = _Boundary.apply(value.detach(), root, gradients, index)
    return StagePass(stage, list(net.forward(stage.module, inputs)), gradients)


def run_backward(
    done: StagePass, gradients: Sequence[Tensor | None], *, objective: Tensor | None = None
) -> list[Tensor | None]:
    """Differentiate a stage; return the gradients of its inputs, and add up those of its parameters.

    Args:
        done: The pass, its outputs released; it is of no use after this.
        gradients: Of its outputs, None for those that nothing depends on.
        objective: Of the last stage, what its outputs were made to; ``gradients`` are empty then.
    """
    stage, found = done.stage, done.gradients
    roots: list[Tensor | GradientEdge] = []
    above: list[Tensor] = []
    if objective is not None:
        if objective.requires_grad:
            roots, above = [objective], [torch.ones_like(objective)]
    else:
        for name, edge, gradient in zip(stage.outputs, done.edges, gradients, strict=True):
            if name in stage.untouched:
                found[stage.inputs.index(name)] = gradient
            elif gradient is not None:
                assert edge is not None
                roots.append(edge)
                above.append(gradient)
    done.outputs, done.edges, done.gradients = [], [], []
    if roots:
        torch.autograd.backward(roots, above)
    return found


class _Boundary(torch.autograd.Function):
    """The beginning of a stage: keeps the gradient that arrives, and passes none on.

    A leaf of torch's own would lay the gradient out in memory as its values are; the stage before would then
    compute with another layout than in the whole net, and round otherwise. It would also hold the values as
    long as the graph: ``root``, a number that needs a gradient, is there instead.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, root: Tensor, kept: list[Tensor | None], index: int) -> Tensor:
        ctx.kept, ctx.index = kept, index
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        ctx.kept[ctx.index] = gradient
        del ctx.kept  # the graph may live longer than the gradient is needed
        return None, None, None, None


def cut(net: TorchNet, num_stages: int) -> list[Stage]:
    """Cut a net into stages of like cost: parameters and multiply-adds, which count as much each.

    Args:
        net: The net; it computes with the same arrays.
        num_stages: How many stages, >= 1; fewer where there are not so many places to cut at.

    Raises:
        UsageError: The number is below 1.
    """
    if num_stages < 1:
        raise UsageError(f"the net is to be cut into {num_stages} stages, expected at least 1")
    if num_stages == 1:
        return _stages(net, [])
    places = _places(net.module.graph)
    sums = list(accumulate(_work_of_nodes(net)))
    total = sums[-1]
    chosen: list[int] = []
    for number in range(1, num_stages):
        wanted = total * number / num_stages
        done = sums[chosen[-1] - 1] if chosen else 0.0
        free = [place for place in places if done < sums[place - 1] < total]  # none of nothing but free nodes
        if free:
            chosen.append(min(free, key=lambda place: abs(sums[place - 1] - wanted)))
    return _stages(net, chosen)


def _parameters_of_nodes(net: TorchNet) -> list[float]:
    """Return the trained elements that each node of a net's module is the first to read."""
    seen: set[fx.Node] = set()
    counts = []
    for node in net.module.graph.nodes:
        read = [one for one in node.all_input_nodes if one.op == "get_attr" and one not in seen]
        seen.update(read)
        tensors = [getattr(net.module, str(one.target)) for one in read]
        counts.append(
            float(sum(one.numel() for one in tensors if isinstance(one, Tensor) and one.requires_grad))
        )
    return counts


def _multiply_adds_of_nodes(net: TorchNet) -> list[float]:
    nodes = (node.meta.get("node") for node in net.module.graph.nodes)
    return [0.0 if node is None else float(node_cost(node).multiply_adds) for node in nodes]


def _work_of_nodes(net: TorchNet) -> list[float]:
    """Return the cost of each node of a net's module.

    Multiply-adds stand for the time of the passes, parameters for that of updates and exchanges: a stage with
    little of both sends early in backward, and is held up by little in the next forward.
    """
    parts = (_parameters_of_nodes(net), _multiply_adds_of_nodes(net))
    shares = [[value / (sum(part) or 1.0) for value in part] for part in parts]
    return [sum(pair) for pair in zip(*shares, strict=True)]


def _places(graph: fx.Graph) -> list[int]:
    """Return the numbers of the nodes before which a net may be cut.

    That is between two computed nodes, where no node in between stands for several values, or is
    overwritten by a later one: what a stage is given is also the stage before's, and must stay.
    """
    nodes = list(graph.nodes)
    order = {node: index for index, node in enumerate(nodes)}
    forbidden = [False] * (len(nodes) + 1)
    for index, node in enumerate(nodes):
        until = max((order[user] for user in node.users if _is_tied(node, user)), default=index)
        for place in range(index + 1, until + 1):
            forbidden[place] = True
    first = next((i for i, node in enumerate(nodes) if "node" in node.meta), len(nodes))
    return [
        index
        for index, node in enumerate(nodes)
        if index > first and "node" in node.meta and not forbidden[index]
    ]


def _is_tied(node: fx.Node, user: fx.Node) -> bool:
    """Return whether a value and what is made from it belong to one stage."""
    if user.meta.get("in_place"):
        return bool(user.args) and user.args[0] is node
    return bool(user.target is operator.getitem)


def _stages(net: TorchNet, places: Sequence[int]) -> list[Stage]:
    nodes = list(net.module.graph.nodes)
    bounds = [0, *places, len(nodes)]
    order = {node: index for index, node in enumerate(nodes)}
    stage_of = [sum(place <= index for place in places) for index in range(len(nodes))]
    for index, node in enumerate(nodes):
        is_before_reader = node.op == "get_attr" or node.target is every  # and a cut may be in between
        if is_before_reader and node.users:
            stage_of[index] = min(stage_of[order[user]] for user in node.users)
    keys = {id(net.store[key].tensor): key for key in net.store}
    passed = [node for node in nodes if not _is_read_in_place(net.module, node)]
    last_use = {node: max((stage_of[order[user]] for user in node.users), default=-1) for node in passed}
    stages = []
    for number in range(len(bounds) - 1):
        taken = [n for n in passed if stage_of[order[n]] < number <= last_use[n]]
        if number == 0:
            taken = [node for node in nodes if node.op == "placeholder"]
        given = [n for n in passed if stage_of[order[n]] <= number < last_use[n]]
        is_last = number == len(bounds) - 2
        own = [n for n in nodes if stage_of[order[n]] == number and n.op not in {"placeholder", "output"}]
        stages.append(_stage(net, number, taken, own, None if is_last else given, keys, order))
    return stages


def _stage(
    net: TorchNet,
    number: int,
    taken: Sequence[fx.Node],
    own: Sequence[fx.Node],
    given: Sequence[fx.Node] | None,
    keys: dict[int, str],
    order: dict[fx.Node, int],
) -> Stage:
    """Return one stage of a net.

    Args:
        net: The net.
        number: Of the stage.
        taken: Values that it is given.
        own: Nodes that it computes.
        given: Values that it gives to the next stage; None for the last, which gives the net's outputs.
        keys: Keys of stored arrays, by the identity of their tensors.
        order: Place of each node in the net.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in taken:
        copies[node] = graph.placeholder(node.name)
    reads: dict[str, None] = {}
    end = next(iter(reversed(net.module.graph.nodes)))
    outputs = list(end.args[0]) if given is None else list(given)
    sources = {source for node in own for source in node.all_input_nodes}
    wanted = sources | set(own) | (set(outputs) if given is None else set())
    for node in sorted(wanted, key=order.__getitem__):
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op == "get_attr" and (node in own or node in sources):
            key = keys.get(id(getattr(net.module, str(node.target))))
            if key is not None:
                reads[key] = None
    graph.output(tuple(copies[node] for node in outputs))
    module = net.module if given is None and number == 0 else fx.GraphModule(net.module, graph)
    completed = [
        keys[id(tensor)]
        for node in own
        if node.op == "get_attr"
        and isinstance(tensor := getattr(net.module, str(node.target)), Tensor)
        and tensor.requires_grad
        and id(tensor) in keys
    ]
    return Stage(
        index=number,
        module=module,
        inputs=tuple(node.name for node in taken),
        outputs=tuple(node.name for node in outputs),
        reads=tuple(reads),
        completes=tuple(dict.fromkeys(completed)),
        untouched=frozenset(
            node.name for node in taken if number and given is not None and node not in sources
        ),
        takes_batch=any(node.op == "placeholder" for node in taken),
        nodes=tuple(node.meta["node"] for node in own if "node" in node.meta),
    )


def _is_read_in_place(module: fx.GraphModule, node: fx.Node) -> bool:
    """Return whether every stage reads an attribute of the net by itself.

    Every stage does, except for parameters that are trained.
    """
    if node.op != "get_attr":
        return bool(node.op == "output")
    attribute = getattr(module, str(node.target))
    return not (isinstance(attribute, Tensor) and attribute.requires_grad)
