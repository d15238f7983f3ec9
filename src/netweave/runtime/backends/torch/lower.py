"""Lowering: a Graph becomes a ``torch.fx.GraphModule``, node by node from the table of lowerings."""

from __future__ import annotations

import contextlib
import keyword
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from torch import Tensor, fx, nn

from netweave.errors import RunError
from netweave.graph import (
    DOMAIN,
    Graph,
    find_operator,
    gradient_factors,
    is_registered,
    parameter_key,
    parameter_layout,
    statistics_of,
    ties_of,
)
from netweave.graph.passes.folding import ScaledNormalisation, scaled_normalisations
from netweave.graph.passes.partition import part_of
from netweave.graph.passes.windows import rectified_pools
from netweave.runtime.backends.torch.connections import PartDraws
from netweave.runtime.backends.torch.device import to_tensor
from netweave.runtime.backends.torch.elementwise import every
from netweave.runtime.backends.torch.kernels import Kernels
from netweave.runtime.backends.torch.node_memory import Memory, OperatorState
from netweave.runtime.backends.torch.operator_table import (
    Lowering,
    find_lowering,
    operator_name,
    registered_lowering,
    scaled_gradient,
)
from netweave.runtime.backends.torch.parameters import ParameterStore, laid_out
from netweave.runtime.backends.torch.random import Draws, stream_of
from netweave.runtime.backends.torch.whole_batch import WholeBatch
from netweave.runtime.memory_plan import Overwrite, overwrites, pixel_strides

VALUES = "netweave.values"
"""Key of a module's metadata: from the names of the graph's values to those of the nodes that make them."""

_SHARED = frozenset({"batch", "draws", "kernels", "own_batch"})
"""Attributes that all nodes of a module share."""

MAX_LISTED = 10
"""An error names at most so many operators."""


def lower(graph: Graph, outputs: Sequence[str], store: ParameterStore) -> fx.GraphModule:
    """Return a module from the graph's inputs, in their order, to a tuple of the named values.

    Parameters are those of the store; everything else that the graph holds becomes a buffer.

    Args:
        graph: The graph; it is not changed.
        outputs: Names of values.
        store: Where parameters are kept; new ones are added.

    Raises:
        RunError: Operators without a lowering, or with settings that torch cannot hold.
    """
    rows = _rows(graph)
    return _Lowerer(graph, store).module(rows, outputs)


def lowering_of(graph: Graph, node: ir.Node) -> Lowering | None:
    """Return the lowering of a node in the version that its graph is written in, if there is one."""
    row = find_lowering(node.domain, node.op_type, _version(graph, node))
    if row is None and node.domain == DOMAIN and is_registered(node.op_type):
        return registered_lowering(node.op_type, num_inputs=len(node.inputs))
    return row


def _version(graph: Graph, node: ir.Node) -> int:
    return graph.model.opset_imports.get(node.domain, 1)


def _rows(graph: Graph) -> list[tuple[ir.Node, Lowering]]:
    """Return each node with its lowering.

    Raises:
        RunError: Nodes without one; all of them in one message.
    """
    rows, missing = [], Counter[str]()
    for node in graph.nodes:
        row = lowering_of(graph, node)
        if row is not None:
            rows.append((node, row))
        elif not is_constant(node):
            missing[_schema_name(graph, node)] += 1
    if not missing:
        return rows
    listed = [f"{name} ({n} node{'s' * (n > 1)})" for name, n in missing.most_common(MAX_LISTED)]
    if len(missing) > MAX_LISTED:
        listed.append(f"and {len(missing) - MAX_LISTED} more")
    raise RunError(
        f"{graph.files[0] if graph.files else graph.name}: no torch lowering for {len(missing)} "
        f"operator{'s' * (len(missing) > 1)}: {', '.join(listed)}; see docs/operators.md"
    )


def _schema_name(graph: Graph, node: ir.Node) -> str:
    """Return a node's operator with the version that its meaning has."""
    version = _version(graph, node)
    with contextlib.suppress(onnx.defs.SchemaError):
        version = onnx.defs.get_schema(node.op_type, version, node.domain).since_version
    return operator_name(node.domain, node.op_type, version)


