"""Mismatches of views: what a layer reads is reshaped and transposed otherwise, as by a channel shuffle."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named
from netweave.comparison.explain.known_mismatches.windows import DENSE
from netweave.comparison.metric import constants_of, is_view
from netweave.graph import attributes_of, known_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.graph import Graph

MIXING = frozenset({"Transpose"})
"""Views without any of these keep the values in their order."""


def view_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's views in front of what a node reads, where B's mix the values otherwise."""
    for node_a, node_b in case.pairs():
        if node_b.op_type in DENSE and not _reads_sequence(node_b):
            continue  # the order that an image is flattened in is one of their columns
        views_a, views_b = views_before(node_a), views_before(node_b)
        if not _differ(views_a, views_b) or not _is_fed_as_it_is(case, node_b):
            continue
        yield shuffle_proposal(case, (node_a, node_b), views_a, views_b)


def _reads_sequence(node: ir.Node) -> bool:
    shape = known_shape(node.inputs[0])
    return shape is not None and len(shape) > 2


def shuffle_proposal(
    case: Case, nodes: tuple[ir.Node, ir.Node], views_a: Sequence[ir.Node], views_b: Sequence[ir.Node]
) -> Proposal:
    """Return the proposal that a node of B reads its input through A's views."""
    node_a, node_b = nodes
    layers = case.b.graph.layers_of(node_b)
    reader = repr(layers[0].name if layers else node_b.name)
    groups_a, groups_b = num_shuffled(views_a), num_shuffled(views_b)
    if groups_a and groups_b:
        mismatch = "channel-shuffle"
        cause = f"in front of {reader} {_shuffled('A', groups_a)}, {_shuffled('B', groups_b)}"
        fix = (
            f"shuffle the channels in {groups_a} groups in front of {reader}"
            if groups_a > 1
            else f"remove the channel shuffle in front of {reader}"
        )
    else:
        mismatch = "axis-order"
        cause = f"in front of {reader} A {_in_words(views_a)}, B {_in_words(views_b)}"
        fix = f"in front of {reader}, do as A does: {_in_words(views_a)}"
    return Proposal(
        mismatch=mismatch,
        cause=cause,
        fix=fix,
        node_a=views_a[-1] if views_a else node_a,
        node_b=views_b[-1] if views_b else node_b,
        change=_Review(node_b.name, list(views_a)),
    )


def views_before(node: ir.Node) -> list[ir.Node]:
    """Return the views between a node's first input and the signal that it is a view of, in their order."""
    views: list[ir.Node] = []
    value = node.inputs[0] if node.inputs else None
    while value is not None and (maker := value.producer()) is not None and is_view(maker):
        views.insert(0, maker)
        value = maker.inputs[0]
    return views


def num_shuffled(views: Sequence[ir.Node]) -> int:
    """Return in how many groups views shuffle channels: 1 if in none, 0 if they do something else.

    A shuffle reshapes (N, C, ...) to (N, groups, C / groups, ...), swaps these two axes, and reshapes back.
    """
    moving = [view for view in views if view.op_type != "Identity"]
    if not any(view.op_type in MIXING for view in moving):
        return 1
    if [view.op_type for view in moving] != ["Reshape", "Transpose", "Reshape"]:
        return 0
    split = known_shape(moving[0].outputs[0])
    source = known_shape(moving[0].inputs[0]) if moving[0].inputs[0] is not None else None
    perm = tuple(attributes_of(moving[1]).get("perm", ()))
    if split is None or source is None or perm != (0, 2, 1, *range(3, len(split))):
        return 0
    sizes = [size for size in split[1:3] if size is not None]
    keeps = len(sizes) == 2 and source[1] == prod(sizes) and list(split[3:]) == list(source[2:])
    return sizes[0] if keeps else 0


def _differ(views_a: Sequence[ir.Node], views_b: Sequence[ir.Node]) -> bool:
    if not any(view.op_type in MIXING for view in (*views_a, *views_b)):
        return False
    return [_mark(view) for view in views_a] != [_mark(view) for view in views_b]


def _mark(view: ir.Node) -> tuple[str, object, object]:
    shape = known_shape(view.outputs[0])
    return view.op_type, tuple(attributes_of(view).get("perm", ())), tuple(shape[1:]) if shape else None


def _is_fed_as_it_is(case: Case, node: ir.Node) -> bool:
    """Return whether A's counterpart of a node's input has B's layout, so that A's views can follow it."""
    read = case.b.inputs_of(node)
    change = case.changes.get(read[0]) if read else None
    return change is not None and change.is_identity and change.shape is None and change.split is None


def _shuffled(name: str, groups: int) -> str:
    return (
        f"{name} shuffles the channels in {groups} groups" if groups > 1 else f"{name} shuffles no channels"
    )


def _in_words(views: Sequence[ir.Node]) -> str:
    words = []
    for view in views:
        if view.op_type == "Transpose":
            words.append(f"permutes the axes to {tuple(attributes_of(view).get('perm', ()))}")
        elif (shape := known_shape(view.outputs[0])) is not None:
            words.append(f"reshapes to ({', '.join(['N', *map(str, shape[1:])])})")
    return ", ".join(words) or "reads it as it is"


class _Review:
    """Lets a node of a subgraph read its input through A's views."""

    def __init__(self, node: str | None, views: Sequence[ir.Node]) -> None:
        self._node, self._views = node, views

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        value = node.inputs[0]
        while value is not None and (maker := value.producer()) is not None and is_view(maker):
            value = maker.inputs[0]
        for number, view in enumerate(self._views):
            stored = constants_of(view)
            inputs = [value]
            for index in range(1, len(view.inputs)):
                constant = stored.get(index)
                if constant is None or constant.const_value is None:
                    return  # a size that A computes; nothing is changed, so nothing is explained
                copy = ir.Value(
                    name=f"{self._node}/view{number}.{index}",
                    shape=constant.shape,
                    type=constant.type,
                    const_value=constant.const_value,
                )
                graph.model.graph.register_initializer(copy)
                inputs.append(copy)
            made = ir.Node(
                view.domain, view.op_type, inputs, attributes=list(view.attributes.values()),
                num_outputs=1, name=f"{self._node}/view{number}",
            )  # fmt: skip
            made.outputs[0].name = f"{self._node}/viewed{number}"
            made.outputs[0].type = view.outputs[0].type
            graph.model.graph.insert_before(node, made)
            value = made.outputs[0]
        node.replace_input_with(0, value)
