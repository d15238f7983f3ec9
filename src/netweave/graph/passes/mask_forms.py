"""Masks that inputs decide, written in one way.

Code multiplies ``1 - mask`` by a large negative number and adds it to scores, fills scores where a condition
does not hold, or adds what a choice gives; it tests ``mask != 0``, ``mask == 1`` or casts. Here a mask
becomes a condition, and all conditions of a softmax become one choice, which is added last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import infer_shapes
from netweave.graph.passes.masks import NEVER
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader, prune
from netweave.graph.passes.views import number_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph

LOWEST = float(np.finfo(np.float32).min)

MOST_TERMS = 8
"""Scores are the sum of so many terms at most."""

_VIEWS = frozenset({"Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})


@Pass
def settle_masks(graph: Graph) -> None:
    """Write tests of masks as casts, and add to the scores of a softmax one choice by all its conditions."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        rule = _RULES.get(node.op_type)
        if rule is not None and not node.domain and node.graph is not None:
            rule(rewriter, node)
    is_changed = False
    for node in list(graph.nodes):
        if node.op_type == "Softmax" and not node.domain:
            is_changed |= _settle(rewriter, node)
            _lower(rewriter, node)
    prune.edit(graph)
    if is_changed:
        infer_shapes(graph)


def is_mask(value: ir.Value | None) -> bool:
    """Return whether a value is an input of zeros and ones, by its name, or a view of one."""
    while value is not None and (node := value.producer()) is not None:
        if node.domain or node.op_type not in _VIEWS:
            return False
        value = node.inputs[0]
    if value is None or not value.is_graph_input() or value.dtype is None:
        return False
    return value.dtype.is_integer() and "mask" in (value.name or "").lower()


# What a node that reads a mask, or a condition, is written as.


def _write_test(rewriter: Rewriter, node: ir.Node) -> None:
    """Write what a mask is compared with as a cast, or as the contrary of one."""
    x, number = node.inputs[0], number_of(node.inputs[1])
    if x is None or number not in {0, 1} or not is_mask(x) or (node.op_type, number) == ("Greater", 1):
        return
    truth = _cast(rewriter, node, x, ir.DataType.BOOL)
    if (node.op_type, number) == ("Equal", 0):
        truth = _contrary(rewriter, node, truth)
    _replace(rewriter, node, truth)


def _write_contrary(rewriter: Rewriter, node: ir.Node) -> None:
    """Write ``x != 0`` of whole numbers as a cast, and the contrary of a contrary as what it is of."""
    maker = node.inputs[0].producer() if node.inputs[0] is not None else None
    x = maker.inputs[0] if maker is not None and not maker.domain else None
    if maker is None or x is None or x.dtype is None:
        return
    if maker.op_type == "Not":
        rewriter.bypass(node, x)
    elif maker.op_type == "Equal" and x.dtype.is_integer() and number_of(maker.inputs[1]) == 0:
        _replace(rewriter, node, _cast(rewriter, node, x, ir.DataType.BOOL))


def _replace(rewriter: Rewriter, node: ir.Node, value: ir.Value) -> None:
    rewriter.take_over(node.outputs[0], value)
    rewriter.graph.model.graph.remove(node, safe=True)


def _write_cast(rewriter: Rewriter, node: ir.Node) -> None:
    """Take a mask itself for whether it is not 0, as a number."""
    source = node.inputs[0]
    maker = source.producer() if source is not None else None
    is_truth = maker is not None and not maker.domain and maker.op_type == "Cast"
    x = maker.inputs[0] if maker is not None and is_truth else None
    if source is None or x is None or source.dtype is not ir.DataType.BOOL or not is_mask(x):
        return
    wanted = ir.DataType(node.attributes.get_int("to", 0))
    if wanted is x.dtype:
        rewriter.bypass(node, x)
    elif wanted is not ir.DataType.BOOL:
        node.replace_input_with(0, x)


