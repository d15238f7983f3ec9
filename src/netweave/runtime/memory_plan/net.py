"""Nets as the memory plan sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from netweave.graph import Cost, Graph, attributes_of, gradient_factors, known_shape, node_cost, parameter_key
from netweave.graph.costs import num_bytes
from netweave.graph.passes.folding import scaled_normalisations
from netweave.graph.passes.windows import rectified_pools
from netweave.runtime.memory_plan.behaviour import behaviour_of, is_product, is_stored, pixel_strides
from netweave.runtime.memory_plan.lifetimes import Overwrite, overwrites

# A convolution and the Relu that made its input both keep that input: one for the gradient of its filters,
# the other for its sign. Where nobody else reads it, backward takes the gradient of the filters first,
# notes the signs in a byte each, and frees the input before it allocates the gradient of the input. That is
# the moment at which the first layers of a net need the most.

STANDARD = {"", "ai.onnx"}


def masked_convolutions(
    nodes: Iterable[ir.Node], backward: Collection[ir.Node], wanted: Collection[ir.Value]
) -> dict[ir.Node, ir.Node]:
    """Return the convolutions that can go back through the Relu in front of them, with that Relu.

    Args:
        nodes: Those that run by themselves.
        backward: Those that a gradient flows through.
        wanted: Values that must keep what they hold.
    """
    pairs = {}
    own = set(nodes)
    for conv in own:
        value = conv.inputs[0] if conv.inputs else None
        relu = value.producer() if value is not None else None
        if value is None or relu is None or not {conv, relu} <= own.intersection(backward):
            continue
        if len(value.uses()) == 1 and value not in wanted and _is_relu(relu) and _is_convolution(conv):
            pairs[conv] = relu
    return pairs


def _is_relu(node: ir.Node) -> bool:
    return node.op_type == "Relu" and node.domain in STANDARD and not gradient_factors(node)


def _is_convolution(node: ir.Node) -> bool:
    """Return whether torch computes a node by one convolution over images, without a padded copy."""
    if node.op_type != "Conv" or node.domain not in STANDARD or gradient_factors(node):
        return False
    attributes, shape = attributes_of(node), known_shape(node.inputs[1])
    pads = list(attributes.get("pads") or [0] * 4)
    symmetric = pads[:2] == pads[2:] and attributes.get("auto_pad", "NOTSET") == "NOTSET"
    plain = not is_product(node) and pixel_strides(node) is None
    return shape is not None and len(shape) == 4 and symmetric and plain


_FLOATS = {1, 10, 11, 16}
"""ONNX's numbers of FLOAT, FLOAT16, DOUBLE and BFLOAT16: types that gradients are of."""


