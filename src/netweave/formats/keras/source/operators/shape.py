"""Operators of shape as Keras's layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.forward import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.formats.keras.source.table import KerasNode, around, order, places, writes
from netweave.formats.lowering.nodes.arrays import permutation, repeats_elements, slice_ranges
from netweave.graph import known_shape

if TYPE_CHECKING:
    from netweave.formats.keras.source.operators.windows import State


_LETTERS = "btchw"
"""Axes of a value, as an equation names them."""


def per_place(node: KerasNode, value: int, scale: np.ndarray, shift: np.ndarray) -> Step:
    """Return a scale and a shift by stored arrays: a dense layer without sums, one factor for each place.

    Keras has no layer that adds an array of its own; a class for it would have to go with every saved model.

    Args:
        node: The node.
        value: The input that is scaled.
        scale: The factors, with as many axes as the value has in the Graph.
        shift: What is added, likewise.
    """
    shape = node.shape(value)
    if scale.ndim != len(shape) or scale.shape[0] != 1 or len(shape) > len(_LETTERS):
        raise NotWritable("its stored array differs from example to example")
    axes = order(len(shape)) if node.has_channels_last(value) else list(range(len(shape)))
    sizes = [shape[axis] for axis in axes]
    module = places_module(sizes, scale.transpose(axes), shift.transpose(axes))
    return node.step("{m}({0})", inputs=[value], module=module)


def places_module(sizes: list[int | None], scale: np.ndarray, shift: np.ndarray) -> Module:
    """Return the layer of a scale and a shift; axes and sizes are Keras's."""
    if (scale == 1).all():
        scale = np.ones((1,) * len(sizes), scale.dtype)
    kernel = [axis for axis, size in enumerate(scale.shape) if size != 1] or [len(sizes) - 1]
    bias = [axis for axis, size in enumerate(shift.shape) if size != 1] or [len(sizes) - 1]
    bias = bias if np.any(shift) else []
    if any(sizes[axis] is None for axis in (*kernel, *bias)):
        raise NotWritable("the sizes of its stored array are not those of its value")
    every = _LETTERS[: len(sizes)]
    fields = (
        Field("equation", f"{every},{''.join(every[axis] for axis in kernel)}->{every}"),
        Field("output_shape", tuple(sizes[1:])),
        Field("bias_axes", "".join(every[axis] for axis in bias), ""),
    )
    known = [size or 1 for size in sizes]
    state: State = {"kernel": lambda: _spread(scale, known, kernel)}
    if bias:  # Keras keeps the axes behind the first one, of size 1 where the bias does not vary
        held = [known[axis] if axis in bias else 1 for axis in range(bias[0], len(sizes))]
        state["bias"] = lambda: _spread(shift, known, bias).reshape(held)
    return Module("layers.EinsumDense", fields, state)


def _spread(array: np.ndarray, sizes: list[int], axes: list[int]) -> np.ndarray:
    """Return an array over some axes of a value alone, repeated where it has one number for all."""
    whole = np.broadcast_to(array, [size if axis in axes else 1 for axis, size in enumerate(sizes)])
    return whole.reshape([sizes[axis] for axis in axes])


def with_stored_steps(node: KerasNode, stored: int, array: np.ndarray) -> list[Step]:
    """Return a Concat of a sequence and stored steps, as a class token is: room for them, and their numbers.

    Args:
        node: The Concat of two values.
        stored: Which of them is stored.
        array: Its numbers: (1, steps, features).
    """
    value = 1 - stored
    shape = node.shape(value)
    if len(shape) != 3 or node.has_channels_last(value) or node.axis() != 1 or None in shape[1:]:
        raise NotWritable("stored values are put before or behind the steps of a sequence only")
    steps, added = shape[1] or 0, array.shape[1]
    sizes: list[int | None] = [None, steps + added, shape[2]]
    whole = np.zeros((1, steps + added, array.shape[2]), array.dtype)
    whole[:, :added] = array
    if stored:
        whole = np.roll(whole, steps, axis=1)
    around = (0, added) if stored else (added, 0)
    padded = node.step(f"layers.ZeroPadding1D({around})({{0}})", inputs=[value])
    module = places_module(sizes, np.ones((1, 1, 1), array.dtype), whole)
    filled = node.step("{m}({0})", inputs=[value], module=module)
    name = f"{node.outputs[0].name}/padded"
    return [replace(padded, outputs=(name,), layers=()), replace(filled, inputs=(name,))]


