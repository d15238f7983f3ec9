"""Ranges of layers that are compared alone."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.comparison.metric import Signals, is_constant
from netweave.comparison.result.comparison import Unexercised
from netweave.errors import UsageError
from netweave.formats.dialect import dialect_of
from netweave.graph import known_shape, layer_keys
from netweave.graph.passes.extraction import extract
from netweave.graph.summary import list_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from netweave.comparison.execution.inputs import InputMapping
    from netweave.comparison.prepare import Side
    from netweave.comparison.result.comparison import Comparison
    from netweave.graph import Graph


def cut_layer_range(
    a: Graph, b: Graph, whole: Comparison, *, first: str | None, last: str | None
) -> tuple[Graph, Graph]:
    """Cut the same part out of both nets.

    Args:
        a: The first net in inference form.
        b: The second net in inference form.
        whole: The comparison of the whole nets, which says what in B stands for a layer of A.
        first: Layer, node or value of A that the part begins with; None for the net's inputs.
        last: Layer, node or value of A that the part ends with; None for the net's outputs.

    Raises:
        UsageError: A has nothing of that name, B has nothing in its place, or nothing lies between.
    """
    begin = _counterparts(a, b, whole, first) if first else None
    end = _counterparts(a, b, whole, last) if last else None
    if begin and end and a.nodes.index(end[0][-1]) < a.nodes.index(begin[0][0]):
        raise UsageError(f"{first!r} comes after {last!r} in A; name the earlier layer first")
    begins, ends = begin or (None, None), end or (None, None)
    return _cut(a, begins[0], ends[0]), _cut(b, begins[1], ends[1])


def _cut(graph: Graph, begin: Sequence[ir.Node] | None, end: Sequence[ir.Node] | None) -> Graph:
    """Return what lies between some nodes and others; None for the net's own inputs or outputs."""
    inputs = _reads(graph, begin) if begin else [str(value.name) for value in graph.inputs]
    outputs = _leaves(graph, end) if end else [str(value.name) for value in graph.outputs]
    return extract(graph, inputs=inputs, outputs=outputs)


