"""Complex numbers of an exported program, written as two real tensors.

ONNX has no complex types. PyTorch's exporter writes some operators on them with an axis of two, and refuses
others, such as ``torch.complex`` and ``unsqueeze``. Rotary embeddings are often written so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from netweave.formats.pytorch.exporting import changes_in_place, memory_of

aten = torch.ops.aten

_Pair = tuple[Node, Node]
"""The real and the imaginary part."""


def write_as_pairs(program: torch.export.ExportedProgram) -> bool:
    """Change a program in place so that it computes with real and imaginary parts.

    Returns:
        False, with the program as it was, if it has no complex numbers inside, an operator on them that there
        is no rule for, or one that changes them in place.
    """
    nodes = [node for node in program.graph.nodes if _is_complex(node) or _read_complex(node)]
    if not nodes or not all(map(_has_rule, nodes)) or _are_changed(program.graph, nodes):
        return False
    writer = _Writer(program.graph)
    for node in nodes:
        writer.write(node)
    for node in reversed(nodes):
        if node.op != "placeholder":
            program.graph.erase_node(node)
    program.graph.lint()
    program.graph_module.recompile()
    return True


def _is_complex(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()


def _read_complex(node: Node) -> list[Node]:
    return [argument for argument in node.all_input_nodes if _is_complex(argument)]


def _are_changed(graph: torch.fx.Graph, nodes: Sequence[Node]) -> bool:
    """Return whether something changes in place what nodes make, or read: their parts would not follow."""
    memories = {memory_of(each) for node in nodes for each in (node, *node.all_input_nodes)}
    return any(changes_in_place(node) and memory_of(node.args[0]) in memories for node in graph.nodes)


def _has_rule(node: Node) -> bool:
    if node.op == "placeholder":
        return True
    if node.target in _JOINING and not all(map(_is_complex, node.all_input_nodes)):
        return False  # a real tensor among them would become complex
    if node.target in _RULES:
        return not node.kwargs  # such as the factor of a sum
    return node.op == "call_function" and node.target in _OF_PARTS


class _Writer:
    """Writes the nodes that take the place of those with complex numbers."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self._graph = graph
        self._pairs: dict[Node, _Pair] = {}
        self._first = next(node for node in graph.nodes if node.op != "placeholder")
        self._node = self._first

    def write(self, node: Node) -> None:
        """Write what a node computes, in front of it, and let its readers read that."""
        self._node = node
        if node.op == "placeholder":
            self._pairs[node] = self._stored(node)
            return
        made = _RULES.get(node.target, _each_part)(self, node)
        if isinstance(made, tuple):
            self._pairs[node] = made
        else:
            node.replace_all_uses_with(made)

    def parts(self, operand: Any) -> tuple[Any, Any]:
        """Return the parts of an operand; the imaginary one of a real tensor or number is 0."""
        if isinstance(operand, complex):
            return operand.real, operand.imag
        return self._pairs.get(operand, (operand, 0)) if isinstance(operand, Node) else (operand, 0)

    def arguments(self, node: Node, part: int) -> Any:
        """Return the arguments of a node, by place and by name, with one part of each that is complex."""

        def of_part(operand: Node) -> Node:
            pair = self._pairs.get(operand)
            return operand if pair is None else pair[part]

        return map_arg((node.args, node.kwargs), of_part)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Write a call, with its sizes."""
        with self._graph.inserting_before(self._node):
            new = self._graph.call_function(target, args, kwargs)
        new.meta = {key: value for key, value in self._node.meta.items() if key not in {"val", "tensor_meta"}}
        known_args, known_kwargs = map_arg((args, kwargs), lambda node: node.meta["val"])
        new.meta["val"] = target(*known_args, **known_kwargs)
        return new

    def _stored(self, node: Node) -> _Pair:
        """Return the parts of a stored array, which the exporter writes with an axis of two."""
        self._node = self._first
        real = self.call(aten.view_as_real.default, node)
        return self.call(aten.select.int, real, -1, 0), self.call(aten.select.int, real, -1, 1)

    def add(self, x: Any, y: Any) -> Any:
        """Return a sum; 0 as a number is left out."""
        return y if _is_zero(x) else x if _is_zero(y) else self.call(aten.add.Tensor, x, y)

    def subtract(self, x: Any, y: Any) -> Any:
        """Return a difference."""
        if _is_zero(y):
            return x
        return self.call(aten.neg.default, y) if _is_zero(x) else self.call(aten.sub.Tensor, x, y)

    def multiply(self, x: Any, y: Any) -> Any:
        """Return a product."""
        if _is_zero(x) or _is_zero(y):
            return 0
        return self.call(aten.mul.Tensor, x, y) if isinstance(x, Node) else self.call(aten.mul.Tensor, y, x)

    def pair(self, real: Any, imaginary: Any) -> _Pair:
        """Return a pair of tensors; a part that is 0 as a number becomes one of the other's sizes."""
        if not isinstance(real, Node):
            real = self.call(aten.zeros_like.default, imaginary)
        if not isinstance(imaginary, Node):
            imaginary = self.call(aten.zeros_like.default, real)
        return real, imaginary


