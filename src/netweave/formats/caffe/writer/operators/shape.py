"""Operators that move elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.writing import Refused
from netweave.formats.caffe.writer.layer import CaffeLayer
from netweave.formats.caffe.writer.operators.detection import prior_boxes
from netweave.formats.caffe.writer.table import Call, lazily, per_axis, written
from netweave.graph import known_shape

if TYPE_CHECKING:
    import onnx_ir as ir


@written("Concat")
def concat(call: Call) -> list[CaffeLayer]:
    """After one another along an axis."""
    axis = call.axis("axis", 1)
    names, layers = [], []
    for index in range(call.num_inputs):
        priors = prior_boxes(call, index) if call.is_stored(index) else None
        layers += [priors] if priors else []
        names.append(priors.tops[0] if priors else call.name(index))
    return [*layers, call.layer("Concat", names, {} if axis == 1 else {"concat_param": {"axis": axis}})]


@written("Split")
def split(call: Call) -> list[CaffeLayer]:
    """Cut along an axis."""
    axis = call.axis("axis", 0)
    tops = tuple(value.name or "" for value in call.node.outputs)
    points = [int(point) for point in np.cumsum(call.wholes(1))[:-1]] if call.has(1) else []
    settings: dict[str, Any] = {} if axis == 1 else {"axis": axis}
    settings |= {"slice_point": points} if points else {}
    given = {"slice_param": settings} if settings else {}
    return [CaffeLayer("Slice", (call.name(0),), tops, given, sources=call.layers)]


@written("Transpose")
def transpose(call: Call) -> list[CaffeLayer]:
    """Axes in another order: a layer of the SSD branch, which Caffe 1.0 has not."""
    perm = call.get("perm") or list(range(call.rank(0)))[::-1]
    return call.chain(("Permute", {"permute_param": {"order": list(perm)}}))


@written("Slice")
def slice_(call: Call) -> list[CaffeLayer]:
    """A part along some axes; where its sizes are those of another value, a Crop."""
    if call.value(2).producer() is not None:
        return [_crop(call)]
    starts, ends, shape = call.wholes(1), call.wholes(2), call.shape(0)
    axes = call.wholes(3) if call.has(3) else list(range(len(starts)))
    if call.has(4) and set(call.wholes(4)) != {1}:
        raise Refused("it takes steps, and Caffe's Slice takes none")
    value, layers = call.name(0), []
    parts = [
        (axis % len(shape), *_range(start, end, shape[axis]))
        for axis, start, end in zip(axes, starts, ends, strict=True)
    ]
    parts = [part for part in parts if part[1:] != (0, shape[part[0]])]
    for number, (axis, start, end) in enumerate(parts, start=1):
        kept = call.output if number == len(parts) else call.inner()
        layers.append(cut(call, value, kept, axis=axis, start=start, end=end, size=shape[axis]))
        value = kept
    return layers or call.chain(("Split", {}))


def _range(start: int, end: int, size: int | None) -> tuple[int, int]:
    if size is None:
        raise Refused("it cuts an axis whose size is not known; give the input's sizes")
    first, last, _ = slice(start, end).indices(size)
    return first, last


def cut(
    call: Call, value: str, kept: str, *, axis: int, start: int, end: int, size: int | None
) -> CaffeLayer:
    """Return a Slice that keeps a range of an axis; nothing reads its other tops.

    Args:
        call: The node that it is a part of.
        value: Name of the value that is cut.
        kept: Name of the part.
        axis: The axis, from 0.
        start: First element.
        end: Element behind the last.
        size: Elements of the axis; None if there are surely more than ``end``.
    """
    points = ([start] if start else []) + ([end] if end != size else [])
    tops = [f"{kept}/before"] * bool(start) + [kept] + [f"{kept}/behind"] * (end != size)
    settings: dict[str, Any] = {} if axis == 1 else {"axis": axis}
    return CaffeLayer(
        "Slice", (value,), tuple(tops), {"slice_param": settings | {"slice_point": points}}, (), call.layers
    )


def _crop(call: Call) -> CaffeLayer:
    """Return a part of the sizes of another value, as Caffe's reader writes it: ``Shape`` plus offsets."""
    starts, ends = call.wholes(1), call.value(2).producer()
    if ends is not None and ends.op_type == "Add" and not ends.domain:
        ends = _maker(ends.inputs[0])
    other = ends.inputs[0] if ends is not None and ends.op_type == "Shape" and not ends.domain else None
    rank = call.rank(0)
    axes = call.wholes(3) if call.has(3) else []
    if ends is None or other is None or axes != list(range(ends.attributes.get_int("start", 0), rank)):
        raise Refused("where it ends is computed")
    settings: dict[str, Any] = {} if axes[0] == 2 else {"axis": axes[0]}
    if any(starts):
        settings["offset"] = [starts[0]] if len(set(starts)) == 1 else starts
    return call.layer("Crop", [call.name(0), other.name or ""], {"crop_param": settings} if settings else {})


