"""Inputs that only one of two nets has, held at values under which they do nothing.

One port of a transformer takes a mask of its padding, positions or segments, another computes them or has
none. Such an input is held: a mask lets every token be seen, positions count up from 0, and all tokens are of
segment 0.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.execution.inputs import kind_of
from netweave.comparison.result.comparison import Unexercised
from netweave.graph import infer_shapes, known_shape
from netweave.graph.passes.rewriting import Pass, Rewriter, prune
from netweave.graph.passes.value_ranges import range_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from netweave.graph import Graph
    from netweave.graph.graph import Trace

EFFECTS = {
    "mask": "so that every token is seen",
    "positions": "which count up from 0",
    "segments": "so that all tokens are of segment 0",
}
"""Kinds of inputs that can be held, each with what holding one does."""


@dataclass(frozen=True, slots=True)
class HeldInput:
    """An input that is held.

    Attributes:
        side: Name of the net that has it: ``A`` or ``B``.
        name: Its name.
        kind: One of the ``EFFECTS``.
        like: Name of the input of the same sizes that holds the tokens.
    """

    side: str
    name: str
    kind: str
    like: str

    @property
    def note(self) -> str:
        """A sentence that says what was done."""
        other = "B" if self.side == "A" else "A"
        values = f"{self.values}, {EFFECTS[self.kind]}"
        return f"{other} has no input {self.name!r}: that of {self.side} is held at {values}"

    @property
    def limit(self) -> Unexercised:
        """The values of it that are not exercised."""
        reason = f"held at {self.values}"
        return Unexercised(f"the input {self.name!r} of {self.side}", "", reason, is_limit=True)

    def array(self, tokens: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the array that it is held at, for a batch of tokens."""
        if self.kind == "positions":
            return np.broadcast_to(np.arange(tokens.shape[1], dtype=dtype), tokens.shape)
        return np.full(tokens.shape, self._number, dtype)

    def is_held_at(self, probe: Mapping[str, np.ndarray]) -> bool:
        """Return whether inputs by name have the same values for it, or none."""
        given, tokens = probe.get(self.name), probe.get(self.like)
        if given is None or tokens is None or given.ndim != 2:
            return given is None
        return np.array_equal(given, self.array(tokens, given.dtype))

    @property
    def _number(self) -> int:
        # PyTorch's key_padding_mask says which tokens are ignored; other masks say which are seen
        return int(self.kind == "mask" and "key_padding" not in self.name)

    @property
    def values(self) -> str:
        """The values that it is held at, in words."""
        return "0, 1, 2, ..." if self.kind == "positions" else "ones" if self._number else "zeros"

    def hold(self, graph: Graph) -> None:
        """Compute the input from the tokens, in place, unless it does nothing."""
        values = {str(value.name): value for value in graph.inputs}
        held, tokens = values[self.name], values[self.like]
        for use in list(held.uses()):
            if use.node.op_type == "Shape":
                use.node.replace_input_with(use.idx, tokens)
        sizes = known_shape(held)
        if self.kind != "positions":
            _fold_uniform(graph, held, self._number)
        elif sizes is not None and sizes[1] is not None and held.dtype is not None:
            steps = ir.tensor(np.arange(sizes[1], dtype=held.dtype.numpy())[None])
            stored = Rewriter(graph).initializer(steps, f"{self.name}/held")
            ir.convenience.replace_all_uses_with(held, stored)
        if held.uses():
            self._compute(graph, held, tokens)
        graph.model.graph.inputs.remove(held)
        graph.declared.pop(self.name, None)
        graph.assumed.pop(self.name, None)
        infer_shapes(graph)

    def _compute(self, graph: Graph, held: ir.Value, tokens: ir.Value) -> None:
        assert held.dtype is not None  # it decides the kind
        readers = {use.node for use in held.uses()}
        rewriter, reader = Rewriter(graph), next(node for node in graph.nodes if node in readers)
        is_one = self.kind == "positions" or self._number
        made = rewriter.insert(reader, "Equal" if is_one else "Less", [tokens, tokens]).outputs[0]
        if self.kind == "positions":
            ones = rewriter.insert(reader, "Cast", [made], {"to": ir.DataType.INT64.value}).outputs[0]
            axis = rewriter.initializer(ir.tensor(np.array(1)), f"{self.name}/axis")
            made = rewriter.insert(reader, "CumSum", [ones, axis], {"exclusive": 1}).outputs[0]
        if held.dtype != (ir.DataType.INT64 if self.kind == "positions" else ir.DataType.BOOL):
            made = rewriter.insert(reader, "Cast", [made], {"to": held.dtype.value}).outputs[0]
        made.shape, made.type = held.shape, held.type
        ir.convenience.replace_all_uses_with(held, made)


