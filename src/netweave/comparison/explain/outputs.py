"""Outputs: order and place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import counterpart, keeps_order, output_names
from netweave.comparison.explain.findings import edits_of, finding_at, where
from netweave.comparison.explain.isolated import IsolatedTester
from netweave.comparison.explain.known_mismatches.order import LAYOUTS
from netweave.comparison.explain.wording import in_order_of_a, input_order
from netweave.comparison.layout.change import LayoutChange, unless_plain
from netweave.comparison.layout.tensors import solve_layout
from netweave.comparison.layout.wording import describe
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.result.comparison import OUTPUT, Edit
from netweave.graph import attributes_of, known_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment, SignalPair
    from netweave.comparison.align.value_matching import Draft
    from netweave.comparison.metric import Signals
    from netweave.comparison.prepare import Side
    from netweave.comparison.result.comparison import Finding


# Tested alone, such a layer makes A's channels in another order, which is no error by itself: whoever reads
# them may have its weights in that order. So the readers are tested as well, on channels in either order.
# The layers whose values agree in both nets need none of this: their order is known from the values.

MAX_READERS = 30
"""So many layers behind a concatenation are tested to find one that tells its channels apart."""


@dataclass(frozen=True, slots=True)
class Join:
    """Two concatenations that join the same signals.

    Attributes:
        node_a: A's node.
        node_b: B's node.
        parts_a: Signals of A that A's node joins, in its order.
        parts_b: The counterparts in A of what B's node joins, in its order.
    """

    node_a: ir.Node
    node_b: ir.Node
    parts_a: tuple[str, ...]
    parts_b: tuple[str, ...]

    @property
    def a(self) -> str:
        """The signal of A."""
        return str(self.node_a.outputs[0].name)

    @property
    def b(self) -> str:
        """The signal of B."""
        return str(self.node_b.outputs[0].name)


def settle_joined_orders(alignment: Alignment, drafts: Sequence[Draft]) -> dict[int, Finding]:
    """Return what is wrong with concatenations of B whose readers expect A's order, by ``id`` of the node.

    Where the readers expect B's order instead, the alignment is told so, and they are tested in it.

    Args:
        alignment: Pairs of signals and nodes, and what A computes.
        drafts: The groups, in A's order.
    """
    findings: dict[int, Finding] = {}
    readers = _Readers(alignment, {id(node): draft for draft in drafts for node in draft.nodes_b})
    joins: list[Join] = []
    for draft in drafts:
        join = _join(alignment, draft)
        if join is None:
            continue
        change = _change(alignment, join)
        if change is not None and not alignment.has_equal_values(join.a):
            order = _own_order(join, joins)
            if (
                readers.follow(join.b, change) is False
                and order is not None
                and _reads_alike(alignment, join)
            ):
                findings[id(join.node_b)] = _finding_joined_order(alignment, join, change, order)
        joins.append(join)
    return findings


def _join(alignment: Alignment, draft: Draft) -> Join | None:
    """Return the concatenations of a group; None if there are none, or they do not join the same."""
    nodes = [[node for node in nodes if node.op_type == "Concat"] for nodes in (draft.nodes_a, draft.nodes_b)]
    if [len(found) for found in nodes] != [1, 1]:
        return None
    (node_a,), (node_b,) = nodes
    parts_a = alignment.a.signals.inputs_of(node_a)
    pairs = [alignment.b.pairs.get(name) for name in alignment.b.signals.inputs_of(node_b)]
    parts_b = [pair.a for pair in pairs if pair is not None]
    is_known = len(node_a.inputs) == len(parts_a) == len(parts_b) == len(node_b.inputs)
    if not is_known or sorted(parts_a) != sorted(parts_b) or len(set(parts_a)) != len(parts_a):
        return None
    if alignment.a.partners.get(id(node_a)) is not node_b:
        return None
    return Join(node_a, node_b, tuple(parts_a), tuple(parts_b))


def _reads_alike(alignment: Alignment, join: Join) -> bool:
    """Return whether what stands elsewhere in B is made of the same there.

    Branches that read each their own slice, and have each other's weights, are the wrong ones: not the order.
    """
    names_b = alignment.b.signals.inputs_of(join.node_b)
    for own, part, name_b in zip(join.parts_a, join.parts_b, names_b, strict=True):
        if own == part:
            continue
        way_a = _way_to(alignment.a.signals, part)
        pairs = map(alignment.b.pairs.get, _way_to(alignment.b.signals, name_b))
        if any(pair.a not in way_a for pair in pairs if pair is not None):
            return False
    return True


def _way_to(signals: Signals, name: str) -> list[str]:
    """Return the signals that one is made of, one from the other, up to where its branch begins."""
    way = [name]
    while (maker := signals.producer.get(way[-1])) is not None:
        read = signals.inputs_of(maker)
        if len(read) != 1:
            break
        way.append(read[0])
        if len(signals.consumers.get(read[0], ())) > 1:
            break
    return way


def _own_order(join: Join, before: Sequence[Join]) -> tuple[int, ...] | None:
    """Return where A's parts stand in B; None if they stand so in A but for the order of earlier joins.

    A net that joins more and more, as a DenseNet, joins each time what it joined before, which counts as one
    part however it is joined.
    """
    parts_a, parts_b = join.parts_a, join.parts_b
    for earlier in sorted(before, key=lambda one: -len(one.parts_a)):
        merged_a = _merged(parts_a, earlier.parts_a, earlier.a)
        merged_b = _merged(parts_b, earlier.parts_b, earlier.a)
        if merged_a is not None and merged_b is not None:
            parts_a, parts_b = merged_a, merged_b
    return None if parts_a == parts_b else tuple(map(parts_b.index, parts_a))


def _merged(parts: tuple[str, ...], some: tuple[str, ...], name: str) -> tuple[str, ...] | None:
    """Return parts with a stretch of them as one; None if they are not all there, one behind the other."""
    start = parts.index(some[0]) if some[0] in parts else len(parts)
    if len(some) == len(parts) or parts[start : start + len(some)] != some:
        return None
    return (*parts[:start], name, *parts[start + len(some) :])


def _change(alignment: Alignment, join: Join) -> LayoutChange | None:
    """Return how A's joined tensor becomes B's; None if the order is A's, or is not one of channels."""
    base = IsolatedTester(alignment).layout(join.a, join.b)
    shape = known_shape(join.node_a.outputs[0])
    if base is None or base.shape is not None or base.split is not None or base.orders or shape is None:
        return None
    axis_a = attributes_of(join.node_a)["axis"] % len(shape)
    axis_b = base.axes.index(axis_a) if base.axes else axis_a
    sizes = [(known_shape(value) or ())[axis_a : axis_a + 1] for value in join.node_a.inputs]
    lengths = [size[0] for size in sizes if size and size[0] is not None]
    if not base.is_channel_axis(axis_b) or len(lengths) != len(sizes):
        return None
    starts = [0, *accumulate(lengths)]
    places = map(join.parts_a.index, join.parts_b)
    order = unless_plain([i for place in places for i in range(starts[place], starts[place + 1])])
    return None if order is None else replace(base, orders=((axis_b, order),))


