"""Operators that move elements, reduce axes, and compute sizes (tensorflow/lite/kernels)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.lowering.channels_last import Stored
from netweave.formats.tensorflow.attributes import Function
from netweave.formats.tensorflow.lite.operators.elementwise import type_name
from netweave.formats.tensorflow.lite.registry import lite_operator
from netweave.formats.tensorflow.operands import Item, constant_of

if TYPE_CHECKING:
    from netweave.formats.tensorflow.lite.context import LiteOperator

PLAIN = {
    "BROADCAST_TO": "BroadcastTo",
    "CUMSUM": "Cumsum",
    "EXPAND_DIMS": "ExpandDims",
    "FILL": "Fill",
    "GATHER_ND": "GatherNd",
    "NON_MAX_SUPPRESSION_V4": "NonMaxSuppressionV4",
    "NON_MAX_SUPPRESSION_V5": "NonMaxSuppressionV5",
    "ONE_HOT": "OneHot",
    "RANGE": "Range",
    "REVERSE_SEQUENCE": "ReverseSequence",
    "SCATTER_ND": "ScatterNd",
    "TOPK_V2": "TopKV2",
    "WHERE": "Where",
}
"""Operators that are one of TensorFlow's, with options that are called as its attributes."""

MOVING = {
    "BATCH_TO_SPACE_ND": "BatchToSpaceND",
    "DEPTH_TO_SPACE": "DepthToSpace",
    "REVERSE_V2": "ReverseV2",
    "SLICE": "Slice",
    "SPACE_TO_BATCH_ND": "SpaceToBatchND",
    "SPACE_TO_DEPTH": "SpaceToDepth",
    "SQUEEZE": "Squeeze",
    "STRIDED_SLICE": "StridedSlice",
    "TILE": "Tile",
    "TRANSPOSE": "Transpose",
    "UNPACK": "Unpack",
}
"""Those that give elements of their input as they are."""


@lite_operator(*PLAIN)
def plain(ctx: LiteOperator) -> list[Item]:
    """An operator of TensorFlow."""
    return ctx.call(PLAIN[ctx.op])


@lite_operator(*MOVING, moves=True)
def moving(ctx: LiteOperator) -> list[Item]:
    """An operator of TensorFlow that moves elements."""
    return ctx.call(MOVING[ctx.op])


@lite_operator("SHAPE", "RANK", plain=True)
def sizes(ctx: LiteOperator) -> list[Item]:
    """The sizes of a tensor, or how many there are."""
    return ctx.call(ctx.op.title(), attributes={"out_type": type_name(ctx)})


@lite_operator("RESHAPE", moves=True)
def reshape(ctx: LiteOperator) -> list[Item]:
    """The same elements in other sizes: of the second input, or of the options where there is none."""
    if ctx.optional(1) is not None:
        return ctx.call("Reshape")
    return ctx.call("Reshape", [ctx.item(0), np.asarray(ctx.integer_list("new_shape", []), np.int32)])


@lite_operator("CONCATENATION", moves=True)
def concat(ctx: LiteOperator) -> list[Item]:
    """Joined along an axis."""
    return ctx.call("ConcatV2", [*ctx.inputs, np.asarray(ctx.integer("axis", 0), np.int32)])


@lite_operator("PACK", moves=True)
def pack(ctx: LiteOperator) -> list[Item]:
    """Joined along a new axis."""
    return ctx.call("Pack", attributes={"axis": ctx.integer("axis", 0)})


@lite_operator("SPLIT", moves=True)
def split(ctx: LiteOperator) -> list[Item]:
    """Equal pieces along an axis, which is the first input."""
    return ctx.call("Split", attributes={"num_split": ctx.integer("num_splits", 1)})


@lite_operator("SPLIT_V", moves=True)
def split_v(ctx: LiteOperator) -> list[Item]:
    """Pieces of given sizes along an axis."""
    return ctx.call("SplitV")


@lite_operator("GATHER", moves=True)
def gather(ctx: LiteOperator) -> list[Item]:
    """Entries along an axis."""
    axis = np.asarray(ctx.integer("axis", 0), np.int32)
    attributes = {"batch_dims": ctx.integer("batch_dims", 0)}
    return ctx.call("GatherV2", [ctx.item(0), ctx.item(1), axis], attributes)


