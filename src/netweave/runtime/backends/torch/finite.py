"""Finding the node in which numbers stop being numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from netweave.graph import Effect, effects_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.graph import Graph
    from netweave.runtime.backends.torch.net import TorchNet


def first_not_finite(net: TorchNet, graph: Graph, inputs: Mapping[str, Tensor]) -> str | None:
    """Return where the first value is made that holds nan or inf, in words; None if all are finite.

    The net is run once more in test mode, without changing its statistics; not if a node has effects besides
    drawing.

    Args:
        net: The net.
        graph: Its graph.
        inputs: By name.
    """
    for name, tensor in inputs.items():
        if not _is_finite(tensor):
            return f"the input {name!r} holds numbers that are not finite"
    key = parameter_not_finite(net, graph)
    if key is not None:
        return f"the parameter {key!r} holds numbers that are not finite"
    if any(effects_of(node) & {Effect.STATEFUL, Effect.WORLD} for node in graph.nodes):
        return None  # what such a node does is done once
    training = net.module.training
    search = _Search(net.module)
    try:
        with torch.no_grad():
            net.module.eval()
            search.run(*(net.store.placed(inputs[value.name or ""]) for value in graph.inputs))
    except _FoundError as found:
        return f"{graph.place_of(found.node)} is the first whose output is not finite"
    finally:
        net.module.train(training)
    return None


def parameter_not_finite(net: TorchNet, graph: Graph) -> str | None:
    """Return the first trained parameter that holds nan or inf; None if all are finite."""
    for key, parameter in graph.parameters.items():
        # past the net's handle, which would wait for the very task that asks
        if parameter.trainable and key in net.store and not _is_finite(net.store[key].tensor):
            return key
    return None


class _FoundError(Exception):
    def __init__(self, node: Any) -> None:
        super().__init__()
        self.node = node


class _Search(fx.Interpreter):
    """Runs a net until a node of the graph gives something that is not finite."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if "node" in n.meta:
            for made in result if isinstance(result, tuple) else (result,):
                if isinstance(made, Tensor) and not _is_finite(made):
                    raise _FoundError(n.meta["node"])
        return result


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