def _finding_joined_order(
    alignment: Alignment, join: Join, change: LayoutChange, order: Sequence[int]
) -> Finding:
    fix = input_order(order)
    plain = replace(change, orders=()).apply(alignment.a.tensors[join.a])
    return finding_at(
        (alignment.a.signals, join.node_a),
        (alignment.b.signals, join.node_b),
        mismatch="input-order",
        cause="the inputs of Concat stand in another order in B than in A, and its readers do not follow",
        fix=fix,
        error=relative_error(plain, change.apply(alignment.a.tensors[join.a])),
        error_fixed=0.0,  # it moves values and computes none
        edits=edits_of([fix]),
    )


class _Readers:
    """Readers of tensors whose channels are in another order in B.

    Args:
        alignment: Pairs of signals and nodes.
        owner: The group of each node of B, by ``id``.
    """

    def __init__(self, alignment: Alignment, owner: Mapping[int, Draft]) -> None:
        self._alignment, self._owner = alignment, owner

    def follow(self, signal: str, change: LayoutChange) -> bool | None:
        """Say whether what reads a signal of B expects its channels in B's order; None if nothing tells.

        If so, the pairs of signals are given that order.

        Args:
            signal: The signal.
            change: How A's tensor becomes B's.
        """
        changes = {signal: change}
        waiting = [signal]
        follows = False
        for draft in self._drafts(waiting):
            moved, after = self._test(draft, changes)
            straight, _ = self._test(draft, {})
            if straight is None or moved is None:
                continue
            if straight < moved and moved > LOCAL_TOLERANCE and not follows:
                return False
            follows |= moved < straight and straight > LOCAL_TOLERANCE
            for name, layout in after.items():
                if layout.channel_order is not None:  # it keeps the channels apart, as activations do
                    changes[name] = layout
                    waiting.append(name)
        if follows:
            self._settle(changes)
            return True
        is_returned = not changes.keys().isdisjoint(self._alignment.b.signals.outputs)
        return False if is_returned else None

    def _drafts(self, waiting: Sequence[str]) -> Iterator[Draft]:
        """Yield the groups that read signals, each once, in the order in which the signals come up."""
        seen: set[int] = set()
        place = 0
        while place < len(waiting) and len(seen) < MAX_READERS:
            for reader in self._alignment.b.signals.consumers.get(waiting[place], ()):
                draft = self._owner.get(id(reader))
                # another concatenation has an order of its own
                if draft is None or not draft.is_pair or id(draft) in seen or reader.op_type == "Concat":
                    continue
                seen.add(id(draft))
                yield draft
            place += 1

    def _test(
        self, draft: Draft, changes: Mapping[str, LayoutChange]
    ) -> tuple[float | None, Mapping[str, LayoutChange]]:
        """Return the error of a group that reads signals in some layout, and the layout of what it makes."""
        (test,) = IsolatedTester(self._alignment.with_changes(changes)).run([draft])
        return test.error, test.changes

    def _settle(self, changes: Mapping[str, LayoutChange]) -> None:
        pairs_a, pairs_b = self._alignment.a.pairs, self._alignment.b.pairs
        for name, change in changes.items():
            if name in pairs_b:
                pair = replace(pairs_b[name], change=change)
                pairs_a[pair.a] = pairs_b[name] = pair


