"""Shapes and indexing in torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.operator_table import Ints, Number, lowering, torch_dtype

_MAX_END = 2**31 - 1


@lowering("Identity", since=1)
def identity(x: Tensor) -> Tensor:
    """Return the input."""
    return x


@lowering("Reshape", since=5)
def reshape(data: Tensor, shape: Ints, *, allowzero: int = 0) -> Tensor:
    """Give another shape; a 0 keeps the input's size at its place unless ``allowzero``."""
    if not allowzero:
        shape = tuple(data.shape[axis] if size == 0 else size for axis, size in enumerate(shape))
    return data.reshape(shape)


@lowering("Flatten", since=1)
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Merge the axes before ``axis``, and those from it on."""
    rows = torch.Size(x.shape[:axis]).numel()
    return x.reshape(rows, -1) if x.numel() else x.reshape(rows, torch.Size(x.shape[axis:]).numel())


@lowering("Transpose", since=1)
def transpose(data: Tensor, *, perm: Ints = ()) -> Tensor:
    """Reorder the axes, or reverse their order."""
    return data.permute(perm or tuple(reversed(range(data.ndim))))


@lowering("Squeeze", since=13)
def squeeze(data: Tensor, axes: Ints | None = None) -> Tensor:
    """Drop axes of size 1: those named, or all."""
    return data.squeeze() if axes is None else data.squeeze(axes)


@lowering("Unsqueeze", since=13)
def unsqueeze(data: Tensor, axes: Ints) -> Tensor:
    """Insert axes of size 1; positions count in the result."""
    num_axes = data.ndim + len(axes)
    for axis in sorted(axis % num_axes for axis in axes):
        data = data.unsqueeze(axis)
    return data


@lowering("Concat", since=4)
def concat(*inputs: Tensor, axis: int) -> Tensor:
    """Join along an axis."""
    return torch.cat(inputs, axis)


@lowering("Split", since=13)
def split(x: Tensor, sizes: Ints | None = None, *, axis: int = 0, num_outputs: int) -> tuple[Tensor, ...]:
    """Cut along an axis into given sizes, or into equal ones of which the last may be smaller."""
    if sizes is None:
        size = -(-x.shape[axis] // num_outputs)
        sizes = (*[size] * (num_outputs - 1), x.shape[axis] - size * (num_outputs - 1))
    return tuple(torch.split(x, sizes, axis))


@lowering("Slice", since=10)
def slice_(
    data: Tensor, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None
) -> Tensor:
    """Cut out a range along each named axis; a negative step runs backwards, which torch does by index."""
    chosen = axes if axes is not None else tuple(range(len(starts)))
    for start, end, axis, step in zip(starts, ends, chosen, steps or (1,) * len(starts), strict=True):
        places = range(data.shape[axis])[start:end:step]
        if step > 0:
            first = places.start if places else 0
            data = data.narrow(axis, first, (places[-1] - first + 1) if places else 0)
            data = _every(data, axis, step) if step > 1 else data
        else:
            data = data.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=data.device))
    return data


def _every(data: Tensor, axis: int, step: int) -> Tensor:
    cut = [slice(None)] * data.ndim
    cut[axis] = slice(None, None, step)
    return data[tuple(cut)]


@lowering("Expand", since=8)
def expand(x: Tensor, shape: Ints) -> Tensor:
    """Broadcast to a shape, in both directions: the input may be the larger."""
    return x.expand(torch.broadcast_shapes(x.shape, shape))


@lowering("Tile", since=6)
def tile(x: Tensor, repeats: Ints) -> Tensor:
    """Repeat as a whole along each axis."""
    return x.repeat(repeats)


@lowering("Pad", since=18)
def pad(
    data: Tensor,
    pads: Ints,
    constant_value: Number | None = None,
    axes: Ints | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Widen axes (or cut them, where the padding is negative) by a constant or the input's own elements."""
    half = len(pads) // 2
    begins_ends = {axis % data.ndim: (pads[i], pads[i + half]) for i, axis in enumerate(axes or range(half))}
    if mode == "constant":
        flat = [size for axis in reversed(range(data.ndim)) for size in begins_ends.get(axis, (0, 0))]
        return functional.pad(data, flat, value=constant_value or 0)
    for axis, (begin, end) in begins_ends.items():
        if begin or end:
            data = data.index_select(axis, _mirrored(data.shape[axis], begin, end, mode).to(data.device))
    return data