def _write_complement(rewriter: Rewriter, node: ir.Node) -> None:
    """Write ``1 - x`` of a truth as a number of its contrary."""
    truth = _truth(rewriter, node, node.inputs[1]) if number_of(node.inputs[0]) == 1 else None
    dtype = node.outputs[0].dtype
    if truth is None or dtype is None:
        return
    contrary = _contrary(rewriter, node, truth)
    _replace(rewriter, node, _cast(rewriter, node, contrary, dtype))


def _write_product(rewriter: Rewriter, node: ir.Node) -> None:
    """Write the product of a truth and a large negative number as a choice."""
    for x, factor in (tuple(node.inputs), tuple(reversed(node.inputs))):
        number = number_of(factor)
        truth = _truth(rewriter, node, x) if number is not None and number <= NEVER else None
        if truth is None or factor is None or node.outputs[0].dtype is None:
            continue
        zero = rewriter.initializer(ir.Tensor(np.zeros((), node.outputs[0].dtype.numpy())), "mask/zero")
        choice = rewriter.insert(node, "Where", [truth, factor, zero]).outputs[0]
        _replace(rewriter, node, choice)
        return


def _write_view(rewriter: Rewriter, node: ir.Node) -> None:
    """Write a view of a contrary, or of a choice of two numbers, as the contrary or the choice by a view."""
    source = node.inputs[0]
    maker = source.producer() if source is not None else None
    if source is None or maker is None or maker.domain:
        return
    if maker.op_type == "Not":
        _replace(rewriter, node, _viewed(rewriter, node, source, node))
    elif maker.op_type == "Where" and None not in map(number_of, maker.inputs[1:]):
        assert maker.inputs[0] is not None  # a choice has a condition
        viewed = _viewed(rewriter, node, maker.inputs[0], node)
        _replace(rewriter, node, rewriter.insert(node, "Where", [viewed, *maker.inputs[1:]]).outputs[0])


def _write_choice(rewriter: Rewriter, node: ir.Node) -> None:
    """Let a choice read numbers for tensors of one number each, as ``masked_fill`` of zeros makes one."""
    condition, made = node.inputs[0], node.outputs[0]
    if condition is None or condition.shape is None or made.shape is None or condition.shape != made.shape:
        return
    for place, value in enumerate(node.inputs[1:], start=1):
        stored = value.const_value.numpy() if value is not None and value.const_value is not None else None
        if stored is not None and stored.ndim and (stored == stored.flat[0]).all():
            number = ir.Tensor(np.array(stored.flat[0]))
            node.replace_input_with(place, rewriter.initializer(number, "mask/number"))


_RULES: dict[str, Callable[[Rewriter, ir.Node], None]] = {
    "Cast": _write_cast,
    "Equal": _write_test,
    "Greater": _write_test,
    "Mul": _write_product,
    "Not": _write_contrary,
    "Sub": _write_complement,
    "Where": _write_choice,
    **dict.fromkeys(_VIEWS, _write_view),
}


def _truth(rewriter: Rewriter, before: ir.Node, value: ir.Value | None) -> ir.Value | None:
    """Return the condition whose number a value is: it, or the mask, that was cast; None if it is neither."""
    node = value.producer() if value is not None else None
    if value is not None and is_mask(value):
        return _cast(rewriter, before, value, ir.DataType.BOOL)
    if node is None or node.domain or node.inputs[0] is None:
        return None
    if node.op_type in _VIEWS:
        truth = _truth(rewriter, before, node.inputs[0])
        return None if truth is None else _viewed(rewriter, before, truth, node)
    if node.op_type != "Cast":
        return None
    source = node.inputs[0]
    return source if source.dtype is ir.DataType.BOOL else _truth(rewriter, before, source)


