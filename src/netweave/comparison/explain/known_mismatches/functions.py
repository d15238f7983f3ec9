"""The mismatch of another function of each value, where one net or both write it as several nodes.

Mish is one node and Swish two; a rectifier with a bound is one node, with a slope as well it is two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named
from netweave.comparison.explain.known_mismatches.operators import operator_name
from netweave.comparison.explain.wording import function_setting
from netweave.comparison.signals import ELEMENTWISE, family_of, is_constant
from netweave.graph import attributes_of
from netweave.graph.passes.rewrite import Rewriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import onnx_ir as ir

    from netweave.graph import Graph

NAMES: dict[tuple[str, ...], str] = {("Sigmoid", "Mul"): "Swish", ("HardSigmoid", "Mul"): "HardSwish"}
"""What people call functions that are several nodes."""


def function_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's function where the two groups compute functions of each value of one signal."""
    if len(case.nodes_a) == len(case.nodes_b) == 1:
        return  # an operator against an operator
    a, b = _Function.of(case.nodes_a), _Function.of(case.nodes_b)
    if a is None or b is None or _holds(a.kinds, b.kinds) or _holds(b.kinds, a.kinds):
        return  # what one net only has more of is a layer that the other lacks
    yield Proposal(
        mismatch="operator",
        cause=f"A computes {a.name}, B computes {b.name}",
        fix=function_setting(case.b.graph.format, a.name, a.nodes) or f"compute {a.name}",
        node_a=a.nodes[-1],
        node_b=b.nodes[-1],
        change=_Compute(b, a),
    )


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of each value of one signal.

    Attributes:
        source: The name of what it reads.
        nodes: What computes it; the last one makes the result.
    """

    source: str
    nodes: tuple[ir.Node, ...]

    @classmethod
    def of(cls, nodes: Sequence[ir.Node]) -> _Function | None:
        """Return the function that some nodes compute; None if they compute something else."""
        if not nodes or any(node.domain or node.op_type not in ELEMENTWISE for node in nodes):
            return None
        read = [value for node in nodes for value in node.inputs if value is not None]
        if any(is_constant(value) and value.const_value is None for value in read):
            return None
        outputs = {str(node.outputs[0].name) for node in nodes}
        sources = {str(value.name) for value in read if not is_constant(value)} - outputs
        inside = set(nodes)
        ends = [node for node in nodes if _leaves(node.outputs[0], inside)]
        is_curved = any(family_of(node) != "affine" for node in nodes)
        if len(sources) != 1 or any(node is not nodes[-1] for node in ends) or not is_curved:
            return None
        return cls(sources.pop(), tuple(nodes))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(node.op_type for node in self.nodes)

    @property
    def name(self) -> str:
        """Its name."""
        return NAMES.get(self.kinds) or ", then ".join(map(operator_name, self.nodes))


def _leaves(value: ir.Value, inside: set[ir.Node]) -> bool:
    """Return whether something else than some nodes reads a value."""
    return value.is_graph_output() or any(user not in inside for user, _ in value.uses())


def _holds(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    """Return whether all of a sequence stands in another one, in its order."""
    rest = iter(longer)
    return all(kind in rest for kind in shorter)


class _Compute:
    """Lets a subgraph compute A's function where it computes B's."""

    def __init__(self, function: _Function, model: _Function) -> None:
        self._names = [node.name for node in function.nodes]
        self._source = function.source
        self._model = model

    def __call__(self, graph: Graph) -> None:
        nodes = [node_named(graph, name) for name in self._names]
        read = (value for node in nodes for value in node.inputs if value is not None)
        values = {self._model.source: next(value for value in read if value.name == self._source)}
        rewriter = Rewriter(graph)
        for node in self._model.nodes:
            inputs = [_found(rewriter, values, value) for value in node.inputs]
            new = rewriter.insert(nodes[-1], node.op_type, inputs, attributes_of(node))
            values[str(node.outputs[0].name)] = new.outputs[0]
        result = values[str(self._model.nodes[-1].outputs[0].name)]
        rewriter.take_over(nodes[-1].outputs[0], result)


def _found(rewriter: Rewriter, values: Mapping[str, ir.Value], value: ir.Value | None) -> ir.Value | None:
    """Return what stands for a value of A in a subgraph of B: a signal there, or a copy of a stored array."""
    if value is None or value.const_value is None:
        return None if value is None else values[str(value.name)]
    return rewriter.initializer(value.const_value, str(value.name))
