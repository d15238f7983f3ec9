"""Operators on tensors with channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering import elementwise
from netweave.formats.lowering.recurrent import (
    GateLayouts,
    RecurrentCell,
    merge_directions,
    recurrent_node,
    without_state_bias,
)
from netweave.formats.lowering.windows import Window
from netweave.graph.parameters import Step

if TYPE_CHECKING:
    from netweave.formats.lowering.channels_last.layer import ChannelsLastLayer
    from netweave.formats.lowering.parameters import Layout


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of the source and the value that holds it.

    Attributes:
        value: The value.
        first: Whether the value has on axis 1 what the source has on its last axis.
    """

    value: ir.Value
    first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """An array of the source; it becomes an initializer, in the layout that is asked for, when it is read.

    Attributes:
        shape: Sizes as the operator that reads it sees them.
        array: Its values as the source stores them; None where no file gave them.
        key: Key of the stored array; None for a constant that is part of the net.
        role: See ``Parameter``.
        stored: Sizes as the source stores it.
        steps: Steps from those to ``shape``, which the source's own operators make.
    """

    shape: tuple[int, ...]
    array: np.ndarray | None
    key: str | None = None
    role: str = "weight"
    stored: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()

    @classmethod
    def parameter(
        cls, key: str, array: np.ndarray | None, shape: tuple[int, ...], role: str = "weight"
    ) -> Stored:
        """Return a stored array."""
        return cls(shape, array, key, role, shape)

    def reshaped(self, shape: tuple[int, ...]) -> Stored:
        """Return the array with other sizes."""
        if self.key is None and self.array is not None:
            return Stored.constant(self.array.reshape(shape))
        return replace(self, shape=shape, steps=(*self.steps, ("reshape", shape)))

    def transposed(self, perm: tuple[int, ...]) -> Stored:
        """Return the array with its axes in another order."""
        if self.key is None and self.array is not None:
            return Stored.constant(self.array.transpose(perm))
        shape = tuple(self.shape[axis] for axis in perm)
        return replace(self, shape=shape, steps=(*self.steps, ("transpose", perm)))

    def with_role(self, role: str) -> Stored:
        """Return the array as what it is to the operator that reads it."""
        return replace(self, role=role)

    @classmethod
    def constant(cls, array: np.ndarray) -> Stored:
        """Return a constant that is part of the net."""
        return cls(array.shape, array)


Operand = ir.Value | Tensor | Stored
"""What an operator reads; a value by itself has the axes in the source's order."""


def is_first(x: Operand) -> bool:
    """Return whether a tensor has on axis 1 what the source has on its last axis."""
    return isinstance(x, Tensor) and x.first


def to_first(rank: int) -> tuple[int, ...]:
    """Return the axes that bring channels from the last axis to axis 1.

    >>> to_first(4)
    (0, 3, 1, 2)
    """
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """Return the axes that bring channels from axis 1 to the last axis.

    >>> to_last(4)
    (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1)


def position(axis: int, rank: int, *, first: bool) -> int:
    """Return where an axis of the source, counted from the front, stands in the value.

    >>> [position(axis, 4, first=True) for axis in range(4)]
    [0, 2, 3, 1]
    """
    return to_last(rank)[axis] if first else axis


def arranged(sizes: Sequence[int | None], *, first: bool) -> tuple[int | None, ...]:
    """Return the sizes of a value in the order of the source's axes."""
    return tuple(sizes[axis] for axis in to_last(len(sizes))) if first else tuple(sizes)


Padding = str | list[int]
"""``SAME``, ``VALID``, or all begins, then all ends."""


