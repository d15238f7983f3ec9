"""Sizes and axes (array_ops.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Stored, Tensor, axes
from netweave.files.channels_last.tensor import position
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.folding import strided_index
from netweave.formats.tensorflow.operands import Open, Sizes, numbers_of, of_numbers
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.channels_last import Operand
    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item


@operator_reader("Shape", plain=True)
def shape(call: Call) -> Item:
    """The sizes of a tensor; an open one stays so."""
    x = call.operand()
    dtype = DTYPES.get(str(call.attribute("out_type", "DT_INT32")), np.dtype(np.int32))
    return _sizes(call, x, dtype)


@operator_reader("ShapeN", plain=True)
def shapes(call: Call) -> list[Item]:
    """The sizes of several tensors."""
    dtype = DTYPES.get(str(call.attribute("out_type", "DT_INT32")), np.dtype(np.int32))
    return [_sizes(call, x, dtype) for x in call.operands()]


def _sizes(call: Call, x: Operand, dtype: np.dtype[np.generic]) -> Item:
    found = call.shape(x)
    numbers = np.empty(len(found), dtype=object)
    for axis, size in enumerate(found):
        if size is None and isinstance(x, Tensor):
            numbers[axis] = Open(x.value, position(axis, len(found), first=x.first))
        else:
            numbers[axis] = size
    return of_numbers(numbers, dtype) if len(found) else Stored.constant(np.zeros(0, dtype))


@operator_reader("Rank", plain=True)
def rank(call: Call) -> Item:
    """Number of axes."""
    return Stored.constant(np.asarray(len(call.shape(call.operand())), np.int32))


@operator_reader("Size", plain=True)
def size(call: Call) -> Item:
    """Number of elements."""
    found = call.shape(call.operand())
    if any(length is None for length in found):
        return Sizes(np.asarray(Open(), dtype=object))
    return Stored.constant(np.asarray(np.prod([length or 0 for length in found]), np.int32))


@operator_reader("Reshape")
def reshape(call: Call) -> Item:
    """The same elements in other sizes."""
    x = call.operand()
    wanted = call.sizes(1, "the new sizes")
    if isinstance(x, Stored):
        count = int(np.prod(x.shape, dtype=object))
        rest = int(np.prod([s for s in wanted if s not in {-1, None}], dtype=object))
        whole = tuple(count // max(rest, 1) if s in {-1, None} else int(s or 0) for s in wanted)
        if int(np.prod(whole, dtype=object)) != count:
            raise call.wrong(f"reshapes {list(x.shape)} to {wanted}")
        return x.reshaped(whole)
    return axes.reshape(call.writer, x, wanted)


@operator_reader("Squeeze")
def squeeze(call: Call) -> Item:
    """Without axes of size 1."""
    x = call.operand()
    found = call.shape(x)
    over = call.numbers("squeeze_dims") or call.numbers("axis")
    if not over:
        over = [axis for axis, length in enumerate(found) if length == 1]
    gone = {call.writer.axis(axis, len(found)) for axis in over}
    if isinstance(x, Stored):
        return x.reshaped(tuple(length for axis, length in enumerate(x.shape) if axis not in gone))
    return axes.drop(call.writer, x, sorted(gone))


@operator_reader("ExpandDims")
def expand_dims(call: Call) -> Item:
    """With one axis more."""
    x = call.operand()
    at = call.integer(1, "the axis")
    at = at if at >= 0 else at + len(call.shape(x)) + 1
    if isinstance(x, Stored):
        return x.reshaped((*x.shape[:at], 1, *x.shape[at:]))
    return axes.widen(call.writer, x, [at])


@operator_reader("Transpose")
def transpose(call: Call) -> Item:
    """Axes in another order."""
    x = call.operand()
    perm = call.integers(1, "the order of the axes")
    if sorted(perm) != list(range(len(call.shape(x)))):
        raise call.wrong(f"axes {perm} of an input with {len(call.shape(x))}")
    if isinstance(x, Stored):
        return x.transposed(tuple(perm))
    return axes.transpose(call.writer, x, perm)


@operator_reader("ConcatV2", "Concat")
def concat(call: Call) -> Tensor:
    """Joined along an axis."""
    inputs = call.operands()
    if call.op == "ConcatV2":
        return axes.concat(call.writer, inputs[:-1], call.integers(len(inputs) - 1, "the axis")[0])
    return axes.concat(call.writer, inputs[1:], call.integer(0, "the axis"))


@operator_reader("Pack")
def pack(call: Call) -> Tensor:
    """Joined along a new axis."""
    inputs = call.operands()
    count = len(call.shape(inputs[0])) + 1
    axis = call.writer.axis(call.whole("axis", 0), count)
    return axes.concat(call.writer, [axes.widen(call.writer, x, [axis]) for x in inputs], axis)


@operator_reader("Unpack")
def unpack(call: Call) -> list[Item]:
    """The entries along an axis, which goes."""
    x = call.operand()
    axis = call.writer.axis(call.whole("axis", 0), len(call.shape(x)))
    (count,) = call.writer.known(x, [axis])
    pieces = axes.split(call.writer, x, [1] * call.few(count), axis)
    return [axes.drop(call.writer, piece, [axis]) for piece in pieces]


@operator_reader("Split")
def split(call: Call) -> list[Item]:
    """Equal pieces along an axis."""
    x, count = call.operand(1), call.whole("num_split", 1)
    axis = call.integer(0, "the axis")
    (length,) = call.writer.known(x, [axis])
    if call.few(count) < 1 or length % count:
        raise call.wrong(f"{length} elements do not make {count} equal pieces")
    return list(axes.split(call.writer, x, [length // count] * count, axis))


@operator_reader("SplitV")
def split_v(call: Call) -> list[Item]:
    """Pieces of given sizes along an axis."""
    x, lengths = call.operand(0), call.integers(1, "the sizes of the pieces")
    axis = call.integer(2, "the axis")
    if -1 in lengths:
        (length,) = call.writer.known(x, [axis])
        lengths[lengths.index(-1)] = length - sum(lengths) - 1
    return list(axes.split(call.writer, x, lengths, axis))


@operator_reader("StridedSlice")
def strided_slice(call: Call) -> Item:
    """``x[begin:end:step, ...]`` with NumPy's rules."""
    x = call.operand()
    bounds = [_bounds(call, index, what) for index, what in ((1, "begin"), (2, "end"), (3, "the step"))]
    index = strided_index(call.node, *bounds)
    found = call.shape(x)
    num_real = sum(entry is not None and entry is not Ellipsis for entry in index)
    cuts: dict[int, tuple[int, int, int]] = {}
    gone: list[int] = []
    new: list[int] = []
    axis = place = 0
    for entry in index:
        if entry is Ellipsis:
            axis += len(found) - num_real
            place += len(found) - num_real
            continue
        if entry is None:
            new.append(place)
            place += 1
            continue
        if isinstance(entry, slice):
            if entry != slice(None, None, 1):
                cuts[axis] = _cut(entry)
            place += 1
        else:
            cuts[axis] = (entry, entry + 1 if entry != -1 else axes.FAR, 1)
            gone.append(axis)
        axis += 1
    made: Operand = axes.cut(call.writer, x, cuts)
    made = axes.drop(call.writer, made, gone)
    return axes.widen(call.writer, made, new) if new else made