def _is_zero(x: Any) -> bool:
    return not isinstance(x, Node) and x == 0


def _each_part(writer: _Writer, node: Node) -> _Pair | Node:
    """Write an operator that moves elements, or adds them up: it does so to each part."""
    parts = [writer.arguments(node, part) for part in (0, 1)]
    if not _is_complex(node):  # a size
        args, kwargs = parts[0]
        return writer.call(node.target, *args, **kwargs)
    real, imaginary = (writer.call(node.target, *args, **kwargs) for args, kwargs in parts)
    return real, imaginary


def _complex(writer: _Writer, node: Node) -> _Pair:
    real, imaginary = node.args
    return real, imaginary


def _polar(writer: _Writer, node: Node) -> _Pair:
    size, angle = node.args
    real, imaginary = (writer.call(target, angle) for target in (aten.cos.default, aten.sin.default))
    return writer.multiply(size, real), writer.multiply(size, imaginary)


def _exp(writer: _Writer, node: Node) -> _Pair:
    exponent, angle = writer.parts(node.args[0])
    size = writer.call(aten.exp.default, exponent)
    real, imaginary = (writer.call(target, angle) for target in (aten.cos.default, aten.sin.default))
    return writer.multiply(size, real), writer.multiply(size, imaginary)


def _from_axis(writer: _Writer, node: Node) -> _Pair:
    (x,) = node.args
    return writer.call(aten.select.int, x, -1, 0), writer.call(aten.select.int, x, -1, 1)


def _to_axis(writer: _Writer, node: Node) -> Node:
    return writer.call(aten.stack.default, [*writer.parts(node.args[0])], -1)


def _multiplied(writer: _Writer, node: Node) -> _Pair:
    (a, b), (c, d) = map(writer.parts, node.args[:2])
    real = writer.subtract(writer.multiply(a, c), writer.multiply(b, d))
    return writer.pair(real, writer.add(writer.multiply(a, d), writer.multiply(b, c)))


def _added(writer: _Writer, node: Node) -> _Pair:
    (a, b), (c, d) = map(writer.parts, node.args[:2])
    return writer.pair(writer.add(a, c), writer.add(b, d))


def _subtracted(writer: _Writer, node: Node) -> _Pair:
    (a, b), (c, d) = map(writer.parts, node.args[:2])
    return writer.pair(writer.subtract(a, c), writer.subtract(b, d))


def _conjugate(writer: _Writer, node: Node) -> _Pair:
    real, imaginary = writer.parts(node.args[0])
    return real, writer.call(aten.neg.default, imaginary)


def _absolute(writer: _Writer, node: Node) -> Node:
    squares = [writer.multiply(part, part) for part in writer.parts(node.args[0])]
    return writer.call(aten.sqrt.default, writer.add(*squares))


_RULES: dict[Any, Callable[[_Writer, Node], _Pair | Node]] = {
    aten.complex.default: _complex,
    aten.polar.default: _polar,
    aten.exp.default: _exp,
    aten.view_as_complex.default: _from_axis,
    aten.view_as_real.default: _to_axis,
    aten.real.default: lambda writer, node: writer.parts(node.args[0])[0],
    aten.imag.default: lambda writer, node: writer.parts(node.args[0])[1],
    aten.abs.default: _absolute,
    aten.mul.Tensor: _multiplied,
    aten.add.Tensor: _added,
    aten.sub.Tensor: _subtracted,
    aten.conj.default: _conjugate,
    aten._conj.default: _conjugate,
}
"""Writers of the operators that read complex numbers or make some."""

_JOINING = {aten.cat.default, aten.stack.default}

_OF_PARTS = {
    aten.alias.default,
    *_JOINING,
    aten.clone.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.expand.default,
    aten.flatten.using_ints,
    aten.index.Tensor,
    aten.index_select.default,
    aten.mean.dim,
    aten.neg.default,
    aten.permute.default,
    aten.resolve_conj.default,
    aten.reshape.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.dim,
    aten.sum.dim_IntList,
    aten.sym_size.int,
    aten.transpose.int,
    aten.unsqueeze.default,
    aten.view.default,
}
"""Operators that do the same to both parts."""