def _maker(value: ir.Value | None) -> ir.Node | None:
    return value.producer() if value is not None else None


@written("Flatten")
def flatten(call: Call) -> list[CaffeLayer]:
    """All axes from one on as one."""
    axis = call.get("axis", 1)
    if axis != 1:
        raise Refused(f"it flattens from axis {axis} on")
    return call.chain(("Flatten", {}))


@written("Reshape", "Squeeze", "Unsqueeze")
def reshape(call: Call) -> list[CaffeLayer]:
    """Other sizes; the first axis stays as it is if it is the batch, so that its size stays open."""
    old, new = call.shape(0), known_shape(call.node.outputs[0])
    if new is None:
        raise Refused("its sizes are computed")
    is_batch = bool(old and new) and old[0] == new[0]
    dims = [0 if axis == 0 and is_batch else -1 if size is None else size for axis, size in enumerate(new)]
    if dims.count(-1) > 1:
        raise Refused("more than one of its sizes is not known; give the input's sizes")
    if len(dims) == 2 and dims[0] == 0 and len(old) > 2:
        return call.chain(("Flatten", {}))
    return call.chain(("Reshape", {"reshape_param": {"shape": {"dim": dims}}}))


@written("Pad")
def pad(call: Call) -> list[CaffeLayer]:
    """Zeros around: a convolution that does nothing else, one number for each channel."""
    rank, pads = call.rank(0), call.wholes(1)
    channels = call.shape(0)[1]
    value = float(call.constant(2).reshape(-1)[0]) if call.has(2) else 0.0
    begin, end = pads[2:rank], pads[rank + 2 :]
    outer = [*pads[:2], *pads[rank : rank + 2]]
    if call.get("mode", "constant") != "constant" or value or call.has(3) or any(outer) or rank < 3:
        raise Refused(
            "Caffe pads with zeros only, height and width alike; write the padding into the layer behind it"
        )
    if min(pads) < 0 or channels is None:
        raise Refused("its padding is less than 0, or its channels are not known")
    sizes = [max(pair) for pair in zip(begin, end, strict=True)]
    zeros = [(size - first, size - last) for size, first, last in zip(sizes, begin, end, strict=True)]
    settings = {"num_output": channels, "bias_term": False} | per_axis("pad", sizes, default=0)
    settings |= per_axis("kernel_size", [1 + sum(more) for more in zeros], default=None)
    one = np.ones((channels, 1, *[1] * len(sizes)), np.float32)
    blob = lazily(lambda: np.pad(one, [(0, 0), (0, 0), *zeros]))
    return [
        call.layer(
            "Convolution", [call.name(0)], {"convolution_param": settings | {"group": channels}}, blobs=[blob]
        )
    ]


@written("Resize")
def resize(call: Call) -> list[CaffeLayer]:
    """Nearest by whole factors: a Deconvolution that repeats each element."""
    old, new = call.shape(0), known_shape(call.node.outputs[0])
    if call.get("mode", "nearest") != "nearest" or len(old) != 4 or new is None or old[1] is None:
        raise Refused(f"Caffe has no resizing by {call.get('mode', 'nearest')!r}")
    factors = _factors(call, old, new)
    settings: dict[str, Any] = {"num_output": old[1], "bias_term": False, "group": old[1]}
    settings |= per_axis("kernel_size", factors, default=None) | per_axis("stride", factors, default=1)
    ones = lazily(lambda: np.ones((old[1] or 0, 1, *factors), np.float32))
    return [call.layer("Deconvolution", [call.name(0)], {"convolution_param": settings}, blobs=[ones])]


def _factors(call: Call, old: tuple[int | None, ...], new: tuple[int | None, ...]) -> list[int]:
    """Return the whole factors of a resizing of height and width that repeats each element."""
    if call.has(2) and call.is_stored(2) and call.constant(2).size == 4:
        given = [float(factor) for factor in call.constant(2)[2:]]
    elif None not in old[2:] and None not in new[2:]:
        given = [(b or 0) / (a or 1) for a, b in zip(old[2:], new[2:], strict=True)]
    else:
        raise Refused("its size is computed")
    rule = call.get("coordinate_transformation_mode", "half_pixel")
    nearest = call.get("nearest_mode", "round_prefer_floor")
    repeats = rule == "asymmetric" and nearest == "floor"
    repeats |= rule in {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"} and nearest.startswith(
        "round"
    )
    if any(factor != int(factor) or factor < 1 for factor in given) or not repeats:
        raise Refused(f"Caffe repeats by whole factors only, found {given} with {rule} and {nearest}")
    return [int(factor) for factor in given]


@written("Tile")
def tile(call: Call) -> list[CaffeLayer]:
    """Several times after one another along an axis, one layer for each."""
    steps = [
        ("Tile", {"tile_param": {"axis": axis, "tiles": count}})
        for axis, count in enumerate(call.wholes(1))
        if count != 1
    ]
    return call.chain(*(steps or [("Split", {})]))
