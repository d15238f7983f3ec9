"""Running a net so that backward computes again what a memory plan lets go.

The plan (``runtime.memory_plan.recompute``) names values. While the net goes forward, what autograd would
keep of them is replaced by a note (``torch.autograd.graph.saved_tensors_hooks``). When backward asks for it,
the nodes between it and what is kept run once more: the same kernels on the same numbers, so that every bit
is the same. Moving statistics follow a batch once, since the nodes get copies of them the second time; a
batch that torch's own kernel normalised is normalised again by the statistics that are known then.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch import Tensor, fx

from netweave.errors import RunError
from netweave.runtime.backends.torch.convolution import masked_conv, unmasked_relu
from netweave.runtime.backends.torch.elementwise import sum_
from netweave.runtime.backends.torch.normalisation import kept_statistics, normalised_again
from netweave.runtime.backends.torch.operator_table import with_gradients

if TYPE_CHECKING:
    from netweave.runtime.memory_plan import Net

ELEMENTWISE_IN_PLACE = frozenset({torch.relu_, sum_})
"""What runs behind a normalisation on the part of the batch that still lies in the cache."""

STATISTICS = (3, 4)
"""Positions of the moving statistics among the inputs of a BatchNormalization."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A plan in terms of a module's nodes, all by name.

    Attributes:
        dropped: What backward would keep for a node, and is let go.
        sources: What each value that is let go is computed from: inputs, what is kept, what is let go too.
        replayed: The nodes that run a second time for it.
        masked: Convolutions that go back through the Relu in front of them as well.
        unmasked: Those Relus.
    """

    dropped: Mapping[str, frozenset[str]]
    sources: Mapping[str, frozenset[str]]
    replayed: frozenset[str]
    masked: frozenset[str]
    unmasked: frozenset[str]

    def reads(self) -> Counter[str]:
        """Return how often each value is read while others are computed again."""
        return Counter(name for names in self.sources.values() for name in names)


def schedule(
    module: fx.GraphModule, net: Net, recomputed: Collection[str], name_of: Mapping[str, str]
) -> Schedule:
    """Return what a module does to carry out a plan.

    Args:
        module: The lowered graph, or a stage of it; what a stage is given is there.
        net: The graph, prepared for training.
        recomputed: Names of the values that are computed again.
        name_of: Names of nodes by those of values.
    """
    nodes = {node.name: node for node in module.graph.nodes if node.op != "placeholder"}
    targets = {name_of[value] for value in recomputed} & nodes.keys()
    kept = _names(net.kept_values(), name_of) - targets
    dropped = {}
    for node in module.graph.nodes:
        own = node.meta.get("node")
        if own in net.backward:
            dropped[node.name] = frozenset(_names(net.kept(own), name_of) & targets)
    replayed = set(targets)
    sources = {name: frozenset(_sources(nodes[name], kept | targets, replayed)) for name in targets}
    masked, unmasked = _masked(module, net)
    return Schedule(
        dropped={name: names for name, names in dropped.items() if names},
        sources=sources,
        replayed=frozenset(replayed),
        masked=masked,
        unmasked=unmasked,
    )


def _masked(module: fx.GraphModule, net: Net) -> tuple[frozenset[str], frozenset[str]]:
    """Return the convolutions that go back through a Relu, and the Relus: pairs that one stage computes."""
    own = {node.meta["node"]: node.name for node in module.graph.nodes if "node" in node.meta}
    pairs = [(own[conv], own[relu]) for conv, relu in net.masked.items() if conv in own and relu in own]
    return frozenset(conv for conv, _ in pairs), frozenset(relu for _, relu in pairs)


def _names(values: Iterable[ir.Value], name_of: Mapping[str, str]) -> set[str]:
    return {name_of[value.name or ""] for value in values if value.name in name_of}


def _sources(node: fx.Node, there: Collection[str], replayed: set[str]) -> set[str]:
    """Return what a value is computed from, and add the nodes on the way to ``replayed``."""
    names, seen, todo = set(), set(), list(node.all_input_nodes)
    while todo:
        one = todo.pop()
        if one.name in seen:
            continue
        seen.add(one.name)
        if one.op == "placeholder" or one.name in there:
            names.add(one.name)
        else:
            replayed.add(one.name)
            todo += one.all_input_nodes
    return names


@dataclass(frozen=True, slots=True)
class _Note:
    """A placeholder that autograd keeps instead of a tensor."""

    run: _Run
    name: str
    size: torch.Size
    stride: tuple[int, ...]
    offset: int

    def tensor(self) -> Tensor:
        """Return the tensor, computed again."""
        return self.run.value_again(self.name).as_strided(self.size, self.stride, self.offset)


class _Run:
    """One forward pass and what is held of it for backward.

    Args:
        module: The lowered graph.
        plan: What is let go.
        cast: The mixed precision that the net went forward in.
    """

    def __init__(self, module: fx.GraphModule, plan: Schedule, cast: AbstractContextManager[Any]) -> None:
        self._module = module
        self._plan = plan
        self._cast = cast
        self._nodes = {node.name: node for node in module.graph.nodes}
        self._reads = plan.reads()
        self._notes: Counter[str] = Counter()
        self._held: dict[str, Tensor] = {}
        self._statistics: dict[str, tuple[Tensor, Tensor]] = {}

    def hold_statistics(self, node: fx.Node, made: Any) -> None:
        """Hold what a batch was normalised by, if it is normalised again."""
        if (
            node.name in self._plan.replayed
            and _is_normalisation(node)
            and set(map(_index, node.users)) == {0}
        ):
            statistics = kept_statistics(made[0])
            if statistics is not None:
                self._statistics[node.name] = statistics

    def hold(self, name: str, tensor: Tensor) -> None:
        """Hold a value if others are computed from it again; not one that is let go itself."""
        if self._reads[name] and name not in self._plan.sources:
            self._held[name] = tensor.detach()

    def note(self, name: str, tensor: Tensor) -> _Note:
        """Return what stands for a tensor that is let go."""
        self._notes[name] += 1
        return _Note(self, name, tensor.size(), tensor.stride(), tensor.storage_offset())

    def value_again(self, name: str) -> Tensor:
        """Return a value that was let go, for one of the notes of it."""
        with torch.no_grad(), self._cast:
            tensor = self._target(name)
        self._notes[name] -= 1
        self._drop_if_done(name)
        return tensor

    def _target(self, name: str) -> Tensor:
        """Return a value that was let go, computed now unless it is there again."""
        if name not in self._held:
            self._held[name] = self._compute(self._nodes[name], {})
            for read in self._plan.sources[name]:
                self._reads[read] -= 1
                self._drop_if_done(read)
        return self._held[name]

    def _compute(self, node: fx.Node, between: dict[str, Any]) -> Any:
        """Run a node, and those before it that are not there."""

        def argument(one: fx.Node) -> Any:
            return self._argument(one, between)

        chain = self._normalised_chain(node, between)
        made = self._run_chain(chain, argument) if chain else None
        if made is not None:
            return made
        arguments, keywords = fx.map_arg(node.args, argument), fx.map_arg(node.kwargs, argument)
        if node.name in self._statistics:
            x, scale, shift = arguments[:3]
            return (normalised_again(x, scale, shift, self._statistics[node.name]),)
        if _is_normalisation(node):
            arguments, keywords = _with_copies(arguments, keywords)
        if node.op == "call_method":
            return getattr(arguments[0], str(node.target))(*arguments[1:], **keywords)
        assert callable(node.target)
        return with_gradients(node.target)(*arguments, **keywords)

    def _normalised_chain(self, node: fx.Node, between: Mapping[str, Any]) -> list[fx.Node]:
        """Return the in-place operators that lead from a normalisation to a node, and it before them.

        Empty if there is no such chain, or if the statistics of the batch are not known.
        """
        chain: list[fx.Node] = []
        while node.target in ELEMENTWISE_IN_PLACE and not (chain and self._is_there(node, between)):
            chain.append(node)
            node = node.all_input_nodes[0]
        if not chain or node.target is not operator.getitem or self._is_there(node, between):
            return []
        normalisation = node.all_input_nodes[0]
        return [normalisation, *reversed(chain)] if normalisation.name in self._statistics else []

    def _is_there(self, node: fx.Node, between: Mapping[str, Any]) -> bool:
        return node.name in self._plan.sources or node.name in self._held or node.name in between

    def _run_chain(self, chain: list[fx.Node], argument: Callable[[fx.Node], Any]) -> Tensor | None:
        """Run a normalisation and what is behind it by parts of the batch; None where a sum broadcasts."""
        first, *rest = chain
        x, scale, shift = fx.map_arg(first.args, argument)[:3]
        terms = [fx.map_arg(node.args[1:], argument) for node in rest]  # of a sum, besides the one so far
        if any(term.shape != x.shape or term.dtype != x.dtype for row in terms for term in row):
            return None

        def behind(part: Tensor, where: slice) -> None:
            for node, row in zip(rest, terms, strict=True):
                assert callable(node.target)
                node.target(part, *(term[where] for term in row))

        return normalised_again(x, scale, shift, self._statistics[first.name], behind)

    def _argument(self, node: fx.Node, between: dict[str, Any]) -> Any:
        name = node.name
        if name in self._plan.sources:
            return self._target(name)
        if name in self._held:
            return self._held[name]
        if node.op == "get_attr":
            return getattr(self._module, str(node.target))
        if node.op == "placeholder":
            raise RunError("a step whose memory is planned goes backward once; forward comes before each")
        if name not in between:
            between[name] = self._compute(node, between)
        return between[name]

    def _drop_if_done(self, name: str) -> None:
        if self._notes[name] <= 0 and self._reads[name] <= 0:
            self._held.pop(name, None)


def _is_normalisation(node: fx.Node) -> bool:
    own = node.meta.get("node")
    return own is not None and own.op_type == "BatchNormalization"


def _index(node: fx.Node) -> Any:
    """Return which of several values a node takes; None if it takes them all."""
    return node.args[1] if node.target is operator.getitem else None


def _with_copies(
    arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a normalisation with copies of what it would update."""
    copied = [one.clone() if index in STATISTICS else one for index, one in enumerate(arguments)]
    changed = dict(keywords)
    if changed.get("count") is not None:
        changed["count"] = changed["count"].clone()
    return tuple(copied), changed