_DENSE = frozenset({"Gemm", "MatMul"})


@writes("Concat")
def concat(node: KerasNode) -> Step | list[Step]:
    """After one another along an axis."""
    rank, indices = node.rank(0), list(range(node.num_inputs))
    stored = {index: array for index in indices if (array := node.one_example(index)) is not None}
    if len(stored) == 1 and len(indices) == 2:
        return with_stored_steps(node, *stored.popitem())
    axis = node.place(node.axis())
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
    mine = node.place(axis)
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
    is_last, makes_last = node.has_channels_last(), node.makes_channels_last()
    if len(new) == 2 and (not is_last or flattened_for_dense(node) or prod(map(_size, old[2:])) == 1):
        return node.step("layers.Flatten()({0})")
    text = "{0}"
    if is_last and prod(map(_size, old[2:])) != 1:
        text = f"layers.Permute({tuple(places(len(old))[1:])})({{0}})"
    sizes = tuple(map(_size, new[1:]))
    if makes_last and prod(sizes[1:]) == 1:
        return node.step(f"layers.Reshape({(*[1] * (len(new) - 2), sizes[0])})({text})")
    text = f"layers.Reshape({sizes})({text})"
    return node.step(f"layers.Permute({tuple(order(len(new))[1:])})({text})" if makes_last else text)


def _keeps_batch(old: Sequence[int | None], new: Sequence[int | None]) -> bool:
    """Return whether the first axis stays: the others have known sizes and as many elements as before."""
    if not old or not new or old[0] != new[0] or None in new[1:]:
        return False
    return None in old[1:] or prod(map(_size, old[1:])) == prod(map(_size, new[1:]))


def _with_batch(node: KerasNode, old: Sequence[int | None], new: Sequence[int | None]) -> str:
    """Return a change of sizes that the first axis has a part in, by functions."""
    axis = node.ints(1)[0] if node.op_type in {"Squeeze", "Unsqueeze"} and node.has(1) else None
    is_last, makes_last = node.has_channels_last(), node.makes_channels_last()
    if axis is not None and node.constant(1).size == 1 and not is_last and not makes_last:
        word = "squeeze" if node.op_type == "Squeeze" else "expand_dims"
        return f"ops.{word}({{0}}, {axis})"
    if list(new).count(None) > 1 or not new:
        raise NotWritable("more than one of its sizes is open; give the input's sizes")
    sizes = [-1 if size is None else size for size in new]
    if None not in new:
        sizes[0] = -1  # how many steps or examples there are stays open
    text = f"ops.transpose({{0}}, {tuple(places(len(old)))})" if is_last else "{0}"
    text = f"ops.reshape({text}, {tuple(sizes)})"
    return f"ops.transpose({text}, {tuple(order(len(new)))})" if makes_last else text


def _size(size: int | None) -> int:
    return size or 0


def flattened_for_dense(node: KerasNode) -> tuple[int, ...] | None:
    """Return channels and spatial sizes that a node flattens, if only dense layers read it: rows may move."""
    if node.domain or node.op_type not in {"Flatten", "Reshape"} or not node.has_channels_last():
        return None
    image, flat = node.shape(0), known_shape(node.outputs[0])
    readers = [use.node for use in node.outputs[0].uses()]
    if flat is None or len(flat) != 2 or None in image[1:]:
        return None
    if node.outputs[0].is_graph_output() or any(
        reader.domain or reader.op_type not in _DENSE or reader.inputs[0] is not node.outputs[0]
        for reader in readers
    ):
        return None
    return tuple(map(_size, image[1:]))


@writes("Transpose")
def transpose(node: KerasNode) -> Step:
    """Axes in another order."""
    rank, perm = node.rank(0), permutation(node)
    axes = order(rank) if node.makes_channels_last() else range(rank)
    mine = [node.place(perm[axis]) for axis in axes]
    if mine == list(range(rank)):
        return node.step("{0}")
    if mine[0] != 0:
        return node.step(f"ops.transpose({{0}}, {tuple(mine)})")
    return node.step(f"layers.Permute({tuple(mine[1:])})({{0}})")