def misplaced_outputs(alignment: Alignment) -> dict[int, Finding]:
    """Return what is wrong with outputs of B that hold A's values, by ``id`` of the node of B to blame."""
    a, b = alignment.sides
    findings: dict[int, Finding] = {}
    names_b = output_names(b.signals)
    for name_a in output_names(a.signals):
        signal_a = a.signals.root.get(name_a, name_a)
        pair = a.pairs.get(signal_a)
        if pair is None or not pair.has_equal_values or pair.change is None:
            continue
        node = b.signals.producer.get(pair.b)
        name_b = counterpart(alignment, name_a, names_b)
        if not keeps_order(alignment, pair.change):
            origin = _origin(b, pair)
            findings.setdefault(id(origin), _reordered(alignment, origin, name_a, pair.change))
        elif node is not None and name_b is not None:
            signal_b = b.signals.root.get(name_b, name_b)
            if signal_b != pair.b and _differ(alignment, signal_a, signal_b):
                finding = _swapped(alignment, node, name_a, pair) or _replaced(
                    alignment, node, name_a, name_b
                )
                if finding is not None:
                    findings.setdefault(id(node), finding)
    return findings


def _differ(alignment: Alignment, signal_a: str, signal_b: str) -> bool:
    """Return whether two signals are known to hold different values."""
    x, y = alignment.a.tensors.get(signal_a), alignment.b.tensors.get(signal_b)
    if x is None or y is None:
        return False
    return solve_layout(x, y, tolerance=LOCAL_TOLERANCE, orientation=alignment.orientation) is None


def _origin(b: Side, pair: SignalPair) -> ir.Node | None:
    """Return the node of B from which on the entries of an output stand in another order than A's."""
    node = b.signals.producer.get(pair.b)
    while node is not None:
        moved = [
            signal
            for signal in b.signals.inputs_of(node)
            if (known := b.pairs.get(signal)) and known.change and known.change.channel_order
        ]
        before = b.signals.producer.get(moved[0]) if len(moved) == 1 else None
        if before is None:
            return node
        node = before
    return None


def _reordered(alignment: Alignment, node: ir.Node | None, output: str, change: LayoutChange) -> Finding:
    channels = change.channel_order
    order = describe(replace(change, axes=None, orders=((1, channels),)) if channels else change)
    joined = node is not None and node.op_type == "Concat"
    maker = "B" if node is None or node.op_type in LAYOUTS else f"B's {node.op_type}"
    return _finding_misplaced_outputs(
        alignment,
        node,
        mismatch="input-order" if joined else "channel-order",
        cause=f"{maker} makes {order}, where A keeps them, and the net gives them so as {output!r}",
        fix=_in_order_of_a(alignment, node)
        if joined and node is not None
        else "put its channels in A's order",
    )


def _in_order_of_a(alignment: Alignment, node: ir.Node) -> str:
    a, b = alignment.sides
    node_a = b.partners.get(id(node))
    parts_a = a.signals.inputs_of(node_a) if node_a is not None else []
    pairs = [b.pairs.get(part) for part in b.signals.inputs_of(node)]
    return in_order_of_a(node, parts_a, [pair.a if pair is not None else None for pair in pairs])


