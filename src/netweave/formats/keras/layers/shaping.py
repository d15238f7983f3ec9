"""Sizes and axes (keras/layers/reshaping)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Tensor, axes
from netweave.files.channels_last.elementwise import unary
from netweave.files.channels_last.resizing import resize
from netweave.formats.keras.layers.preprocessing import METHODS
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.formats.keras.call import Call


@layer_reader("Flatten")
def flatten(call: Call) -> Tensor:
    """All axes but the first in one; with channels first in the file they are turned last before."""
    x = call.x
    rank = len(call.shape(x))
    if rank == 1:
        return axes.widen(call.writer, x, [1])
    if not call.is_last() and rank > 2:
        x = axes.transpose(call.writer, x, [0, *range(2, rank), 1])
    made = axes.flatten(call.writer, x)
    return unary(call.writer, "Identity", call.x) if made is call.x else made


@layer_reader("Reshape")
def reshape(call: Call) -> Tensor:
    """Other sizes, the batch left out; the function ``ops.reshape`` is given the batch as well."""
    name = "newshape" if "newshape" in call.layer.settings else "target_shape"
    wanted = call.setting(name)
    if not isinstance(wanted, list) or not all(size is None or isinstance(size, int) for size in wanted):
        raise call.wrong(f"{name}={wanted!r:.60}, expected whole numbers")
    if name == "newshape":
        return axes.reshape(call.writer, call.x, wanted)
    sizes = [None, *wanted]
    before = call.shape(call.x)[1:]
    if None not in before and sum(size in {None, -1} for size in wanted) == 1:
        count = int(np.prod([size or 1 for size in before], dtype=object))
        known = int(np.prod([size for size in wanted if size not in {None, -1}], dtype=object))
        sizes = [None, *(count // max(known, 1) if size in {None, -1} else size for size in wanted)]
    return axes.reshape(call.writer, call.x, sizes)


@layer_reader("Permute")
def permute(call: Call) -> Tensor:
    """Axes in another order, counted from 1 without the batch."""
    dims = call.setting("dims")
    rank = len(call.shape(call.x))
    if not isinstance(dims, list) or sorted(dims) != list(range(1, rank)):
        raise call.wrong(f"dims={dims!r:.60} of an input with {rank} axes")
    return axes.transpose(call.writer, call.x, [0, *dims])


@layer_reader("RepeatVector")
def repeat_vector(call: Call) -> Tensor:
    """The same n times along a new axis."""
    wide = axes.widen(call.writer, call.x, [1])
    return Tensor(call.writer.add("Tile", [wide.value, call.writer.integers([1, call.count("n"), 1])]))


@layer_reader("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(call: Call) -> Tensor:
    """Zeros at both ends of each axis."""
    pairs = _pairs(call, "padding", 1)
    around = [(0, 0), *pairs, (0, 0)] if call.is_last() else [(0, 0), (0, 0), *pairs]
    return axes.pad(call.writer, call.x, around)


@layer_reader("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(call: Call) -> Tensor:
    """Without elements at both ends of each axis."""
    first = 1 if call.is_last() else 2
    cuts = {
        axis + first: (begin, -end if end else axes.FAR, 1)
        for axis, (begin, end) in enumerate(_pairs(call, "cropping", 0))
        if begin or end
    }
    made = axes.cut(call.writer, call.x, cuts)
    return unary(call.writer, "Identity", call.x) if made is call.x else made


def _pairs(call: Call, name: str, default: int) -> list[tuple[int, int]]:
    """Return (begin, end) of each axis: the setting is a number, one for each axis, or two for each."""
    rank = int(call.layer.type[-2])
    value = call.setting(name, default)
    rows = [value] * rank if isinstance(value, int) else value
    if rank == 1 and isinstance(rows, list) and len(rows) == 2:
        rows = [rows]
    if not isinstance(rows, list) or len(rows) != rank:
        raise call.wrong(f"{name}={value!r:.60}, expected numbers for {rank} axes")
    pairs = [(row, row) if isinstance(row, int) else tuple(row) for row in rows]
    if not all(len(pair) == 2 and all(isinstance(n, int) and n >= 0 for n in pair) for pair in pairs):
        raise call.wrong(f"{name}={value!r:.60}, expected numbers of at least 0")
    return [(pair[0], pair[1]) for pair in pairs]


@layer_reader("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(call: Call) -> Tensor:
    """Each element several times, or a smooth image between them."""
    rank = int(call.layer.type[-2])
    method = METHODS[call.word("interpolation", "nearest", tuple(METHODS))]
    factors = call.per_axis("size", rank, 2)
    convention = "asymmetric" if method == "nearest" else "half"
    return resize(
        call.writer, call.x, method=method, convention=convention, factors=factors, last=call.is_last()
    )


@layer_reader("InputLayer")
def input_layer(call: Call) -> Tensor:
    """An input of a model inside a model: what the model is given."""
    return call.x
