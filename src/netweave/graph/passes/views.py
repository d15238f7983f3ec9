"""Views: reshapes, open sizes and the order of channels."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, infer_shapes, known_shape
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader
from netweave.graph.shapes import symbol_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from netweave.graph import Graph, Parameter


# Frameworks part and join the heads of attention by chains of reshapes, transposes, splits and selections
# that differ from exporter to exporter. What such a chain does is found by doing it to the numbers of the
# elements, and not by knowing the chains.

MAX_ELEMENTS = 1 << 25
"""Values of more elements are not followed."""

MAX_FORMULA = 200
"""Symbols may be any text in a file; a longer one is no formula of inference's, and may nest too deeply."""

_SIZES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
"""What open sizes are taken to be: primes, so that no two ways of joining axes look alike."""


class OpenSizes:
    """Numbers that stand for the open sizes of a few values, the same wherever a symbol stands.

    There are few numbers, so that what depends on a size can be told, and a graph may have many symbols.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def shape(self, value: ir.Value | None, total: int | None = None) -> tuple[int, ...] | None:
        """Return the sizes of a value; None where one cannot be said.

        Args:
            value: The value.
            total: Its number of elements, if known: one size that follows from others is then found.
        """
        if value is None or value.shape is None:
            return None
        sizes = [dim if isinstance(dim, int) else self._numbers.get(str(dim.value)) for dim in value.shape]
        if total is not None and sizes.count(None) == 1:
            self._infer(value.shape, sizes, total)
        for axis, dim in enumerate(value.shape):
            if sizes[axis] is None and not isinstance(dim, int):
                sizes[axis] = self._number(dim.value)
        known = [size for size in sizes if size is not None]
        return tuple(known) if len(known) == len(sizes) else None

    def _infer(self, dims: Iterable[int | ir.SymbolicDim], sizes: list[int | None], total: int) -> None:
        """Find the one size that is missing, and remember it if it is a symbol's."""
        rest = prod(size for size in sizes if size is not None)
        if rest == 0 or total % rest:
            return
        axis = sizes.index(None)
        sizes[axis] = total // rest
        dim = list(dims)[axis]
        if not isinstance(dim, int) and dim.value is not None:
            self._numbers[dim.value] = total // rest

    def _number(self, formula: str | None) -> int | None:
        """Return the number of a symbol, or of a formula of symbols as inference writes it: ``2*N``."""
        if formula is None or len(formula) > MAX_FORMULA:
            return None
        try:
            return self._value(ast.parse(formula, mode="eval").body)
        except (KeyError, SyntaxError, ValueError, ZeroDivisionError):  # no formula, or of other functions
            return None

    def _value(self, formula: ast.expr) -> int:
        match formula:
            case ast.Name() | ast.Call(func=ast.Name(id="floor" | "ceiling" | "Min" | "Max")):
                symbol = ast.unparse(formula)
                if symbol in self._numbers or len(self._numbers) < len(_SIZES):
                    return self._numbers.setdefault(symbol, _SIZES[len(self._numbers) % len(_SIZES)])
            case ast.Constant(value=int(number)):
                return number
            case ast.BinOp(left=left, op=sign, right=right):
                return _SIGNS[type(sign)](self._value(left), self._value(right))
        raise KeyError(ast.unparse(formula))


_SIGNS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.FloorDiv: operator.floordiv,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}