def hold_inputs(a: Graph, b: Graph) -> tuple[Graph, Graph, Sequence[HeldInput]]:
    """Hold inputs that only one of two nets has, if both then take as many.

    Args:
        a: The first net.
        b: The second net.

    Returns:
        Both nets, changed copies if anything is held, and what is held.
    """
    names_a, names_b = ({str(value.name) for value in graph.inputs} for graph in (a, b))
    if names_a == names_b or len(names_a) == len(names_b) == 1:
        return a, b, ()
    # an input that a net has and does not read is counted: that it is ignored may be the mistake
    kinds = tuple({str(value.name): kind_of(value) for value in graph.inputs} for graph in (a, b))
    spare_a, spare_b = _spare(*kinds), _spare(*reversed(kinds))
    if not (spare_a or spare_b) or len(kinds[0]) - len(spare_a) != len(kinds[1]) - len(spare_b):
        return a, b, ()
    held_a, held_b = _held("A", a, kinds[0], spare_a), _held("B", b, kinds[1], spare_b)
    if held_a is None or held_b is None:
        return a, b, ()
    return _with_held(a, held_a), _with_held(b, held_b), (*held_a, *held_b)


def _spare(mine: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """Return the inputs of a kind that a net has more of than the other; names that both have are kept."""
    numbers = Counter(others.values())
    spare: list[str] = []
    for name, kind in sorted(mine.items(), key=lambda item: item[0] not in others):
        if kind and numbers[kind] <= 0:
            spare.append(name)
        numbers[kind] -= 1
    return spare


def _held(
    side: str, graph: Graph, kinds: Mapping[str, str], spare: Collection[str]
) -> list[HeldInput] | None:
    """Return what is held of a net; None if something that is to be held is not of the sizes of tokens."""
    tokens = [
        str(value.name)
        for value in graph.inputs
        if kinds.get(str(value.name)) == "" and value.shape is not None and len(value.shape) == 2
    ]
    ranks = {str(value.name): len(value.shape or ()) for value in graph.inputs}
    spare = [str(value.name) for value in graph.inputs if value.name in spare and value.uses()]
    if spare and (not tokens or any(ranks[name] != 2 for name in spare)):
        return None
    return [HeldInput(side, name, kinds[name], tokens[0]) for name in spare]


def _with_held(graph: Graph, held: Sequence[HeldInput]) -> Graph:
    """Return a net some of whose inputs are held, in its code as well."""
    if not held:
        return graph
    copy = graph.clone()
    for each in held:
        Pass(each.hold).edit(copy)
    if graph.trace is not None:
        dtypes = {str(v.name): v.dtype.numpy() for v in graph.inputs if v.dtype is not None}
        copy.trace = _traced(graph.trace, held, dtypes)
    return copy


def _traced(trace: Trace, held: Sequence[HeldInput], dtypes: Mapping[str, np.dtype]) -> Trace:
    """Return a trace whose code is given what is held."""

    def given(batches: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        return [
            {**batch, **{each.name: each.array(batch[each.like], dtypes[each.name]) for each in held}}
            for batch in batches
        ]

    def again(shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        sizes = {each.name: shapes[each.like] for each in held if each.like in shapes}
        return _with_held(trace.again({**shapes, **sizes}), held)

    steps = trace.steps
    return replace(
        trace,
        run=lambda batches: trace.run(given(batches)),
        again=again,
        learn=None,
        steps=None if steps is None else lambda batches, tolerance: steps(given(batches), tolerance),
    )


KEEPING = frozenset({"Expand", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"})
"""Operators that make a uniform tensor of a uniform one."""

COMPUTING: dict[str, Callable[..., float]] = {
    "Add": operator.add,
    "And": lambda x, y: bool(x) and bool(y),
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "Not": operator.not_,
    "Or": lambda x, y: bool(x) or bool(y),
    "Sub": operator.sub,
}
"""Operators that compute a number of numbers."""

ELEMENTWISE = frozenset({*COMPUTING, "Div", "Max", "Min", "Pow", "Where"})
"""Operators whose output has the sizes of its inputs together."""

NEUTRAL = {"Add": 0.0, "And": 1.0, "Div": 1.0, "Mul": 1.0, "Or": 0.0, "Sub": 0.0}
"""Operators that return one operand where the other is a number: of ``Div`` and ``Sub``, the second."""


def _fold_uniform(graph: Graph, held: ir.Value, number: int) -> None:
    """Take away what an input that is the same number everywhere changes nothing in."""
    rewriter = Rewriter(graph)
    uniform: dict[ir.Value, float] = {held: float(number)}
    for node in list(graph.nodes):
        read = [None if value is None else uniform.get(value) for value in node.inputs]
        if node.domain or len(node.outputs) != 1 or all(each is None for each in read):
            continue
        made = _number_made(node, read)
        if made is not None:
            uniform[node.outputs[0]] = made
            continue
        source = _passed_on(node, read)
        if source is not None:
            _pass_on(rewriter, node, source)
        else:
            _store_numbers(rewriter, node, read)
    prune(graph)


def _number_made(node: ir.Node, read: Sequence[float | None]) -> float | None:
    """Return the number that a node makes everywhere of inputs that are numbers everywhere; None if none."""
    numbers = [_stored(v) if known is None else known for v, known in zip(node.inputs, read, strict=True)]
    first, op = read[0], node.op_type
    known = [number for number in numbers if number is not None]
    if op in COMPUTING and len(known) == len(numbers):
        return float(COMPUTING[op](*known))
    if first is None:
        return None
    if op == "Cast":
        return float(bool(first)) if node.outputs[0].dtype == ir.DataType.BOOL else first
    if op == "ReduceSum":
        count = _num_summed(node)
        return None if count is None else first * count
    return first if op in KEEPING else None


def _pass_on(rewriter: Rewriter, node: ir.Node, source: ir.Value) -> None:
    """Let one input of a node stand for its output, with as many axes."""
    ranks = _rank(source), _rank(node.outputs[0])
    if ranks[0] is None or ranks[1] is None:
        return
    if ranks[0] < ranks[1]:
        axes = rewriter.initializer(ir.tensor(np.arange(ranks[1] - ranks[0])), f"{node.name}/axes")
        source = rewriter.insert(node, "Unsqueeze", [source, axes]).outputs[0]
        source.type = node.outputs[0].type
    rewriter.bypass(node, source)


def _store_numbers(rewriter: Rewriter, node: ir.Node, read: Sequence[float | None]) -> None:
    """Store numbers that a node reads, if other inputs have the sizes of its output, or it looks one up."""
    shapes = [None if value is None else known_shape(value) for value in (*node.inputs, *node.outputs)]
    is_given = node.op_type in ELEMENTWISE and any(
        number is None and shape is not None and shape == shapes[-1]
        for number, shape in zip(read, shapes, strict=False)
    )
    for place, number in enumerate(read):
        value, rank = node.inputs[place], len(shapes[place] or ())
        if number is None or value is None or value.dtype is None:
            continue
        if is_given or (node.op_type, place) == ("Gather", 1):
            stored = ir.tensor(np.full((1,) * rank, number, value.dtype.numpy()))
            node.replace_input_with(place, rewriter.initializer(stored, f"{value.name}/held"))


def _passed_on(node: ir.Node, read: Sequence[float | None]) -> ir.Value | None:
    """Return the input that a node returns, given the numbers that its other inputs are."""
    if node.op_type == "Where" and read[0] is not None:
        return node.inputs[1 if read[0] else 2]
    if len(node.inputs) != 2:
        return None
    (number,), (other,) = zip(*((n, 1 - i) for i, n in enumerate(read) if n is not None), strict=True)
    source = node.inputs[other]
    if source is None or (node.op_type in {"Div", "Sub"} and other != 0):
        return None
    low, high = range_of(source)
    is_idle = number == NEUTRAL.get(node.op_type)
    is_idle |= (node.op_type == "Min" and number >= high) or (node.op_type == "Max" and number <= low)
    return source if is_idle else None


def _num_summed(node: ir.Node) -> int | None:
    """Return how many numbers each sum of a node is of; None if that is open."""
    if node.inputs[0] is None or node.inputs[0].shape is None or len(node.inputs) < 2:
        return None
    axes = None if node.inputs[1] is None else node.inputs[1].const_value
    sizes = None if axes is None else [node.inputs[0].shape[axis] for axis in axes.numpy().tolist()]
    known = [size for size in sizes or () if isinstance(size, int)]
    return math.prod(known) if sizes and len(known) == len(sizes) else None


def _stored(value: ir.Value | None) -> float | None:
    array = None if value is None or value.const_value is None else value.const_value.numpy()
    return float(array.item()) if array is not None and array.size == 1 else None


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)
