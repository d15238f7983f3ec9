"""The table of operators that can be written for MXNet, and what one is written from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import shortened
from netweave.files.node_writer import GraphNode, NotWritable, WriterTable
from netweave.formats.mxnet.symbol import Symbol, operator_function, variable
from netweave.graph import Graph
from netweave.graph.naming import take_name

MAX_STEM = 5000
"""Characters of a name, which others are derived from; the reader takes twice as many."""


class Net:
    """A net while it is written: the symbols of its values, and its stored arrays.

    Attributes:
        symbols: The symbol of each value so far, by the value's name.
        arrays: The stored arrays by MXNet's key: ``arg:conv1_weight``.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self._names: set[str] = set()
        self._variables: dict[str, Symbol] = {}

    def free(self, stem: str) -> str:
        """Return a name that no node has, and take it."""
        return take_name(shortened(stem, MAX_STEM), self._names)

    def stored(
        self,
        name: str,
        array: Callable[[], np.ndarray],
        *,
        kind: str = "arg",
        source: str | None = None,
        is_operand: bool = False,
    ) -> Symbol:
        """Return the variable of a stored array; one that stands for the same stored value is used again.

        Args:
            name: What it is called if it is new.
            array: Gives its values.
            kind: ``aux`` for statistics, ``arg`` for all else.
            source: Name of the stored value that it is as it stands.
            is_operand: Whether an operator of elements reads it.
        """
        key = f"{kind}:{source}"
        if source is not None and key in self._variables:
            return self._variables[key]
        free = self.free(name)
        values = np.asarray(array())
        self.arrays[f"{kind}:{free}"] = np.ascontiguousarray(values).reshape(values.shape or (1,))
        # MXNet finds the sizes of weights by itself, but not those of an operand
        made = variable(free, shape=self.arrays[f"{kind}:{free}"].shape if is_operand else None)
        if source is not None:
            self._variables[key] = made
        return made


class MXNetNode(GraphNode):
    """A node that is being written.

    Args:
        node: The node.
        graph: Its graph.
        net: What it is written into.
    """

    def __init__(self, node: ir.Node, graph: Graph, net: Net) -> None:
        super().__init__(node, graph)
        self._net = net
        self._num_made = 0
        stem = self.layers[0] if self.layers else node.name or node.op_type
        self.name = net.free(stem)

    def symbol(self, index: int) -> Symbol:
        """Return an input; a stored one as a variable."""
        value = self.value(index)
        if value.name in self._net.symbols:
            return self._net.symbols[value.name]
        if not self.is_stored(index):
            raise NotWritable(f"its input {value.name!r} is of no node that is written")
        return self.constant_array(f"constant{index}", self.constant(index))

    def array(
        self,
        role: str,
        index: int,
        change: Callable[[np.ndarray], np.ndarray] | None = None,
        *,
        kind: str = "arg",
    ) -> Symbol:
        """Return the variable of a stored input.

        Args:
            role: What MXNet's name of it ends with: ``weight``.
            index: The input.
            change: What is done to its values first.
            kind: ``aux`` for statistics.
        """
        values, name = self.lazy_array(index), f"{self.name}_{role}"
        if change is None:
            return self._net.stored(name, values, kind=kind, source=self.value(index).name)
        return self._net.stored(name, lambda: change(values()), kind=kind)

    def constant_array(self, role: str, array: np.ndarray) -> Symbol:
        """Return the variable of an array that is computed here, or that is an operand as it stands."""
        return self._net.stored(f"{self.name}_{role}", lambda: array, is_operand=True)

    def stored(self, role: str, array: Callable[[], np.ndarray]) -> Symbol:
        """Return the variable of an array that several stored inputs are made into."""
        return self._net.stored(f"{self.name}_{role}", array)

    def give(self, value: ir.Value, symbol: Symbol) -> None:
        """Say what a value further on is, so that the nodes that make it are not written."""
        self._net.symbols[value.name or ""] = symbol

    def make(self, op: str, *inputs: Symbol, **settings: Any) -> Symbol:
        """Return a new node of MXNet's; the first of a graph node gets the name of the source's layer."""
        self._num_made += 1
        if self._num_made > 1:
            return self.make_beside(op.strip("_").lower(), op, *inputs, **settings)
        return operator_function(op)(*inputs, name=self.name, **settings)

    def make_beside(self, role: str, op: str, *inputs: Symbol, **settings: Any) -> Symbol:
        """Return a new node that stands beside the one with the layer's name, which ends with its role."""
        return operator_function(op)(*inputs, name=self._net.free(f"{self.name}_{role}"), **settings)


TABLE: WriterTable[MXNetNode, Symbol] = WriterTable()
"""The operators that can be written, as a symbol with as many outputs as are used."""

writes = TABLE.writes


def padded(
    node: MXNetNode, x: Symbol, begin: Sequence[int], end: Sequence[int], value: float = 0.0
) -> Symbol:
    """Return a value with a number around its spatial axes."""
    if not any(begin) and not any(end):
        return x
    if len(begin) not in {2, 3}:
        raise NotWritable("MXNet pads two or three spatial axes, found another number of them")
    width = [0, 0, 0, 0] + [pad for pair in zip(begin, end, strict=True) for pad in pair]
    return node.make("Pad", x, mode="constant", pad_width=tuple(width), constant_value=value)
