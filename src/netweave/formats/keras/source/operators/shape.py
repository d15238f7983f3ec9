"""Operators that move elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.steps import Field, Module
from netweave.formats.keras.source.table import IMAGE, KerasNode, around, channels_last, writes
from netweave.graph import known_shape
from netweave.lowering.nodes.shape import permutation, repeats_elements, slice_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.source_code.steps import Step

_DENSE = frozenset({"Gemm", "MatMul"})


@writes("Concat")
def concat(node: KerasNode) -> Step:
    """After one another along an axis."""
    rank, indices = node.rank(0), list(range(node.num_inputs))
    axis = channels_last(node.axis(), rank)
    places = ", ".join(f"{{{index}}}" for index in indices)
    given = "" if axis == rank - 1 else f"axis={axis}"
    return node.step(f"layers.Concatenate({given})([{places}])", inputs=indices)


@writes("Split")
def split(node: KerasNode) -> Step:
    """Cut along an axis, into equal parts or not."""
    axis, rank, count = node.axis(), node.rank(0), len(node.outputs)
    sizes = node.ints(1) if node.has(1) else []
    if len(set(sizes)) > 1:
        where = repr([sum(sizes[: number + 1]) for number in range(count - 1)])
    else:
        where = str(count)
    mine = channels_last(axis, rank)
    template = f"ops.split({{0}}, {where}, axis={-1 if mine == rank - 1 else mine})"
    return node.step(template, num_outputs=count)


@writes("Flatten", "Reshape", "Squeeze", "Unsqueeze")
def reshape(node: KerasNode) -> Step:
    """Other sizes; images are given channels first where the order of their elements matters."""
    old, new = node.shape(0), known_shape(node.outputs[0])
    if new is None:
        raise NotWritable("its sizes are computed; give the input's sizes")
    if not _keeps_batch(old, new):
        return node.step(_with_batch(node, old, new))
    if old[1:] == new[1:] and None not in new[1:]:
        return node.step("{0}")
    if len(new) == 2 and (
        len(old) != IMAGE or flattened_for_dense(node.ir_node) or prod(map(_size, old[2:])) == 1
    ):
        return node.step("layers.Flatten()({0})")
    text = "{0}"
    if len(old) == IMAGE and prod(map(_size, old[2:])) != 1:
        text = "layers.Permute((3, 1, 2))({0})"
    sizes = tuple(map(_size, new[1:]))
    if len(new) == IMAGE and prod(sizes[1:]) == 1:
        return node.step(f"layers.Reshape((1, 1, {sizes[0]}))({text})")
    text = f"layers.Reshape({sizes})({text})"
    return node.step(f"layers.Permute((2, 3, 1))({text})" if len(new) == IMAGE else text)


def _keeps_batch(old: Sequence[int | None], new: Sequence[int | None]) -> bool:
    """Whether the first axis stays, since the others have known sizes and hold as many elements as before."""
    if not old or not new or old[0] != new[0] or None in new[1:]:
        return False
    return None in old[1:] or prod(map(_size, old[1:])) == prod(map(_size, new[1:]))


def _with_batch(node: KerasNode, old: Sequence[int | None], new: Sequence[int | None]) -> str:
    """Return a change of sizes that the first axis has a part in, by functions."""
    axis = node.ints(1)[0] if node.op_type in {"Squeeze", "Unsqueeze"} and node.has(1) else None
    if axis is not None and node.constant(1).size == 1 and IMAGE not in {len(old), len(new)}:
        word = "squeeze" if node.op_type == "Squeeze" else "expand_dims"
        return f"ops.{word}({{0}}, {axis})"
    if list(new).count(None) > 1 or not new:
        raise NotWritable("more than one of its sizes is open; give the input's sizes")
    sizes = [-1 if size is None else size for size in new]
    if None not in new:
        sizes[0] = -1  # how many steps or examples there are stays open
    text = "{0}" if len(old) != IMAGE else "ops.transpose({0}, (0, 3, 1, 2))"
    text = f"ops.reshape({text}, {tuple(sizes)})"
    return text if len(new) != IMAGE else f"ops.transpose({text}, (0, 2, 3, 1))"


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


@writes("Transpose")
def transpose(node: KerasNode) -> Step:
    """Axes in another order."""
    rank = node.rank(0)
    perm = permutation(node)
    order = [0, 2, 3, 1] if rank == IMAGE else list(range(rank))
    places = [channels_last(perm[axis], rank) for axis in order]
    if places[0] != 0:
        return node.step(f"ops.transpose({{0}}, {tuple(places)})")
    return node.step(f"layers.Permute({tuple(places[1:])})({{0}})")


@writes("Pad")
def pad(node: KerasNode) -> Step:
    """Zeros around height and width."""
    node.need_image()
    pads = node.ints(1)
    value = float(node.constant(2).reshape(-1)[0]) if node.has(2) else 0.0
    is_spatial = not any((*pads[:2], *pads[4:6])) and min(pads) >= 0
    if node.get("mode") != "constant" or value or node.has(3) or not is_spatial:
        raise NotWritable("Keras's layer puts zeros around height and width only")
    return node.step(f"layers.ZeroPadding2D({around(pads[2:4], pads[6:])})({{0}})")


@writes("Slice")
def slice_(node: KerasNode) -> Step:
    """A part; of height and width alone a layer cuts it out."""
    rank, ranges = node.rank(0), slice_ranges(node)
    sizes = node.sizes() if rank == IMAGE else None
    if sizes and all(axis in {2, 3} and step == 1 for axis, _, _, step in ranges):
        begin, end = [0, 0], [0, 0]
        for axis, start, stop, _ in ranges:
            first, last, _ = slice(start, stop).indices(sizes[axis - 2])
            begin[axis - 2], end[axis - 2] = first, sizes[axis - 2] - last
        return node.step(f"layers.Cropping2D({around(begin, end)})({{0}})")
    parts = [":"] * rank
    for axis, start, stop, step in ranges:
        until = "" if stop >= FAR else str(stop)
        by = f":{step}" if step > 1 else ""
        parts[channels_last(axis, rank)] = f"{start or ''}:{until}{by}"
    return node.step(f"{{0}}[{_key(parts)}]")


FAR = (1 << 31) - 1
"""An end from here on is that of the axis."""


def _key(parts: Sequence[str]) -> str:
    """Return a part as it is written: without whole axes at its end, or with dots for those at its begin.

    >>> _key([":", ":", ":", "2:4"]), _key([":", "1:", ":", ":"])
    ('..., 2:4', ':, 1:')
    """
    named = [at for at, part in enumerate(parts) if part != ":"] or [0]
    if len(named) == 1 and named[0] == len(parts) - 1 > 1:
        return f"..., {parts[-1]}"
    return ", ".join(parts[: named[-1] + 1])


@writes("Gather")
def gather(node: KerasNode) -> Step:
    """Rows of a stored table by whole numbers, or stored places along an axis."""
    axis, rank = node.axis(), node.rank(0)
    if node.is_stored(0):
        if axis or rank != 2 or node.rank(1) == IMAGE - 1:
            raise NotWritable("only rows of a stored table are written")
        rows, columns = node.stored_shape(0)
        fields = (Field("input_dim", rows), Field("output_dim", columns))
        module = Module("layers.Embedding", fields, {"embeddings": node.lazy_array(0)})
        return node.step("{m}({0})", inputs=[1], module=module)
    if not node.is_stored(1) or node.constant(1).size > MOST_PLACES or node.constant(1).ndim > 1:
        raise NotWritable("only rows of a stored table, and stored places, are written")
    places, mine = node.constant(1), channels_last(axis, rank)
    if places.ndim:
        return node.step(f"ops.take({{0}}, np.array({places.tolist()}), axis={mine})")
    if rank == IMAGE + 1 or (rank == IMAGE and axis != 1):
        raise NotWritable("what is left of its axes would be in another order")
    return node.step(f"{{0}}[{_key([':'] * mine + [str(int(places))] + [':'] * (rank - mine - 1))}]")


MOST_PLACES = 64
"""More places along an axis are not written out."""


@writes("Expand")
def expand(node: KerasNode) -> Step:
    """More sizes, which arithmetic with a value that has them gives by itself."""
    output, new = node.outputs[0], known_shape(node.outputs[0])
    readers = [use.node for use in output.uses()]
    others = [value for node in readers for value in node.inputs if value is not None and value is not output]
    is_arithmetic = all(node.op_type in {"Add", "Sub", "Mul", "Div"} and not node.domain for node in readers)
    if not readers or not is_arithmetic or output.is_graph_output() or new is None:
        raise NotWritable("only arithmetic with a value of its sizes may read it")
    if node.rank(0) != len(new) or any(known_shape(value) != new for value in others):
        raise NotWritable("only arithmetic with a value of its sizes may read it")
    return node.step("{0}")


@writes("Resize")
def resize(node: KerasNode) -> Step:
    """Larger by whole factors: nearest, or linear with half pixels."""
    node.need_image()
    mode, rule = node.get("mode"), node.get("coordinate_transformation_mode")
    sizes, new = node.sizes(), known_shape(node.outputs[0])
    if sizes is None or new is None or None in new[2:]:
        raise NotWritable("its sizes are not known; give the input's sizes")
    factors = [_size(b) / a for a, b in zip(sizes, new[2:], strict=True)]
    is_whole = all(factor == int(factor) for factor in factors)
    if mode == "linear" and "half_pixel" in rule and not is_whole:
        return node.step(f"layers.Resizing({new[2]}, {new[3]})({{0}})")
    if not is_whole or rule == "align_corners" or (mode == "nearest" and not repeats_elements(node)):
        raise NotWritable(f"resizing by {factors} with {rule} is not written")
    if mode not in {"nearest", "linear"} or (mode == "linear" and "half_pixel" not in rule):
        raise NotWritable(f"resizing by {mode} with {rule} is not written")
    whole = [int(factor) for factor in factors]
    size = str(whole[0]) if whole[0] == whole[1] else repr(tuple(whole))
    linear = ', interpolation="bilinear"' if mode == "linear" else ""
    return node.step(f"layers.UpSampling2D({size}{linear})({{0}})")


@writes("Identity", "Dropout")
def identity(node: KerasNode) -> Step:
    """What comes in; as an output of the net it is a layer."""
    is_end = node.outputs[0].is_graph_output()
    return node.step("layers.Identity()({0})" if is_end else "{0}")
