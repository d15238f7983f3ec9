"""Parameters: values, statistics, gradients."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from netweave.graph.stored import StoredFormat


PARAMETER_PROP = "netweave.parameter"
"""Metadata key under which an initializer names the stored array that it was made from."""

LAYOUT_PROP = "netweave.layout"
"""Metadata key of the invertible change of layout from stored array to initializer, as JSON steps."""

SOURCES_PROP = "netweave.sources"
"""Metadata key under which a computed initializer names the stored arrays behind it, as a JSON list."""

Step = tuple[str, tuple[int, ...]]
"""One step of a layout: ``("transpose", perm)``, ``("reshape", shape)`` or ``("ranges", (begin, end, ...))``.

The last joins ranges of the flattened array: some frameworks pack several weights into one.
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One array as the source stores it.

    Attributes:
        key: Unique; the source's name (``conv1_weight``) or layer and index (``conv1/0``).
        shape: Sizes in the source's own layout, >= 1; 1 for those that are open.
        role: ``weight``, ``bias``, ``gamma``, ``beta``, ``mean``, ``variance``, ``slope``, ...
        loaded: Whether a file or the model's own code gave the values; otherwise they are drawn when they are
            read (see ``drawn``).
        filler: The source's rule for drawing first values, as written; JSON values only.
        lr_mult: Factor on the learning rate, >= 0.
        decay_mult: Factor on the weight decay, >= 0.
        trainable: False for statistics, which no gradient changes.
        initial: Whether the values are first ones that nobody trained: the model's own code made them, or
            Netweave drew them and wrote them to a file.
        open_axes: Axes whose size depends on an input whose sizes the file does not give; such a net can be
            looked at and not run.
        stored_format: How the source stores the values, if in fewer bits than those of the initializers; None
            if it stores them as they are.
    """

    key: str
    shape: tuple[int, ...]
    role: str = "weight"
    loaded: bool = True
    filler: Mapping[str, Any] = field(default_factory=dict)
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    trainable: bool = True
    initial: bool = False
    open_axes: tuple[int, ...] = ()
    stored_format: StoredFormat | None = None

    @property
    def size(self) -> int:
        """Number of elements; the least that it can be where a size is open."""
        return prod(map(int, self.shape))

    @property
    def dims(self) -> tuple[int | None, ...]:
        """Sizes, None for those that are open."""
        return tuple(None if axis in self.open_axes else size for axis, size in enumerate(self.shape))


def drawn(key: str, shape: Sequence[int], role: str) -> ir.LazyTensor:
    """Return a float32 stand-in for an array that no file gave: seeded by its key, drawn when read.

    Weights are normal with variance 2 / fan-in, so that activations neither die nor grow; variances
    and scales lie around 1, everything else around 0. The draw is no training initialiser.

    Args:
        key: Seeds the draw: equal keys and shapes give equal values.
        shape: Sizes of the array.
        role: As in ``Parameter``.
    """
    # no closure, so that a Graph can be sent to another process
    draw = partial(_draw, key, tuple(shape), role)
    return ir.LazyTensor(draw, dtype=ir.DataType.FLOAT, shape=ir.Shape(shape), name=key)


def _draw(key: str, shape: tuple[int, ...], role: str) -> ir.Tensor[Any]:
    generator = np.random.default_rng(zlib.crc32(key.encode()))
    values = generator.standard_normal(shape, dtype=np.float32)
    if role == "weight" and len(shape) > 1:
        values *= np.float32(np.sqrt(2.0 / max(1, int(np.prod(shape[1:])))))
    elif role in {"variance", "gamma"}:
        values = np.float32(1.0) + np.float32(0.25) * np.tanh(values)
    else:
        values *= np.float32(0.1)
    return ir.Tensor(values, name=key)


def apply_layout(array: np.ndarray, steps: Sequence[Step]) -> np.ndarray:
    """Bring a stored array into the layout of its initializer.

    >>> apply_layout(np.zeros((2, 3)), [("transpose", (1, 0))]).shape
    (3, 2)
    """
    for kind, numbers in steps:
        array = _STEPS[kind](array, numbers)
    return array


def layout_shape(shape: Sequence[int], steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the sizes of the initializer made from a stored array of sizes ``shape``.

    >>> layout_shape((20,), [("ranges", (0, 4, 12, 20)), ("reshape", (3, 4))])
    (3, 4)
    """
    for kind, numbers in steps:
        if kind == "ranges":
            shape = [sum(end - begin for begin, end in ranges_of(numbers))]
        else:
            shape = [shape[i] for i in numbers] if kind == "transpose" else numbers
    return tuple(shape)


