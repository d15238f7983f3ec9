"""Operators that move elements without reading them: new shapes, orders and copies (matrix_op-inl.h)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering.indexing import SMALLEST
from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.reshaping import INFER, Size, reshape, sizes_from_codes

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator

MAX_PARTS = 10_000
"""Each part is an output of its own: a number in a file must not make as many as it likes."""

PAD_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect"}


@operator_reader("Flatten", "flatten")
def flatten(ctx: MXNetOperator) -> ir.Value:
    """All axes but the first become one."""
    return ctx.add("Flatten", [ctx.x], {"axis": 1})


@operator_reader("Reshape", "reshape")
def new_shape(ctx: MXNetOperator) -> ir.Value:
    """By the codes of ``shape``, or by the old ``target_shape``, where 0 is inferred."""
    settings = ctx.settings
    codes, target = settings.integers("shape", ()), settings.integers("target_shape", ())
    keep_first = settings.flag("keep_highest", False)
    reverse = settings.flag("reverse", False)
    x = ctx.x
    sizes: list[Size]
    if codes or not target:
        try:
            sizes = sizes_from_codes(codes, ctx.shape(x), reverse=reverse)
        except ValueError as error:
            raise ctx.read_error(f"shape={codes}: {error}") from error
        except LookupError as error:
            raise ctx.shape_error(f"shape={codes}: {error}") from error
    else:
        sizes = [size or INFER for size in target]
        sizes = [(0,), *sizes[1:]] if keep_first else sizes
    if sizes.count(INFER) > 1:
        raise ctx.read_error(f"shape={codes or target} leaves more than one size to be inferred")
    return reshape(ctx, x, sizes)


@operator_reader("reshape_like", arguments=("lhs", "rhs"))
def reshape_like(ctx: MXNetOperator) -> ir.Value:
    """To the shape of the second input."""
    bounds = [f"{side}_{end}" for side in ("lhs", "rhs") for end in ("begin", "end")]
    if any(ctx.settings.integer(bound, None) for bound in bounds):
        raise ctx.unsupported("its use on only some of the axes is not supported")
    return ctx.add("Reshape", [ctx.input("lhs"), ctx.add("Shape", [ctx.input("rhs")])])


@operator_reader("transpose")
def transpose(ctx: MXNetOperator) -> ir.Value:
    """Axes in the order ``axes``, or in reverse."""
    axes = [ctx.axis(axis) for axis in ctx.settings.integers("axes", ())]
    return ctx.transpose(ctx.x, axes or list(reversed(range(ctx.rank()))))


@operator_reader("SwapAxis", "swapaxes")
def swap_axes(ctx: MXNetOperator) -> ir.Value:
    """Two axes exchanged."""
    perm = list(range(ctx.rank()))
    a, b = (ctx.axis(ctx.settings.integer(name, 0)) for name in ("dim1", "dim2"))
    perm[a], perm[b] = b, a
    return ctx.transpose(ctx.x, perm)


@operator_reader("expand_dims")
def expand_dims(ctx: MXNetOperator) -> ir.Value:
    """A new axis of size 1."""
    return ctx.unsqueeze(ctx.x, [ctx.settings.integer("axis")])


@operator_reader("squeeze")
def squeeze(ctx: MXNetOperator) -> ir.Value:
    """Without the given axes of size 1, or without all of them."""
    shape = ctx.shape()
    axes = list(ctx.settings.integers("axis", ())) or [axis for axis, size in enumerate(shape) if size == 1]
    if len(axes) == len(shape):
        return ctx.reshape(ctx.x, [1])  # MXNet has no tensors without axes
    return ctx.squeeze(ctx.x, axes)


@operator_reader("Concat", "concat", "_rnn_param_concat", arguments=None, counted=True)
def concat(ctx: MXNetOperator) -> ir.Value:
    """Inputs one after the other along ``dim``."""
    ctx.settings.ignore("num_args")
    values = ctx.inputs()
    return ctx.concat(values, ctx.axis(ctx.settings.integer("dim", 1)))


@operator_reader("stack", arguments=None, counted=True)
def stack(ctx: MXNetOperator) -> ir.Value:
    """Inputs one after the other along a new axis."""
    ctx.settings.ignore("num_args")
    values = ctx.inputs()
    axis = ctx.axis(ctx.settings.integer("axis", 0), ctx.rank() + 1)
    return ctx.concat([ctx.unsqueeze(value, [axis]) for value in values], axis)


@operator_reader("SliceChannel", "split", count=lambda settings: settings.count("num_outputs"))
def split(ctx: MXNetOperator) -> Sequence[ir.Value]:
    """Equal parts along an axis, which ``squeeze_axis`` removes where it is 1."""
    settings = ctx.settings
    num_outputs = settings.count("num_outputs")
    if num_outputs > MAX_PARTS:
        raise ctx.unsupported(f"num_outputs={num_outputs}; at most {MAX_PARTS} are supported")
    axis = ctx.axis(settings.integer("axis", 1))
    attributes = {"axis": axis, "num_outputs": num_outputs}
    parts = ctx.add_many("Split", [ctx.x], attributes, outputs=num_outputs)
    if not settings.flag("squeeze_axis", False):
        return parts
    return [ctx.squeeze(part, [axis]) for part in parts]


@operator_reader("tile")
def tile(ctx: MXNetOperator) -> ir.Value:
    """Copies along each axis, counted from the last."""
    reps = ctx.settings.integers("reps")
    x = ctx.x
    missing = len(reps) - ctx.rank(x)
    if missing > 0:
        x = ctx.unsqueeze(x, range(missing))
    return ctx.add("Tile", [x, ctx.integers([*[1] * -missing, *reps])])


@operator_reader("repeat")
def repeat(ctx: MXNetOperator) -> ir.Value:
    """Every element several times, along an axis or in a row."""
    repeats, axis = ctx.settings.count("repeats"), ctx.settings.integer("axis", None)
    x = ctx.x
    if axis is None:
        x, axis = ctx.reshape(x, [-1]), 0
    rank = ctx.rank(x)
    axis = ctx.axis(axis, rank)
    reps = [1] * (rank + 1)
    reps[axis + 1] = repeats
    copies = ctx.add("Tile", [ctx.unsqueeze(x, [axis + 1]), ctx.integers(reps)])
    before: list[Size] = [(a,) for a in range(axis)]
    after: list[Size] = [(a,) for a in range(axis + 2, rank + 1)]
    return reshape(ctx, copies, [*before, (axis, axis + 1), *after])


@operator_reader("flip", "reverse")
def flip(ctx: MXNetOperator) -> ir.Value:
    """Elements in reverse along the given axes."""
    axes = ctx.settings.integers("axis")
    backwards = [-1] * len(axes)
    return ctx.slice(ctx.x, backwards, [SMALLEST] * len(axes), axes, backwards)


@operator_reader("Pad", "pad")
def pad(ctx: MXNetOperator) -> ir.Value:
    """``pad_width`` is before and after, axis by axis."""
    settings = ctx.settings
    width = settings.integers("pad_width")
    mode = settings.choice("mode", tuple(PAD_MODES))
    x = ctx.x
    if len(width) != 2 * ctx.rank(x):
        raise ctx.shape_error(f"pad_width has {len(width)} numbers for an input of {ctx.rank(x)} axes")
    pads = ctx.integers([*width[0::2], *width[1::2]])
    value = ctx.scalar(settings.number("constant_value", 0.0), x)
    return ctx.add("Pad", [x, pads, value], {"mode": PAD_MODES[mode]})


@operator_reader("_netweave_pad_same")
def pad_same(ctx: MXNetOperator) -> ir.Value:
    """Padding after which windows give ceil(size / stride) elements; an odd element goes to the end.

    Not an operator of MXNet. Keras's ``padding="same"`` depends on the size of the input, which is not yet
    known when a symbol is made.
    """
    x, settings = ctx.x, ctx.settings
    kernel, value = settings.kernel(), settings.number("constant_value", 0.0)
    pads, strides = [], settings.per_axis("stride", 2, 1)
    for size, extent, stride in zip(ctx.sizes((2, 3)), kernel, strides, strict=True):
        pads.append(max((-(-size // stride) - 1) * stride + extent - size, 0))
    begins = [pad // 2 for pad in pads]
    ends = [pad - begin for pad, begin in zip(pads, begins, strict=True)]
    return ctx.add("Pad", [x, ctx.integers([0, 0, *begins, 0, 0, *ends]), ctx.scalar(value, x)])


@operator_reader("depth_to_space", "space_to_depth")
def depth_and_space(ctx: MXNetOperator) -> ir.Value:
    """Blocks of pixels to channels or back."""
    op_type = "DepthToSpace" if ctx.op == "depth_to_space" else "SpaceToDepth"
    return ctx.add(op_type, [ctx.x], {"blocksize": ctx.settings.count("block_size")})


@operator_reader("broadcast_to")
def broadcast_to(ctx: MXNetOperator) -> ir.Value:
    """Axes of size 1 repeated to the given sizes; 0 keeps a size."""
    sizes = [size or 1 for size in ctx.settings.integers("shape")]
    return ctx.add("Expand", [ctx.x, ctx.integers(sizes)])


@operator_reader("broadcast_axis", "broadcast_axes")
def broadcast_axis(ctx: MXNetOperator) -> ir.Value:
    """Some axes of size 1 repeated."""
    axes, sizes = ctx.settings.integers("axis"), ctx.settings.integers("size")
    x = ctx.x
    shape = [1] * ctx.rank(x)
    if len(axes) != len(sizes):
        raise ctx.read_error(f"axis={axes} and size={sizes} have different lengths, expected the same")
    for axis, size in zip(axes, sizes, strict=True):
        shape[ctx.axis(axis, len(shape))] = size
    return ctx.add("Expand", [x, ctx.integers(shape)])


@operator_reader("broadcast_like", arguments=("lhs", "rhs"))
def broadcast_like(ctx: MXNetOperator) -> ir.Value:
    """To the shape of the second input."""
    if ctx.settings.integers("lhs_axes", ()) or ctx.settings.integers("rhs_axes", ()):
        raise ctx.unsupported("its use on only some of the axes is not supported")
    return ctx.add("Expand", [ctx.input("lhs"), ctx.add("Shape", [ctx.input("rhs")])])


@operator_reader("zeros_like", "ones_like")
def filled_like(ctx: MXNetOperator) -> ir.Value:
    """Zeros or ones in the shape of the input."""
    x = ctx.x
    fill = ctx.scalar(0.0 if ctx.op == "zeros_like" else 1.0, x)
    return ctx.add("Expand", [fill, ctx.add("Shape", [x])])


@operator_reader("shape_array", "size_array")
def shape_array(ctx: MXNetOperator) -> ir.Value:
    """Sizes, or number of elements, as integers."""
    if ctx.op == "shape_array":
        return ctx.add("Shape", [ctx.x])
    return ctx.reshape(ctx.add("Size", [ctx.x]), [1])
