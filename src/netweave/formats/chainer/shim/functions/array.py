"""Functions of Chainer that change shapes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node, wrap
from netweave.formats.chainer.shim.link import ArgumentsError
from netweave.formats.chainer.shim.recorder import ImageSize, Size, Variable, current
from netweave.formats.chainer.shim.registry import FUNCTIONS
from netweave.formats.lowering.indexing import FAR, Index, part_of


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
    return node("Reshape", [x, integers(written)])


@function()
def flatten(x: Any) -> Variable:
    """All elements in a row."""
    return node("Reshape", [x, integers([-1])])


@function()
def transpose(x: Any, axes: Any = None) -> Variable:
    """Axes in another order."""
    perm = list(range(x.ndim))[::-1] if axes is None else [int(axis) % x.ndim for axis in axes]
    return node("Transpose", [x], {"perm": perm})


@function()
def swapaxes(x: Any, axis1: int, axis2: int) -> Variable:
    """Two axes exchanged."""
    perm = list(range(x.ndim))
    perm[axis1], perm[axis2] = perm[axis2], perm[axis1]
    return node("Transpose", [x], {"perm": perm})


@function()
def rollaxis(x: Any, axis: int, start: int = 0) -> Variable:
    """One axis moved before another."""
    perm = list(np.rollaxis(np.empty(range(x.ndim)), axis, start).shape)
    return node("Transpose", [x], {"perm": [int(each) for each in perm]})


@function()
def concat(xs: Any, axis: int = 1) -> Variable:
    """After one another along an axis; Chainer's default is 1."""
    xs = list(xs)
    if len(xs) == 1 and isinstance(xs[0], Variable):
        return xs[0]
    return node("Concat", xs, {"axis": int(axis)})


@function()
def stack(xs: Any, axis: int = 0) -> Variable:
    """After one another along a new axis."""
    return node("Concat", [expand_dims(x, axis) for x in xs], {"axis": int(axis)})


@function()
def hstack(xs: Any) -> Variable:
    """After one another along axis 1."""
    return concat(xs, axis=1)


@function()
def vstack(xs: Any) -> Variable:
    """After one another along axis 0."""
    return concat(xs, axis=0)


@function()
def split_axis(x: Any, indices_or_sections: Any, axis: int, force_tuple: bool = True) -> Any:
    """Cut along an axis, into equal parts or at places."""
    size = int(x.shape[axis])
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if size % count:
            raise CodeError(f"cannot divide {size} elements into {count} equal parts")
        sizes = [size // count] * count
    else:
        ends = [*(int(each) for each in indices_or_sections), size]
        sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    if len(sizes) == 1:
        return (x,) if force_tuple else x
    pieces = current().add_many("Split", [x, integers(sizes)], {"axis": int(axis)}, outputs=len(sizes))
    return tuple(map(wrap, pieces))


@function()
def separate(x: Any, axis: int = 0) -> tuple[Variable, ...]:
    """Every slice of an axis, without it."""
    return tuple(squeeze(part, axis) for part in split_axis(x, int(x.shape[axis]), axis))


@function()
def expand_dims(x: Any, axis: int) -> Variable:
    """With a new axis of size 1."""
    return node("Unsqueeze", [x, integers([axis])])


@function()
def squeeze(x: Any, axis: Any = None) -> Variable:
    """Without axes of size 1."""
    axes = [a for a, size in enumerate(x.shape) if size == 1 and not isinstance(size, Size)]
    if axis is not None:
        axes = [int(axis)] if isinstance(axis, int | np.integer) else list(axis)
    return node("Squeeze", [x, integers(axes)])


@function()
def broadcast_to(x: Any, shape: Any) -> Variable:
    """Sizes of 1 made larger."""
    sizes = [1 if isinstance(size, Size) else int(size) for size in shape]
    return node("Expand", [x, integers(sizes)])


@function()
def tile(x: Any, reps: Any) -> Variable:
    """Several times after one another."""
    counts = [int(reps)] if isinstance(reps, int) else [int(each) for each in reps]
    return node("Tile", [x, integers([1] * (x.ndim - len(counts)) + counts)])


@function()
def cast(x: Any, typ: Any) -> Variable:
    """Another element type."""
    import onnx_ir as ir

    return node("Cast", [x], {"to": int(ir.DataType.from_numpy(np.dtype(typ)))})


@function()
def copy(x: Any, dst: Any) -> Variable:
    """Return the input."""
    return x if isinstance(x, Variable) else wrap(current().as_value(x))


@function()
def flip(x: Any, axis: int) -> Variable:
    """An axis the other way round."""
    bounds = map(integers, ([-1], [-FAR], [axis], [-1]))
    return node("Slice", [x, *bounds])


@function()
def pad(x: Any, pad_width: Any, mode: str, **keywords: Any) -> Variable:
    """Elements put around, as ``numpy.pad`` does."""
    taken = {"constant": "constant_values", "reflect": "reflect_type", "edge": ""}
    if mode not in taken:
        raise CodeError(f"pad() with the mode {mode!r} is not supported")
    unknown = ", ".join(repr(name) for name in keywords if name != taken[mode])
    if unknown:
        raise ArgumentsError(f"pad() got unsupported keyword arguments for mode {mode!r}: {unknown}")
    values = np.unique(keywords.get("constant_values", 0))
    if len(values) != 1 or keywords.get("reflect_type", "even") != "even":
        raise CodeError("padding with several constant_values, or with an odd reflect_type, is not supported")
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2))
    record = current()
    inputs = [x, integers([*widths[:, 0], *widths[:, 1]])]
    if mode == "constant":
        inputs.append(record.constant(float(values[0])))
    return node("Pad", inputs, {"mode": mode})


