"""Metrics of difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from netweave.graph import Graph, infer_shapes, known_shape
from netweave.graph.graph import captured
from netweave.graph.passes import (
    chain,
    compose,
    compose_group_norm,
    flatten_concats,
    fold,
    fuse_gelu,
    fuse_layer_norm,
    fuse_rms_norm,
    join_branches,
    prune,
    to_inference,
)
from netweave.graph.passes.branches import two_term_sums
from netweave.graph.passes.decomposition import Branchings, find_branchings, spread_groups
from netweave.graph.passes.heads import join_groups, join_repeats
from netweave.graph.passes.mask_forms import settle_masks
from netweave.graph.passes.masks import read_written_steps, store_masks
from netweave.graph.passes.no_effect import drop_idle_nodes
from netweave.graph.passes.rotary import join_rotations
from netweave.graph.passes.scaffolding import has_scaffolding, see_through
from netweave.graph.passes.sums import join_stored_terms, join_window_terms

LOCAL_TOLERANCE = 1e-4
"""Largest error of one group, run on the same inputs, that counts as rounding.

Two engines that compute one layer in float32 differ by 1e-5 to 1e-4 of the rms (decision 0010).
"""

OUTPUT_TOLERANCE = 1e-3
"""Largest error of a net's output that counts as no difference; a fault below it is latent.

Above the bound of one group, since rounding grows with the depth of a net (decision 0010).
"""

WEIGHT_TOLERANCE = 1e-5
"""Largest difference of equal weights, relative to the largest of them (of one output channel for filters).

Weights are copied, not computed: what differs by more was changed. Float32 rounds at 6e-8, so a folded
normalisation, a product and a division, stays far below.
"""

FACTOR_TOLERANCE = 1e-4
"""Largest difference of equal factors: quotients of weights, which round more than the weights."""

BLOCK = 1 << 13
"""Elements of activations that are held against each other at once: some 100 KB of cache.

OpenBLAS takes several threads for scalar products of more than 10,000 elements, which on a busy machine wait
for each other far longer than the product takes.
"""

MAX_AT_ONCE = 1 << 22
"""Elements of weights that are held against each other at once: what is made of them takes memory, too."""


def differing(a: np.ndarray, b: np.ndarray, *, by_row: bool = False) -> np.ndarray:
    """Return which elements of two stored arrays differ by more than rounding; NaN differs from all.

    Equal infinities do not differ, and say nothing of how the others are rounded.

    Args:
        a: An array.
        b: An array of the same shape.
        by_row: Measure each entry of axis 0 (an output channel) by its own largest element.

    >>> differing(np.array([100.0, 1.0]), np.array([100.0001, 1.1])).tolist()
    [False, True]
    >>> differing(np.int8([-128, 1]), np.int8([0, 1])).tolist()  # whole numbers round nowhere
    [True, False]
    >>> differing(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.1])).tolist()
    [False, True]
    """
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        return np.asarray(a != b)
    parts = _parts(a)
    bounds = [WEIGHT_TOLERANCE * _largest(a[part], b[part], by_row=by_row) for part in parts]
    if not by_row:
        bounds = [np.max(bounds, axis=0)] * len(parts)
    different: np.ndarray = np.empty(a.shape, bool)
    with np.errstate(invalid="ignore"):
        for part, bound in zip(parts, bounds, strict=True):
            is_infinite = np.isinf(a[part]) & (a[part] == b[part]) & np.isfinite(bound)
            different[part] = ~((np.abs(a[part] - b[part]) <= bound) | is_infinite)
    return different


def _parts(x: np.ndarray) -> list[Any]:
    """Return indices of an array that take a bounded number of elements each, along axis 0."""
    if x.size <= MAX_AT_ONCE or x.ndim == 0:
        return [...]
    step = max(1, MAX_AT_ONCE * len(x) // x.size)
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _largest(a: np.ndarray, b: np.ndarray, *, by_row: bool) -> np.ndarray:
    axes = tuple(range(1, a.ndim)) if by_row else None
    largest: np.ndarray = np.maximum(
        np.abs(a).max(axis=axes, keepdims=True, initial=0), np.abs(b).max(axis=axes, keepdims=True, initial=0)
    )
    if np.isinf(largest).any():
        a, b = (np.where(np.isinf(x), 0, x) for x in (a, b))
        return _largest(a, b, by_row=by_row)
    return largest


TAKEN_OUT = 5e3
"""A mask adds minus twice this or less to scores that it takes out: others are far smaller."""


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference relative to the rms of ``a``, the worst over the batch (axis 0).

    Elements are not judged one by one, since a relative error near zero says nothing. Values that are not
    finite must be equal. Tensors of different shapes are infinitely far apart.

    >>> round(relative_error(np.array([[3.0, 4.0]]), np.array([[3.0, 4.5]])), 6)
    0.141421
    """
    if a.shape != b.shape:
        return float("inf")
    if a.size == 0:
        return 0.0
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else float("inf")
    rows_a = a.reshape(a.shape[0] if a.ndim else 1, -1)
    rows_b = b.reshape(rows_a.shape)
    with np.errstate(all="ignore"):
        difference, power = _of_rows(rows_a, rows_b)
        if not np.isfinite(difference).all() or not np.isfinite(power).all():
            return _error_of_finite(rows_a, rows_b)
        rms = np.sqrt(power)
        errors = np.where(rms > 0, difference / np.maximum(rms, 1e-37), np.where(difference > 0, np.inf, 0.0))
        error = float(errors.max())
        if rms.max() > TAKEN_OUT / 100 and (rest := _left_in(rows_a, rows_b)) is not None:
            error = max(error, relative_error(*rest))
    return error


