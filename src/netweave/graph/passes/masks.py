"""Masks of attention: what is computed from sizes alone, and what it lets a query see."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import NetweaveError
from netweave.graph import attributes_of, infer_shapes, known_shape
from netweave.graph.passes.rewriting import Pass, Rewriter, prune
from netweave.graph.passes.scaffolding import has_scaffolding, see_through
from netweave.graph.passes.windows import specialise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph

NEVER = -1e4
"""Largest number that takes a score out when added to it: e to its power is 0 in float32."""

MANY = 29
"""So many steps are taken where their number is open: enough to tell a causal mask from one of a window."""

BROADCASTING = frozenset({"Add", "And", "Mul", "Or", "Sub", "Where"})
"""Operators that repeat a value of size 1 along an axis to the size of another one."""


class Masks:
    """The values of a graph that are computed from sizes alone, as numbers.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[str, ir.Value] | None = None

    def numbers(self, value: ir.Value) -> np.ndarray | None:
        """Return what a value is for inputs of some sizes, if their numbers do not count."""
        if self._known is None:
            self._known = self._folded()
        known = self._known.get(value.name or "")
        return None if known is None or known.const_value is None else known.const_value.numpy()

    def _folded(self) -> dict[str, ir.Value]:
        shapes = {value.name or "": self._sizes(value) for value in self._graph.inputs}
        try:
            folded = see_through(specialise(self._graph, shapes))
        except NetweaveError:
            return {}
        values = folded.values()
        return values | {name: values[to] for name, to in folded.aliases.items() if to in values}

    def _sizes(self, value: ir.Value) -> list[int]:
        """Return sizes of an input: those that are known, those declared, or others."""
        declared = self._graph.declared.get(value.name or "") or [None] * len(value.shape or ())
        return [
            next((each for each in (size, given) if isinstance(each, int)), 2 if axis == 0 else MANY)
            for axis, (size, given) in enumerate(zip(value.shape or (), declared, strict=True))
        ]


@Pass
def store_masks(graph: Graph) -> None:
    """Store what exporters compute from sizes alone for each example, if it is the same for all of them."""
    if not has_scaffolding(graph):
        return
    rewriter, masks = Rewriter(graph), Masks(graph)
    is_changed = False
    for value in dict.fromkeys(_ends(graph)):
        numbers = masks.numbers(value)
        if numbers is None or not len(numbers) or (numbers != numbers[:1]).any():
            continue
        stored = rewriter.initializer(ir.Tensor(numbers[:1]), f"{value.name}/stored")
        ir.convenience.replace_all_uses_with(value, stored)
        is_changed = True
    if is_changed:
        prune.edit(graph)
        infer_shapes(graph)


def _ends(graph: Graph) -> Iterator[ir.Value]:
    """Yield the values computed from sizes alone that nodes read beside values of the same open batch."""
    of_sizes: set[ir.Value] = set()
    for node in graph.nodes:
        read = [value for value in node.inputs if value is not None and value.const_value is None]
        if node.op_type in {"Shape", "Size"} or (read and of_sizes.issuperset(read)):
            of_sizes.update(node.outputs)
    for value in of_sizes:
        if value.is_graph_output() or value.shape is None or len(value.shape) < 2:
            continue
        batch, *rest = value.shape
        readers = [use.node for use in value.uses()]
        is_end = any(not of_sizes.issuperset(reader.outputs) for reader in readers)
        is_open = not isinstance(batch, int) and all(isinstance(size, int) for size in rest)
        if (
            is_end
            and is_open
            and all(of_sizes.issuperset(r.outputs) or _broadcasts(r, value) for r in readers)
        ):
            yield value


def _broadcasts(node: ir.Node, value: ir.Value) -> bool:
    """Return whether another input of a node has the batch that a value has."""
    others = [each.shape for each in node.inputs if each is not None and each is not value]
    shape = value.shape
    return node.op_type in BROADCASTING and any(
        other is not None and shape is not None and len(other) == len(shape) and other[0] == shape[0]
        for other in others
    )