@lite_operator("EMBEDDING_LOOKUP", moves=True)
def embedding_lookup(ctx: LiteOperator) -> list[Item]:
    """Rows of the second input, by the numbers in the first."""
    return ctx.call("GatherV2", [ctx.item(1), ctx.item(0), np.asarray(0, np.int32)], {"batch_dims": 0})


@lite_operator("PAD", "PADV2", moves=True)
def pad(ctx: LiteOperator) -> list[Item]:
    """More elements at both ends of each axis, of one number."""
    return ctx.call("PadV2" if ctx.op == "PADV2" else "Pad")


@lite_operator("MIRROR_PAD", moves=True)
def mirror_pad(ctx: LiteOperator) -> list[Item]:
    """More elements at both ends of each axis, mirrored."""
    return ctx.call("MirrorPad", attributes={"mode": ctx.string("mode", "REFLECT")})


REDUCTIONS = {
    "MEAN": "Mean",
    "SUM": "Sum",
    "REDUCE_ALL": "All",
    "REDUCE_ANY": "Any",
    "REDUCE_MAX": "Max",
    "REDUCE_MIN": "Min",
    "REDUCE_PROD": "Prod",
}
"""Reductions, and TensorFlow's name."""


@lite_operator(*REDUCTIONS)
def reduce(ctx: LiteOperator) -> list[Item]:
    """Over some axes."""
    return ctx.call(REDUCTIONS[ctx.op], attributes={"keep_dims": bool(ctx.setting("keep_dims", False))})


@lite_operator("ARG_MAX", "ARG_MIN")
def arg(ctx: LiteOperator) -> list[Item]:
    """Number of the first largest or smallest element along an axis."""
    op = "ArgMax" if ctx.op == "ARG_MAX" else "ArgMin"
    return ctx.call(op, attributes={"output_type": type_name(ctx, "DT_INT64")})


RESIZED = {"RESIZE_BILINEAR": "ResizeBilinear", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighbor"}
"""Images of another size, and TensorFlow's name."""


@lite_operator(*RESIZED)
def resize(ctx: LiteOperator) -> list[Item]:
    """To sizes (height, width)."""
    attributes: dict[str, Any] = {
        name: bool(ctx.setting(name, False)) for name in ("align_corners", "half_pixel_centers")
    }
    return ctx.call(RESIZED[ctx.op], attributes=attributes)


@lite_operator("BROADCAST_ARGS", plain=True)
def broadcast_args(ctx: LiteOperator) -> Item:
    """The sizes that two lists of sizes are broadcast to."""
    numbers = [constant_of(ctx.item(index)) for index in (0, 1)]
    if any(array is None for array in numbers):
        raise ctx.unsupported(f"reads sizes that are not known; {ctx.give_sizes()}")
    lists = [tuple(int(size) for size in np.ravel(array)) for array in numbers if array is not None]
    try:
        return Stored.constant(np.asarray(np.broadcast_shapes(*lists), np.int32))
    except ValueError as error:
        raise ctx.shape_error(f"sizes {lists[0]} and {lists[1]} cannot be broadcast") from error


@lite_operator("WHILE", plain=True)
def loop(ctx: LiteOperator) -> list[Item]:
    """A subgraph again and again, as often as another one says."""
    attributes = {"cond": ctx.setting("cond_subgraph_index"), "body": ctx.setting("body_subgraph_index")}
    return ctx.call("While", attributes=attributes)


@lite_operator("IF", plain=True)
def condition(ctx: LiteOperator) -> list[Item]:
    """One of two subgraphs."""
    names = {"then_branch": "then_subgraph_index", "else_branch": "else_subgraph_index"}
    return ctx.call("If", attributes={branch: ctx.setting(name) for branch, name in names.items()})


@lite_operator("CALL", plain=True)
def call(ctx: LiteOperator) -> list[Item]:
    """A subgraph."""
    function = ctx.setting("subgraph")
    if not isinstance(function, Function):
        raise ctx.read_error("names no subgraph")
    return ctx.run(function.name, ctx.inputs)