def ranges_of(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the (begin, end) of each range of a step ``ranges``."""
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _joined(array: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
    flat = array.reshape(-1)
    return np.concatenate([flat[begin:end] for begin, end in ranges_of(numbers)])


_STEPS: dict[str, Callable[[np.ndarray, Sequence[int]], np.ndarray]] = {
    "transpose": lambda array, perm: array.transpose(perm),
    "reshape": lambda array, shape: array.reshape(shape),
    "ranges": _joined,
}


def undo_layout(array: np.ndarray, steps: Sequence[Step], shape: Sequence[int]) -> np.ndarray:
    """Bring an initializer's array back into the source's layout, of sizes ``shape``."""
    return apply_layout(array, inverse_layout(steps, shape))


def inverse_layout(steps: Sequence[Step], shape: Sequence[int]) -> list[Step]:
    """Return the steps back to a stored array of sizes ``shape``.

    Raises:
        ValueError: There is no way back: the initializer holds only a part of the array.

    >>> inverse_layout([("transpose", (1, 2, 0)), ("reshape", (12, 2))], (2, 3, 4))
    [('reshape', (3, 4, 2)), ('transpose', (2, 0, 1))]
    """
    back: list[Step] = []
    for kind, numbers in steps:
        if kind == "ranges":
            raise ValueError("an initializer with ranges contains only a part of the stored array")
        if kind == "transpose":
            back.append((kind, tuple(int(i) for i in np.argsort(numbers))))
            shape = [shape[i] for i in numbers]
        else:
            back.append((kind, tuple(shape)))
            shape = numbers
    return back[::-1]


def tag_parameter(value: ir.Value, key: str, steps: Sequence[Step] = ()) -> None:
    """Note on an initializer which stored array it was made from, and how."""
    value.metadata_props[PARAMETER_PROP] = key
    if steps:
        value.metadata_props[LAYOUT_PROP] = json.dumps(steps)


def parameter_key(value: ir.Value) -> str | None:
    """Return the key of the stored array that an initializer was made from, if any."""
    return value.metadata_props.get(PARAMETER_PROP)


def tag_sources(value: ir.Value, keys: Sequence[str]) -> None:
    """Note on a computed initializer which stored arrays it was computed from."""
    value.metadata_props[SOURCES_PROP] = json.dumps(keys)


def source_keys(value: ir.Value) -> tuple[str, ...]:
    """Return the keys of the stored arrays that an initializer holds or was computed from.

    Empty for a constant that is part of the net's definition: a setting, which no weight file gives.
    """
    key = parameter_key(value)
    if key is not None:
        return (key,)
    return tuple(json.loads(value.metadata_props.get(SOURCES_PROP, "[]")))


def parameter_layout(value: ir.Value) -> list[Step]:
    """Return the steps from the stored array to this initializer."""
    steps = json.loads(value.metadata_props.get(LAYOUT_PROP, "[]"))
    return [(kind, tuple(numbers)) for kind, numbers in steps]


# ONNX's rule, ``stored = momentum * stored + (1 - momentum) * batch`` with the biased variance, is that of
# MXNet and Keras. Caffe and PyTorch take the unbiased variance. Caffe also stores sums, ``sum = momentum *
# sum + batch``, and their number, counted alike: the node's statistics are the sums divided by it.

STATISTICS_PROP = "netweave.statistics"
"""Metadata key of the rule on a BatchNormalization, as JSON."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The rule of one BatchNormalization; by default ONNX's.

    Attributes:
        unbiased: The variance of a batch of m elements counts times m / (m - 1).
        fixed: The stored statistics are used in training too, and stay.
        count: Key of the stored number of sums, for Caffe; its initializer has no node.
    """

    unbiased: bool = False
    fixed: bool = False
    count: str | None = None


def set_statistics(normalised: ir.Value, statistics: Statistics) -> None:
    """Note the rule on the BatchNormalization that makes a value."""
    node = normalised.producer()
    assert node is not None, f"no node makes {normalised.name!r}"
    node.metadata_props[STATISTICS_PROP] = json.dumps(asdict(statistics))


def statistics_of(node: ir.Node) -> Statistics:
    """Return the rule of a BatchNormalization."""
    return Statistics(**json.loads(node.metadata_props.get(STATISTICS_PROP, "{}")))


# Of elements that tie for the largest, torch gives a window's gradient to the first, and shares that of a
# maximum between all. mshadow (MXNet, SINGA) gives each of a window, or of a reduction, the whole of it; of
# two tensors MXNet gives it to the first and Caffe to the second. Ties are common: a patch without a pattern.

TIES_PROP = "netweave.ties"
"""Metadata key of the elements that get the gradient: ``all``, ``first`` or ``second``."""


def set_ties(largest: ir.Value, ties: str) -> ir.Value:
    """Note on the node that makes a value which of several extremes get its gradient; return the value."""
    node = largest.producer()
    assert node is not None, f"no node makes {largest.name!r}"
    node.metadata_props[TIES_PROP] = ties
    return largest


def ties_of(node: ir.Node) -> str:
    """Return which of several extremes get a node's gradient; empty for torch's rule."""
    return node.metadata_props.get(TIES_PROP, "")


# 0 is no gradient at all: MXNet's BlockGrad, Caffe's ``propagate_down: false``.

GRADIENTS_PROP = "netweave.gradients"
"""Metadata key under which a node keeps its factors by the number of the input, as JSON."""


def scale_gradients(made: ir.Value, factors: Mapping[int, float]) -> None:
    """Note the factors on the node that makes a value, by the number of the input."""
    node = made.producer()
    assert node is not None, f"no node makes {made.name!r}"
    node.metadata_props[GRADIENTS_PROP] = json.dumps({str(key): factors[key] for key in factors})


def gradient_factors(node: ir.Node) -> dict[int, float]:
    """Return a node's factors by the number of the input; where there is none it is 1."""
    factors = json.loads(node.metadata_props.get(GRADIENTS_PROP, "{}"))
    return {int(index): float(factor) for index, factor in factors.items()}
