"""Time of each node of a net, forward and backward.

Nodes are run one by one, each with an autograd graph of its own, so that its gradient can be timed by itself.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, fx

from netweave.graph import Graph
from netweave.runtime.backends.torch.device import find_device
from netweave.runtime.backends.torch.net import TorchNet


@dataclass(slots=True)
class Seconds:
    """Sums of the times of a node's calls."""

    forward: float = 0.0
    backward: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean times of a net.

    Attributes:
        of_node: By node, each run by itself.
        forward_s: Of the whole net.
        backward_s: Of the whole net; 0 if it was not asked for.
    """

    of_node: Mapping[ir.Node, Seconds]
    forward_s: float
    backward_s: float


def measure(
    graph: Graph,
    arrays: Mapping[str, np.ndarray],
    *,
    iterations: int,
    backward: bool,
    device: str,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Measured:
    """Measure a net on some inputs, in training mode if gradients are measured.

    Args:
        graph: The net.
        arrays: Its inputs by name.
        iterations: Passes, besides a first one that does not count, >= 1.
        backward: Whether gradients are measured too.
        device: Where to compute, as torch names it.
        told: Told how many passes of how many are done.

    Raises:
        UsageError: There is no such device.
        RunError: A layer cannot be computed.
    """
    place = find_device(device)
    net = TorchNet(graph).train(backward).to(place)
    inputs = {
        value.name or "": torch.from_numpy(arrays[value.name or ""]).to(place) for value in graph.inputs
    }
    timed, whole = Timed(net, place), Seconds()
    for number in range(iterations + 1):
        _pass_whole(net, inputs, whole, place, backward=backward)
        timed.pass_through([net.store.placed(tensor) for tensor in inputs.values()], backward=backward)
        if not number:
            timed.seconds.clear()
            whole = Seconds()
        told(number, iterations)
    means = {
        node: Seconds(s.forward / iterations, s.backward / iterations) for node, s in timed.seconds.items()
    }
    return Measured(means, whole.forward / iterations, whole.backward / iterations)


def _pass_whole(
    net: TorchNet, inputs: Mapping[str, Tensor], sums: Seconds, device: torch.device, *, backward: bool
) -> None:
    net.zero_grad()
    with torch.set_grad_enabled(backward):
        began = now(device)
        outputs = [output for output in net(**inputs).values() if output.requires_grad]
        sums.forward += now(device) - began
    if outputs:
        began = now(device)
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
        sums.backward += now(device) - began


def now(device: torch.device) -> float:
    """Return the time when a device has done what it was given, in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return perf_counter()


class Timed(fx.Interpreter):
    """Runs a net node by node.

    Args:
        net: The net, in the mode that it is to be timed in.
        device: Where it is.

    Attributes:
        seconds: By node of the graph; what belongs to none is counted with the node that takes it.
    """

    def __init__(self, net: TorchNet, device: torch.device) -> None:
        super().__init__(net.module)
        self.seconds: dict[ir.Node, Seconds] = defaultdict(Seconds)
        self._device = device
        self._owners = _owners(net.module.graph)
        self._calls: list[_TimedCall] = []
        self._made: set[int] = set()

    def pass_through(self, inputs: list[Tensor], *, backward: bool) -> None:
        """Go forward and, if asked to, backward from the sum of all outputs, and add up the times.

        Args:
            inputs: In the order of the net.
            backward: Whether gradients are computed.
        """
        self._forget()
        with torch.set_grad_enabled(backward):
            outputs = self.run(*inputs)
        if backward:
            self._go_back(outputs)
        self._forget()

    def run_node(self, n: fx.Node) -> Any:
        """Run a node, time it, and remember what its gradient needs."""
        if n.op not in {"call_function", "call_method"} or n.target is operator.getitem:
            return super().run_node(n)
        call = _TimedCall(self._owners.get(n), self._made, in_place=_is_in_place(n))
        args, kwargs = fx.node.map_aggregate(self.fetch_args_kwargs_from_env(n), call.taken)
        began = now(self._device)
        result = getattr(self, n.op)(n.target, args, kwargs)
        self._add(call, now(self._device) - began, backward=False)
        call.made = [made for made in _in_tuple(result) if isinstance(made, Tensor)]
        self._made.update(map(id, call.made))
        self._calls.append(call)
        return result

    def _forget(self) -> None:
        self._calls.clear()
        self._made.clear()

    def _go_back(self, outputs: tuple[Tensor, ...]) -> None:
        flowing = {id(output): torch.ones_like(output) for output in outputs if output.requires_grad}
        for call in reversed(self._calls):
            pairs = [(made, flowing[id(made)]) for made in call.made if id(made) in flowing]
            if not pairs or not any(made.requires_grad for made, _ in pairs):
                continue
            began = now(self._device)
            torch.autograd.backward([made for made, _ in pairs], [grad for _, grad in pairs])
            self._add(call, now(self._device) - began, backward=True)
            for given, leaf in call.leaves:
                if leaf.grad is not None:
                    before = flowing.get(id(given))
                    flowing[id(given)] = leaf.grad if before is None else before + leaf.grad

    def _add(self, call: _TimedCall, seconds: float, *, backward: bool) -> None:
        if call.owner is None:
            return
        sums = self.seconds[call.owner]
        if backward:
            sums.backward += seconds
        else:
            sums.forward += seconds


@dataclass(slots=True)
class _TimedCall:
    """One call of a node: what it was given, cut off from what made it, and what it made.

    Parameters are given as they are, so that gradients go to them as in training.
    """

    owner: ir.Node | None
    others: set[int]
    in_place: bool = False
    leaves: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    made: list[Tensor] = field(default_factory=list)

    def taken(self, value: Any) -> Any:
        """Return an argument as a leaf of the call's own autograd graph."""
        if not isinstance(value, Tensor) or id(value) not in self.others or not value.requires_grad:
            return value
        leaf = value.detach().requires_grad_()
        self.leaves.append((value, leaf))
        return leaf.clone() if self.in_place else leaf


def _in_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _is_in_place(node: fx.Node) -> bool:
    """Return whether a function writes over its argument, which torch's names say by their ends."""
    return str(getattr(node.target, "__name__", "")).endswith("_")


def _owners(graph: fx.Graph) -> dict[fx.Node, ir.Node]:
    """Return the node of the net that each node of fx belongs to, its own or that of who takes it."""
    owners = {node: node.meta["node"] for node in graph.nodes if "node" in node.meta}
    for node in graph.nodes:
        if node not in owners and node.target is operator.getitem and node.args[0] in owners:
            owners[node] = owners[node.args[0]]
    for node in reversed(graph.nodes):
        taker = next((user for user in node.users if user in owners), None)
        if node not in owners and taker is not None:
            owners[node] = owners[taker]
    return owners