@writes("Pad")
def pad(node: KerasNode) -> Step:
    """Numbers around some axes; zeros around the spatial ones are a layer."""
    rank, pads = node.rank(0), node.ints(1)
    value = float(node.constant(2).reshape(-1)[0]) if node.has(2) else 0.0
    if not any(pads):
        return node.step("{0}")
    if node.get("mode") != "constant" or node.has(3) or min(pads) < 0:
        raise NotWritable("Keras puts numbers around values, and nothing is cut off")
    is_spatial = not any((*pads[:2], *pads[rank : rank + 2]))
    if node.has_channels_last() and is_spatial and not value:
        shown = around(pads[2:rank], pads[rank + 2 :])
        return node.step(f"layers.ZeroPadding{node.dimensions()}({shown})({{0}})")
    axes = order(rank) if node.has_channels_last() else range(rank)
    widths = tuple((pads[axis], pads[rank + axis]) for axis in axes)
    more = f", constant_values={number(value)}" if value else ""
    return node.step(f"ops.pad({{0}}, {widths}{more})")


@writes("Slice")
def slice_(node: KerasNode) -> Step:
    """A part; of height and width alone a layer cuts it out."""
    rank, ranges = node.rank(0), slice_ranges(node)
    sizes = node.sizes() if node.has_channels_last() else None
    if sizes and all(axis > 1 and step == 1 for axis, _, _, step in ranges):
        begin, end = [0] * len(sizes), [0] * len(sizes)
        for axis, start, stop, _ in ranges:
            first, last, _ = slice(start, stop).indices(sizes[axis - 2])
            begin[axis - 2], end[axis - 2] = first, sizes[axis - 2] - last
        return node.step(f"layers.Cropping{node.dimensions()}({around(begin, end)})({{0}})")
    parts = [":"] * rank
    for axis, start, stop, step in ranges:
        until = "" if stop >= FAR or stop == node.shape(0)[axis] else str(stop)
        by = f":{step}" if step > 1 else ""
        parts[node.place(axis)] = f"{start or ''}:{until}{by}"
    is_whole = all(part == ":" for part in parts)
    return node.step("{0}" if is_whole else f"{{0}}[{_key(parts)}]")


FAR = (1 << 31) - 1
"""An end from here on is that of the axis."""


def _key(parts: Sequence[str]) -> str:
    """Return a part as it is written: without whole axes at its end, or with dots for those at its begin.

    Keras takes no slice alone.

    >>> _key([":", ":", ":", "2:4"]), _key([":", "1:", ":", ":"]), _key([":20", ":"])
    ('..., 2:4', ':, 1:', ':20, ...')
    """
    named = [at for at, part in enumerate(parts) if part != ":"] or [0]
    if len(named) == 1 and named[0] == len(parts) - 1 > 1:
        return f"..., {parts[-1]}"
    return ", ".join([*parts[: named[-1] + 1], *(["..."] if named == [0] and ":" in parts[0] else [])])


@writes("Gather")
def gather(node: KerasNode) -> Step:
    """Rows of a stored table by whole numbers, or stored places along an axis."""
    axis, rank = node.axis(), node.rank(0)
    if node.is_stored(0):
        if axis or rank != 2 or node.makes_channels_last():
            raise NotWritable("only rows of a stored table are written")
        rows, columns = node.stored_shape(0)
        fields = (Field("input_dim", rows), Field("output_dim", columns))
        module = Module("layers.Embedding", fields, {"embeddings": node.lazy_array(0)})
        return node.step("{m}({0})", inputs=[1], module=module)
    if not node.is_stored(1) or node.constant(1).size > MOST_PLACES or node.constant(1).ndim > 1:
        raise NotWritable("only rows of a stored table, and stored places, are written")
    indices, mine = node.constant(1), node.place(axis)
    if indices.ndim:
        return node.step(f"ops.take({{0}}, np.array({indices.tolist()}), axis={mine})")
    if node.makes_channels_last() or (node.has_channels_last() and axis != 1):
        raise NotWritable("what is left of its axes would be in another order")
    return node.step(f"{{0}}[{_key([':'] * mine + [str(int(indices))] + [':'] * (rank - mine - 1))}]")


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
    """Return the input; as an output of the net it is a layer."""
    is_end = node.outputs[0].is_graph_output()
    return node.step("layers.Identity()({0})" if is_end else "{0}")
