"""Stored arrays over places: what is multiplied with a value, added to it, or put before its steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.steps import Field, Module
from netweave.formats.keras.source.table import KerasNode, order

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step
    from netweave.formats.keras.source.operators.weighted import State

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
