"""``chainer.functions.array``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.arguments import ArgumentsError
from netweave.formats.chainer.shim.functions.table import function, wrap
from netweave.formats.chainer.shim.recorder import Size, current
from netweave.formats.chainer.shim.variable import Variable


def _whole(numbers: Any) -> Any:
    return current().constant([int(number) for number in numbers], dtype="int64")


@function()
def reshape(x: Any, shape: Any) -> Variable:
    """Other sizes; a batch that is passed on stays open."""
    sizes, own = list(shape), list(x.shape)
    written: list[int] = []
    for axis, size in enumerate(sizes):
        is_batch = isinstance(size, Size) and axis < len(own) and isinstance(own[axis], Size)
        written.append(0 if is_batch else int(size))
    if isinstance(own[0], Size) and 0 not in written and -1 not in written and own and sizes:
        rest = int(np.prod(own[1:], dtype=np.int64))
        if rest == int(np.prod(written[1:], dtype=np.int64)) and written[0] == int(own[0]):
            written[0] = -1
    return wrap(current().add("Reshape", [x, _whole(written)]))


@function()
def flatten(x: Any) -> Variable:
    """All elements in a row."""
    return wrap(current().add("Reshape", [x, _whole([-1])]))


@function()
def transpose(x: Any, axes: Any = None) -> Variable:
    """Axes in another order."""
    perm = list(range(x.ndim))[::-1] if axes is None else [int(axis) % x.ndim for axis in axes]
    return wrap(current().add("Transpose", [x], {"perm": perm}))


@function()
def swapaxes(x: Any, axis1: int, axis2: int) -> Variable:
    """Two axes exchanged."""
    perm = list(range(x.ndim))
    perm[axis1], perm[axis2] = perm[axis2], perm[axis1]
    return wrap(current().add("Transpose", [x], {"perm": perm}))


@function()
def rollaxis(x: Any, axis: int, start: int = 0) -> Variable:
    """One axis moved before another."""
    perm = list(np.rollaxis(np.empty(range(x.ndim)), axis, start).shape)
    return wrap(current().add("Transpose", [x], {"perm": [int(each) for each in perm]}))


@function()
def concat(xs: Any, axis: int = 1) -> Variable:
    """After one another along an axis; Chainer's default is 1."""
    xs = list(xs)
    if len(xs) == 1 and isinstance(xs[0], Variable):
        return xs[0]
    return wrap(current().add("Concat", xs, {"axis": int(axis)}))


@function()
def stack(xs: Any, axis: int = 0) -> Variable:
    """After one another along a new axis."""
    record = current()
    raised = [record.add("Unsqueeze", [x, _whole([axis])]) for x in xs]
    return wrap(record.add("Concat", raised, {"axis": int(axis)}))


@function()
def hstack(xs: Any) -> Variable:
    """After one another along axis 1."""
    made: Variable = concat(xs, axis=1)
    return made


@function()
def vstack(xs: Any) -> Variable:
    """After one another along axis 0."""
    made: Variable = concat(xs, axis=0)
    return made


@function()
def split_axis(x: Any, indices_or_sections: Any, axis: int, force_tuple: bool = True) -> Any:
    """Cut along an axis, into equal parts or at places."""
    size = int(x.shape[axis])
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if size % count:
            raise CodeError(f"cuts {size} elements into {count} equal parts")
        sizes = [size // count] * count
    else:
        ends = [*(int(each) for each in indices_or_sections), size]
        sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    if len(sizes) == 1:
        return (x,) if force_tuple else x
    made = current().add_many("Split", [x, _whole(sizes)], {"axis": int(axis)}, num_outputs=len(sizes))
    return tuple(map(wrap, made))


@function()
def separate(x: Any, axis: int = 0) -> tuple[Variable, ...]:
    """Every slice of an axis, without it."""
    record = current()
    parts = split_axis(x, int(x.shape[axis]), axis)
    return tuple(wrap(record.add("Squeeze", [part, _whole([axis])])) for part in parts)


@function()
def expand_dims(x: Any, axis: int) -> Variable:
    """With a new axis of size 1."""
    return wrap(current().add("Unsqueeze", [x, _whole([axis])]))


@function()
def squeeze(x: Any, axis: Any = None) -> Variable:
    """Without axes of size 1."""
    axes = [a for a, size in enumerate(x.shape) if size == 1 and not isinstance(size, Size)]
    if axis is not None:
        axes = [int(axis)] if isinstance(axis, int | np.integer) else list(axis)
    return wrap(current().add("Squeeze", [x, _whole(axes)]))


@function()
def broadcast_to(x: Any, shape: Any) -> Variable:
    """Sizes of 1 made larger."""
    sizes = [1 if isinstance(size, Size) else int(size) for size in shape]
    return wrap(current().add("Expand", [x, _whole(sizes)]))


@function()
def tile(x: Any, reps: Any) -> Variable:
    """Several times after one another."""
    counts = [int(reps)] if isinstance(reps, int) else [int(each) for each in reps]
    return wrap(current().add("Tile", [x, _whole([1] * (x.ndim - len(counts)) + counts)]))


@function()
def cast(x: Any, typ: Any) -> Variable:
    """Another element type."""
    import onnx_ir as ir

    return wrap(current().add("Cast", [x], {"to": int(ir.DataType.from_numpy(np.dtype(typ)))}))


@function()
def copy(x: Any, dst: Any) -> Variable:
    """What comes in."""
    return x if isinstance(x, Variable) else wrap(current().as_value(x))


@function()
def flip(x: Any, axis: int) -> Variable:
    """An axis the other way round."""
    record = current()
    bounds = [_whole([-1]), _whole([-(1 << 31)]), _whole([axis]), _whole([-1])]
    return wrap(record.add("Slice", [x, *bounds]))


@function()
def pad(x: Any, pad_width: Any, mode: str, **keywords: Any) -> Variable:
    """Elements put around, as ``numpy.pad`` does."""
    taken = {"constant": "constant_values", "reflect": "reflect_type", "edge": ""}
    if mode not in taken:
        raise CodeError(f"pads with the mode {mode!r}, which is not recorded")
    unknown = ", ".join(repr(name) for name in keywords if name != taken[mode])
    if unknown:
        raise ArgumentsError(f"pad() got unsupported keyword arguments for mode {mode!r}: {unknown}")
    values = np.unique(keywords.get("constant_values", 0))
    if len(values) != 1 or keywords.get("reflect_type", "even") != "even":
        raise CodeError("padding with several constant_values, or with an odd reflect_type, is not recorded")
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))
    record = current()
    inputs = [x, _whole([*widths[:, 0], *widths[:, 1]])]
    if mode == "constant":
        inputs.append(record.constant(float(values[0])))
    return wrap(record.add("Pad", inputs, {"mode": mode}))


