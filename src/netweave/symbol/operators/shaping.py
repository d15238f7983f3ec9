"""Operators that move elements without reading them: new shapes, orders and copies (matrix_op-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.symbol.registry import operator_reader
from netweave.symbol.reshaping import INFER, Size, reshape, sizes_from_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.symbol.call import Call

SMALLEST = -(2**63)
MAX_PARTS = 10_000
PAD_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect"}


@operator_reader("Flatten", "flatten")
def flatten(call: Call) -> ir.Value:
    """All axes but the first become one."""
    return call.add("Flatten", [call.value()], {"axis": 1})


@operator_reader("Reshape", "reshape")
def new_shape(call: Call) -> ir.Value:
    """By the codes of ``shape``, or by the old ``target_shape``, where 0 is inferred."""
    settings = call.settings
    codes, target = settings.sizes("shape", ()), settings.sizes("target_shape", ())
    keep_first = settings.flag("keep_highest", False)
    reverse = settings.flag("reverse", False)
    x = call.value()
    sizes: list[Size]
    if codes or not target:
        try:
            sizes = sizes_from_codes(codes, call.shape(x), reverse=reverse)
        except ValueError as error:
            raise call.wrong(f"shape={codes}: {error}") from error
    else:
        sizes = [size or INFER for size in target]
        sizes = [(0,), *sizes[1:]] if keep_first else sizes
    if sizes.count(INFER) > 1:
        raise call.wrong(f"shape={codes or target} leaves more than one size to be inferred")
    return reshape(call, x, sizes)


@operator_reader("reshape_like", arguments=("lhs", "rhs"))
def reshape_like(call: Call) -> ir.Value:
    """To the shape of the second input."""
    if any(call.settings.whole(f"{side}_{end}", None) for side in ("lhs", "rhs") for end in ("begin", "end")):
        raise call.refuse("a part of the axes only is not read")
    return call.add("Reshape", [call.value("lhs"), call.add("Shape", [call.value("rhs")])])


@operator_reader("transpose")
def transpose(call: Call) -> ir.Value:
    """Axes in the order ``axes``, or in reverse."""
    x = call.value()
    rank = len(call.shape(x))
    axes = [call.axis(axis, rank) for axis in call.settings.sizes("axes", ())]
    return call.add("Transpose", [x], {"perm": axes or list(reversed(range(rank)))})


@operator_reader("SwapAxis", "swapaxes")
def swap_axes(call: Call) -> ir.Value:
    """Two axes exchanged."""
    x = call.value()
    perm = list(range(len(call.shape(x))))
    a, b = (call.axis(call.settings.whole(name, 0), len(perm)) for name in ("dim1", "dim2"))
    perm[a], perm[b] = b, a
    return call.add("Transpose", [x], {"perm": perm})


@operator_reader("expand_dims")
def expand_dims(call: Call) -> ir.Value:
    """A new axis of size 1."""
    return call.add("Unsqueeze", [call.value(), call.whole_numbers([call.settings.whole("axis")])])


@operator_reader("squeeze")
def squeeze(call: Call) -> ir.Value:
    """Without the given axes of size 1, or without all of them."""
    x = call.value()
    shape = call.shape(x)
    axes = list(call.settings.sizes("axis", ())) or [axis for axis, size in enumerate(shape) if size == 1]
    if len(axes) == len(shape):
        return call.add("Reshape", [x, call.whole_numbers([1])])
    return call.add("Squeeze", [x, call.whole_numbers(axes)])


@operator_reader("Concat", "concat", "_rnn_param_concat", arguments=None, counted=True)
def concat(call: Call) -> ir.Value:
    """Inputs one after the other along ``dim``."""
    call.settings.skip("num_args")
    values = call.values()
    axis = call.axis(call.settings.whole("dim", 1), len(call.shape(values[0])))
    return call.add("Concat", values, {"axis": axis})


@operator_reader("stack", arguments=None, counted=True)
def stack(call: Call) -> ir.Value:
    """Inputs one after the other along a new axis."""
    call.settings.skip("num_args")
    values = call.values()
    axis = call.axis(call.settings.whole("axis", 0), len(call.shape(values[0])) + 1)
    rows = [call.add("Unsqueeze", [value, call.whole_numbers([axis])]) for value in values]
    return call.add("Concat", rows, {"axis": axis})


@operator_reader("SliceChannel", "split", count=lambda settings: settings.count("num_outputs"))
def split(call: Call) -> Sequence[ir.Value]:
    """Equal parts along an axis, which ``squeeze_axis`` removes where it is 1."""
    settings = call.settings
    num_outputs = settings.count("num_outputs")
    if num_outputs > MAX_PARTS:
        raise call.wrong(f"num_outputs={num_outputs}, expected at most {MAX_PARTS}")
    x = call.value()
    axis = call.axis(settings.whole("axis", 1), len(call.shape(x)))
    attributes = {"axis": axis, "num_outputs": num_outputs}
    parts = call.add_many("Split", [x], attributes, num_outputs=num_outputs)
    if not settings.flag("squeeze_axis", False):
        return parts
    return [call.add("Squeeze", [part, call.whole_numbers([axis])]) for part in parts]


@operator_reader("tile")
def tile(call: Call) -> ir.Value:
    """Copies along each axis, counted from the last."""
    reps = call.settings.sizes("reps")
    x = call.value()
    missing = len(reps) - len(call.shape(x))
    if missing > 0:
        x = call.add("Unsqueeze", [x, call.whole_numbers(range(missing))])
    return call.add("Tile", [x, call.whole_numbers([*[1] * -missing, *reps])])


@operator_reader("repeat")
def repeat(call: Call) -> ir.Value:
    """Every element several times, along an axis or in a row."""
    repeats, axis = call.settings.count("repeats"), call.settings.whole("axis", None)
    x = call.value()
    if axis is None:
        x, axis = call.add("Reshape", [x, call.whole_numbers([-1])]), 0
    rank = len(call.shape(x))
    axis = call.axis(axis, rank)
    apart = call.add("Unsqueeze", [x, call.whole_numbers([axis + 1])])
    reps = [1] * (rank + 1)
    reps[axis + 1] = repeats
    copies = call.add("Tile", [apart, call.whole_numbers(reps)])
    before: list[Size] = [(a,) for a in range(axis)]
    after: list[Size] = [(a,) for a in range(axis + 2, rank + 1)]
    return reshape(call, copies, [*before, (axis, axis + 1), *after])


@operator_reader("flip", "reverse")
def flip(call: Call) -> ir.Value:
    """Elements in reverse along the given axes."""
    axes = call.settings.sizes("axis")
    bounds = [[-1] * len(axes), [SMALLEST] * len(axes), axes, [-1] * len(axes)]
    return call.add("Slice", [call.value(), *map(call.whole_numbers, bounds)])


@operator_reader("Pad", "pad")
def pad(call: Call) -> ir.Value:
    """``pad_width`` is before and after, axis by axis."""
    settings = call.settings
    width = settings.sizes("pad_width")
    mode = settings.choice("mode", tuple(PAD_MODES))
    x = call.value()
    if len(width) != 2 * len(call.shape(x)):
        raise call.wrong(f"pad_width has {len(width)} numbers for an input of {len(call.shape(x))} axes")
    pads = call.whole_numbers([*width[0::2], *width[1::2]])
    value = call.scalar(settings.number("constant_value", 0.0), x)
    return call.add("Pad", [x, pads, value], {"mode": PAD_MODES[mode]})


@operator_reader("depth_to_space", "space_to_depth")
def depth_and_space(call: Call) -> ir.Value:
    """Blocks of pixels to channels or back."""
    op_type = "DepthToSpace" if call.op == "depth_to_space" else "SpaceToDepth"
    return call.add(op_type, [call.value()], {"blocksize": call.settings.count("block_size")})


@operator_reader("broadcast_to")
def broadcast_to(call: Call) -> ir.Value:
    """Axes of size 1 repeated to the given sizes; 0 keeps a size."""
    sizes = [size or 1 for size in call.settings.sizes("shape")]
    return call.add("Expand", [call.value(), call.whole_numbers(sizes)])


@operator_reader("broadcast_axis", "broadcast_axes")
def broadcast_axis(call: Call) -> ir.Value:
    """Some axes of size 1 repeated."""
    axes, sizes = call.settings.sizes("axis"), call.settings.sizes("size")
    x = call.value()
    shape = [1] * len(call.shape(x))
    if len(axes) != len(sizes):
        raise call.wrong(f"axis={axes} and size={sizes} are not equally long")
    for axis, size in zip(axes, sizes, strict=True):
        shape[call.axis(axis, len(shape))] = size
    return call.add("Expand", [x, call.whole_numbers(shape)])


@operator_reader("broadcast_like", arguments=("lhs", "rhs"))
def broadcast_like(call: Call) -> ir.Value:
    """To the shape of the second input."""
    if call.settings.sizes("lhs_axes", ()) or call.settings.sizes("rhs_axes", ()):
        raise call.refuse("a part of the axes only is not read")
    return call.add("Expand", [call.value("lhs"), call.add("Shape", [call.value("rhs")])])


@operator_reader("zeros_like", "ones_like")
def filled_like(call: Call) -> ir.Value:
    """Zeros or ones in the shape of the input."""
    x = call.value()
    fill = call.scalar(0.0 if call.op == "zeros_like" else 1.0, x)
    return call.add("Expand", [fill, call.add("Shape", [x])])


@operator_reader("shape_array", "size_array")
def shape_array(call: Call) -> ir.Value:
    """Sizes, or number of elements, as whole numbers."""
    if call.op == "shape_array":
        return call.add("Shape", [call.value()])
    return call.add("Reshape", [call.add("Size", [call.value()]), call.whole_numbers([1])])