class PlannedModule(fx.Interpreter):
    """A lowered graph that runs by a schedule.

    Args:
        module: The lowered graph.
        plan: What is let go.

    Attributes:
        current: Name of the node that runs.
    """

    def __init__(self, module: fx.GraphModule, plan: Schedule) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.current = ""
        self._plan = plan
        self._run: _Run | None = None
        self._storages: dict[str, int] = {}
        self._inputs: set[int] = set()

    def __call__(self, *inputs: Tensor) -> Any:
        """Run forward; autograd keeps what the plan leaves."""
        cast: AbstractContextManager[Any] = nullcontext()
        if torch.is_autocast_enabled("cpu"):
            cast = torch.autocast("cpu", torch.get_autocast_dtype("cpu"))
        assert isinstance(self.module, fx.GraphModule)
        self._run = _Run(self.module, self._plan, cast)
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack):
                return self.run(*inputs, enable_io_processing=False)
        finally:
            self._run = None
            self._storages.clear()
            self.env.clear()
            self.args_iter = iter(())  # which holds the inputs: for a stage, values of the one before

    def run_node(self, n: fx.Node) -> Any:
        """Run one node; hold its value if others are computed from it again."""
        self.current = n.name
        made = super().run_node(n)
        assert self._run is not None
        self._run.hold_statistics(n, made)
        if isinstance(made, Tensor):
            if n.name in self._plan.sources:
                self._storages[n.name] = made.untyped_storage().data_ptr()
            self._run.hold(n.name, made)
        return made

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what computes a node; a convolution and its Relu as the plan has them."""
        if self.current in self._plan.masked:
            return masked_conv(*args, **kwargs)
        if self.current in self._plan.unmasked:
            return unmasked_relu(*args, in_place=target is torch.relu_)
        return super().call_function(target, args, kwargs)

    def _pack(self, tensor: Tensor) -> Tensor | _Note:
        assert self._run is not None
        dropped = self._plan.dropped.get(self.current, frozenset())
        for name in dropped:
            if self._is_value(name, tensor):
                return self._run.note(name, tensor)
        return tensor

    def _is_value(self, name: str, tensor: Tensor) -> bool:
        """Return whether a tensor that the current node keeps is a value: an input, or the node's own output.

        An operator that keeps its output keeps nothing else that is computed
        (``runtime.memory_plan.behaviour``).
        """
        if name == self.current:
            return not isinstance(tensor, torch.nn.Parameter)
        return bool(self._storages.get(name) == tensor.untyped_storage().data_ptr())


def _unpack(kept: Tensor | _Note) -> Tensor:
    return kept.tensor() if isinstance(kept, _Note) else kept