def is_constant(node: ir.Node) -> bool:
    """Return whether a node is ONNX's Constant, which becomes a buffer or a Python number."""
    return node.op_type == "Constant" and node.domain in {"", "ai.onnx"}


class _Lowerer:
    """Makes the module of one graph."""

    def __init__(self, graph: Graph, store: ParameterStore) -> None:
        self._graph = graph
        self._store = store
        self._root = nn.Module()
        self._fx = fx.Graph()
        self._made: dict[ir.Value, fx.Node] = {}
        self._attributes: dict[str, fx.Node] = {}
        self._taken: dict[tuple[fx.Node, tuple[int, ...]], fx.Node] = {}
        self._wanted: set[ir.Value] = set()
        self._overwrites: dict[ir.Node, Overwrite] = {}
        self._initializers = graph.model.graph.initializers
        self._of_key: dict[str, list[ir.Value]] = defaultdict(list)
        for value in self._initializers.values():
            self._of_key[parameter_key(value) or ""].append(value)

    def module(self, rows: Sequence[tuple[ir.Node, Lowering]], outputs: Sequence[str]) -> fx.GraphModule:
        for index, value in enumerate(self._graph.inputs):
            self._made[value] = self._fx.placeholder(identifier(value.name, f"input_{index}"))
        wanted = self._graph.find(outputs).values()
        self._wanted = set(wanted)
        self._overwrites = overwrites(self._graph, self._wanted)
        fused = scaled_normalisations(self._graph, self._wanted)
        rectified = rectified_pools(self._graph, self._wanted)
        inner = {node for found in fused for node in found.inner} | set(rectified.values())
        last = {found.last: found for found in fused}
        row_of = dict(rows)
        for node, row in rows:
            if node in last:
                self._lower_scaled(last[node], row_of[last[node].norm])
            elif node in rectified:
                self._lower_rectified(node, row, rectified[node])
            elif node not in inner:
                self._lower(node, row)
        self._fx.output(tuple(map(self._value, wanted)))
        module = fx.GraphModule(self._root, self._fx, class_name=identifier(self._graph.name, "Net"))
        module.meta[VALUES] = {value.name: made.name for value, made in self._made.items()}
        return module

    def _lower_scaled(self, found: ScaledNormalisation, row: Lowering) -> None:
        """Lower a normalisation with the scale and the shift that stand behind it."""
        x, _, own_shift, *statistics = found.norm.inputs
        scale, shift = (
            self._fx.call_method("flatten", (self._argument(value, "tensor"),))
            for value in (found.scale, found.shift or own_shift)
        )
        rest = [self._argument(value, "tensor") for value in (x, *statistics)]
        arguments = (rest[0], scale, shift, *rest[1:])
        _, function = self._settled(found.norm, row)
        made = self._fx.call_function(function, arguments, self._keywords(found.norm, row))
        made.meta["node"] = found.norm
        made.meta["in_place"] = function is not row.function
        self._made[found.last.outputs[0]] = self._fx.call_function(operator.getitem, (made, 0))

    def _lower_rectified(self, node: ir.Node, row: Lowering, relu: ir.Node) -> None:
        """Lower a max pooling before the Relu that stands in front of it; see ``rectified_pools``."""
        assert relu.inputs[0] is not None
        made = self._fx.call_function(row.function, (self._value(relu.inputs[0]),), self._keywords(node, row))
        made.meta["node"] = node
        pooled = self._fx.call_function(operator.getitem, (made, 0)) if row.many else made
        name = identifier(node.outputs[0].name, "value")
        result = self._fx.create_node("call_function", torch.relu_, (pooled,), name=name)
        result.meta |= {"node": node, "in_place": True}
        self._made[node.outputs[0]] = result

    def _lower(self, node: ir.Node, row: Lowering) -> None:
        inputs, function = self._settled(node, row)
        arguments = [self._argument(value, row.arrival(i)) for i, value in enumerate(inputs)]
        for index, factor in gradient_factors(node).items():
            arguments[index] = self._fx.call_function(scaled_gradient, (arguments[index], factor))
        keywords = self._keywords(node, row)
        if strides := pixel_strides(node):
            arguments[0] = self._every(arguments[0], strides)
            del keywords["strides"]
        name = identifier(node.outputs[0].name, "value") if node.outputs else None
        made = self._fx.create_node("call_function", function, tuple(arguments), keywords, name=name)
        made.meta["node"] = node
        made.meta["in_place"] = function is not row.function
        if not row.many:
            self._made[node.outputs[0]] = made
            return
        for index, value in enumerate(node.outputs):
            if value.uses() or value.is_graph_output() or value.name:
                self._made[value] = self._fx.call_function(operator.getitem, (made, index))

    def _settled(self, node: ir.Node, row: Lowering) -> tuple[list[ir.Value | None], Callable[..., Any]]:
        """Return a node's inputs, the one that is written over first, and what computes it."""
        inputs, overwrite = list(node.inputs), self._overwrites.get(node)
        if row.in_place is None or overwrite is None:
            return inputs, row.function
        inputs[0], inputs[overwrite.position] = inputs[overwrite.position], inputs[0]
        return inputs, row.in_place if overwrite.in_training else row.in_inference

    def _every(self, image: fx.Node, strides: tuple[int, ...]) -> fx.Node:
        """Return the pixels that convolutions with a window of one take; those of one value share them."""
        if (image, strides) not in self._taken:
            self._taken[image, strides] = self._fx.call_function(every, (image, strides))
        return self._taken[image, strides]

    def _keywords(self, node: ir.Node, row: Lowering) -> dict[str, Any]:
        unknown = sorted(set(node.attributes) - set(row.attributes) - row.injected)
        if unknown:
            raise RunError(
                f"{self._graph.place_of(node)}: no torch lowering for {row.op_type} with "
                f"{', '.join(map(repr, unknown))}; see docs/operators.md"
            )
        keywords = {name: self._setting(node, attribute) for name, attribute in node.attributes.items()}
        if "num_outputs" in row.injected:
            keywords["num_outputs"] = len(node.outputs)
        if "training" in row.injected:
            keywords["training"] = self._attribute("training")
        if "memory" in row.injected:
            own = find_operator(node.op_type).state if is_registered(node.op_type) else None
            memory = Memory() if own is None else OperatorState(own)
            keywords["memory"] = self._own(f"{node.name}_memory", memory)
        keywords |= self._rules(node, row)
        part = part_of(node)
        if "draws" in row.injected:
            draws = self._shared("draws", Draws)
            if part is not None:
                draws = self._own(f"{node.name}_draws", PartDraws(self._root.draws, part))
            keywords |= {"draws": draws, "stream": stream_of(node_name(node))}
        if "batch" in row.injected:
            # some channels of the whole batch need nothing of the other ranks; some places do
            is_own = part is not None and not part.places
            keywords["batch"] = self._shared("own_batch" if is_own else "batch", WholeBatch)
        if "kernels" in row.injected:
            keywords["kernels"] = self._shared("kernels", Kernels)
        return keywords

    def _rules(self, node: ir.Node, row: Lowering) -> dict[str, Any]:
        """Return the keywords of rules of training: whose a gradient is, how statistics follow a batch."""
        if ties := ties_of(node):
            return {"ties": ties}
        if "count" not in row.injected:
            return {}
        rule = statistics_of(node)
        settings: dict[str, Any] = {"unbiased": rule.unbiased, "fixed": rule.fixed}
        if rule.count is not None:
            settings["count"] = self._value(self._initializers[rule.count])
        return settings

    def _setting(self, node: ir.Node, attribute: ir.Attr) -> Any:
        """Return an attribute as fx holds it: plain values in tuples, tensors as buffers."""
        if attribute.type in {ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING}:
            return attribute.value
        if attribute.type in {ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS}:
            return tuple(attribute.value)
        if attribute.type is ir.AttributeType.TENSOR:
            return self._buffer(f"{node.name}_{attribute.name}", attribute.as_tensor().numpy())
        raise RunError(
            f"{self._graph.place_of(node)}: no torch lowering for an attribute of type "
            f"{attribute.type.name} ({attribute.name!r}); see docs/operators.md"
        )

    def _argument(self, value: ir.Value | None, arrival: str) -> Any:
        if value is None:
            return None
        if arrival == "tensor":
            return self._value(value)
        array, convert = _constant(value), _CONVERSIONS[arrival]
        if array is not None:
            return convert(array)
        return self._fx.call_function(convert, (self._value(value),))

    def _value(self, value: ir.Value) -> fx.Node:
        if value not in self._made:
            constant = _constant(value)
            name = value.name
            self._made[value] = self._stored(value) if constant is None else self._buffer(name, constant)
        return self._made[value]

    def _stored(self, value: ir.Value) -> fx.Node:
        """Return an initializer: an array of the source in the right layout, or a constant."""
        parameter = self._graph.parameters.get(parameter_key(value) or "")
        if parameter is None:
            tensor = value.const_value
            assert tensor is not None, f"{value.name!r} has no producer and no values"
            return self._buffer(value.name, tensor.numpy())
        stored = self._store.add(parameter, self._of_key[parameter.key])
        if parameter.key not in self._attributes:
            name = _free(self._root, parameter.key)
            self._root.register_parameter(name, stored.tensor)
            self._attributes[parameter.key] = self._fx.get_attr(name)
        made = self._attributes[parameter.key]
        for kind, numbers in stored.steps_to(parameter_layout(value)):
            made = self._fx.call_function(laid_out, (made, kind, numbers))
        return made

    def _buffer(self, name: str | None, array: np.ndarray) -> fx.Node:
        free = _free(self._root, name or "constant")
        self._root.register_buffer(free, self._store.placed(to_tensor(array)))
        return self._fx.get_attr(free)

    def _shared(self, name: str, kind: type[Any]) -> fx.Node:
        """Return what all nodes of the net share: where they draw from, the batch, the kernels."""
        if not hasattr(self._root, name):
            setattr(self._root, name, kind())
        return self._attribute(name)

    def _own(self, name: str, held: Any) -> fx.Node:
        """Return something that the module holds for one node."""
        free = _free(self._root, name)
        setattr(self._root, free, held)
        return self._attribute(free)

    def _attribute(self, name: str) -> fx.Node:
        """Return an attribute of the module itself, read anew at each run."""
        if name not in self._attributes:
            self._attributes[name] = self._fx.get_attr(name)
        return self._attributes[name]