@dataclass(frozen=True, slots=True)
class View:
    """A value as a view of an earlier one.

    Attributes:
        source: The earlier value.
        sizes: Its sizes, with numbers for open ones.
        elements: For each element of the value, the number of that element in the source.
        factor: What the elements are multiplied by.
        nodes: The nodes in between, in order.
    """

    source: ir.Value
    sizes: tuple[int, ...]
    elements: np.ndarray
    factor: float = 1.0
    nodes: tuple[ir.Node, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if it is the earlier value as it stands."""
        every = np.arange(self.elements.size).reshape(self.elements.shape)
        return self.sizes == self.elements.shape and np.array_equal(self.elements, every)

    @property
    def columns(self) -> np.ndarray:
        """The place of each element along the last axis of the source."""
        return np.asarray(self.elements % self.sizes[-1])

    @property
    def rows(self) -> np.ndarray:
        """The place of each element among all other axes of the source, counted as one."""
        return np.asarray(self.elements // self.sizes[-1])


def views_of(value: ir.Value, sizes: OpenSizes, *, scales: bool = False, repeats: bool = False) -> list[View]:
    """Return what a value is of itself, of what it is a view of, and so on back, the nearest first.

    Args:
        value: The value.
        sizes: The graph's open sizes.
        scales: Whether products and quotients of a value and a number are gone over as well.
        repeats: Whether nodes are gone over that give an element several times.
    """
    chain: list[tuple[ir.Node, ir.Value]] = []
    views = [_followed(value, chain, sizes)]
    source = value
    while (before := _viewed(source, scales=scales, repeats=repeats)) is not None:
        node = source.producer()
        assert node is not None
        chain.insert(0, (node, source))
        source = before
        views.append(_followed(source, chain, sizes))
    return [view for view in views if view is not None]


def views_after(value: ir.Value, sizes: OpenSizes) -> list[tuple[ir.Value, View]]:
    """Return a value, and the views that alone are made of it one after another, each as a view of it."""
    begin = _followed(value, [], sizes)
    path = [(value, begin)] if begin is not None else []
    while path:
        last, view = path[-1]
        reader = next((use.node for use in last.uses() if use.idx == 0), None)
        if reader is None or not has_one_reader(last) or not is_view(reader) or len(reader.outputs) > 1:
            break
        elements = _done(reader, reader.outputs[0], view.elements, sizes)
        if elements is None:
            break
        following = View(value, view.sizes, elements, view.factor, (*view.nodes, reader))
        path.append((reader.outputs[0], following))
    return path


def is_view(node: ir.Node) -> bool:
    """Return whether a node moves elements of its first input and nothing else."""
    if node.domain or node.op_type not in _RULES or _is_longer(node):
        return False
    is_settled = all(value is None or value.const_value is not None for value in node.inputs[1:])
    return is_settled or node.op_type == "Reshape"  # whose output has known sizes, computed or not


def _is_longer(node: ir.Node) -> bool:
    """Return whether a Gather gives more than its first input holds."""
    places, source = node.inputs[1:2], node.inputs[0]
    if node.op_type != "Gather" or not places or places[0] is None or places[0].const_value is None:
        return False
    axis = attributes_of(node).get("axis", 0)
    size = source.shape[axis] if source is not None and source.shape is not None else None
    return isinstance(size, int) and places[0].const_value.size > size


def scalar_factor(node: ir.Node) -> tuple[ir.Value, float] | None:
    """Return the value that a node multiplies by a number, or divides by one, and the factor."""
    if node.domain or node.op_type not in {"Mul", "Div"}:
        return None
    for at in (1, 0) if node.op_type == "Mul" else (1,):
        value, stored = node.inputs[1 - at], number_of(node.inputs[at])
        if value is not None and stored is not None and stored != 0 and value.const_value is None:
            return value, stored if node.op_type == "Mul" else 1 / stored
    return None


def number_of(value: ir.Value | None) -> float | None:
    """Return the one number that a value stores; None if it is computed, or more than one."""
    if value is None or value.const_value is None or value.const_value.size != 1:
        return None
    return float(value.const_value.numpy().reshape(()))


def _const(value: ir.Value | None) -> np.ndarray | None:
    if value is None or value.const_value is None:
        return None
    return np.atleast_1d(value.const_value.numpy())


def _viewed(value: ir.Value, *, scales: bool, repeats: bool) -> ir.Value | None:
    node = value.producer()
    if node is None:
        return None
    if is_view(node) or (repeats and is_repeat(node)):
        return node.inputs[0]
    scaled = scalar_factor(node) if scales else None
    return scaled[0] if scaled else None


def _followed(source: ir.Value, chain: Sequence[tuple[ir.Node, ir.Value]], sizes: OpenSizes) -> View | None:
    shape = sizes.shape(source)
    if not shape or prod(shape) > MAX_ELEMENTS:
        return None
    elements, factor = np.arange(prod(shape)).reshape(shape), 1.0
    for node, value in chain:
        scaled = scalar_factor(node)
        moved = elements if scaled else _done(node, value, elements, sizes)
        if moved is None:
            return None
        elements, factor = moved, factor * (scaled[1] if scaled else 1)
    return View(source, shape, elements, factor, tuple(node for node, _ in chain))


def _done(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray | None:
    """Return the numbers of the elements after a node; None if sizes are missing or do not fit."""
    rule = _RULES.get(node.op_type) or _REPEATS[node.op_type]
    try:
        return rule(node, value, elements, sizes)
    except (IndexError, ValueError):  # beyond the number that stands for an open size
        return None


def _reshape(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray | None:
    shape = sizes.shape(value, elements.size)
    return elements.reshape(shape) if shape is not None and prod(shape) == elements.size else None


def _transpose(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray:
    return elements.transpose(attributes_of(node).get("perm") or range(elements.ndim)[::-1])


def _split(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray:
    axis, at = attributes_of(node).get("axis", 0), list(node.outputs).index(value)
    given = _const(node.inputs[1]) if len(node.inputs) > 1 else None
    if given is None:
        return np.array_split(elements, len(node.outputs), axis)[at]
    ends = np.cumsum(given)
    return elements.take(range(int(ends[at] - given[at]), int(ends[at])), axis)


def _slice(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray | None:
    starts, ends, axes, steps = ([*map(_const, node.inputs[1:]), None, None])[:4]
    if starts is None or ends is None:
        return None
    ranges = [slice(None)] * elements.ndim
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = 1 if steps is None else int(steps[index])
        axis = index if axes is None else int(axes[index])
        ranges[axis] = slice(int(start), int(end) if step > 0 or end >= -elements.shape[axis] else None, step)
    return elements[tuple(ranges)]


def _gather(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray | None:
    axis, places = attributes_of(node).get("axis", 0), node.inputs[1]
    return (
        None
        if places is None or places.const_value is None
        else elements.take(places.const_value.numpy(), axis)
    )


_RULES: dict[str, Callable[[ir.Node, ir.Value, np.ndarray, OpenSizes], np.ndarray | None]] = {
    "Flatten": _reshape,
    "Gather": _gather,
    "Identity": lambda node, value, elements, sizes: elements,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
"""What each operator that only moves elements does to their numbers."""


def is_repeat(node: ir.Node) -> bool:
    """Return whether a node gives the elements of its first input several times, and nothing else."""
    if node.domain or node.op_type not in _REPEATS:
        return False
    if node.op_type == "Concat":
        return len(node.inputs) > 1 and all(_is_same(value, node.inputs[0]) for value in node.inputs)
    return all(value is None or value.const_value is not None for value in node.inputs[1:])


def _is_same(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Return whether two values are one, or made of one by two nodes that do the same."""
    if a is b:
        return True
    makers = [None if value is None else value.producer() for value in (a, b)]
    first, second = makers
    if first is None or second is None or (first.domain, first.op_type) != (second.domain, second.op_type):
        return False
    stored = [[_numbers(value) for value in node.inputs[1:]] for node in (first, second)]
    is_alike = stored[0] == stored[1] and attributes_of(first) == attributes_of(second)
    return is_alike and is_view(first) and first.inputs[0] is second.inputs[0] and len(first.outputs) == 1


def _numbers(value: ir.Value | None) -> list[float] | None:
    array = _const(value)
    return None if array is None else array.tolist()


def _expand(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray | None:
    wanted = _const(node.inputs[1])
    if wanted is None:
        return None
    shape = np.broadcast_shapes(tuple(int(size) for size in wanted), elements.shape)
    return np.broadcast_to(elements, shape)


def _tile(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray | None:
    counts = _const(node.inputs[1])
    return None if counts is None else np.tile(elements, [int(count) for count in counts])


def _concat(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray:
    return np.concatenate([elements] * len(node.inputs), axis=attributes_of(node)["axis"])


def _gather_rows(node: ir.Node, value: ir.Value, elements: np.ndarray, sizes: OpenSizes) -> np.ndarray | None:
    """PyTorch's exporter writes ``x[:, places]`` as a GatherND along the first axis, between transposes."""
    places = _const(node.inputs[1])
    is_plain = places is not None and places.shape[-1] == 1 and not attributes_of(node).get("batch_dims", 0)
    return elements.take(places[..., 0], 0) if places is not None and is_plain else None


_REPEATS: dict[str, Callable[[ir.Node, ir.Value, np.ndarray, OpenSizes], np.ndarray | None]] = {
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _gather,
    "GatherND": _gather_rows,
    "Tile": _tile,
}
"""Effect of each operator that repeats elements on their numbers."""


# A size that is the same in both does not depend on the guess; one that differs is open. No reader needs
# symbolic arithmetic for it, and weights whose sizes follow from an input's are treated as values are.

if TYPE_CHECKING:
    Size = int | ir.SymbolicDim
    Letters = Mapping[tuple[int, Size, Size], str]

LETTERS = {2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}
"""What the axes of an input are called, by their number."""


def with_open_sizes(graph: Graph, other: Graph) -> Graph:
    """Return a net with those sizes open that differ between two readings of it.

    Such a net can be looked at; to be run or written it must be read with all sizes.

    Args:
        graph: The net, read with one guess of the sizes that its file does not give.
        other: The same net, read with another guess.
    """
    merged, others = graph.clone(), other.values()
    letters = _letters(graph, other)
    for name, value in merged.values().items():
        sizes, other_sizes = _sizes(value), _sizes(others.get(name))
        if len(sizes) != len(other_sizes):
            value.shape = None
        elif sizes != other_sizes:
            pairs = enumerate(zip(sizes, other_sizes, strict=True))
            dims = (
                a if a == b else letters.get((axis, a, b)) or symbol_for(name, axis) for axis, (a, b) in pairs
            )
            value.shape = ir.Shape(dims)
    for key, parameter in graph.parameters.items():
        merged.parameters[key] = _with_open_axes(parameter, other.parameters.get(key))
    for name, declared in graph.declared.items():
        pairs_declared = zip(declared, other.declared.get(name, declared), strict=True)
        merged.declared[name] = tuple(a if a == b else None for a, b in pairs_declared)
    return merged


def _letters(graph: Graph, other: Graph) -> Letters:
    """Return the letters of the inputs' open sizes, by their axis and the two guesses."""
    others = {value.name: value for value in other.inputs}
    letters: dict[tuple[int, Size, Size], str] = {}
    for value in graph.inputs:
        sizes = _sizes(value)
        for axis, pair in enumerate(zip(sizes, _sizes(others.get(value.name)), strict=False)):
            if pair[0] != pair[1] and len(sizes) in LETTERS:
                letters[axis, *pair] = LETTERS[len(sizes)][axis]
    return letters


def _sizes(value: ir.Value | None) -> list[Size]:
    return [] if value is None or value.shape is None else list(value.shape)


def _with_open_axes(parameter: Parameter, other: Parameter | None) -> Parameter:
    if other is None or len(other.shape) != len(parameter.shape) or other.shape == parameter.shape:
        return parameter
    pairs = enumerate(zip(parameter.shape, other.shape, strict=True))
    open_axes = tuple(axis for axis, (a, b) in pairs if a != b)
    shape = tuple(1 if axis in open_axes else size for axis, size in enumerate(parameter.shape))
    return replace(parameter, shape=shape, open_axes=open_axes)


_ROWS = {"Gemm": 1, "MatMul": 1}
"""Operators with a stored matrix, and which input it is."""


@Pass
def early_transposes(graph: Graph) -> None:
    """Transpose to channels first before a Pad, or before arithmetic with one number, not behind it."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if _is_transpose(node):
            _turn_before(rewriter, node)


@Pass
def channels_first(graph: Graph) -> None:
    """Give a net channels first wherever its source has them last, for frameworks that know no other order.

    - An input that is only read transposed to channels first is one with channels first, also if it is padded
      or scaled by a number before.
    - An output that is transposed to channels last is given as it is before.
    - A value that is transposed to channels last and flattened before a dense layer is flattened as it is,
      and the rows of the layer's weights change places.

    Inputs and outputs then have other axes than before; all other transposes stay.
    """
    early_transposes.edit(graph)
    rewriter = Rewriter(graph)
    for value in graph.inputs:
        _turn_input(rewriter, value)
    for node in list(graph.nodes):
        if _is_transpose(node):
            _turn_output(rewriter, node)
    for node in list(graph.nodes):
        if node.op_type in _ROWS and not node.domain:
            _turn_rows(rewriter, node)
    infer_shapes(graph)


def _is_transpose(node: ir.Node | None) -> bool:
    return node is not None and not node.domain and node.op_type == "Transpose"


def _perm(node: ir.Node) -> list[int]:
    rank = len(known_shape(node.outputs[0]) or ())
    return list(node.attributes.get_ints("perm", list(range(rank))[::-1]))


def _to_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _to_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _turn_before(rewriter: Rewriter, node: ir.Node) -> None:
    value = node.inputs[0]
    rank = len(known_shape(node.outputs[0]) or ())
    if rank < 3 or _perm(node) != _to_first(rank):
        return
    while value is not None and has_one_reader(value):
        maker = value.producer()
        if maker is None or maker.domain or maker.inputs[0] is None:
            return
        inputs = _turned_operands(rewriter, maker, _to_first(rank))
        if inputs is None:
            return
        turned = rewriter.insert(maker, "Transpose", [maker.inputs[0]], {"perm": _to_first(rank)})
        turned.outputs[0].shape = ir.Shape([(maker.inputs[0].shape or ())[axis] for axis in _to_first(rank)])
        moved = [turned.outputs[0], *inputs]
        rewriter.replace([maker, node], maker.op_type, moved, attributes_of(maker))
        node, value = turned, turned.inputs[0]


def _turned_operands(rewriter: Rewriter, node: ir.Node, perm: list[int]) -> list[ir.Value | None] | None:
    """Return the inputs behind the first that a node has over transposed axes; None if it cannot be."""
    stored = [None if value is None else value.const_value for value in node.inputs[1:]]
    if node.op_type == "Pad" and stored[0] is not None and len(node.inputs) < 4:
        begins, ends = stored[0].numpy().reshape(2, -1)
        pads = np.concatenate([begins[perm], ends[perm]])
        return [rewriter.initializer(ir.Tensor(pads), node.inputs[1].name or ""), *node.inputs[2:]]  # type: ignore[union-attr]  # the pads are stored, so they are there
    is_number = all(tensor is not None and tensor.size == 1 for tensor in stored)
    return list(node.inputs[1:]) if node.op_type in {"Add", "Div", "Mul", "Sub"} and is_number else None


def _turn_input(rewriter: Rewriter, value: ir.Value) -> None:
    readers = [use.node for use in value.uses()]
    shape = value.shape
    if shape is None or value.is_graph_output() or not readers or not all(map(_is_transpose, readers)):
        return
    perm = _to_first(len(shape))
    if len(shape) < 3 or any(_perm(node) != perm or node.outputs[0].is_graph_output() for node in readers):
        return
    value.shape = ir.Shape([shape[axis] for axis in perm])
    declared = rewriter.graph.declared.get(value.name or "")
    if declared is not None:
        rewriter.graph.declared[value.name or ""] = tuple(declared[axis] for axis in perm)
    for node in readers:
        rewriter.bypass(node, value)


def _turn_output(rewriter: Rewriter, node: ir.Node) -> None:
    output, source = node.outputs[0], node.inputs[0]
    rank = len(known_shape(output) or ())
    turned = rank > 2 and _perm(node) == _to_last(rank)
    if source is not None and turned and output.is_graph_output() and not output.uses():
        rewriter.bypass(node, source)


def _turn_rows(rewriter: Rewriter, node: ir.Node) -> None:
    """Read before the transpose, if between it and the dense layer there is nothing but a flatten."""
    flat, matrix = node.inputs[0], node.inputs[1]
    flatten = flat.producer() if flat is not None else None
    if flat is None or flatten is None or not _flattens(flatten) or not has_one_reader(flat):
        return
    transposed = flatten.inputs[0]
    transpose = transposed.producer() if transposed is not None else None
    if transposed is None or transpose is None or not _is_transpose(transpose) or matrix is None:
        return
    shape, tensor = known_shape(transpose.inputs[0]), matrix.const_value
    if shape is None or None in shape[1:] or _perm(transpose)[0] != 0 or tensor is None:
        return
    sizes, perm = [size or 0 for size in shape[1:]], [axis - 1 for axis in _perm(transpose)[1:]]
    axis = 1 if node.attributes.get_int("transB", 0) else 0
    if node.attributes.get_int("transA", 0) or tensor.shape.numpy()[axis] != prod(sizes):
        return
    order = np.argsort(np.arange(prod(sizes)).reshape(sizes).transpose(perm).reshape(-1))
    turned = ir.LazyTensor(
        lambda: ir.Tensor(np.take(tensor.numpy(), order, axis=axis)),
        dtype=tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=matrix.name,
    )
    node.replace_input_with(1, rewriter.initializer(turned, matrix.name or ""))
    new = rewriter.insert(flatten, "Flatten", [transpose.inputs[0]], {"axis": 1})
    node.replace_input_with(0, new.outputs[0])
    for unread in (flatten, transpose):
        if not unread.outputs[0].uses() and not unread.outputs[0].is_graph_output():
            rewriter.graph.model.graph.remove(unread, safe=True)


def _flattens(node: ir.Node) -> bool:
    """Return whether a node makes all axes but the first into one."""
    if node.domain or node.op_type not in {"Flatten", "Reshape"} or node.inputs[0] is None:
        return False
    old, new = known_shape(node.inputs[0]), known_shape(node.outputs[0])
    if old is None or new is None or len(new) != 2 or None in old[1:]:
        return False
    return new[1] == prod(size or 0 for size in old[1:])