@dataclass(frozen=True, slots=True)
class PaddedWindow(Window):
    """A window whose padding may follow from sizes that are not known yet.

    Attributes:
        same: Whether it pads as little as it can for an output of input by stride, an odd element at the end.
    """

    same: bool = False

    @classmethod
    def of(
        cls, kernel: Sequence[int], strides: Sequence[int], padding: Padding, dilations: Sequence[int] = ()
    ) -> PaddedWindow:
        """Return a window with the padding as the source says it."""
        pads = [] if isinstance(padding, str) else padding
        rank = len(pads) // 2
        return cls(kernel, strides, pads[:rank], pads[rank:], dilations, padding == "SAME")

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of ONNX's Conv."""
        attributes = Window.attributes(self)  # super() knows no class that slots made anew
        if self.same:
            del attributes["pads"]
            attributes["auto_pad"] = "SAME_UPPER"
        return attributes


def convolution(
    ctx: ChannelsLastLayer,
    x: Operand,
    kernel: Operand,
    window: Window,
    *,
    groups: int | None = 1,
    bias: Operand | None = None,
    last: bool = True,
) -> Tensor:
    """Add a convolution with a kernel of (sizes..., channels / groups, filters).

    Args:
        ctx: The layer.
        x: The tensor.
        kernel: The kernel.
        window: How it moves.
        groups: Number of groups of channels; None for a depthwise convolution, which has a kernel of
            (sizes..., channels, multiplier).
        bias: One number per filter.
        last: Whether the source has the channels of ``x`` on the last axis.
    """
    rank = ctx.rank(kernel)
    layout: Layout = (("transpose", (rank - 1, rank - 2, *range(rank - 2))),)
    if groups is None:
        *sizes, groups, multiplier = ctx.sizes(range(rank), kernel)
        layout = (("reshape", (*sizes, 1, groups * multiplier)), *layout)
    _check(ctx, x, window, last=last)
    inputs = [ctx.ordered(x, first=last), *_weights(ctx, kernel, layout, bias)]
    return Tensor(ctx.add("Conv", inputs, window.attributes() | {"group": groups}), last)


def transposed_convolution(
    ctx: ChannelsLastLayer,
    x: Operand,
    kernel: Operand,
    window: Window,
    *,
    extra: Sequence[int],
    bias: Operand | None = None,
    last: bool = True,
) -> Tensor:
    """Add a transposed convolution with a kernel of (sizes..., filters, channels).

    Args:
        ctx: The layer.
        x: The tensor.
        kernel: The kernel.
        window: How it moves; its padding is what is cut off the result.
        extra: What is added at the ends of the result.
        bias: One number per filter.
        last: Whether the source has the channels of ``x`` on the last axis.
    """
    rank = ctx.rank(kernel)
    layout: Layout = (("transpose", (rank - 1, rank - 2, *range(rank - 2))),)
    window.check(ctx)
    attributes = window.attributes() | {"output_padding": list(extra) if any(extra) else None}
    inputs = [ctx.ordered(x, first=last), *_weights(ctx, kernel, layout, bias)]
    return Tensor(ctx.add("ConvTranspose", inputs, attributes), last)


