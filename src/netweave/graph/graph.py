"""Graphs and the uses of their values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.graph.layers import Layer, LayerTable, Origin, layer_keys

if TYPE_CHECKING:
    import numpy as np

    from netweave.graph.parameters import Parameter

    Learned = tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class CachedSteps:
    """Single steps of a decoder through its cache, against one pass over all tokens.

    Attributes:
        how: The arguments that it takes the cache by; empty if it takes none.
        reason: Why it could not be called so; empty if it was.
        error: Largest difference, relative to the rms of the pass.
        at_once: Relative error of several tokens in one call after others, if that is more than rounding.
        num_steps: Calls with one token.
        step: Number of tokens at the first call that is off; None if all agree.
        place: Name of the first part that is off; empty if that is unknown.
        cause: What the code does otherwise, in words.
        line: File and line of the code that the cause is at; empty if that is unknown.
    """

    how: str = ""
    reason: str = ""
    error: float = 0.0
    at_once: float = 0.0
    num_steps: int = 0
    step: int | None = None
    place: str = ""
    cause: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of code that may compute something else with other inputs.

    Attributes:
        lengths: Numbers of the code that may be lengths of a sequence, each with its name there.
        left_out: Inputs that the code can do without, and was traced without.
        run: Runs the code itself on several batches of inputs, by name, and returns the outputs of each, in
            the order of the net's; None for one on which it fails.
        again: Traces it with inputs of other sizes, by name; raises what ``load`` raises.
        is_apart: Whether both happen in a process of their own.
        learn: Trains the code for a few updates on one batch of inputs, and returns arrays by kind and name,
            and the rest of a ``TrainingRecord``; None where the code has no weights of its own.
        steps: Runs the code one token at a time through its cache, on batches with ever longer sequences, and
            compares up to a relative error; None where code has no cache.
    """

    lengths: Mapping[int, str]
    left_out: tuple[str, ...]
    run: Callable[[Sequence[Mapping[str, np.ndarray]]], list[list[np.ndarray] | None]]
    again: Callable[[Mapping[str, tuple[int, ...]]], Graph]
    is_apart: bool = False
    learn: Callable[[Mapping[str, np.ndarray], Mapping[str, Any]], Learned] | None = None
    steps: Callable[[Sequence[Mapping[str, np.ndarray]], float], CachedSteps] | None = None