def _bounds(call: Call, index: int, what: str) -> list[int]:
    """Return begins or ends; an open one is read only where a mask says that it does not count."""
    numbers = call.sizes(index, what)
    mask = call.whole({1: "begin_mask", 2: "end_mask"}.get(index, ""), 0)
    if any(number is None and not mask & (1 << place) for place, number in enumerate(numbers)):
        call.constant(index, what)
    return [number or 0 for number in numbers]


def _cut(entry: slice) -> tuple[int, int, int]:
    step = entry.step or 1
    begin = entry.start if entry.start is not None else (0 if step > 0 else axes.FAR)
    end = entry.stop if entry.stop is not None else (axes.FAR if step > 0 else -axes.FAR)
    return begin, end, step


@operator_reader("Slice")
def slice_(call: Call) -> Item:
    """``size`` elements from ``begin`` on along each axis, -1 for all that are left."""
    x = call.operand()
    begins, lengths = call.integers(1, "begin"), call.sizes(2, "the size")
    found = call.shape(x)
    cuts = {}
    for axis, (begin, length) in enumerate(zip(begins, lengths, strict=True)):
        whole = length == -1 or length == found[axis] or (length is None and found[axis] is None)
        if begin or not whole:
            cuts[axis] = (begin, axes.FAR if length in {-1, None} else begin + int(length or 0), 1)
    return axes.cut(call.writer, x, cuts)


