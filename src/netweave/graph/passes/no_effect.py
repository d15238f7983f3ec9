"""Nodes that change nothing: casts, bounds that no value reaches, increasing functions before a choice."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader
from netweave.graph.passes.value_ranges import is_whole, range_of
from netweave.graph.passes.views import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph


IDEMPOTENT = frozenset({"Abs", "Ceil", "Floor", "Relu", "Round", "Sign"})
"""Functions that change nothing where they are applied a second time."""


BOUNDS = frozenset({"Clip", "Relu"})


@Pass
def drop_idle_nodes(graph: Graph) -> None:
    """Drop casts, clips, paddings and second applications of a function that change no number.

    Of two Casts the first goes if it loses nothing, a Cast to the type that is there, one between whole
    numbers before a choice or a lookup, and a Clip of whole numbers that none of them reaches: readers put
    one before a lookup. So do bounds before a Clip that gives one number whatever it reads.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        source = node.inputs[0] if node.inputs else None
        if node.domain or source is None or source.dtype is None:
            continue
        if node.op_type == "Cast":
            source = _read_before_casts(node, source, rewriter)
        elif node.op_type == "Clip" and _gives_one_number(node, source):
            node.replace_input_with(1, node.inputs[2])  # it needs nothing before it any more to do so
            source = _read_before_bounds(source, rewriter)
        if _is_idle(node, source):
            rewriter.bypass(node, source)


def _is_idle(node: ir.Node, source: ir.Value) -> bool:
    if node.op_type == "Cast":
        is_same = node.attributes.get_int("to", 0) == int(source.dtype or 0)
        return is_same or _is_before_choices(node, source)
    if node.op_type == "Pad":
        pads = node.inputs[1].const_value if node.inputs[1] is not None else None
        return pads is not None and not pads.numpy().any()
    maker = source.producer()
    is_repeated = maker is not None and not maker.domain and maker.op_type == node.op_type
    if node.op_type == "Clip":
        is_whole = source.dtype is not None and source.dtype.is_integer()
        return (is_repeated and _has_same_bounds(node, maker)) or (is_whole and _is_within(node, source))
    return is_repeated and node.op_type in IDEMPOTENT


def _is_before_choices(cast: ir.Node, source: ir.Value) -> bool:
    """Return whether whole numbers are cast without a loss, and read where any type of theirs does."""
    made = cast.outputs[0]
    is_whole = all(x.dtype is not None and x.dtype.is_integer() for x in (made, source))
    uses = list(made.uses())
    is_free = (
        bool(uses) and not made.is_graph_output() and all(_takes_any_type(use.node, use.idx) for use in uses)
    )
    return is_whole and is_free and made.dtype is not None and _holds_all(made.dtype, source, np.inf)


def _takes_any_type(node: ir.Node, index: int) -> bool:
    """Return whether whole numbers of any type do as an input of a node, and its output has the same type."""
    is_choice = node.op_type in {"ArgMax", "ArgMin"} or (node.op_type, index) == ("Gather", 1)
    return not node.domain and is_choice


def _has_same_bounds(clip: ir.Node, other: ir.Node | None) -> bool:
    """Return whether the bounds of two clips are stored, and the same."""
    bounds = zip_longest(clip.inputs[1:], other.inputs[1:] if other is not None else ())
    return all(
        (a is None and b is None) or (number_of(a) is not None and number_of(a) == number_of(b))
        for a, b in bounds
    )


def _read_before_casts(node: ir.Node, value: ir.Value, rewriter: Rewriter) -> ir.Value:
    """Let a Cast read what other Casts read that only it needs, or that stay for others; return that."""
    while (source := _before_lossless_cast(value, _largest(node))) is not None:
        cast = value.producer()
        if cast is not None and has_one_reader(value):
            rewriter.bypass(cast, source)
        else:
            node.replace_input_with(0, source)
        value = source
    return value


def _before_lossless_cast(value: ir.Value, largest: float) -> ir.Value | None:
    """Return what a Cast read that made a value, if it lost nothing up to the largest number that counts.

    Another Cast then makes the same of both. Whole numbers beyond its type wrap around, while for others ONNX
    defines nothing there.
    """
    source = _read_by_cast(value)
    is_lossless = source is not None and value.dtype is not None and _holds_all(value.dtype, source, largest)
    return source if is_lossless else None