@function()
def depth2space(X: Any, r: int) -> Variable:
    """Channels to blocks: the place within the block counts before the channel."""
    return wrap(current().add("DepthToSpace", [X], {"blocksize": int(r), "mode": "DCR"}))


@function()
def space2depth(X: Any, r: int) -> Variable:
    """Blocks to channels."""
    return wrap(current().add("SpaceToDepth", [X], {"blocksize": int(r)}))


@function()
def resize_images(
    x: Any, output_shape: Any, *, mode: str = "bilinear", align_corners: bool = True
) -> Variable:
    """Other sizes of an image; the corners are aligned unless it says otherwise."""
    record = current()
    sizes = [0, 0, *(int(size) for size in output_shape)]
    scales = [1.0, 1.0] + [new / old for new, old in zip(sizes[2:], x.shape[2:], strict=True)]
    rule = "align_corners" if align_corners else "half_pixel"
    attributes = {
        "mode": "linear" if mode == "bilinear" else "nearest",
        "coordinate_transformation_mode": rule if mode == "bilinear" else "asymmetric",
        "nearest_mode": "floor",
    }
    return wrap(record.add("Resize", [x, None, record.constant(scales)], attributes))


@function()
def get_item(x: Any, slices: Any) -> Variable:
    """A part by slices and whole numbers."""
    record = current()
    part = _Part.of(x.ndim, slices)
    value = x
    if part.axes:
        bounds = (part.starts, part.ends, part.axes, part.steps)
        value = wrap(record.add("Slice", [x, *map(_whole, bounds)]))
    if part.gone:
        value = wrap(record.add("Squeeze", [value, _whole(part.gone)]))
    if part.new:
        value = wrap(record.add("Unsqueeze", [value, _whole(part.new)]))
    made: Variable = value
    return made


@dataclass(slots=True)
class _Part:
    """What an index takes: slices by axis, axes that go and axes that come."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)

    @staticmethod
    def of(rank: int, slices: Any) -> _Part:
        """Read an index as NumPy does."""
        keys = list(slices) if isinstance(slices, tuple) else [slices]
        places = [place for place, key in enumerate(keys) if key is Ellipsis]
        if places:
            named = sum(key is not None for key in keys) - 1
            keys[places[0] : places[0] + 1] = [slice(None)] * (rank - named)
        part, axis = _Part(), 0
        for key in keys:
            if key is None:
                part.new.append(axis - len(part.gone) + len(part.new))
                continue
            part._take(axis, key)
            axis += 1
        return part

    def _take(self, axis: int, key: Any) -> None:
        if isinstance(key, slice):
            if key != slice(None):
                self._cut(axis, key.start, key.stop, int(key.step or 1))
        elif isinstance(key, int | np.integer):
            self._cut(axis, int(key), int(key) + 1 if key != -1 else None, 1)
            self.gone.append(axis)
        else:
            raise CodeError(f"takes a part by a {type(key).__name__}, expected slices and whole numbers")

    def _cut(self, axis: int, start: int | None, stop: int | None, step: int) -> None:
        far = 1 << 31
        self.starts.append(int(start) if start is not None else 0 if step > 0 else -1)
        self.ends.append(int(stop) if stop is not None else far if step > 0 else -far)
        self.axes.append(axis)
        self.steps.append(step)


@function()
def where(condition: Any, x: Any, y: Any) -> Variable:
    """One or the other."""
    return wrap(current().add("Where", [condition, x, y]))


@function()
def astype(x: Any, dtype: Any, copy: bool = True) -> Variable:
    """Another element type."""
    made: Variable = cast(x, dtype)
    return made