@operator_reader("Pad", "PadV2", "MirrorPad")
def pad(call: Call) -> Tensor:
    """More elements at both ends of each axis: of one number, or mirrored."""
    amounts = np.array(call.integers(1, "the padding"), np.int64).reshape(-1, 2)
    mode = "constant"
    pairs = [(int(begin), int(end)) for begin, end in amounts]
    if call.op == "MirrorPad":
        if call.text("mode", "REFLECT") == "SYMMETRIC":
            return _symmetric(call, pairs)
        mode = "reflect"
    fill = float(call.constant(2, "the number").reshape(-1)[0]) if call.op == "PadV2" else 0.0
    return axes.pad(call.writer, call.operand(), pairs, mode=mode, fill=fill)


def _symmetric(call: Call, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return a tensor with its begin and its end mirrored, the edge standing twice."""
    made = call.operand()
    for axis, (begin, end) in enumerate(pairs):
        pieces: list[Operand] = [made]
        if begin:
            pieces.insert(0, axes.cut(call.writer, made, {axis: (begin - 1, -axes.FAR, -1)}))
        if end:
            pieces.append(axes.cut(call.writer, made, {axis: (-1, -end - 1, -1)}))
        made = axes.concat(call.writer, pieces, axis) if len(pieces) > 1 else made
    return made if isinstance(made, Tensor) else Tensor(call.writer.source(made))


@operator_reader("Tile")
def tile(call: Call) -> Tensor:
    """Several times along each axis."""
    times = call.integers(1, "how often")
    value = call.writer.source(call.operand())
    return Tensor(call.writer.add("Tile", [value, call.writer.integers(times)]))


@operator_reader("Fill")
def fill(call: Call) -> Tensor:
    """One number everywhere."""
    number = call.constant(1, "the number").reshape(-1)[:1]
    numbers = numbers_of(call.item(0))
    if numbers is None:
        raise call.refuse("the sizes are computed while the net runs, which is not read")
    sizes = call.written(Sizes(numbers))
    wide = call.writer.builder.constant(number, dtype=number.dtype)
    return Tensor(call.writer.add("Expand", [wide, sizes]))


@operator_reader("BroadcastTo")
def broadcast_to(call: Call) -> Tensor:
    """Repeated to larger sizes."""
    numbers = numbers_of(call.item(1))
    if numbers is None:
        raise call.refuse("the sizes are computed while the net runs, which is not read")
    return Tensor(
        call.writer.add("Expand", [call.writer.source(call.operand()), call.written(Sizes(numbers))])
    )


@operator_reader("ReverseV2")
def reverse(call: Call) -> Tensor:
    """Backwards along some axes."""
    over = call.integers(1, "the axes")
    x = call.operand()
    count = len(call.shape(x))
    cuts = {call.writer.axis(axis, count): (-1, -axes.FAR, -1) for axis in over}
    return axes.cut(call.writer, x, cuts)


@operator_reader("SpaceToDepth", "DepthToSpace")
def space_and_depth(call: Call) -> Tensor:
    """Blocks of pixels as channels, or back; the place in the block counts before the channel."""
    if not call.is_last():
        raise call.refuse("data_format=NCHW is not read here")
    size = call.whole("block_size", 2)
    value = call.writer.first(call.operand())
    attributes = {"blocksize": size}
    if call.op == "DepthToSpace":
        attributes = {"blocksize": size, "mode": "DCR"}  # type: ignore[dict-item]
    return Tensor(call.writer.add(call.op, [value], attributes), first=True)


@operator_reader("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(call: Call) -> Tensor:
    """Every place of a block as an example of its own; the places count before the examples."""
    blocks, amounts = _blocks(call, "the padding")
    rank = len(call.shape(call.operand()))
    if not 0 < len(blocks) == len(amounts) < rank:
        raise call.wrong(f"blocks of {blocks} and a padding of {amounts.tolist()} of {rank} axes")
    around = [(0, 0), *((int(b), int(e)) for b, e in amounts), *[(0, 0)] * (rank - 1 - len(blocks))]
    padded = axes.pad(call.writer, call.operand(), around) if amounts.any() else call.operand()
    sizes = call.writer.known(padded, range(1, rank))
    if any(block < 1 or n % block for n, block in zip(sizes, blocks, strict=False)):
        raise call.wrong(f"sizes {sizes} do not make blocks of {blocks}")
    outer = [size // block for size, block in zip(sizes, blocks, strict=False)]
    rest = sizes[len(blocks) :]
    places = range(1, 2 * len(blocks) + 1)
    perm = [*places[1::2], 0, *places[0::2], *range(len(places) + 1, len(places) + 1 + len(rest))]
    cut = [n for pair in zip(outer, blocks, strict=True) for n in pair]
    return _regrouped(call, padded, [-1, *cut, *rest], perm, [-1, *outer, *rest])


def _blocks(call: Call, what: str) -> tuple[list[int], np.ndarray]:
    """Return the sizes of blocks, and what is put around or cut off; the older form has squares."""
    if call.op.endswith("ND"):
        return call.integers(1, "the block"), call.constant(2, what).reshape(-1, 2)
    return [call.whole("block_size", 1)] * 2, call.constant(1, what).reshape(-1, 2)


@operator_reader("BatchToSpaceND", "BatchToSpace")
def batch_to_space(call: Call) -> Tensor:
    """The opposite of SpaceToBatchND; ends are cut off."""
    blocks, crops = _blocks(call, "the crop")
    x, num = call.operand(), len(blocks)
    sizes = call.writer.known(x, range(1, len(call.shape(x))))
    if len(crops) != num or num > len(sizes) or min(blocks, default=1) < 1:
        raise call.wrong(f"blocks of {blocks} and crops {crops.tolist()} of sizes {sizes}")
    rest = sizes[num:]
    perm = [num, *(place for i in range(num) for place in (num + 1 + i, i))]
    perm += range(2 * num + 1, 2 * num + 1 + len(rest))
    whole = [size * block for size, block in zip(sizes, blocks, strict=False)]
    made = _regrouped(call, x, [*blocks, -1, *sizes], perm, [-1, *whole, *rest])
    cuts = {
        axis + 1: (int(begin), whole[axis] - int(end), 1)
        for axis, (begin, end) in enumerate(crops)
        if begin or end
    }
    return axes.cut(call.writer, made, cuts)


def _regrouped(
    call: Call, x: Operand, cut: Sequence[int], perm: Sequence[int], joined: Sequence[int]
) -> Tensor:
    """Return a tensor with its axes cut, put in another order and joined."""
    writer = call.writer
    pieces = writer.add("Reshape", [writer.source(x), writer.integers(cut)])
    turned = writer.add("Transpose", [pieces], {"perm": list(perm)})
    return Tensor(writer.add("Reshape", [turned, writer.integers(joined)]))
