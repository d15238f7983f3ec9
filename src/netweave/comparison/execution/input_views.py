"""Views that layers have of a net's inputs: axes, their order, and entries along them.

Nets permute the axes of an input, slice it into several images, reverse its channels and shift its values
before the first filters read it. None of that hides how the weights of these filters relate to the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.comparison.signals import is_constant
from netweave.graph import attributes_of, known_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.signals import Signals

KEPT = frozenset(
    {
        "Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Div", "Dropout", "Identity",
        "LRN", "MaxPool", "Mul", "Neg", "Pad", "Relu", "Resize", "Sigmoid", "Sqrt", "Sub", "Tanh",
    }
)  # fmt: skip
"""Operators that leave axes and channels where they are."""

Entries = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """An input of a net as a node sees it.

    Attributes:
        name: Name of the input.
        axes: For each axis of the value, the axis of the input.
        entries: For each axis of the value, which entries of the input it holds; None for all of them, also
            where their number is not known.
        dropped: Axes of the input that the value lacks: one entry was taken out of them.
    """

    name: str
    axes: tuple[int, ...]
    entries: tuple[Entries | None, ...]
    dropped: tuple[int, ...] = ()

    @classmethod
    def of_input(cls, value: ir.Value) -> View | None:
        """Return an input as itself; None if its number of axes is not known."""
        shape = known_shape(value)
        if shape is None:
            return None
        entries = [None if size is None else tuple(range(size)) for size in shape]
        return cls(str(value.name), tuple(range(len(shape))), tuple(entries[:1] and [None, *entries[1:]]))

    @property
    def all_axes(self) -> tuple[int, ...]:
        """The axes of the input in the order in which they are seen; those that are not, last."""
        return (*self.axes, *self.dropped)

    def permuted(self, perm: Sequence[int]) -> View:
        """Return the view with its axes permuted."""
        return replace(
            self, axes=tuple(self.axes[i] for i in perm), entries=tuple(self.entries[i] for i in perm)
        )

    def taken(self, axis: int, chosen: Entries | slice) -> View | None:
        """Return the view of some entries along an axis; None if its entries are not known."""
        known = self.entries[axis]
        if known is None:
            return None
        if isinstance(chosen, slice):
            picked = known[chosen]
        elif all(-len(known) <= i < len(known) for i in chosen):
            picked = tuple(known[i] for i in chosen)
        else:
            return None
        return self.with_entries(axis, picked)

    def with_entries(self, axis: int, entries: Entries) -> View:
        """Return the view with other entries along an axis."""
        return replace(self, entries=(*self.entries[:axis], entries, *self.entries[axis + 1 :]))

    def without(self, axis: int) -> View:
        """Return the view without an axis."""
        axis %= len(self.axes)
        return replace(
            self,
            axes=self.axes[:axis] + self.axes[axis + 1 :],
            entries=self.entries[:axis] + self.entries[axis + 1 :],
            dropped=tuple(sorted((*self.dropped, self.axes[axis]))),
        )


def views_of(signals: Signals) -> dict[str, View]:
    """Return the views of a net's inputs, by the names of the values that hold them."""
    views: dict[str, View] = {}
    for value in signals.graph.inputs:
        view = View.of_input(value)
        if view is not None:
            views[str(value.name)] = view
    for node in signals.graph.nodes:
        sources = [v for v in node.inputs if v is not None and not is_constant(v)]
        known = [views[str(v.name)] for v in sources if str(v.name) in views]
        if not node.domain and known and len(known) == len(sources):
            views |= _made(node, known)
    return views


