"""Known mismatches of operators, of functions of several nodes, and of the order of inputs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named
from netweave.comparison.explain.wording import OPERATORS_IN_WORDS, function_setting, input_order, operator
from netweave.comparison.metric import ELEMENTWISE, constants_of, family_of, is_constant, num_signals
from netweave.graph import attributes_of
from netweave.graph.passes.rewriting import Rewriter, evaluate_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from netweave.graph import Graph

MAX_ORDERED = 4
"""Nodes with more inputs are not tried in other orders."""

NAMES = OPERATORS_IN_WORDS | {"LRN": "LRN across channels", "ChannelLRN": "LRN within each channel"}
"""Names of operators whose own names do not tell them apart, or are not the usual ones."""


def operator_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's operator where one node stands against one of another operator."""
    if len(case.nodes_a) != 1 or len(case.nodes_b) != 1:
        return
    (node_a,), (node_b,) = case.nodes_a, case.nodes_b
    if node_a.op_type == node_b.op_type or num_signals(node_a) != num_signals(node_b):
        return
    name_a, name_b = _names(_Function.of(case.nodes_a), _Function.of(case.nodes_b)) or (
        operator_name(node_a),
        operator_name(node_b),
    )
    yield Proposal(
        mismatch="operator",
        cause=f"A computes {name_a}, B computes {name_b}",
        fix=operator(case.b.graph.format, node_a, node_b) or f"compute {operator_name(node_a)}",
        node_a=node_a,
        node_b=node_b,
        change=_Become(node_b.name, node_a),
        functions=(name_a, name_b),
    )


def input_order_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose other orders of the inputs of nodes for which the order matters."""
    for node_a, node_b in case.pairs():
        count = num_signals(node_b)
        if (
            node_b.op_type not in {"Attention", "Concat", "Sub", "Div", "Pow", "MatMul"}
            or not 2 <= count <= MAX_ORDERED
        ):
            continue
        if node_a.op_type != node_b.op_type or count != len(node_b.inputs):
            continue
        for order in itertools.islice(itertools.permutations(range(count)), 1, None):
            yield Proposal(
                mismatch="input-order",
                cause=f"the inputs of {operator_name(node_b)} stand in another order in B than in A",
                fix=input_order(order),
                node_a=node_a,
                node_b=node_b,
                change=_Reorder(node_b.name, order),
            )


def operator_name(node: ir.Node) -> str:
    """Return what people call what a node computes."""
    alpha = attributes_of(node).get("alpha")
    if node.op_type == "LeakyRelu" and alpha:
        return f"LeakyRelu({alpha:.6g})"
    if node.op_type == "Gelu" and attributes_of(node).get("approximate") == "tanh":
        return "GELU (tanh)"
    return NAMES.get(node.op_type, node.op_type)


class _Become:
    """Makes a node of a subgraph do what A's node does."""

    def __init__(self, node: str | None, model: ir.Node) -> None:
        self._node, self._model = node, model

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        signals = [value for value in node.inputs if value is not None and not value.is_initializer()]
        stored = constants_of(self._model)
        inputs: list[ir.Value | None] = []
        for index, value in enumerate(self._model.inputs):
            if index in stored and stored[index].const_value is not None:
                copy = ir.Value(
                    name=f"{self._node}/A{index}",
                    shape=stored[index].shape,
                    type=stored[index].type,
                    const_value=stored[index].const_value,
                )
                graph.model.graph.register_initializer(copy)
                inputs.append(copy)
            else:
                inputs.append(signals.pop(0) if value is not None and signals else None)
        node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)
        node.op_type, node.domain = self._model.op_type, self._model.domain
        node.attributes.clear()
        node.attributes.update(dict(self._model.attributes.items()))


class _Reorder:
    """Puts the inputs of a node of a subgraph in another order."""

    def __init__(self, node: str | None, order: tuple[int, ...]) -> None:
        self._node, self._order = node, order

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        old = list(node.inputs)
        for index, source in enumerate(self._order):
            node.replace_input_with(index, old[source])