def _viewed(rewriter: Rewriter, before: ir.Node, value: ir.Value, view: ir.Node) -> ir.Value:
    """Return a condition in another view; that of a contrary is the contrary of a view."""
    maker = value.producer()
    if maker is not None and not maker.domain and maker.op_type == "Not" and maker.inputs[0] is not None:
        return _contrary(rewriter, before, _viewed(rewriter, before, maker.inputs[0], view))
    new = rewriter.insert(before, view.op_type, [value, *view.inputs[1:]])
    new.attributes.update(view.attributes)
    new.outputs[0].shape, new.outputs[0].type = view.outputs[0].shape, ir.TensorType(ir.DataType.BOOL)
    return new.outputs[0]


def _cast(rewriter: Rewriter, before: ir.Node, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    made = rewriter.insert(before, "Cast", [value], {"to": int(dtype)}).outputs[0]
    made.shape, made.type = value.shape, ir.TensorType(dtype)
    return made


def _contrary(rewriter: Rewriter, before: ir.Node, value: ir.Value) -> ir.Value:
    made = rewriter.insert(before, "Not", [value]).outputs[0]
    made.shape, made.type = value.shape, ir.TensorType(ir.DataType.BOOL)
    return made


# The terms of a softmax's input.


@dataclass(slots=True)
class _Terms:
    """The terms of scores.

    Attributes:
        others: Scores and what is computed and added to them, each with whether it is subtracted.
        biases: Stored numbers that are added to them.
        conditions: Values that hold where a score counts, each with whether it is negated.
        allowed: Stored conditions.
    """

    others: list[tuple[ir.Value, bool]] = field(default_factory=list)
    biases: list[np.ndarray] = field(default_factory=list)
    conditions: list[tuple[ir.Value, bool]] = field(default_factory=list)
    allowed: list[np.ndarray] = field(default_factory=list)

    def add(self, value: ir.Value, *, is_negative: bool = False) -> None:
        """Add the terms that a value is the sum of."""
        node = value.producer()
        if value.const_value is not None:
            numbers = -value.const_value.numpy() if is_negative else value.const_value.numpy()
            if (numbers <= NEVER).any():
                self.allowed.append(numbers > NEVER)
            self.biases.append(np.where(numbers > NEVER, numbers, 0).astype(numbers.dtype))
            return
        is_plain = node is not None and not node.domain and len(self.others) < MOST_TERMS
        if node is None or not is_plain:
            self.others.append((value, is_negative))
        elif node.op_type in {"Add", "Sub"} and not is_negative and all(node.inputs):
            first, second = node.inputs
            assert first is not None and second is not None  # noqa: PT018 - as asked above
            self.add(first)
            self.add(second, is_negative=node.op_type == "Sub")
        elif node.op_type != "Where" or is_negative or not self._take_choice(node):
            self.others.append((value, is_negative))

    def _take_choice(self, node: ir.Node) -> bool:
        """Take a choice between scores, or 0, and a number that takes them out."""
        condition, first, second = node.inputs
        if condition is None or first is None or second is None:
            return False
        for kept, fill, is_negated in ((first, second, False), (second, first, True)):
            number = number_of(fill)
            if number is None or number > NEVER:
                continue
            if condition.const_value is not None:
                allowed = condition.const_value.numpy()
                self.allowed.append(~allowed if is_negated else allowed)
            else:
                self._take_condition(condition, is_negated=is_negated)
            self.add(kept)
            return True
        return False

    def _take_condition(self, value: ir.Value, *, is_negated: bool) -> None:
        """Take a condition apart: of ``and``, of the contrary of ``or``, and of contraries."""
        node = value.producer()
        joins = "Or" if is_negated else "And"
        if node is not None and not node.domain and node.op_type in {"Not", joins}:
            for each in node.inputs:
                if each is None:
                    continue
                is_contrary = is_negated != (node.op_type == "Not")
                if each.const_value is not None:
                    numbers = each.const_value.numpy()
                    self.allowed.append(~numbers if is_contrary else numbers)
                else:
                    self._take_condition(each, is_negated=is_contrary)
        elif all(is_negated != other or _root(value) != _root(each) for each, other in self.conditions):
            self.conditions.append((value, is_negated))


def _root(value: ir.Value) -> tuple[ir.Value, str]:
    """Return what a condition is a cast of, with other axes of size 1, and its shape."""
    root = value
    while (node := root.producer()) is not None and not node.domain and node.inputs[0] is not None:
        is_truth = node.op_type == "Cast" and root.dtype is ir.DataType.BOOL
        if node.op_type not in {"Identity", "Squeeze", "Unsqueeze"} and not is_truth:
            break
        root = node.inputs[0]
    return root, str(value.shape)


def _settle(rewriter: Rewriter, softmax: ir.Node) -> bool:
    """Add one choice by all conditions to the scores of a softmax; return whether that is another form."""
    scores = softmax.inputs[0]
    dtype = scores.dtype if scores is not None else None
    if scores is None or dtype is None or not has_one_reader(scores):
        return False
    terms = _Terms()
    terms.add(scores)
    if not terms.conditions or not terms.others or terms.others[0][1]:
        return False
    condition = _joined(rewriter, softmax, terms)
    if condition is None:
        return False
    total = terms.others[0][0]
    for value, is_negative in terms.others[1:]:
        total = rewriter.insert(softmax, "Sub" if is_negative else "Add", [total, value]).outputs[0]
        total.type = scores.type
    biases = sum(terms.biases, start=np.zeros((), dtype.numpy()))
    bias = rewriter.initializer(ir.Tensor(biases), "mask/bias")
    lowest = rewriter.initializer(ir.Tensor(np.array(LOWEST, dtype.numpy())), "mask/lowest")
    added = rewriter.insert(softmax, "Where", [condition, bias, lowest]).outputs[0]
    added.type = scores.type
    masked = rewriter.insert(softmax, "Add", [total, added]).outputs[0]
    masked.type, masked.shape = scores.type, scores.shape
    softmax.replace_input_with(0, masked)
    return True


def _lower(rewriter: Rewriter, softmax: ir.Node) -> None:
    """Fill the scores that a stored mask takes out with one number, if it leaves some in each row.

    Code writes minus infinity, the lowest number of a type, or a large negative one.
    """
    scores = softmax.inputs[0]
    choice = scores.producer() if scores is not None and has_one_reader(scores) else None
    if choice is None or choice.domain or choice.op_type != "Where" or scores is None or scores.shape is None:
        return
    condition, *branches = (
        None if v is None or v.const_value is None else v.const_value for v in choice.inputs
    )
    if condition is None or softmax.attributes.get_int("axis", -1) not in {-1, len(scores.shape) - 1}:
        return
    allowed = condition.numpy()
    for place, (fill, hidden) in enumerate(zip(branches, (allowed, ~allowed), strict=True), start=1):
        is_whole = hidden.ndim > 0 and hidden.shape[-1] == scores.shape[-1]
        if fill is None or not is_whole or hidden.all(-1).any():
            continue
        numbers = fill.numpy()
        if (numbers <= NEVER).all():
            lowest = np.array(LOWEST, numbers.dtype)
            choice.replace_input_with(place, rewriter.initializer(ir.Tensor(lowest), "mask/lowest"))


def _joined(rewriter: Rewriter, before: ir.Node, terms: _Terms) -> ir.Value | None:
    """Return all conditions as one, what is stored first; None where they have no common axes."""
    condition: ir.Value | None = None
    if terms.allowed:
        try:
            allowed = np.logical_and.reduce(np.broadcast_arrays(*terms.allowed))
        except ValueError:
            return None
        if not allowed.all():
            scores = before.inputs[0]
            rank = 4 if scores is None or scores.shape is None else len(scores.shape)
            axes = (1,) * max(0, rank - allowed.ndim)
            condition = rewriter.initializer(ir.Tensor(allowed.reshape(axes + allowed.shape)), "mask/allowed")
    for value, is_negated in terms.conditions:
        each = _contrary(rewriter, before, value) if is_negated else value
        if condition is None:
            condition = each
        else:
            condition = rewriter.insert(before, "And", [condition, each]).outputs[0]
            condition.type = ir.TensorType(ir.DataType.BOOL)
    return condition