def _swapped(alignment: Alignment, node: ir.Node, output: str, pair: SignalPair) -> Finding | None:
    """Return that B gives A's output under another name; None if it is no output of B."""
    b = alignment.b.signals
    names = [name for name in output_names(b) if b.root.get(name, name) == pair.b]
    if not names:
        return None
    return _finding_misplaced_outputs(
        alignment,
        node,
        mismatch="output-order",
        cause=f"B gives as {names[0]!r} what A gives as {output!r}",
        fix=f"give it as {output!r}",
    )


def _replaced(alignment: Alignment, node: ir.Node, output: str, name_b: str) -> Finding | None:
    """Return that B gives another layer of A's in the place of an output; None if it gives what A lacks.

    What A lacks is made by nodes that are judged themselves: where B goes on behind A's output, as detectors
    with post-processing do, they are what differs.
    """
    b = alignment.b.signals
    signal = b.root.get(name_b, name_b)
    pair = alignment.b.pairs.get(signal)
    if pair is None or not pair.has_equal_values:
        return None
    producers = [b.producer.get(signal), node]
    layers = [where(b, each)[0] if each is not None else signal for each in producers]
    return _finding_misplaced_outputs(
        alignment,
        node,
        mismatch="output",
        cause=f"B gives as {name_b!r} what {layers[0]!r} makes; what A gives as {output!r} is made by "
        f"{layers[1]!r}, which is no output of B",
        fix=f"give what {layers[1]!r} makes as {output!r}",
    )


def _finding_misplaced_outputs(
    alignment: Alignment, node: ir.Node | None, *, mismatch: str, cause: str, fix: str
) -> Finding:
    a, b = alignment.sides
    node_a = b.partners.get(id(node)) if node is not None else None
    return finding_at(
        (a.signals, node_a), (b.signals, node), mismatch=mismatch, cause=cause, fix=fix, edits=edits_of([fix])
    )


if TYPE_CHECKING:
    Sizes = tuple[int | None, ...]

FUNCTIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
"""PyTorch's functions of each element, by the operator."""

ALONG_AXIS = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}
"""PyTorch's functions along an axis."""


@dataclass(frozen=True, slots=True)
class ReturnedFunction:
    """One function more of an output.

    Attributes:
        words: What to do, for people.
        edit: The same for the text of B's file.
    """

    words: str
    edit: Edit


def function_of_output(alignment: Alignment, nodes: Sequence[ir.Node]) -> ReturnedFunction | None:
    """Return the function that turns an output of B into A's; None if it is none that B's code could call.

    Args:
        alignment: Pairs of signals, and B as it was read, which says where its code returns outputs.
        nodes: A's nodes that B has no counterpart of.
    """
    a, b = alignment.sides
    if b.source.returned is None or len(nodes) != 1:
        return None
    (node,) = nodes
    read = a.signals.inputs_of(node)
    pair = a.pairs.get(read[0]) if len(read) == 1 else None
    if pair is None or not set(a.signals.outputs_of(node)) & set(a.signals.outputs):
        return None
    ends = [output for output in b.graph.outputs if b.signals.root.get(str(output.name)) == pair.b]
    if len(ends) != 1:
        return None
    change = pair.change
    if change is not None and (change.axes is not None or change.scale != 1.0):
        return None
    call = _call(node, ends[0])
    if call is None:
        return None
    place, count = b.graph.outputs.index(ends[0]) + 1, len(b.graph.outputs)
    what = f"output {place} of {count} that" if count > 1 else "what"
    words = f"apply {call} to {what} forward returns"
    return ReturnedFunction(words, Edit(OUTPUT, f"{place} of {count}: {call}"))


def _call(node: ir.Node, output: ir.Value) -> str | None:
    """Return how PyTorch computes of an output of B what a node of A computes of its input."""
    if node.domain not in {"", "ai.onnx"}:
        return None
    if node.op_type in FUNCTIONS:
        return f"{FUNCTIONS[node.op_type]}()"
    shape_a, shape_b = known_shape(node.inputs[0]), known_shape(output)
    if node.op_type not in ALONG_AXIS or shape_a is None or shape_b is None:
        return None
    axis = attributes_of(node).get("axis", -1) % len(shape_a)
    is_same = shape_a == shape_b or _is_flattened(shape_a, shape_b, axis)
    return f"{ALONG_AXIS[node.op_type]}(dim={axis})" if is_same else None


def _is_flattened(shape_a: Sizes, shape_b: Sizes, axis: int) -> bool:
    """Return whether two tensors are alike up to an axis, behind which there is one pixel in each."""
    rest = (*shape_a[axis + 1 :], *shape_b[axis + 1 :])
    return shape_a[: axis + 1] == shape_b[: axis + 1] and all(size == 1 for size in rest)