def stored(mask: ir.Value | np.ndarray | None) -> np.ndarray | None:
    """Return the numbers of a mask; None where inputs decide them."""
    if isinstance(mask, ir.Value):
        return mask.const_value.numpy() if mask.const_value is not None else None
    return mask


def has_causal_form(mask: np.ndarray) -> bool:
    """Return whether a mask takes out of each row the keys behind the query, and nothing else."""
    steps = mask.shape[-1] if mask.ndim >= 2 else 0
    if steps < 2 or mask.shape[-2] != steps or mask.size != steps * steps:
        return False
    square, allowed = mask.reshape(steps, steps), np.tri(steps, dtype=np.bool_)
    return bool((square[allowed] == 0).all() and (square[~allowed] <= NEVER).all())


# A cache with room for S steps is written at the first L of them, and all S are read under a mask that takes
# the others out of each softmax. What is read is the same without them.


@Pass
def read_written_steps(graph: Graph) -> None:
    """Let attention read the steps alone that were written, where its mask takes out the rest of a cache."""
    rewriter = Rewriter(graph)
    is_changed = False
    for softmax in [node for node in graph.nodes if node.op_type == "Softmax" and not node.domain]:
        read = _Read.around(softmax)
        if read is not None:
            read.shorten(rewriter)
            is_changed = True
    if is_changed:
        prune.edit(graph)


@dataclass(frozen=True, slots=True)
class _Path:
    """The values between a written cache and a product, with the axis of steps of each.

    Attributes:
        write: The node that writes.
        values: What it makes and what is made of that, with the axis of steps.
        end: The product that reads the last of them.
    """

    write: ir.Node
    values: tuple[tuple[ir.Value, int], ...]
    end: ir.Node

    @classmethod
    def before(cls, end: ir.Node) -> _Path | None:
        """Return the path to the second operand of a product; None if there is none."""
        chain: list[ir.Node] = []
        value = end.inputs[1]
        while value is not None and len(list(value.uses())) == 1 and (node := value.producer()) is not None:
            chain.append(node)
            if node.op_type == "ScatterND":
                break
            value = node.inputs[0]
        if not chain or chain[-1].op_type != "ScatterND":
            return None
        write, *rest = reversed(chain)
        axis: int | None = 0
        values = [(write.outputs[0], 0)]
        for node in rest:
            axis = _axis_behind(node, axis) if axis is not None else None
            if axis is None:
                return None
            values.append((node.outputs[0], axis))
        return cls(write, tuple(values), end)

    @property
    def num_written(self) -> int | None:
        """Number of steps that are written, from the first on; None if other places are written."""
        data, indices, _ = self.write.inputs
        held, places = (
            x.const_value.numpy() if x is not None and x.const_value is not None else None
            for x in (data, indices)
        )
        if held is None or places is None or not np.isfinite(held).all() or places.shape != (places.size, 1):
            return None
        is_first = (places[:, 0] == np.arange(len(places))).all() and len(places) < len(held)
        return len(places) if is_first else None

    def shorten(self, rewriter: Rewriter, num_steps: int) -> None:
        """Begin with what is written instead of the cache."""
        (old, _), *rest = self.values
        most, written = (known_shape(old) or [None])[0], self.write.inputs[2]
        assert written is not None
        ir.convenience.replace_all_uses_with(old, written)
        for value, axis in rest:
            node = value.producer()
            assert node is not None
            if node.op_type == "Reshape":
                sizes = node.inputs[1].const_value.numpy().copy()  # type: ignore[union-attr]  # as ``_axis_behind`` has it
                if sizes[axis] == most:
                    sizes[axis] = num_steps
                    stored = rewriter.initializer(ir.Tensor(sizes), f"{node.name}/sizes")
                    node.replace_input_with(1, stored)
            _resize(value, axis, num_steps)