def _made(node: ir.Node, known: list[View]) -> dict[str, View]:
    """Return the views that a node makes of views."""
    if node.op_type == "Concat":
        results = [_joined(known, attributes_of(node)["axis"])]
    elif len(known) > 1:
        return {}
    elif node.op_type in KEPT:
        results = [known[0]]
    elif node.op_type == "Split":
        results = _split(node, known[0])
    else:
        make = {"Transpose": _transposed, "Slice": _sliced, "Gather": _gathered, "Squeeze": _squeezed}
        results = [make[node.op_type](node, known[0])] if node.op_type in make else []
    pairs = zip(node.outputs, results, strict=False)
    return {str(value.name): view for value, view in pairs if view is not None and _has_axes_of(value, view)}


def _has_axes_of(value: ir.Value, view: View) -> bool:
    """Return whether a value has as many axes as a view; an added constant may have more."""
    shape = known_shape(value)
    return shape is None or len(shape) == len(view.axes)


def _transposed(node: ir.Node, view: View) -> View | None:
    perm = attributes_of(node).get("perm") or tuple(reversed(range(len(view.axes))))
    return view.permuted(perm) if len(perm) == len(view.axes) else None


def _split(node: ir.Node, view: View) -> list[View | None]:
    axis = attributes_of(node).get("axis", 0) % len(view.axes)
    parts: list[View | None] = []
    begin = 0
    for value in node.outputs:
        shape = known_shape(value)
        size = None if shape is None else shape[axis]
        if size is None:
            return parts
        parts.append(view.taken(axis, slice(begin, begin + size)))
        begin += size
    return parts


def _sliced(node: ir.Node, view: View) -> View | None:
    rows = [_numbers(value) for value in node.inputs[1:]]
    starts, ends = rows[:2]
    if starts is None or ends is None or any(v is not None and r is None for v, r in _rest(node, rows)):
        return None
    axes = rows[2] if len(rows) > 2 and rows[2] is not None else list(range(len(starts)))
    steps = rows[3] if len(rows) > 3 and rows[3] is not None else [1] * len(starts)
    part: View | None = view
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis % len(view.axes)
        if part is None or (place == 0 and (start, step) != (0, 1)):
            return None
        if place == 0 or (part.entries[place] is None and start == 0 and step == 1):
            continue  # of an axis of unknown size only its beginning, which says nothing of orders
        part = part.taken(place, _bounds(start, end, step))
    return part


def _rest(node: ir.Node, rows: list[list[int] | None]) -> list[tuple[ir.Value | None, list[int] | None]]:
    return list(zip(node.inputs[1:], rows, strict=True))


def _bounds(start: int, end: int, step: int) -> slice:
    """Return bounds as Python has them, which has no number for "to the first entry, backwards"."""
    return slice(start, None if step < 0 and end < -(1 << 30) else end, step)


def _gathered(node: ir.Node, view: View) -> View | None:
    index = node.inputs[1]
    array: np.ndarray | None = (
        None if index is None or index.const_value is None else index.const_value.numpy()
    )
    if array is None or array.ndim > 1:
        return None
    axis = attributes_of(node).get("axis", 0) % len(view.axes)
    taken = view.taken(axis, tuple(int(i) for i in array.reshape(-1)))
    return taken.without(axis) if taken is not None and array.ndim == 0 else taken


def _squeezed(node: ir.Node, view: View) -> View | None:
    axes = _numbers(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None:
        return None
    squeezed = view
    for axis in sorted((axis % len(view.axes) for axis in axes), reverse=True):
        squeezed = squeezed.without(axis)
    return squeezed


def _joined(views: list[View], axis: int) -> View | None:
    """Return what slices of one input are together; None if they are of several."""
    first = views[0]
    axis %= len(first.axes)
    parts: list[int] = []
    for view in views:
        own = view.entries[axis] if axis < len(view.entries) else None
        if own is None or view.with_entries(axis, ()) != first.with_entries(axis, ()):
            return None
        parts += own
    return first.with_entries(axis, tuple(parts))


def _numbers(value: ir.Value | None) -> list[int] | None:
    if value is None or value.const_value is None:
        return None
    return [int(number) for number in value.const_value.numpy().reshape(-1)]