@dataclass(slots=True)
class Graph:
    """A net as one ONNX model (NCHW) with the tables of its source.

    Attributes:
        model: The nodes; opset ``OPSET``, domain ``netweave`` for what ONNX lacks. Every value has a
            unique name.
        layers: The source's layers; the relation to nodes is in ``layer_keys(node)``.
        parameters: The source's stored arrays by key; initializers name theirs (``parameter_key``).
        declared: Input shapes as the source declares them, by input name; a size that the source
            leaves open is None.
        format: Name of the format that the net was read from.
        files: The files that it was read from: the net first, then weights.
        notes: What a user should know about the reading, one sentence each.
        aliases: Names of values that passes removed since they are another value of the graph, with the
            name of that value.
        returned: Where code gives back what the net computes, if that is known: the one ``return`` of a
            module's ``forward``.
        unread: Arrays that the files store and a setting keeps from being read (MXNet's gammas under
            ``fix_gamma``), by the initializer in their place, if they hold anything else.
        assumed: Input sizes that code was traced with because nobody gave any, by input name.
        is_fixed: Whether code was traced to what holds for its input sizes alone, but for the batch.
        caches: Outputs of code that it takes back in its next call, by name.
        unknown: Types of layers that no reader knows, in a net that was read only to be looked at.
        trace: How code was traced, if the net is code and this is how it was read; a copy has none.
    """

    model: ir.Model
    layers: LayerTable = field(default_factory=LayerTable)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    declared: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    format: str = "onnx"
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)
    returned: Origin | None = None
    unread: dict[str, np.ndarray] = field(default_factory=dict)
    assumed: dict[str, tuple[int, ...]] = field(default_factory=dict)
    is_fixed: bool = False
    caches: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    trace: Trace | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The net's own name, or its file's."""
        return self.model.graph.name or (self.files[0] if self.files else "net")

    @property
    def nodes(self) -> Sequence[ir.Node]:
        """The nodes in topological order."""
        return self.model.graph

    @property
    def inputs(self) -> list[ir.Value]:
        """The values that a run must be given; initializers are not among them."""
        names = self.model.graph.initializers
        return [value for value in self.model.graph.inputs if value.name not in names]

    @property
    def outputs(self) -> list[ir.Value]:
        """The values that a run gives back."""
        return list(self.model.graph.outputs)

    @property
    def loaded(self) -> bool:
        """True if every parameter has values from a file, or from the model's own code."""
        return all(parameter.loaded for parameter in self.parameters.values())

    @property
    def initial(self) -> bool:
        """True if some values are first ones: made by the model's code, or drawn and then written."""
        return any(parameter.initial for parameter in self.parameters.values())

    @property
    def only_weights(self) -> bool:
        """True if it is stored arrays alone, without the net that they belong to."""
        return bool(self.parameters) and not len(self.model.graph) and not self.model.graph.outputs

    @property
    def num_parameters(self) -> int:
        """Number of stored elements, as the source counts them."""
        return sum(parameter.size for parameter in self.parameters.values())

    def values(self) -> dict[str, ir.Value]:
        """Return inputs, initializers and node outputs by name."""
        by_name = {v.name: v for v in self.model.graph.inputs if v.name}
        by_name.update({v.name: v for v in self.model.graph.initializers.values() if v.name})
        for node in self.nodes:
            by_name.update({v.name: v for v in node.outputs if v.name})
        return by_name

    def find(self, names: Iterable[str]) -> dict[str, ir.Value]:
        """Return values by the names asked for, also by names that are only aliases now.

        Raises:
            UsageError: There is no value of some name.
        """
        values = self.values()
        by_name = {name: values.get(name) or values.get(self.aliases.get(name, "")) for name in names}
        unknown = [name for name, value in by_name.items() if value is None]
        if unknown:
            raise UsageError(f"no value named {', '.join(map(repr, unknown))} in net {self.name!r}")
        return {name: value for name, value in by_name.items() if value is not None}

    def nodes_of(self) -> Mapping[str, list[ir.Node]]:
        """Return the nodes of each layer, by layer key; a layer without nodes has an empty list."""
        nodes: dict[str, list[ir.Node]] = {key: [] for key in self.layers}
        for node in self.nodes:
            for key in layer_keys(node):
                nodes.setdefault(key, []).append(node)
        return nodes

    def layers_of(self, node: ir.Node) -> list[Layer]:
        """Return the layers that a node belongs to."""
        return [self.layers[key] for key in layer_keys(node) if key in self.layers]

    def place_of(self, node: ir.Node) -> str:
        """Return where a node stands, for a message: the file, the line and the layer, as far as known."""
        file = self.files[0] if self.files else self.name
        layers = self.layers_of(node)
        if not layers:
            return f"{file}: {node.op_type} {node.name!r}"
        return layers[0].place if layers[0].origin else f"{file}: {layers[0].place}"

    def clone(self) -> Graph:
        """Return a copy whose nodes and tables can be changed without changing this graph's.

        Arrays are shared, since nothing changes an array in place.
        """
        return Graph(
            model=self.model.clone(),
            layers=LayerTable(self.layers.values()),
            parameters=dict(self.parameters),
            declared=dict(self.declared),
            format=self.format,
            files=self.files,
            notes=self.notes,
            aliases=dict(self.aliases),
            caches=self.caches,
            returned=self.returned,
            unread=dict(self.unread),
            assumed=dict(self.assumed),
            is_fixed=self.is_fixed,
        )

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name}{v.shape}" for v in self.inputs)
        outputs = ", ".join(f"{v.name}{v.shape}" for v in self.outputs)
        return (
            f"Graph {self.name!r} ({self.format}): {inputs} -> {outputs}; {len(self.layers)} layers, "
            f"{len(self.model.graph)} nodes, {self.num_parameters:,} parameters"
            + ("" if self.loaded else ", without weights")
        )

    def _repr_html_(self) -> str:
        from netweave.graph.html import drawn, graph_html

        return drawn(self, graph_html(self))