def transposed_window(
    window: Window, surplus: Sequence[int] | None = None, *, same: bool
) -> tuple[Window, list[int]]:
    """Return the window with what a transposed convolution cuts off the result, and what it adds at the ends.

    With SAME the result is the input times the stride; with VALID every window is whole, and a window
    smaller than its step leaves zeros behind it (tf.nn.conv2d_transpose, keras.layers.Conv2DTranspose).

    Args:
        window: Its kernel, strides and dilations.
        surplus: How much larger the uncut result is than the wanted one; by default as above.
        same: Whether half of it is cut off at the begin, as with SAME; else all at the end.

    >>> window, extra = transposed_window(Window([3], [2]), same=True)
    >>> window.onnx_pads, extra
    ([0, 1], [0])
    """
    if surplus is None:
        surplus = transposed_surplus(window, unknown := [None] * len(window.kernel), unknown, same=same)
    cut = [max(total, 0) for total in surplus]
    begins = [total // 2 if same else 0 for total in cut]
    ends = [total - begin for total, begin in zip(cut, begins, strict=True)]
    pads = Window(window.kernel, window.strides, begins, ends, window.dilations)
    return pads, [max(-total, 0) for total in surplus]


def transposed_surplus(
    window: Window, sizes: Sequence[int | None], wanted: Sequence[int | None], *, same: bool
) -> list[int]:
    """Return for each axis how much larger the uncut result of a transposed convolution is than wanted.

    Args:
        window: Its kernel, strides and dilations.
        sizes: Spatial sizes of the input; None for an open one.
        wanted: Spatial sizes of the output; where one is open, the rule of SAME or VALID says it.
        same: Whether the rule is that of SAME.
    """
    surplus = []
    for extent, stride, size, goal in zip(window.extents, window.strides, sizes, wanted, strict=True):
        if size is None or goal is None:
            surplus.append(extent - stride if same else min(extent - stride, 0))
        else:
            surplus.append((size - 1) * stride + extent - goal)
    return surplus


def pooling(ctx: ChannelsLastLayer, x: Operand, op_type: str, window: Window, *, last: bool = True) -> Tensor:
    """Add a MaxPool or AveragePool; padding counts neither for the maximum nor in the divisor."""
    _check(ctx, x, window, last=last, is_pooling=True)
    attributes = {name: value for name, value in window.attributes().items() if name != "dilations"}
    if op_type == "AveragePool":
        attributes["count_include_pad"] = 0
    return Tensor(ctx.add(op_type, [ctx.ordered(x, first=last)], attributes), last)


def _check(
    ctx: ChannelsLastLayer, x: Operand, window: Window, *, last: bool, is_pooling: bool = False
) -> None:
    shape = ctx.shape(x)
    spatial = shape[1:-1] if last else shape[2:]
    window.check(ctx, is_pooling=is_pooling)
    if not (isinstance(window, PaddedWindow) and window.same):  # with SAME the padding makes it fit
        window.check_fits(ctx, spatial)


def _weights(ctx: ChannelsLastLayer, kernel: Operand, layout: Layout, bias: Operand | None) -> list[ir.Value]:
    weight = ctx.in_layout(kernel, layout, role="weight")
    return [weight] if bias is None else [weight, ctx.in_layout(bias, role="bias")]


# An output pixel ``i`` takes its value from the input at ``i * scale`` (the old way), at ``i * (in - 1) /
# (out - 1)`` (``align_corners``), or at ``(i + 0.5) * scale - 0.5`` (``half_pixel_centers``, all that
# TensorFlow 2 and Keras know). Rules: tensorflow/core/kernels/image/image_resizer_state.h,
# resize_nearest_neighbor_op.cc, resize_bicubic_op.cc.

CONVENTIONS = {"asymmetric": "asymmetric", "corners": "align_corners", "half": "half_pixel"}
"""ONNX's name of each convention."""


def resize(
    ctx: ChannelsLastLayer,
    x: Operand,
    *,
    method: str,
    convention: str,
    sizes: Sequence[int] | None = None,
    factors: Sequence[int] | None = None,
    last: bool = True,
) -> Tensor:
    """Write a Resize of the spatial axes.

    Args:
        ctx: The layer.
        x: The tensor.
        method: ``nearest``, ``linear`` or ``cubic``.
        convention: A key of ``CONVENTIONS``.
        sizes: The new sizes, or
        factors: how many times the old ones they are.
        last: Whether the source has the channels on the last axis.
    """
    value = ctx.first(x) if last else ctx.source(x)
    axes = list(range(2, ctx.rank(x)))
    attributes: dict[str, Any] = {
        "axes": axes,
        "mode": method,
        "coordinate_transformation_mode": CONVENTIONS[convention],
    }
    if method == "nearest":
        attributes["nearest_mode"] = "floor" if convention == "asymmetric" else "round_prefer_ceil"
    if method == "cubic":
        attributes |= {"cubic_coeff_a": -0.5 if convention == "half" else -0.75}
        attributes |= {"exclude_outside": int(convention == "half")}
    inputs: list[ir.Value | None] = [value, None]
    if sizes is not None:
        inputs += [None, ctx.integers(sizes)]
    else:
        inputs.append(ctx.constant([float(f) for f in factors or ()]))
    return Tensor(ctx.add("Resize", inputs, attributes), last)


def batch_normalization(
    ctx: ChannelsLastLayer,
    x: Operand,
    *,
    gamma: Operand | None,
    beta: Operand | None,
    mean: Operand,
    variance: Operand,
    epsilon: float,
    momentum: float = 0.9,
    axis: int = -1,
) -> Tensor:
    """Add a normalisation by stored statistics.

    Args:
        ctx: The layer.
        x: The tensor.
        gamma: Scale by channel; None for 1.
        beta: Shift by channel; None for 0.
        mean: Mean by channel.
        variance: Variance by channel.
        epsilon: What is added to the variance.
        momentum: What of the stored statistics a step of training keeps.
        axis: The source's axis of the channels.
    """
    rank = ctx.rank(x)
    axis = ctx.axis(axis, rank)
    first = axis == rank - 1
    value = elementwise.batch_normalization(
        ctx,
        ctx.ordered(x, first=first),
        gamma=None if gamma is None else ctx.in_layout(gamma, role="gamma"),
        beta=None if beta is None else ctx.in_layout(beta, role="beta"),
        mean=ctx.in_layout(mean, role="mean"),
        variance=ctx.in_layout(variance, role="variance"),
        epsilon=epsilon,
        momentum=momentum,
        axis=1 if first else axis,
    )
    return Tensor(value, first and rank > 2)


@dataclass(frozen=True, slots=True)
class Weights:
    """Stored arrays of one direction.

    Attributes:
        kernel: (features, gates * units).
        recurrent: (units, gates * units).
        bias: (gates * units,), or (2, gates * units) for the bias of the input and that of the state.
    """

    kernel: Stored
    recurrent: Stored
    bias: Stored | None = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a layer: every step as (batch, time, directions * units), and the last states."""

    steps: Tensor
    states: tuple[Tensor, ...]


def recurrent(
    ctx: ChannelsLastLayer,
    cell: RecurrentCell,
    x: Tensor,
    weights: Sequence[Weights],
    *,
    units: int,
    states: Sequence[Operand] = (),
    lengths: ir.Value | None = None,
) -> Outputs:
    """Add a recurrent layer over (batch, time, features).

    Args:
        ctx: The layer.
        cell: What it computes at every step.
        x: The sequence.
        weights: Arrays of each direction, with Keras's order of gates.
        units: Size of the state.
        states: First states (batch, units) in ONNX's order; none for zeros.
        lengths: Steps of each example; none where all have all steps.
    """
    gates, width = GateLayouts(cell.op_type, "keras", units), len(weights) * units
    matrices = [
        ctx.concat([ctx.in_layout(each, gates.matrix(each.shape[0], transposed=True)) for each in arrays], 0)
        for arrays in ([w.kernel for w in weights], [w.recurrent for w in weights])
    ]
    biases = [_bias(ctx, gates, w.bias) for w in weights] if any(w.bias for w in weights) else []
    sequence, last = recurrent_node(
        ctx,
        cell,
        ctx.transpose(ctx.source(x), [1, 0, 2]),
        (matrices[0], matrices[1], ctx.concat(biases, 0) if biases else None),
        hidden_size=units,
        num_directions=len(weights),
        lengths=lengths,
        states=[ctx.unsqueeze(state, [0]) for state in states],
    )
    steps = merge_directions(ctx, sequence, width, batch_first=True)
    ends = (ctx.reshape(ctx.transpose(state, [1, 0, 2]), [0, width]) for state in last)
    return Outputs(Tensor(steps), tuple(map(Tensor, ends)))


def _bias(ctx: ChannelsLastLayer, gates: GateLayouts, stored: Stored | None) -> ir.Value:
    """Return ONNX's (1, 2 * gates * units): the bias of the input, then that of the state."""
    if stored is not None and len(stored.shape) == 2:
        return ctx.in_layout(stored, gates.bias(2), role="bias")
    own = [] if stored is None else [ctx.in_layout(stored, gates.bias(), role="bias")]
    return without_state_bias(ctx, own, gates.num_rows)