def function_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's function where the two groups compute functions of each value of one signal."""
    if len(case.nodes_a) == len(case.nodes_b) == 1:
        return  # an operator against an operator
    a, b = _Function.of(case.nodes_a), _Function.of(case.nodes_b)
    if a is None or b is None or _holds(a.kinds, b.kinds) or _holds(b.kinds, a.kinds):
        return  # what one net only has more of is a layer that the other lacks
    steps = a.steps, b.steps
    wanted = ", then ".join(steps[0])
    name_a, name_b = _names(a, b) or (_in_words(wanted), _in_words(", then ".join(steps[1])))
    are_named = len(steps[0]) == len(steps[1]) == 1
    yield Proposal(
        mismatch="operator",
        cause=f"A computes {name_a}, B computes {name_b}",
        fix=function_setting(case.b.graph.format, wanted, a.nodes) or f"compute {_in_words(wanted)}",
        node_a=a.nodes[-1],
        node_b=b.nodes[-1],
        change=_Compute(b, a),
        functions=(name_a, name_b) if are_named else ("", ""),
    )


def _in_words(name: str) -> str:
    return OPERATORS_IN_WORDS.get(name, name)


def _names(a: _Function | None, b: _Function | None) -> tuple[str, str] | None:
    """Return the names of two functions with the product behind each of them; None if these have none."""
    gated = [function.gated if function is not None else None for function in (a, b)]
    names = [_in_words(named_by_values(function.nodes)) for function in gated if function is not None]
    return (names[0], names[1]) if len(names) == 2 and all(names) else None


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "HardSigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Swish": lambda x: x * _sigmoid(x),
    "Gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "GELU (tanh)": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "GELU (sigmoid)": lambda x: x * _sigmoid(1.702 * x),
    "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "ReLU6": lambda x: np.clip(x, 0, 6),
}
"""Functions that are several nodes in some files, which their values tell whatever the nodes are."""

GRID = np.linspace(-8.0, 8.0, 321, dtype=np.float32)
"""Inputs at which functions are evaluated: all of the table have their bends in this range."""

ERROR = 5e-5
"""Largest error of a function of the table: GELU and its form by tanh are 5e-4 apart, rounding is 1e-6."""


def _sigmoid(x: np.ndarray) -> np.ndarray:
    gate: np.ndarray = 1 / (1 + np.exp(-x))
    return gate


def named_by_values(nodes: Sequence[ir.Node]) -> str:
    """Return which function of the table some nodes compute of the signal that they read; else nothing."""
    values: dict[str, np.ndarray] = {}
    for node in nodes:
        inputs = [
            values.get(str(value.name), GRID) if value.const_value is None else value.const_value.numpy()
            for value in node.inputs
            if value is not None
        ]
        try:
            computed = evaluate_node(ir.serde.serialize_node(node), inputs)
        except Exception:  # noqa: BLE001 - the evaluator has no type of its own for what it cannot compute
            return ""
        values[str(node.outputs[0].name)] = computed[0]
    result = values[str(nodes[-1].outputs[0].name)]
    if result.shape != GRID.shape:
        return ""
    x = GRID.astype(np.float64)
    return next((name for name, of in FUNCTIONS.items() if np.abs(result - of(x)).max() <= ERROR), "")


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
    def steps(self) -> tuple[str, ...]:
        """Its name, or those of its operators one after another."""
        known = named_by_values(self.nodes) if len(self.nodes) > 1 else ""
        return (known,) if known else tuple(map(operator_name, self.nodes))

    @property
    def gated(self) -> _Function | None:
        """The product of the function with what it reads, if that alone reads its result."""
        readers = [reader for reader, _ in self.nodes[-1].outputs[0].uses()]
        if len(readers) != 1 or readers[0].op_type != "Mul" or readers[0].domain:
            return None
        (product,) = readers
        reads_source = any(value is not None and value.name == self.source for value in product.inputs)
        return _Function(self.source, (*self.nodes, product)) if reads_source else None


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