@dataclass(frozen=True, slots=True)
class Net:
    """A graph with what does not change between plans of it.

    Attributes:
        graph: The graph.
        batch: Stands for the symbol of the batch.
        nodes: The nodes that run by themselves; a normalisation with its scale and shift is one, and so is a
            max pooling with the Relu before it.
        wanted: Values that a run gives.
        trained: Values through which a gradient flows; empty for inference.
        losses: Values that gradients begin at.
        overwrites: Which nodes write over which input; empty for none.
        backward: Nodes that a gradient flows through.
        outputs: The outputs of each node; those of a fused one are its last's.
        inputs: The inputs of each node that are given.
        runner: The node that makes each value; the first of fused ones.
        rectified: Max poolings that rectify their result instead of their input.
        masked: Convolutions that a planned step takes back together with the Relu in front of them, with it.
        parts: The nodes that a fused one stands for.
        stages: The stage of each node, where a step is cut into stages; empty for one.
        crossing: Values that one stage gives to others, with the stages that make or read each; they are not
            computed again.
    """

    graph: Graph
    batch: int
    nodes: tuple[ir.Node, ...]
    wanted: frozenset[ir.Value]
    trained: frozenset[ir.Value]
    losses: tuple[ir.Value, ...]
    overwrites: Mapping[ir.Node, Overwrite]
    backward: frozenset[ir.Node]
    outputs: Mapping[ir.Node, tuple[ir.Value, ...]]
    inputs: Mapping[ir.Node, tuple[ir.Value, ...]]
    runner: Mapping[ir.Value, ir.Node]
    rectified: frozenset[ir.Node]
    masked: Mapping[ir.Node, ir.Node]
    parts: Mapping[ir.Node, tuple[ir.Node, ...]]
    stages: Mapping[ir.Node, int]
    crossing: Mapping[ir.Value, frozenset[int]]
    _sizes: dict[ir.Value, int] = field(default_factory=dict)
    _costs: dict[ir.Node, Cost] = field(default_factory=dict)
    _kept: dict[ir.Node, list[ir.Value]] = field(default_factory=dict)

    def parts_of(self, node: ir.Node) -> tuple[ir.Node, ...]:
        """Return the nodes of the graph that run as one, in their order; mostly the node alone."""
        return self.parts.get(node, (node,))

    def bytes_of(self, value: ir.Value) -> int:
        """Return the bytes of a value."""
        if value not in self._sizes:
            self._sizes[value] = num_bytes(value, self.batch)
        return self._sizes[value]

    def cost_of(self, node: ir.Node) -> Cost:
        """Return what a node costs."""
        if node not in self._costs:
            self._costs[node] = node_cost(node, batch=self.batch)
        return self._costs[node]

    def canonical(self, value: ir.Value) -> ir.Value:
        """Return the value whose memory a value is, through views."""
        maker = value.producer()
        while maker is not None and behaviour_of(maker).view and maker.inputs[0] is not None:
            value = maker.inputs[0]
            maker = value.producer()
        return value

    def overwritten(self, node: ir.Node) -> ir.Value | None:
        """Return the value that a node writes over, if it does."""
        overwrite = self.overwrites.get(node)
        return node.inputs[overwrite.position] if overwrite else None

    def kept(self, node: ir.Node) -> list[ir.Value]:
        """Return the values that a node's backward reads, stored arrays left out."""
        if node not in self._kept:
            self._kept[node] = self._read_by_backward(node)
        return self._kept[node]

    def _read_by_backward(self, node: ir.Node) -> list[ir.Value]:
        behaviour = behaviour_of(node)
        own = self.inputs[node]
        if behaviour.keeps_inputs is None:
            values = list(own)
        else:
            values = [own[i] for i in behaviour.keeps_inputs if i < len(own)]
        if behaviour.keeps_output or node in self.rectified:
            values += self.outputs[node]
        return [value for value in dict.fromkeys(map(self.canonical, values)) if not is_stored(value)]

    def kept_values(self) -> set[ir.Value]:
        """Return the values that are there in backward if nothing is computed again."""
        return {value for node in self.backward for value in self.kept(node)} | self.given_values()

    def given_values(self) -> set[ir.Value]:
        """Return the values whose memory one stage gives to others."""
        return {self.canonical(value) for value in self.crossing}


def prepare(
    graph: Graph,
    *,
    batch: int,
    training: bool = False,
    losses: Iterable[str] | None = None,
    kept: Iterable[str] = (),
    in_place: bool = True,
    stages: Sequence[Collection[ir.Node]] = (),
) -> Net:
    """Return a graph with what plans of it share.

    Args:
        graph: The graph, with sizes that are known but for the batch; a value whose size is not counts as 0.
        batch: Records in a batch.
        training: Whether gradients are computed.
        losses: Names of the values that gradients begin at; all outputs if nothing is said.
        kept: Names of values that are needed until forward ends, besides the outputs.
        in_place: Whether nodes may write over their inputs.
        stages: The nodes of each stage of a step.
    """
    names = list(losses or [])
    begins = tuple(graph.find(names).values()) if names else tuple(graph.outputs)
    wanted = frozenset([*graph.outputs, *begins, *graph.find(kept).values()])
    rectified = rectified_pools(graph, wanted)
    nodes, outputs, inputs = _nodes(graph, wanted, rectified)
    trained = _trained(nodes, inputs, outputs) if training else frozenset()
    overwriting = overwrites(graph, wanted) if in_place else {}
    backward = _backward(nodes, inputs, outputs, trained, begins)
    stage_of = {node: number for number, own in enumerate(stages) for node in own}
    runner = {value: node for node, values in outputs.items() for value in values}
    masked = masked_convolutions(nodes, backward, wanted)
    return Net(
        graph=graph,
        batch=batch,
        nodes=nodes,
        wanted=wanted,
        trained=trained,
        losses=begins,
        overwrites={node: row for node, row in overwriting.items() if row.in_training or not training},
        backward=backward,
        outputs=outputs,
        inputs=inputs,
        runner=runner,
        rectified=frozenset(rectified),
        masked={conv: relu for conv, relu in masked.items() if stage_of.get(conv) == stage_of.get(relu)},
        parts={row.norm: (*row.inner, row.last) for row in scaled_normalisations(graph, wanted)}
        | {pool: (relu, pool) for pool, relu in rectified.items()},
        stages=stage_of,
        crossing=_crossing(stage_of, inputs, runner),
    )


