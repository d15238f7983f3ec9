"""Mixtures of experts, of which a net computes the chosen ones, with their weights looked up, or all.

Both compute the same: an expert that is not chosen has a share of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import infer_shapes, known_shape
from netweave.graph.passes.rewriting import Pass, Rewriter, prune

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph

MOST_EXPERTS = 64
"""The number of experts beyond which not all are written out."""

RESHAPING = frozenset({"Concat", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that keep the elements of one value, and here their order as well."""


OF_ELEMENTS = frozenset(
    {"Add", "Cast", "Clip", "Div", "Erf", "Gelu", "Mul", "Relu", "Sigmoid", "Split", "Sub", "Swish", "Tanh"}
)
"""Operators that may stand between the layers of an expert, whatever axes the rows have."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """A mixture whose chosen experts are two dense layers with something between them.

    Attributes:
        x: What all experts read, (rows, D) or with the rows in several axes.
        index: The experts chosen for each row, an output of ``TopK``.
        shares: What the results of the chosen ones are multiplied by.
        first: Weights of the first layers, (experts, inner, D).
        second: Weights of the second layers, (experts, D, inner).
        inner: What the first layers make, of the chosen experts.
        between: The nodes from there to what the second layers read, in order.
        active: What the second layers read.
        result: The sum over the chosen experts.
    """

    x: ir.Value
    index: ir.Value
    shares: ir.Value
    first: ir.Value
    second: ir.Value
    inner: ir.Value
    between: tuple[ir.Node, ...]
    active: ir.Value
    result: ir.Value


def num_looked_up(graph: Graph) -> int:
    """Return how many mixtures look up the weights of the chosen experts."""
    return sum(1 for _ in _mixtures(graph))


@Pass
def compute_all_experts(graph: Graph) -> None:
    """Let each mixture that looks up the weights of chosen experts compute all, with shares of zero."""
    rewriter = Rewriter(graph)
    is_changed = False
    for mixture in list(_mixtures(graph)):
        _write_out(rewriter, mixture)
        is_changed = True
    if is_changed:
        prune.edit(graph)
        infer_shapes(graph)


def _mixtures(graph: Graph) -> Iterator[Mixture]:
    for node in graph.nodes:
        if node.op_type == "ReduceSum" and not node.domain:
            mixture = _mixture(node)
            if mixture is not None:
                yield mixture


def _mixture(last: ir.Node) -> Mixture | None:
    """Return the mixture whose chosen experts a node adds up."""
    product = _maker(last.inputs[0])
    if product is None or product.op_type != "Mul" or _axes(last) not in ([1], [-2]):
        return None
    for made, scaled in (tuple(product.inputs), tuple(reversed(product.inputs))):
        second, shares = _looked_up(made), _before(scaled)
        if second is None or shares is None:
            continue
        active = _before(second[1])
        between = _between(active) if active is not None else None
        first = _looked_up(between[0]) if between is not None else None
        if active is None or between is None or first is None or first[2] is not second[2]:
            continue
        x = _repeated(first[1])
        if (
            x is not None
            and None not in (known_shape(x) or (0, None))[1:]
            and _are_experts(first[0], second[0])
        ):
            return Mixture(
                x, first[2], shares, first[0], second[0], between[0], between[1], active, last.outputs[0]
            )
    return None


def _are_experts(first: ir.Value, second: ir.Value) -> bool:
    shapes = known_shape(first), known_shape(second)
    return all(shape is not None and len(shape) == 3 and (shape[0] or 0) <= MOST_EXPERTS for shape in shapes)


def _maker(value: ir.Value | None) -> ir.Node | None:
    """Return the node that makes a value, before it is reshaped."""
    before = _before(value)
    return before.producer() if before is not None else None


def _before(value: ir.Value | None) -> ir.Value | None:
    """Return a value before it is reshaped."""
    while value is not None and (node := value.producer()) is not None:
        is_plain = node.op_type != "Transpose" or list(node.attributes["perm"].as_ints()) == sorted(
            node.attributes["perm"].as_ints()
        )
        sources = [each for each in node.inputs if each is not None]
        if node.op_type not in RESHAPING or not is_plain or (node.op_type == "Concat" and len(sources) > 1):
            return value
        value = sources[0]
    return value


def _looked_up(value: ir.Value | None) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """Return stored matrices, the value that those of chosen experts are multiplied by, and the choice."""
    product = _maker(value)
    if product is None or product.op_type != "MatMul":
        return None
    gather = _maker(product.inputs[0])
    if gather is None or gather.op_type not in {"Gather", "GatherND"} or product.inputs[1] is None:
        return None
    weights, index = gather.inputs
    choice = _before(index)
    chosen = choice.producer() if choice is not None else None
    if weights is None or weights.const_value is None or choice is None or chosen is None:
        return None
    is_choice = chosen.op_type == "TopK" and choice is chosen.outputs[1]
    return (weights, product.inputs[1], choice) if is_choice else None


def _repeated(value: ir.Value | None) -> ir.Value | None:
    """Return the value whose rows stand several times, one after the other, in another."""
    gather = _maker(value)
    places = gather.inputs[1] if gather is not None and gather.op_type == "Gather" else None
    is_repeat = places is not None and places.const_value is not None and not places.const_value.numpy().any()
    return _before(gather.inputs[0]) if gather is not None and is_repeat else None


def _between(active: ir.Value) -> tuple[ir.Value, tuple[ir.Node, ...]] | None:
    """Return the only value that another is computed from by nodes without matrices, and these nodes."""
    nodes: dict[ir.Node, None] = {}
    ends: dict[ir.Value, None] = {}
    stack = [active]
    while stack:
        value = stack.pop()
        node = value.producer()
        if node is None or node.op_type in {*RESHAPING, "MatMul", "Gemm"}:
            ends[value] = None
            continue
        nodes.setdefault(node)
        stack += [each for each in node.inputs if each is not None and each.const_value is None]
    if len(ends) != 1 or not nodes or not {node.op_type for node in nodes} <= OF_ELEMENTS:
        return None
    graph = next(iter(nodes)).graph
    in_order = tuple(node for node in graph if node in nodes) if isinstance(graph, ir.Graph) else ()
    return next(iter(ends)), in_order


def _axes(node: ir.Node) -> list[int]:
    axes = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
    return [] if axes is None else [int(axis) for axis in axes.numpy().reshape(-1)]


def _write_out(rewriter: Rewriter, mixture: Mixture) -> None:
    last = mixture.result.producer()
    assert last is not None
    x = mixture.x
    shares = _shares(rewriter, last, mixture)
    first, second = (
        value.const_value.numpy()
        for value in (mixture.first, mixture.second)
        if value.const_value is not None
    )
    total: ir.Value | None = None
    for expert in range(len(first)):
        made: dict[ir.Value, ir.Value] = {}
        made[mixture.inner] = _dense(rewriter, last, x, first[expert])
        for node in mixture.between:
            _copy(rewriter, last, node, made)
        result = _dense(rewriter, last, made[mixture.active], second[expert])
        place = rewriter.initializer(ir.Tensor(np.array([expert], np.int64)), "expert")
        share = rewriter.insert(last, "Gather", [shares, place], {"axis": -1}).outputs[0]
        scaled = rewriter.insert(last, "Mul", [share, result]).outputs[0]
        total = scaled if total is None else rewriter.insert(last, "Add", [total, scaled]).outputs[0]
    assert total is not None
    shape = known_shape(mixture.result) or ()
    rewriter.take_over(mixture.result, _reshaped(rewriter, last, total, shape[1:]))


def _dense(rewriter: Rewriter, before: ir.Node, x: ir.Value, weights: np.ndarray) -> ir.Value:
    stored = rewriter.initializer(ir.Tensor(np.ascontiguousarray(weights.T)), "experts")
    return rewriter.insert(before, "MatMul", [x, stored]).outputs[0]


def _copy(rewriter: Rewriter, before: ir.Node, node: ir.Node, made: dict[ir.Value, ir.Value]) -> None:
    """Insert a copy of a node that reads other values, and note what it makes."""
    inputs = [value if value is None else made.get(value, value) for value in node.inputs]
    settings = {name: attribute.value for name, attribute in node.attributes.items()}
    if settings.get("axis", -1) >= 0:  # the copy may have more axes before it
        settings["axis"] -= len(node.inputs[0].shape or ()) if node.inputs[0] is not None else 0
    count = len(node.outputs)
    copy = rewriter.insert(before, node.op_type, inputs, settings, num_outputs=count, domain=node.domain)
    made.update(zip(node.outputs, copy.outputs, strict=True))


def _reshaped(
    rewriter: Rewriter, before: ir.Node, value: ir.Value, sizes: tuple[int | None, ...]
) -> ir.Value:
    """Return a value with other sizes behind the first axis, all of which are known."""
    stored = rewriter.initializer(ir.Tensor(np.array([-1, *sizes], np.int64)), "sizes")
    return rewriter.insert(before, "Reshape", [value, stored]).outputs[0]


def _shares(rewriter: Rewriter, before: ir.Node, mixture: Mixture) -> ir.Value:
    """Return the share of every expert, zero for those that are not chosen."""
    choice = mixture.index.producer()
    assert choice is not None
    scores = choice.inputs[0]
    zero = rewriter.initializer(ir.Tensor(np.array(0, np.float32)), "zero")
    sizes = rewriter.insert(before, "Shape", [scores]).outputs[0]
    zeros = rewriter.insert(before, "Expand", [zero, sizes]).outputs[0]
    inputs = [zeros, mixture.index, mixture.shares]
    shares = rewriter.insert(before, "ScatterElements", inputs, {"axis": -1}).outputs[0]
    rows = (known_shape(mixture.x) or ())[1:-1]
    count = (known_shape(mixture.first) or (None,))[0]
    return _reshaped(rewriter, before, shares, (*rows, count))
