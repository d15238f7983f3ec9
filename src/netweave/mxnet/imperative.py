"""Operators on arrays, from the table of the symbols: each call is a net of one node, made once.

A net is kept for each operator with its settings and the sizes and types of its inputs, so that a loop makes
it in its first round only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import NameManager
from netweave.formats.mxnet.symbol.build import apply, build, setting_text
from netweave.formats.mxnet.symbol.registry import AUXILIARY
from netweave.formats.mxnet.symbol.symbol import Symbol, variable
from netweave.graph import Graph
from netweave.mxnet import recording
from netweave.runtime.backends.torch import ParameterStore, TorchNet

MAX_NETS = 4096
"""So many nets of one node are kept; the one that was used longest ago goes first."""


@dataclass(frozen=True, slots=True)
class _OneNode:
    """An operator made ready for inputs of some sizes.

    Attributes:
        net: Its net.
        inputs: Names of its inputs in the net, by number of the array; None for stored arrays.
        stored: Names of the arrays that the operator itself changes or replaces, by number of the array.
    """

    net: TorchNet
    inputs: dict[int, str]
    stored: dict[int, str]


_nets: OrderedDict[Hashable, _OneNode] = OrderedDict()


def invoke(
    op: str, tensors: Sequence[Tensor], named: Mapping[str, Tensor], settings: Mapping[str, Any]
) -> list[Tensor]:
    """Return the outputs of an operator.

    Args:
        op: An operator of the table.
        tensors: Inputs in order.
        named: Inputs by name.
        settings: Its settings as Python values.

    Raises:
        UsageError: Inputs are missing, unknown or too many.
        SourceError: A setting is wrong, or sizes do not fit.
    """
    given = [*tensors, *named.values()]
    texts = tuple((key, setting_text(value)) for key, value in settings.items() if value is not None)
    sizes = tuple((tuple(tensor.shape), tensor.dtype) for tensor in given)
    training = recording.is_training()
    key = (op, len(tensors), tuple(named), texts, sizes, training, given[0].device if given else None)
    ready = _nets.get(key)
    if ready is None:
        ready = _nets[key] = _make(op, given, len(tensors), tuple(named), settings)
        ready.net.train(training)
        if given:
            ready.net.to(given[0].device)
        while len(_nets) > MAX_NETS:
            _nets.popitem(last=False)
    else:
        _nets.move_to_end(key)
    return _run(ready, given)


def _run(ready: _OneNode, given: Sequence[Tensor]) -> list[Tensor]:
    net = ready.net
    for number, name in ready.stored.items():
        if name in net.store:
            net.store[name].tensor.data = given[number]  # the net changes the caller's own memory
    with recording.scope():
        outputs = net.compute({name: given[number] for number, name in ready.inputs.items()})
    memory = {tensor.untyped_storage().data_ptr() for tensor in given}
    return [_written(outputs[name], memory) for name in net.names]


def _written(tensor: Tensor, memory: set[int]) -> Tensor:
    """Return a result that can be written to: in memory of its own, with a place for each element."""
    shares = tensor.untyped_storage().data_ptr() in memory
    repeats = any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))
    return tensor.clone(memory_format=torch.contiguous_format) if shares or repeats else tensor


def _make(
    op: str, given: Sequence[Tensor], count: int, named: Sequence[str], settings: Mapping[str, Any]
) -> _OneNode:
    names = [f"input{number}" for number in range(len(given))]
    with NameManager():
        sources = [
            variable(name, shape=tensor.shape, dtype=dtype_name(tensor)).outputs
            for name, tensor in zip(names, given, strict=True)
        ]
        by_name = dict(zip(named, sources[count:], strict=True))
        node = Symbol(apply(op, sources[:count], by_name, settings=settings, name=op.lower().strip("_")))
    vertex = node.outputs[0].vertex
    missing = [entry.vertex.name for entry in vertex.inputs if entry.vertex.name not in names]
    if missing:
        argument = missing[0].removeprefix(f"{vertex.name}_")
        raise UsageError(f"{op}: the input {argument!r} is missing")
    places = {entry.vertex.name: index for index, entry in enumerate(vertex.inputs)}
    arguments = vertex.argument_names()
    own = _own_arrays(vertex.op, vertex.attributes)
    kept = {name for name, place in places.items() if arguments is not None and arguments[place] in own}
    shapes = {
        name: tuple(tensor.shape) for name, tensor in zip(names, given, strict=True) if name not in kept
    }
    graph = build(node.document(), name=op, input_shapes=shapes, open_batch=False)
    return _OneNode(
        _net_of(graph),
        inputs={number: name for number, name in enumerate(names) if _is_input(graph, name)},
        stored={number: name for number, name in enumerate(names) if name in graph.parameters},
    )


def _net_of(graph: Graph) -> TorchNet:
    store = ParameterStore(channels_last=False)
    for parameter in graph.parameters.values():
        store.adopt(parameter, torch.zeros(parameter.shape))
    return TorchNet(graph, store=store)


def _is_input(graph: Graph, name: str) -> bool:
    return any(value.name == name for value in graph.inputs)


def _own_arrays(op: str, attributes: Mapping[str, str]) -> frozenset[str]:
    """Return the arguments that are no values to the operator: what it changes, and what it takes as 1."""
    if "BatchNorm" not in op:
        return frozenset()
    is_fixed = attributes.get("fix_gamma", "True") in {"True", "1"}
    return AUXILIARY | {"gamma"} if is_fixed else AUXILIARY


def dtype_name(tensor: Tensor) -> str:
    """Return the name of a tensor's element type: ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


__all__ = ["dtype_name", "invoke"]