def _largest(cast: ir.Node) -> float:
    """Return beyond which number a Cast gives the same for all: a float of few bits is infinite there."""
    dtype = cast.outputs[0].dtype
    return float(dtype.max) if dtype is not None and dtype.is_floating_point() else np.inf


def _read_by_cast(value: ir.Value) -> ir.Value | None:
    node = value.producer()
    return node.inputs[0] if node is not None and not node.domain and node.op_type == "Cast" else None


def _holds_all(dtype: ir.DataType, value: ir.Value, largest: float) -> bool:
    """Return whether a type holds each number that a tensor can hold, up to the largest that counts."""
    if value.dtype is None or ir.DataType.STRING in {dtype, value.dtype}:
        return False
    if not value.dtype.is_integer() and not (dtype.is_integer() and is_whole(value)):
        return bool(np.can_cast(value.dtype.numpy(), dtype.numpy()))
    low, high = range_of(value)
    if dtype.is_integer():
        return bool(dtype.min <= low and high <= dtype.max)
    if not dtype.is_floating_point():
        return False
    source = _read_by_cast(value)
    made_of = source.dtype if source is not None else None
    digits = dtype.mantissa_bitwidth
    if made_of is not None and made_of.is_floating_point() and made_of.mantissa_bitwidth <= digits:
        return True  # cut off, a number has no more digits than before
    return min(max(-low, high), largest) <= 2.0 ** (digits + 1)


def _is_within(clip: ir.Node, source: ir.Value) -> bool:
    low, high = range_of(source)
    least, largest = (_bound(clip, index) for index in (1, 2))
    return least is not None and largest is not None and least <= low and high <= largest


def _gives_one_number(clip: ir.Node, source: ir.Value) -> bool:
    """Return whether a Clip gives its upper bound everywhere, which wins where the bounds cross."""
    least, largest = (_bound(clip, index) for index in (1, 2))
    return largest is not None and max(range_of(source)[0], -np.inf if least is None else least) >= largest


def _read_before_bounds(value: ir.Value, rewriter: Rewriter) -> ir.Value:
    """Drop the bounds that only a Clip reads, and return what the first of them read."""
    while (maker := value.producer()) is not None and maker.op_type in BOUNDS and not maker.domain:
        source = maker.inputs[0]
        if source is None or not has_one_reader(value):
            break
        rewriter.bypass(maker, source)
        value = source
    return value


def _bound(node: ir.Node, index: int) -> float | None:
    """Return a bound of a Clip, infinite where it has none; None if it is computed."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return -np.inf if index == 1 else np.inf
    return float(value.const_value.numpy().reshape(-1)[0]) if value.const_value is not None else None


@Pass
def drop_before_choices(graph: Graph) -> None:
    """Drop each strictly increasing function before an ArgMax or ArgMin, whose choice it does not change.

    Log and Sqrt go where what they read is known to be positive (others become NaN), Softmax before an ArgMax
    over its axis. Sigmoid and Exp stay: they make large values equal.
    """
    rewriter = Rewriter(graph)
    for node in list(_before_choices(graph)):
        source = node.inputs[0]
        if source is not None:
            rewriter.bypass(node, source)


def functions_before_choices(graph: Graph) -> list[str]:
    """Return the operators that ``drop_before_choices`` would drop, in order."""
    return [node.op_type for node in _before_choices(graph)]


def _before_choices(graph: Graph) -> Iterator[ir.Node]:
    for choice in graph.nodes:
        value = choice.inputs[0] if choice.op_type in {"ArgMax", "ArgMin"} and not choice.domain else None
        node = value.producer() if value is not None and has_one_reader(value) else None
        if node is not None and not node.domain and _keeps_choice(node, choice):
            yield node


def _keeps_choice(node: ir.Node, choice: ir.Node) -> bool:
    source = node.inputs[0]
    if source is None:
        return False
    if node.op_type in {"Log", "Sqrt"}:
        low = range_of(source)[0]
        return low > 0 or (low == 0 and node.op_type == "Sqrt")
    if node.op_type == "Softmax" and choice.op_type == "ArgMin":
        return False  # the smallest of its values are all 0
    rank = len(source.shape or ())
    axes = node.attributes.get_int("axis", -1), choice.attributes.get_int("axis", 0)
    return node.op_type in {"LogSoftmax", "Softmax"} and rank > 0 and (axes[0] - axes[1]) % rank == 0