def _mirrored(size: int, begin: int, end: int, mode: str) -> Tensor:
    """Return which element stands at each place of a padded axis."""
    places = torch.arange(-begin, size + end)
    if mode == "wrap":
        return places % size
    if mode == "edge":
        return places.clamp(0, size - 1)
    period = max(2 * (size - 1), 1)
    places = places % period
    return torch.minimum(places, period - places)


@lowering("CenterCropPad", since=18)
def center_crop_pad(data: Tensor, shape: Ints, *, axes: Ints = ()) -> Tensor:
    """Cut or pad with zeros around the middle to given sizes."""
    flat = [0] * (2 * data.ndim)
    for axis, size in zip(axes or range(data.ndim), shape, strict=True):
        missing = size - data.shape[axis]
        begin = missing // 2 if missing > 0 else -((-missing) // 2)
        place = 2 * (data.ndim - 1 - axis % data.ndim)
        flat[place : place + 2] = [begin, missing - begin]
    return functional.pad(data, flat)


@lowering("DepthToSpace", since=11)
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move channels into blocks of pixels; ``CRD`` is torch's own order."""
    if mode == "CRD":
        return functional.pixel_shuffle(x, blocksize)
    n, c, h, w = x.shape
    blocks = x.reshape(n, blocksize, blocksize, c // blocksize**2, h, w)
    return blocks.permute(0, 3, 4, 1, 5, 2).reshape(n, -1, h * blocksize, w * blocksize)


@lowering("SpaceToDepth", since=1)
def space_to_depth(x: Tensor, *, blocksize: int) -> Tensor:
    """Move blocks of pixels into channels, the place in the block slowest."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    return blocks.permute(0, 3, 5, 1, 2, 4).reshape(n, -1, h // blocksize, w // blocksize)


@lowering("SpaceToDepth", since=28)
def space_to_depth_in_order(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Move blocks of pixels into channels, in either order."""
    return (
        functional.pixel_unshuffle(x, blocksize) if mode == "CRD" else space_to_depth(x, blocksize=blocksize)
    )


@lowering("Trilu", since=14)
def trilu(x: Tensor, k: Number | None = None, *, upper: int = 1) -> Tensor:
    """Keep the upper or the lower triangle."""
    return (torch.triu if upper else torch.tril)(x, int(k or 0))


@lowering("ReverseSequence", since=10)
def reverse_sequence(x: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Reverse the first steps of each sequence, as many as it is long."""
    moved = x.movedim((time_axis, batch_axis), (0, 1))
    steps = torch.arange(moved.shape[0], device=x.device)[:, None]
    lengths = sequence_lens.to(x.device)[None, :]
    places = torch.where(steps < lengths, lengths - 1 - steps, steps)
    turned = moved[places, torch.arange(moved.shape[1], device=x.device)[None, :]]
    return turned.movedim((0, 1), (time_axis, batch_axis))


@lowering("Shape", since=15)
def shape_of(data: Tensor, *, start: int = 0, end: int = _MAX_END) -> Tensor:
    """Return the sizes, or some of them; they stay on the host."""
    return torch.tensor(list(data.shape[start:end]), dtype=torch.int64)


@lowering("Size", since=1)
def size_of(data: Tensor) -> Tensor:
    """Return the number of elements; it stays on the host."""
    return torch.tensor(data.numel(), dtype=torch.int64)


@lowering("Cast", since=9)
def cast(x: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    """Change the element type."""
    return x.to(torch_dtype(to))


@lowering("CastLike", since=15)
def cast_like(x: Tensor, target: Tensor, *, saturate: int = 1) -> Tensor:
    """Change the element type to that of another tensor."""
    return x.to(target.dtype)


_REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}


def _from_front(indices: Tensor, size: int) -> Tensor:
    """Count negative places from the end."""
    places = indices.to(torch.int64)
    return torch.where(places < 0, places + size, places)


@lowering("Gather", since=1)
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Take whole slices along an axis; the axes of ``indices`` take its place."""
    axis %= data.ndim
    places = _from_front(indices, data.shape[axis]).to(data.device)
    if places.ndim == 0:
        return (
            data.select(axis, int(places))
            if data.device.type == "cpu"
            else data.index_select(axis, places[None]).squeeze(axis)
        )
    taken = data.index_select(axis, places.flatten())
    return taken.reshape(*data.shape[:axis], *places.shape, *data.shape[axis + 1 :])


@lowering("GatherElements", since=11)
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Take single elements along an axis."""
    return torch.gather(data, axis, _from_front(indices, data.shape[axis]))


@lowering("GatherND", since=12)
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Take the slices whose leading places are the rows of ``indices``."""
    places = indices.to(torch.int64).unbind(-1)
    num_axes = indices.ndim - 1
    batch = [
        torch.arange(size, device=data.device).reshape(-1, *[1] * (num_axes - 1 - axis))
        for axis, size in enumerate(data.shape[:batch_dims])
    ]
    return data[(*batch, *places)]


@lowering("ScatterElements", since=11)
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Put single elements along an axis, in the place of those there or combined with them."""
    places = _from_front(indices, data.shape[axis])
    if reduction == "none":
        return data.scatter(axis, places, updates)
    return data.scatter_reduce(axis, places, updates, _REDUCTIONS[reduction])


@lowering("ScatterND", since=11)
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Put slices to the leading places that the rows of ``indices`` name."""
    depth = indices.shape[-1]
    rows = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=data.device)
    for size, places in zip(data.shape[:depth], indices.unbind(-1), strict=True):
        rows = rows * size + _from_front(places, size)
    flat = data.reshape(-1, *data.shape[depth:])
    new = updates.reshape(-1, *data.shape[depth:])
    if reduction == "none":
        return flat.index_put((rows.flatten(),), new).reshape(data.shape)
    rows = rows.flatten().reshape(-1, *[1] * (new.ndim - 1)).expand_as(new)
    return flat.scatter_reduce(0, rows, new, _REDUCTIONS[reduction]).reshape(data.shape)


@lowering("NonZero", since=9)
def non_zero(x: Tensor) -> Tensor:
    """Return the places of what is not zero, one column each."""
    return torch.atleast_1d(x).nonzero().t()


@lowering("OneHot", since=11)
def one_hot(indices: Tensor, depth: Number, values: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``values[1]`` at the indexed place of a new axis, ``values[0]`` elsewhere and if outside."""
    depth = int(depth)
    places = indices.to(torch.int64)
    places = torch.where(places < 0, places + depth, places)
    hit = places[..., None] == torch.arange(depth, device=indices.device)
    return torch.where(hit, values[1], values[0]).movedim(-1, axis)


@lowering("TopK", since=11)
def top_k(x: Tensor, k: Number, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, ...]:  # noqa: A002
    """Return the largest (or smallest) along an axis and their places; among equals the first comes first."""
    ordered, places = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    return ordered.narrow(axis, 0, int(k)), places.narrow(axis, 0, int(k))


@lowering("Compress", since=11)
def compress(data: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """Keep the slices (or elements) where the condition holds; what it does not reach is dropped."""
    if axis is None:
        data, axis = data.flatten(), 0
    return data.index_select(axis, condition.nonzero().flatten())


@lowering("Unique", since=11)
def unique(
    x: Tensor,
    *,
    axis: int | None = None,
    sorted: int = 1,  # noqa: A002
) -> tuple[Tensor, ...]:
    """Return distinct elements (or slices), where each comes first, which each is, and how often it comes."""
    values, inverse, counts = torch.unique(x, dim=axis, return_inverse=True, return_counts=True)
    inverse = inverse.flatten()
    places = torch.arange(inverse.numel(), device=x.device)
    first = torch.full_like(counts, inverse.numel()).scatter_reduce(0, inverse, places, "amin")
    if not sorted:
        order = first.argsort()
        values = values.index_select(axis or 0, order)
        first, counts, inverse = first[order], counts[order], order.argsort()[inverse]
    return values, first, inverse, counts


@lowering("RotaryEmbedding", since=1, domain="netweave")
def rotary_embedding(
    x: Tensor, cosines: Tensor, sines: Tensor, *, interleaved: int = 0, rotary_dim: int = 0
) -> Tensor:
    """Turn pairs of the first features: neighbours, or the two halves."""
    width = rotary_dim or x.shape[-1]
    x, rest = x[..., :width], x[..., width:]
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = first * cosines - second * sines, first * sines + second * cosines
    joined = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat((joined, rest), -1) if rest.shape[-1] else joined