@function()
def depth2space(X: Any, r: int) -> Variable:
    """Channels to blocks: the place within the block counts before the channel."""
    return node("DepthToSpace", [X], {"blocksize": int(r), "mode": "DCR"})


@function()
def space2depth(X: Any, r: int) -> Variable:
    """Blocks to channels."""
    return node("SpaceToDepth", [X], {"blocksize": int(r)})


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
    return node("Resize", [x, None, record.constant(scales)], attributes)


@function()
def get_item(x: Any, slices: Any) -> Variable:
    """A part by slices and integers."""
    part = part_of(list(map(_index, slices if isinstance(slices, tuple) else (slices,))), x.ndim)
    if part.bounds:
        begins, ends, steps = zip(*part.bounds.values(), strict=True)
        first, last = current().bounds(begins), current().bounds(ends)
        x = node("Slice", [x, first, last, integers(part.bounds), integers(steps)])
    if part.removed:
        x = node("Squeeze", [x, integers(part.removed)])
    return node("Unsqueeze", [x, integers(part.added)]) if part.added else x


def _index(key: Any) -> Index:
    if isinstance(key, slice):
        return slice(*map(_bound, (key.start, key.stop, key.step)))
    if isinstance(key, int | np.integer):
        return int(key)
    if key is not None and key is not ...:
        raise CodeError(f"is indexed by a {type(key).__name__}, expected slices and integers")
    return None if key is None else ...


def _bound(given: Any) -> int | None:
    return given if given is None or isinstance(given, ImageSize) else int(given)


@function()
def where(condition: Any, x: Any, y: Any) -> Variable:
    """One or the other."""
    return node("Where", [condition, x, y])


@function()
def astype(x: Any, dtype: Any, copy: bool = True) -> Variable:
    """Another element type."""
    return cast(x, dtype)


_CLASSES = (
    "AveragePooling2D", "BroadcastTo", "ClippedReLU", "Concat", "Dropout", "ELU", "ExpandDims", "LeakyReLU",
    "LocalResponseNormalization", "MaxPooling2D", "ReLU", "Reshape", "Sigmoid", "Softmax",
    "SoftmaxCrossEntropy", "Tanh", "Transpose",
)  # fmt: skip
"""Classes of Chainer 1 that are functions today, of the same name in small letters."""


class _Former:
    """Factory of a function with its settings bound."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("use_cudnn", None)
        words = {name.replace("_", ""): name for name in FUNCTIONS}
        function = FUNCTIONS[words[self._name.lower()]]
        if self._name == "Concat":
            return lambda *xs: function(xs, *args, **kwargs)
        return lambda *xs: partial(function, **kwargs)(*xs, *args)


FORMER = {name: _Former(name) for name in _CLASSES}
"""Every class by its name in ``chainer.functions``."""
