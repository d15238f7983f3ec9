"""Operators that move elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from netweave.files.writing import Refused
from netweave.formats.keras.source.table import IMAGE, Call, around, channels_last, written
from netweave.graph import known_shape

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.source_code.steps import Step

_DENSE = frozenset({"Gemm", "MatMul"})


@written("Concat")
def concat(call: Call) -> Step:
    """After one another along an axis."""
    rank, indices = call.rank(0), list(range(call.num_inputs))
    axis = channels_last(call.axis("axis", 1), rank)
    places = ", ".join(f"{{{index}}}" for index in indices)
    given = "" if axis == rank - 1 else f"axis={axis}"
    return call.step(f"layers.Concatenate({given})([{places}])", inputs=indices)


@written("Flatten", "Reshape", "Squeeze", "Unsqueeze")
def reshape(call: Call) -> Step:
    """Other sizes; images are given channels first where the order of their elements matters."""
    old, new = call.shape(0), known_shape(call.node.outputs[0])
    if new is None or None in new[1:] or not new or old[0] != new[0]:
        raise Refused("its sizes are computed, or it changes the batch; give the input's sizes")
    if len(new) == 2 and (
        len(old) != IMAGE or flattened_for_dense(call.node) or prod(map(_size, old[2:])) == 1
    ):
        return call.step("layers.Flatten()({0})")
    text = "{0}"
    if len(old) == IMAGE and prod(map(_size, old[2:])) != 1:
        text = "layers.Permute((3, 1, 2))({0})"
    sizes = tuple(map(_size, new[1:]))
    if len(new) == IMAGE and prod(sizes[1:]) == 1:
        return call.step(f"layers.Reshape((1, 1, {sizes[0]}))({text})")
    text = f"layers.Reshape({sizes})({text})"
    return call.step(f"layers.Permute((2, 3, 1))({text})" if len(new) == IMAGE else text)


def _size(size: int | None) -> int:
    return size or 0


def flattened_for_dense(node: ir.Node) -> tuple[int, int, int] | None:
    """Return the sizes of an image that a node flattens, if dense layers alone read it: rows may move."""
    if node.domain or node.op_type not in {"Flatten", "Reshape"} or node.inputs[0] is None:
        return None
    image, flat = known_shape(node.inputs[0]), known_shape(node.outputs[0])
    readers = [use.node for use in node.outputs[0].uses()]
    if image is None or flat is None or len(image) != IMAGE or len(flat) != 2 or None in image[1:]:
        return None
    if node.outputs[0].is_graph_output() or any(
        reader.domain or reader.op_type not in _DENSE or reader.inputs[0] is not node.outputs[0]
        for reader in readers
    ):
        return None
    return _size(image[1]), _size(image[2]), _size(image[3])


@written("Transpose")
def transpose(call: Call) -> Step:
    """Axes in another order."""
    rank = call.rank(0)
    perm = list(call.get("perm") or range(rank)[::-1])
    order = [0, 2, 3, 1] if rank == IMAGE else list(range(rank))
    places = [channels_last(perm[axis], rank) for axis in order]
    if places[0] != 0:
        raise Refused("it moves the batch")
    return call.step(f"layers.Permute({tuple(places[1:])})({{0}})")


@written("Pad")
def pad(call: Call) -> Step:
    """Zeros around height and width."""
    call.need_image()
    pads = call.wholes(1)
    value = float(call.constant(2).reshape(-1)[0]) if call.has(2) else 0.0
    is_spatial = not any((*pads[:2], *pads[4:6])) and min(pads) >= 0
    if call.get("mode", "constant") != "constant" or value or call.has(3) or not is_spatial:
        raise Refused("Keras's layer puts zeros around height and width only")
    return call.step(f"layers.ZeroPadding2D({around(pads[2:4], pads[6:])})({{0}})")


@written("Slice")
def slice_(call: Call) -> Step:
    """A part of height and width."""
    call.need_image()
    sizes = call.sizes()
    axes = call.wholes(3) if call.has(3) else list(range(call.constant(1).size))
    steps = call.wholes(4) if call.has(4) else [1]
    if sizes is None or set(steps) != {1} or not {axis % IMAGE for axis in axes} <= {2, 3}:
        raise Refused("only parts of height and width of known sizes are written")
    begin, end = [0, 0], [0, 0]
    for axis, start, stop in zip(axes, call.wholes(1), call.wholes(2), strict=True):
        at = axis % IMAGE - 2
        first, last, _ = slice(start, stop).indices(sizes[at])
        begin[at], end[at] = first, sizes[at] - last
    return call.step(f"layers.Cropping2D({around(begin, end)})({{0}})")


@written("Resize")
def resize(call: Call) -> Step:
    """Larger by whole factors: nearest, or linear with half pixels."""
    call.need_image()
    mode, rule = call.get("mode", "nearest"), call.get("coordinate_transformation_mode", "half_pixel")
    sizes, new = call.sizes(), known_shape(call.node.outputs[0])
    if sizes is None or new is None or None in new[2:]:
        raise Refused("its sizes are not known; give the input's sizes")
    factors = [_size(b) / a for a, b in zip(sizes, new[2:], strict=True)]
    nearest = call.get("nearest_mode", "round_prefer_floor")
    repeats = nearest == "floor" if rule == "asymmetric" else nearest.startswith("round")
    is_whole = all(factor == int(factor) for factor in factors)
    if not is_whole or rule == "align_corners" or (mode == "nearest" and not repeats):
        raise Refused(f"resizing by {factors} with {rule} is not written")
    if mode not in {"nearest", "linear"} or (mode == "linear" and "half_pixel" not in rule):
        raise Refused(f"resizing by {mode} with {rule} is not written")
    whole = [int(factor) for factor in factors]
    size = str(whole[0]) if whole[0] == whole[1] else repr(tuple(whole))
    linear = ', interpolation="bilinear"' if mode == "linear" else ""
    return call.step(f"layers.UpSampling2D({size}{linear})({{0}})")


@written("Identity", "Dropout")
def identity(call: Call) -> Step:
    """What comes in."""
    return call.step("layers.Identity()({0})")