def _counterparts(a: Graph, b: Graph, whole: Comparison, name: str) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the nodes of A that a name means, and those of B in the same groups."""
    nodes_a = _named(a, name)
    wanted = {str(node.name) for node in nodes_a}
    groups = [group for group in whole.groups if wanted & set(group.nodes_a)]
    names_a = {node for group in groups for node in group.nodes_a}
    names_b = {node for group in groups for node in group.nodes_b}
    found_b = [node for node in b.nodes if node.name in names_b]
    if not found_b:
        raise UsageError(f"no layer of B corresponds to {name!r} of A; choose a layer that both nets have")
    return [node for node in a.nodes if node.name in names_a], found_b


def _named(graph: Graph, name: str) -> list[ir.Node]:
    """Return the nodes of a layer; where no layer has the name, a node, or what makes a value."""
    readings: tuple[Callable[[ir.Node], bool], ...] = (
        lambda node: name in layer_keys(node),
        lambda node: any(layer.name == name for layer in graph.layers_of(node)),
        lambda node: node.name == name,
        lambda node: any(value.name == name for value in node.outputs),
    )
    for reading in readings:
        nodes = [node for node in graph.nodes if reading(node)]
        if nodes:
            return nodes
    if name in graph.layers:
        raise UsageError(
            f"layer {name!r} of net {graph.name!r} has no effect at inference; choose the layer before or "
            "after"
        )
    near = difflib.get_close_matches(name, graph.layers, 3) or list(graph.layers)[:6]
    raise UsageError(
        f"net {graph.name!r} has no layer, node or value {name!r}; it has {', '.join(near)}, ..."
    )


def _reads(graph: Graph, nodes: Sequence[ir.Node]) -> list[str]:
    """Return the signals that nodes read and do not make."""
    signals = Signals.of(graph)
    outputs = {str(value.name) for node in nodes for value in node.outputs}
    read = (
        signals.root.get(str(value.name), str(value.name))
        for node in nodes
        for value in node.inputs
        if value is not None and not is_constant(value)
    )
    return [name for name in dict.fromkeys(read) if name not in outputs]


def _leaves(graph: Graph, nodes: Sequence[ir.Node]) -> list[str]:
    """Return the values that leave nodes, or end in them."""
    inside = {id(node) for node in nodes}
    ends = {str(value.name) for value in graph.outputs}
    return [
        str(value.name)
        for node in nodes
        for value in node.outputs
        if value.name in ends or any(id(reader) not in inside for reader in value.consumers())
    ]


def taken_out(a: Side, b: Side, mappings: Sequence[InputMapping]) -> Iterator[Unexercised]:
    """Yield what differs between two nets and is gone from the form in which they are compared.

    Args:
        a: The first net.
        b: The second net.
        mappings: How A's inputs become B's.
    """
    training = {side.name: _num_training(side.source) for side in (a, b)}
    for op_type in ("BatchNormalization", "Dropout"):
        counts = {name: numbers[op_type] for name, numbers in training.items()}
        if counts["A"] != counts["B"]:
            reason = f"in training mode {counts['A']} in A, {counts['B']} in B; compared as for inference"
            yield Unexercised(f"{op_type} training_mode", "", reason, differs=True)
    rounding = {side.name: _num_rounded(side.graph) for side in (a, b)}
    for name in sorted({*rounding["A"], *rounding["B"]}):
        count_a, count_b = rounding["A"][name], rounding["B"][name]
        if count_a != count_b:  # where a step follows, as Sign, no usual value shows it
            reason = f"{count_a} in A, {count_b} in B; values next to 0 become 0, and large ones infinite"
            yield Unexercised(f"Cast to {name}", "", reason, differs=True)
    read = {side.name: {str(v.name) for v in side.graph.inputs if _is_read(v)} for side in (a, b)}
    for mapping in mappings:
        is_read = mapping.a in read["A"], mapping.b in read["B"]
        if is_read in {(True, False), (False, True)}:
            ignoring = "B" if is_read[0] else "A"
            name = mapping.b if is_read[0] else mapping.a
            yield Unexercised(f"input {name!r}", "", f"{ignoring} does not read it", differs=True)


def _num_rounded(graph: Graph) -> Counter[str]:
    """Return the number of Casts that take bits from floating-point values, by the name of the type."""
    counts: Counter[str] = Counter()
    for node in graph.nodes:
        value = node.inputs[0] if node.op_type == "Cast" and not node.domain else None
        if value is None or value.dtype not in {ir.DataType.FLOAT, ir.DataType.DOUBLE}:
            continue
        narrow = node.outputs[0].dtype
        if narrow in {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}:
            counts[narrow.name.lower()] += 1
    return counts


def _num_training(graph: Graph) -> dict[str, int]:
    counts = {"BatchNormalization": 0, "Dropout": 0}
    if not dialect_of(graph.format).has_modes:  # its files describe training and inference at once
        return counts
    for node in graph.nodes:
        if node.op_type in counts:
            counts[node.op_type] += _is_training(node)
    return counts


def _is_training(node: ir.Node) -> bool:
    if node.op_type == "BatchNormalization":
        return bool(node.attributes.get_int("training_mode", 0))
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    value = mode.const_value if mode is not None else None
    return value is not None and bool(value.numpy().any())


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


# Which of the two a net does is a matter of who reads its outputs, so the tensor is compared as the parts
# that it joins, and the verdict states how they are joined.


@dataclass(frozen=True, slots=True)
class JoinedOutput:
    """An output that joins what the other net returns as several.

    Attributes:
        name: Name of the output.
        parts: Names of the values that it joins, in order; the net is compared with these as its outputs.
        axis: The axis that they are joined along.
    """

    name: str
    parts: tuple[str, ...]
    axis: int

    def in_words(self, owner: str, counterparts: Sequence[str]) -> str:
        """Return how the outputs of one net become that of the other.

        Args:
            owner: ``A`` or ``B``, whichever returns them joined.
            counterparts: Outputs of the other net, in the order in which they are joined.
        """
        names = list_names([repr(name) for name in counterparts])
        if owner == "B":
            return f"B returns {self.name!r}, which is {names} of A joined along axis {self.axis}"
        return f"B returns {names}, which A joins along axis {self.axis} as {self.name!r}"


def find_joined_outputs(graph: Graph, num_outputs: int) -> list[JoinedOutput]:
    """Return the outputs of a graph that are to be compared in parts, so that it has as many as the other.

    Args:
        graph: The net with fewer outputs.
        num_outputs: How many the other one has.
    """
    joined = [output for value in graph.outputs if (output := _joined(value)) is not None]
    more = sum(len(output.parts) - 1 for output in joined)
    return joined if len(graph.outputs) + more == num_outputs else []


def part_outputs(graph: Graph, joined: Sequence[JoinedOutput]) -> Graph:
    """Return a graph, changed in place, that returns the parts of some outputs in their place."""
    by_name = {output.name: output for output in joined}
    inner = graph.model.graph
    outputs: list[ir.Value] = []
    for value in list(inner.outputs):
        maker = value.producer()
        if str(value.name) not in by_name or maker is None:
            outputs.append(value)
            continue
        outputs += [part for part in maker.inputs if part is not None]
    inner.outputs[:] = outputs
    for node in [node for node in inner if any(str(value.name) in by_name for value in node.outputs)]:
        inner.remove(node, safe=True)
    return graph


def _joined(value: ir.Value) -> JoinedOutput | None:
    """Return an output as one that joins parts, if it is that and nothing else reads it or them."""
    maker = value.producer()
    shape = known_shape(value)
    if maker is None or (maker.domain, maker.op_type) != ("", "Concat") or value.uses():
        return None
    parts = list(maker.inputs)
    if any(part is None or part.producer() is None or part.is_graph_output() for part in parts):
        return None
    names = tuple(str(part.name) for part in parts if part is not None)
    axis = maker.attributes["axis"].as_int()
    axis += len(shape) if axis < 0 and shape is not None else 0
    return JoinedOutput(str(value.name), names, axis) if len(set(names)) == len(names) else None