def _left_in(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two tensors of scores with 0 where a mask takes them out; None if there is no such mask.

    What a mask adds is so large that no difference shows beside it.
    """
    if a.dtype.kind != "f":
        return None
    lowest = float(a.min())
    if lowest > -TAKEN_OUT:
        return None
    taken = a < lowest / 2
    if not np.array_equal(taken, b < b.min() / 2):
        return None
    rest = np.where(taken, 0, a)
    return (rest, np.where(taken, 0, b)) if np.abs(rest).max() < -lowest / 10 else None


def _of_rows(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest difference of each row of two matrices, and the mean square of each row of ``a``.

    In blocks that stay in the cache: whole tensors of differences take memory, and four times as long.
    """
    num_rows, num_columns = a.shape
    difference, power = np.zeros(num_rows), np.zeros(num_rows)
    columns = min(num_columns, BLOCK)
    rows = max(1, BLOCK // columns)
    for i in range(0, num_rows, rows):
        for j in range(0, num_columns, columns):
            x, y = a[i : i + rows, j : j + columns], b[i : i + rows, j : j + columns]
            difference[i : i + rows] = np.maximum(difference[i : i + rows], np.abs(x - y).max(axis=1))
            wide = x.astype(np.float64)
            power[i : i + rows] += np.einsum("ij,ij->i", wide, wide)
    return difference, power / num_columns


def _error_of_finite(a: np.ndarray, b: np.ndarray) -> float:
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(
        a[~finite], b[~finite], equal_nan=True
    ):
        return float("inf")
    a, b = np.where(finite, a, 0).astype(np.float64), np.where(finite, b, 0).astype(np.float64)
    rms = float(np.sqrt(np.mean(a * a)))
    worst = float(np.abs(a - b).max())
    return worst / rms if rms else (0.0 if worst == 0 else float("inf"))


# Views (Reshape, Transpose, Identity, ...) change no value, only its layout, and frameworks put them in
# different places. All values that are views of one another are one signal, named by the value it starts
# from. Sizes, and what is computed from sizes alone, are no signals either: frameworks write that in many
# ways, and a wrong size shows where it is used.

VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Dropout"})
"""Operators whose first output holds the values of their first input."""

SIZE_ARITHMETIC = frozenset(
    {
        "Add", "Cast", "Concat", "Div", "Equal", "Gather", "Identity", "Max", "Min", "Mod", "Mul", "Reshape",
        "Slice", "Split", "Squeeze", "Sub", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""Operators that make a size of others, if all that they read are sizes and constants."""

FAMILIES = {
    "Gemm": "dense",
    "MatMul": "dense",
    "BatchNormalization": "affine",
    "Relu": "rectifier",
    "LeakyRelu": "rectifier",
    "PRelu": "rectifier",
    "Clip": "rectifier",
    "ThresholdedRelu": "rectifier",
    "GlobalAveragePool": "average pool",
    "AveragePool": "average pool",
    "ReduceMean": "average pool",
    "GlobalMaxPool": "max pool",
    "MaxPool": "max pool",
    "ReduceMax": "max pool",
    "ChannelLRN": "LRN",
}
"""Operators that stand for one another in ports; an operator that is not here is its own family."""

ELEMENTWISE = frozenset(
    {
        "Abs", "Add", "Celu", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish",
        "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "Relu", "Selu", "Sigmoid",
        "Softplus", "Softsign", "Sqrt", "Sub", "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip
"""Operators of which activations are made, one of them or several."""


def joined(graph: Graph) -> Graph:
    """Return a copy of a graph as it predicts, with one node for branches that compute one layer.

    What that stores is joined by nodes, so that it can be followed to the stored arrays.
    """
    return chain(to_inference, join_branches)(graph)


@dataclass(slots=True)
class ComparableForm:
    """Makes copies of graphs as they predict, without what an exporter made around their operators.

    Attributes:
        branchings: Branches of the graphs before they are joined, which are looked at once more if the
            graphs differ: to bring a large net into inference form again takes a while.
    """

    branchings: Branchings = field(default_factory=dict)

    def __call__(self, graph: Graph) -> Graph:
        """Return the form of a graph in which it is compared."""
        copy = _without_caches(graph)
        for count, op_types in find_branchings(copy).items():
            self.branchings[count] = self.branchings.get(count, set()) | op_types
        join_branches.edit(copy)
        return _settled(copy)


def comparable(graph: Graph) -> Graph:
    """Return a copy of a graph as it predicts, without what an exporter made around its operators."""
    return ComparableForm()(graph)


def branched(graph: Graph, branchings: Branchings) -> Graph:
    """Return the form of a graph in which single groups of grouped convolutions can be told.

    Args:
        graph: The graph.
        branchings: What branches the nets that are compared have.
    """
    return _settled(spread_groups(_without_caches(graph), branchings))


def _without_caches(graph: Graph) -> Graph:
    """Return a copy of a graph as it predicts, without what code returns for its own next call alone.

    Nets hold their caches in forms of their own; that they are right, single steps show (decision 0286).
    """
    copy = to_inference(graph)
    copy.model.graph.outputs[:] = [value for value in copy.outputs if value.name not in graph.caches]
    return prune(copy) if graph.caches else copy


def _settled(graph: Graph) -> Graph:
    if has_scaffolding(graph):
        _open_images(graph)
        see_through.edit(graph)
        store_masks.edit(graph)
    else:
        fold.edit(graph)
        if any(value.shape is None for node in graph.nodes for value in node.outputs):
            infer_shapes(graph)  # of what reads sizes that the graph computed from constants
    _ONE_SPELLING.edit(graph)
    return graph


_ONE_SPELLING = chain(
    drop_idle_nodes,
    compose,
    compose_group_norm,
    fuse_layer_norm,
    fuse_rms_norm,
    fuse_gelu,
    join_window_terms,
    settle_masks,
    join_groups,
    join_rotations,
    join_repeats,
    read_written_steps,
    flatten_concats,
    two_term_sums,
    join_stored_terms,
)
"""Passes that bring different spellings of a computation into one."""


def _open_images(graph: Graph) -> None:
    """Make height and width of the inputs open, since nets are compared at sizes other than the declared one.

    Otherwise what asks for a size would be folded to the declared one, and cut every image to that.
    """
    shapes: dict[str, list[str | None]] = {}
    for value in graph.inputs:
        sizes = known_shape(value)
        if sizes is not None and len(sizes) == 4:
            graph.declared.setdefault(str(value.name), tuple(sizes))
            shapes[str(value.name)] = [None, None, f"{value.name}/height", f"{value.name}/width"]
    infer_shapes(graph, shapes)


@dataclass(slots=True)
class Signals:
    """The signals of a graph.

    Attributes:
        graph: The graph.
        nodes: The nodes that are no views and compute more than sizes, in topological order.
        root: Signal of each value, by value name.
        producer: Node that computes a signal; an input of the net has none.
        consumers: Nodes that read a signal, in topological order.
        position: Place of each node in ``nodes``, by ``id(node)``.
        reads: Signals that each node reads, by ``id(node)``: its inputs, then what its inner graphs read.
        sizes: Names of the values that hold sizes, or whole numbers computed from sizes alone.
        outputs: The signals of the net's outputs; an output that no input reaches has none.
    """

    graph: Graph
    nodes: list[ir.Node] = field(default_factory=list)
    root: dict[str, str] = field(default_factory=dict)
    producer: dict[str, ir.Node] = field(default_factory=dict)
    consumers: dict[str, list[ir.Node]] = field(default_factory=lambda: defaultdict(list))
    position: dict[int, int] = field(default_factory=dict)
    reads: dict[int, list[str]] = field(default_factory=dict)
    sizes: set[str] = field(default_factory=set)
    outputs: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, graph: Graph) -> Signals:
        """Find the signals of a graph."""
        signals = cls(graph)
        for value in graph.inputs:
            signals.root[str(value.name)] = str(value.name)
        for node in graph.nodes:
            if signals._computes_sizes(node):
                signals.sizes.update(str(value.name) for value in node.outputs)
                continue
            if is_view(node) and node.inputs[0] is not None:
                source = str(node.inputs[0].name)
                if source in signals.root:
                    signals.root[str(node.outputs[0].name)] = signals.root[source]
                continue
            signals._add(node)
        names = [str(value.name) for value in graph.outputs]
        signals.outputs = [signals.root[name] for name in names if name in signals.root]
        return signals

    def _computes_sizes(self, node: ir.Node) -> bool:
        """Return whether all that a node makes are a few whole numbers, computed from sizes alone."""
        if node.domain or any(not _may_be_size(value) for value in node.outputs):
            return False
        if node.op_type in {"Shape", "Size"}:
            return True
        read = [str(value.name) for value in node.inputs if value is not None and not is_constant(value)]
        return node.op_type in SIZE_ARITHMETIC and bool(read) and self.sizes.issuperset(read)

    def _add(self, node: ir.Node) -> None:
        self.position[id(node)] = len(self.nodes)
        self.nodes.append(node)
        values = [*node.inputs, *captured(node)]
        read = [self.root[name] for v in values if v is not None and (name := str(v.name)) in self.root]
        self.reads[id(node)] = read
        for signal in dict.fromkeys(read):
            self.consumers[signal].append(node)
        for value in node.outputs:
            self.root[str(value.name)] = str(value.name)
            self.producer[str(value.name)] = node

    def place_of(self, node: ir.Node) -> int:
        """Return the place of a node in topological order."""
        return self.position[id(node)]

    def inputs_of(self, node: ir.Node) -> list[str]:
        """Return the signals that a node reads, in the order of its inputs; constants are left out.

        What the inner graphs of an If or a Loop read of the graph around them stands last.
        """
        return self.reads[id(node)]

    def outputs_of(self, node: ir.Node) -> list[str]:
        """Return the signals that a node makes and somebody can read."""
        return [str(value.name) for value in node.outputs if value.name]

    def readers_of(self, node: ir.Node) -> list[ir.Node]:
        """Return the nodes that read what a node makes."""
        return [reader for name in self.outputs_of(node) for reader in self.consumers.get(name, ())]

    def reads_from_outside(self, nodes: Iterable[ir.Node]) -> list[str]:
        """Return the signals that some nodes read and none of them makes, each once."""
        nodes = list(nodes)
        inside = {name for node in nodes for name in self.outputs_of(node)}
        read = (name for node in nodes for name in self.inputs_of(node) if name not in inside)
        return list(dict.fromkeys(read))

    def leaving(self, nodes: Iterable[ir.Node]) -> list[str]:
        """Return the signals of some nodes that other nodes read, or that are outputs of the net."""
        nodes = list(nodes)
        inside = {id(node) for node in nodes}
        ends = set(self.outputs)
        return [
            name
            for node in nodes
            for name in self.outputs_of(node)
            if name in ends or any(id(reader) not in inside for reader in self.consumers.get(name, ()))
        ]

    @property
    def names(self) -> list[str]:
        """All signals: the net's inputs, then the others in topological order."""
        inputs = [str(value.name) for value in self.graph.inputs]
        return inputs + [name for node in self.nodes for name in self.outputs_of(node)]


def _may_be_size(value: ir.Value) -> bool:
    """Return whether a value is a whole number, or a row of them, that the net does not return."""
    is_row = value.shape is not None and len(value.shape) < 2
    is_whole = value.dtype in {ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL}
    return is_row and is_whole and not value.is_graph_output()


def is_view(node: ir.Node) -> bool:
    """Return whether a node only changes the layout of its first input."""
    return node.op_type in VIEWS and node.domain in {"", "ai.onnx"} and bool(node.outputs)


def family_of(node: ir.Node) -> str:
    """Return what kind of thing a node is, across frameworks."""
    if node.op_type in {"Add", "Mul", "Sub", "Div"} and num_signals(node) == 1:
        return "affine"
    return FAMILIES.get(node.op_type, node.op_type)


def num_signals(node: ir.Node) -> int:
    """Number of a node's inputs that are not constants."""
    return sum(value is not None and not is_constant(value) for value in node.inputs)


def is_constant(value: ir.Value) -> bool:
    """Return whether a value is stored in the model."""
    return value.is_initializer() or value.const_value is not None


def constants_of(node: ir.Node) -> dict[int, ir.Value]:
    """Return a node's constant inputs by position."""
    return {
        index: value for index, value in enumerate(node.inputs) if value is not None and is_constant(value)
    }


Shape = tuple[int, ...]


class SignalValues(Protocol):
    """Tensors by signal; whether they are held or computed when they are asked for, nobody needs to know."""

    def __getitem__(self, name: str) -> np.ndarray: ...

    def __contains__(self, name: object) -> bool: ...

    def __len__(self) -> int: ...

    def get(self, name: str) -> np.ndarray | None:
        """Return a tensor; None if there is none of the name."""
        ...

    def ahead(self, name: str) -> np.ndarray:
        """Return a tensor that is looked at ahead of others, which are looked at again before it is."""
        ...

    def shape_of(self, name: str) -> Shape | None:
        """Return the shape of a tensor, which costs less than the tensor; None if there is none."""
        ...

    @property
    def is_held(self) -> bool:
        """True if a tensor is as near the second time as the first, and none is computed again."""
        ...

    @property
    def working_bytes(self) -> int | None:
        """Bytes that a caller may hold besides, for tensors made of these; None for any number."""
        ...


class HeldValues(Mapping[str, "np.ndarray"]):
    """Tensors that are held, all of them.

    Args:
        arrays: The tensors, by signal.
        behind: Where those that are not among them are looked up.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], behind: SignalValues | None = None) -> None:
        self._arrays = dict(arrays)
        self._behind = behind

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._arrays or self._behind is None:
            return self._arrays[name]
        return self._behind[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays or (self._behind is not None and name in self._behind)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def ahead(self, name: str) -> np.ndarray:
        """Return a tensor."""
        return self[name]

    def shape_of(self, name: str) -> Shape | None:
        """Return the shape of a tensor; None if there is none of the name."""
        if name in self._arrays:
            return self._arrays[name].shape
        return None if self._behind is None else self._behind.shape_of(name)

    @property
    def is_held(self) -> bool:
        """True if no tensor is computed again."""
        return self._behind is None or self._behind.is_held

    @property
    def working_bytes(self) -> int | None:
        """Bytes that a caller may hold besides; None for any number."""
        return None if self._behind is None else self._behind.working_bytes