def _axis_behind(node: ir.Node, axis: int) -> int | None:
    """Return where an axis of a node's first input is in its output; None if it is not kept whole."""
    attributes = attributes_of(node)
    before, after = (known_shape(x) if x is not None else None for x in (node.inputs[0], node.outputs[0]))
    if before is None or after is None or node.domain:
        return None
    if node.op_type == "Transpose":
        return list(attributes["perm"]).index(axis) if "perm" in attributes else None
    if node.op_type == "Gather":
        is_other = attributes.get("axis", 0) % len(before) != axis and len(after) == len(before)
        return axis if is_other else None
    if node.op_type == "Mul" and after == before:
        return axis if all(size == 1 for size in known_shape(node.inputs[1]) or [None]) else None
    if node.op_type == "Reshape" and node.inputs[1] is not None and node.inputs[1].const_value is not None:
        sizes, wanted = ([size for size in shape if size is not None] for shape in (before, after))
        if len(sizes) < len(before) or len(wanted) < len(after):
            return None
        kept = [at for at in range(len(wanted)) if math.prod(wanted[:at]) == math.prod(sizes[:axis])]
        return next((at for at in kept if after[at] == before[axis]), None)
    return None


def _resize(value: ir.Value, axis: int, size: int) -> None:
    shape = list(value.shape or ())
    shape[axis] = size
    value.shape = ir.Shape(shape)


@dataclass(frozen=True, slots=True)
class _Read:
    """Attention to a cache that has room for more steps than are written.

    Attributes:
        keys: From the written keys to the scores.
        values: From the written values to what attention gives.
        add: Adds the mask to the scores.
        between: From there to the weights.
        num_steps: Number of steps that are written.
    """

    keys: _Path
    values: _Path
    add: ir.Node
    between: tuple[ir.Node, ...]
    num_steps: int

    @classmethod
    def around(cls, softmax: ir.Node) -> _Read | None:
        """Return what is read around a softmax; None if it is nothing like that."""
        add = softmax.inputs[0].producer() if softmax.inputs[0] is not None else None
        scores = (
            add.inputs[0].producer()
            if add is not None and add.op_type == "Add" and add.inputs[0] is not None
            else None
        )
        if add is None or scores is None or scores.op_type != "MatMul":
            return None
        between, last = [add, softmax], softmax.outputs[0]
        while True:
            users = list(dict.fromkeys(use.node for use in last.uses()))
            if {"IsNaN", "Where"} == {node.op_type for node in users}:  # of rows that are masked out whole
                between += sorted(users, key=lambda node: node.op_type)
                last = between[-1].outputs[0]
            elif len(users) == 1 and users[0].op_type == "MatMul" and users[0].inputs[0] is last:
                break
            else:
                return None
        keys, values = _Path.before(scores), _Path.before(users[0])
        if (
            keys is None
            or values is None
            or keys.num_written is None
            or keys.num_written != values.num_written
        ):
            return None
        ends = [len(path.values[-1][0].shape or ()) - path.values[-1][1] for path in (keys, values)]
        mask = add.inputs[1].const_value if add.inputs[1] is not None else None
        if ends != [1, 2] or mask is None:
            return None
        rows, count = mask.numpy(), keys.num_written
        is_out = rows.ndim > 0 and rows.shape[-1] > count and (rows[..., count:] <= NEVER).all()
        if not is_out or not (rows[..., :count] > NEVER).any(-1).all():
            return None
        return cls(keys, values, add, tuple(between), count)

    def shorten(self, rewriter: Rewriter) -> None:
        """Leave out the steps that are not written."""
        for path in (self.keys, self.values):
            path.shorten(rewriter, self.num_steps)
        mask = self.add.inputs[1]
        assert mask is not None
        assert mask.const_value is not None
        part = np.ascontiguousarray(mask.const_value.numpy()[..., : self.num_steps])
        self.add.replace_input_with(1, rewriter.initializer(ir.Tensor(part), f"{mask.name}/written"))
        for node in (self.keys.end, *self.between):
            _resize(node.outputs[0], -1, self.num_steps)