# A large net repeats the same few blocks hundreds of times. What is known of a node then holds for all
# nodes like it.

SETTLED = frozenset(
    {
        "Abs", "Add", "AveragePool", "BatchNormalization", "Concat", "Conv", "ConvTranspose", "Div", "Elu",
        "Exp", "Flatten", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish",
        "LRN", "LayerNormalization", "LeakyRelu", "Log", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg",
        "PRelu", "Pow", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "Sqrt", "Sub", "Sum", "Tanh",
        "Transpose",
    }
)  # fmt: skip
"""Operators whose output sizes follow from attributes and from the sizes, not the values, of inputs."""

_FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
)  # of whole numbers the values are followed as well: they may become somebody's sizes


@dataclass(frozen=True, slots=True)
class Output:
    """Known properties of a node's only output."""

    shape: ir.Shape
    dtype: ir.DataType | None


def likeness(node: ir.Node) -> Hashable:
    """Return what a node has in common with those like it; None if its sizes follow from more than that."""
    if node.domain or node.op_type not in SETTLED or len(node.outputs) != 1:
        return None
    inputs: list[Hashable] = []
    for value in node.inputs:
        if value is None:
            inputs.append(None)
        elif value.shape is None or value.dtype not in _FLOATS:
            return None
        else:
            inputs.append((value.dtype, dims_of(value.shape)))
    settings = tuple([(name, attribute.value) for name, attribute in node.attributes.items()])
    return node.op_type, tuple(inputs), settings


def dims_of(shape: ir.Shape) -> tuple[int | str | None, ...]:
    """Return the sizes of a shape, with the symbol of each that is open."""
    return tuple([dim if isinstance(dim, int) else dim.value for dim in shape])


def output_of(node: ir.Node) -> Output | None:
    """Return what is known of a node's output; None if that is not the same for all nodes like it.

    A symbol that no input has may have been made for this node alone.
    """
    shape = node.outputs[0].shape
    if shape is None:
        return None
    given = {
        dim for value in node.inputs if value is not None and value.shape for dim in dims_of(value.shape)
    }
    if None in given or not all(isinstance(dim, int) or dim in given for dim in dims_of(shape)):
        return None
    return Output(shape.copy(frozen=True), node.outputs[0].dtype)


def reads(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node reads, each once: its inputs and what its subgraphs capture."""
    inputs = dict.fromkeys(value for value in node.inputs if value is not None)
    if has_subgraphs(node):
        for graph in subgraphs(node):
            inputs.update(dict.fromkeys(_captured(graph)))
    return list(inputs)


def captured(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node's subgraphs read of the graph around it, but for its inputs."""
    outer = dict.fromkeys(value for graph in subgraphs(node) for value in _captured(graph))
    return [value for value in outer if value not in node.inputs] if outer else []


def has_subgraphs(node: ir.Node) -> bool:
    """Return whether a node has graphs as attributes."""
    return bool(node.attributes) and any(a.type in _GRAPHS for a in node.attributes.data.values())


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs that are attributes of a node (the branches of an If, the body of a Loop)."""
    if not node.attributes:
        return
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def needed_nodes(outputs: Iterable[ir.Value], *, given: Iterable[ir.Value] = ()) -> set[ir.Node]:
    """Return the nodes that must run for some values to be known.

    Args:
        outputs: The values.
        given: Values that are known already.
    """
    known = set(given)
    needed: set[ir.Node] = set()
    todo = [value for value in outputs if value not in known]
    while todo:
        maker = todo.pop().producer()
        if maker is not None and maker not in needed:
            needed.add(maker)
            todo.extend(value for value in reads(maker) if value not in known)
    return needed


_GRAPHS = {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}


def _captured(graph: ir.Graph) -> list[ir.Value]:
    own = {*graph.inputs, *graph.initializers.values()}
    outer: dict[ir.Value, None] = {}
    for node in graph:
        outer.update(dict.fromkeys(reads(node)))
        own.update(node.outputs)
    outer.update(dict.fromkeys(graph.outputs))
    return [value for value in outer if value not in own]