def _crossing(
    stage_of: Mapping[ir.Node, int],
    inputs: Mapping[ir.Node, tuple[ir.Value, ...]],
    runner: Mapping[ir.Value, ir.Node],
) -> dict[ir.Value, frozenset[int]]:
    """Return the values that one stage gives to others, with the stages that make or read each."""
    stages_of: dict[ir.Value, set[int]] = {}
    for node, values in inputs.items():
        for value in values:
            maker = runner.get(value)
            if maker is not None and node in stage_of and maker in stage_of:
                stages_of.setdefault(value, {stage_of[maker]}).add(stage_of[node])
    return {value: frozenset(stages) for value, stages in stages_of.items() if len(stages) > 1}


def _nodes(
    graph: Graph, wanted: Collection[ir.Value], rectified: Mapping[ir.Node, ir.Node]
) -> tuple[tuple[ir.Node, ...], dict[ir.Node, tuple[ir.Value, ...]], dict[ir.Node, tuple[ir.Value, ...]]]:
    """Return the nodes that run, with their outputs and inputs; fused ones count as their first."""
    fused = scaled_normalisations(graph, wanted)
    last = {row.norm: row.last for row in fused}
    left_out = {node for row in fused for node in [*row.inner, row.last]} - last.keys()
    left_out |= set(rectified.values())
    nodes = [node for node in graph.nodes if node not in left_out and not _is_constant(node)]
    outputs = {node: tuple(last.get(node, node).outputs) for node in nodes}
    given = {node: rectified.get(node, node).inputs for node in nodes}
    inputs = {node: tuple(value for value in given[node] if value is not None) for node in nodes}
    return tuple(nodes), outputs, inputs


def _is_constant(node: ir.Node) -> bool:
    return node.op_type == "Constant" and node.domain in {"", "ai.onnx"}


def _trained(
    nodes: Sequence[ir.Node],
    inputs: Mapping[ir.Node, tuple[ir.Value, ...]],
    outputs: Mapping[ir.Node, tuple[ir.Value, ...]],
) -> frozenset[ir.Value]:
    """Return the values that a parameter has a part in; a label and what is made of it alone has none."""
    trained: set[ir.Value] = set()
    for node in nodes:
        factors = gradient_factors(node)
        given = [v for i, v in enumerate(inputs[node]) if factors.get(i, 1.0)]
        if any(value in trained or parameter_key(value) is not None for value in given):
            trained.update(v for v in outputs[node] if v.dtype is None or int(v.dtype) in _FLOATS)
    return frozenset(trained)


def _backward(
    nodes: Sequence[ir.Node],
    inputs: Mapping[ir.Node, tuple[ir.Value, ...]],
    outputs: Mapping[ir.Node, tuple[ir.Value, ...]],
    trained: Collection[ir.Value],
    losses: Iterable[ir.Value],
) -> frozenset[ir.Node]:
    """Return the nodes between parameters and losses."""
    reached = set(losses)
    differentiated = set()
    for node in reversed(nodes):
        if any(value in reached and value in trained for value in outputs[node]):
            differentiated.add(node)
            reached.update(inputs[node])
    return frozenset(differentiated)