def node_name(node: ir.Node) -> str:
    """Return the name that a node keeps from run to run."""
    return node.name or (node.outputs[0].name if node.outputs else None) or node.op_type


def to_ints(values: Tensor | np.ndarray) -> tuple[int, ...]:
    """Return the elements of a tensor as Python integers."""
    return tuple(int(value) for value in values.reshape(-1).tolist())


def to_numbers(values: Tensor | np.ndarray) -> tuple[float, ...]:
    """Return the elements of a tensor as Python floats."""
    return tuple(float(value) for value in values.reshape(-1).tolist())


def to_number(value: Tensor | np.ndarray) -> float | int:
    """Return the one element of a tensor as a Python number."""
    number: float | int = value.item()
    return number


_CONVERSIONS = {"ints": to_ints, "numbers": to_numbers, "number": to_number}


def identifier(name: str | None, default: str) -> str:
    """Return a name as a Python identifier."""
    plain = re.sub(r"\W", "_", name or default, flags=re.ASCII) or default
    return f"_{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) else plain


def _constant(value: ir.Value) -> np.ndarray | None:
    """Return the values of a constant that no source stores; None for anything else."""
    maker = value.producer()
    if maker is not None:
        return _of_constant_node(maker) if is_constant(maker) else None
    if value.const_value is None or parameter_key(value) is not None:
        return None
    return value.const_value.numpy()


_PLAIN_CONSTANTS = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}


def _of_constant_node(node: ir.Node) -> np.ndarray:
    (name, attribute), *_ = node.attributes.items()
    if name == "value":
        return attribute.as_tensor().numpy()
    if name not in _PLAIN_CONSTANTS:
        raise RunError(f"no torch lowering for a Constant with {name!r}; see docs/operators.md")
    return np.array(attribute.value, _PLAIN_CONSTANTS[name])


def _free(root: nn.Module, name: str) -> str:
    """Return a name for an attribute of a module that is not taken."""
    plain = identifier(name, "tensor")
    free, count = plain, 0
    while hasattr(root, free) or hasattr(fx.GraphModule, free) or free in _SHARED:
        count += 1
        free = f"{plain}_{count}"
    return free
