"""Operators that can be cut by feature: the channels that each worker computes, and what it needs for them.

To add one: a function from a node and the shardings before it to a ``FeatureCut``, and a row in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from netweave.graph.checks import known_shape
from netweave.graph.opset import DOMAIN
from netweave.graph.passes.partition.shardings import (
    WHOLE,
    Range,
    Ranges,
    Sharding,
    by_feature,
    joined,
    length,
    shares,
)

if TYPE_CHECKING:
    import onnx_ir as ir

Channels = tuple[Ranges, ...]
"""The channels of each worker."""


@dataclass(frozen=True, slots=True)
class FeatureCut:
    """A node of which each worker computes some channels.

    Attributes:
        inputs: The sharding that each input from the net must have.
        channels: What each worker computes of every output.
        stored: The stored inputs that are cut, each with its axis and the numbers along it of each worker.
        form: What becomes of the node: ``same``, ``grouped`` (a convolution with fewer groups), ``halo`` (its
            outputs at the edges are dropped) or ``flat`` (a Flatten).
    """

    inputs: Mapping[int, Sharding]
    channels: Channels
    stored: Mapping[int, tuple[int, Channels]] = field(default_factory=dict)
    form: str = "same"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a net that a rule looks at.

    Attributes:
        shardings: The shardings of the values before the node, by name.
        num_workers: The number of workers.
    """

    shardings: Mapping[str, Sharding]
    num_workers: int

    def sharding(self, value: ir.Value) -> Sharding:
        """Return the sharding of a value."""
        return self.shardings[value.name or ""]

    def channels(self, value: ir.Value, count: int) -> Channels:
        """Return how the channels of a value are cut already, or else equal shares."""
        sharding = self.shardings.get(value.name or "")
        return (
            sharding.channels if sharding is not None and sharding.kind == "feature" else self.shares(count)
        )

    def shares(self, count: int) -> Channels:
        """Return equal shares of so many channels."""
        return tuple((share,) for share in shares(count, self.num_workers))


Rule = Callable[["ir.Node", Surroundings], FeatureCut | None]


def feature_cut(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    """Return how a node is cut by feature; None where it cannot be."""
    rule = _RULES.get((node.domain, node.op_type))
    return None if rule is None else rule(node, around)


def passes_on(node: ir.Node, around: Surroundings) -> bool:
    """Return whether a node only gives values another shape, and so leaves a batch that is cut as it is."""
    first = node.inputs[0] if node.inputs else None
    return (
        not node.domain
        and node.op_type in _VIEWS
        and first is not None
        and around.sharding(first).kind != "feature"
    )


def is_stored(value: ir.Value) -> bool:
    """Return whether a value is an initializer."""
    return value.producer() is None and value.const_value is not None


def _dims(value: ir.Value | None) -> tuple[int | None, ...] | None:
    return known_shape(value)


def _channels_of(value: ir.Value | None) -> int | None:
    dims = _dims(value)
    return dims[1] if dims is not None and len(dims) > 1 else None


def _stored_dims(node: ir.Node, index: int) -> tuple[int, ...] | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None or not is_stored(value) or value.const_value is None:
        return None
    return tuple(value.const_value.shape.numpy())


def _each_channel(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    """Cut an operator that computes each channel from the same channel of its inputs."""
    count, rank = _channels_of(node.outputs[0]), len(_dims(node.outputs[0]) or ())
    if count is None or (node.op_type == "MaxPool" and _has_readers(node.outputs[1:])):
        return None  # indices of maxima count through all channels
    given = {i: v for i, v in enumerate(node.inputs) if v is not None and not is_stored(v)}
    matching = [v for v in given.values() if _channels_of(v) == count]
    own = next(
        (v for v in matching if around.sharding(v).kind == "feature"), matching[0] if matching else None
    )
    if own is None:
        return None
    channels = around.channels(own, count)
    inputs: dict[int, Sharding] = {}
    for index, value in given.items():
        if around.sharding(value).kind == "constant":
            if _dims(value) != ():
                return None
        elif len(_dims(value) or ()) != rank:
            return None
        else:
            inputs[index] = by_feature(channels) if _channels_of(value) == count else WHOLE
    stored: dict[int, tuple[int, Channels]] = {}
    for index, array in enumerate(node.inputs):
        if array is None or index in given:
            continue
        sizes = _stored_dims(node, index) or ()
        is_vector = node.op_type == "BatchNormalization"
        axis = 0 if is_vector else len(sizes) - rank + 1
        if 0 <= axis < len(sizes) and sizes[axis] == count and count > 1:
            stored[index] = (axis, channels)
    return FeatureCut(inputs, channels, stored)


def _has_readers(values: Sequence[ir.Value]) -> bool:
    return any(value.uses() or value.is_graph_output() for value in values)


def _convolution(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    sizes, workers = _stored_dims(node, 1), around.num_workers
    taken = _channels_of(node.inputs[0])
    if sizes is None or taken is None or sizes[0] < workers:
        return None
    groups = node.attributes.get_int("group", 1)
    each, each_taken = sizes[0] // groups, taken // groups
    if groups == 1:
        channels, source = around.shares(sizes[0]), WHOLE
    elif groups >= workers:
        of_worker = shares(groups, workers)
        channels = tuple(((a * each, b * each),) for a, b in of_worker)
        source = by_feature([((a * each_taken, b * each_taken),) for a, b in of_worker])
    else:  # each worker computes a part of one group
        rows: list[tuple[Range, int]] = []
        for group, (first, last) in enumerate(shares(workers, groups)):
            if each < last - first:
                return None
            rows += [((a + group * each, b + group * each), group) for a, b in shares(each, last - first)]
        channels = tuple((own,) for own, _ in rows)
        source = by_feature([((group * each_taken, (group + 1) * each_taken),) for _, group in rows])
    stored = {index: (0, channels) for index in range(1, len(node.inputs)) if node.inputs[index] is not None}
    return FeatureCut({0: source}, channels, stored, "same" if groups == 1 else "grouped")


def _transposed_convolution(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    sizes = _stored_dims(node, 1)
    if sizes is None or sizes[1] < around.num_workers or node.attributes.get_int("group", 1) != 1:
        return None
    channels = around.shares(sizes[1])
    biases = {2: (0, channels)} if len(node.inputs) > 2 and node.inputs[2] is not None else {}
    return FeatureCut({0: WHOLE}, channels, {1: (1, channels), **biases})


def _dense(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    sizes = _stored_dims(node, 1)
    if sizes is None or len(sizes) != 2 or len(_dims(node.inputs[0]) or ()) != 2:
        return None
    if node.attributes.get_int("transA", 0):
        return None
    axis = 0 if node.attributes.get_int("transB", 0) else 1
    count = sizes[axis]
    if count < around.num_workers:
        return None
    channels = around.shares(count)
    stored = {1: (axis, channels)}
    biases = _stored_dims(node, 2)
    if biases is None and len(node.inputs) > 2 and node.inputs[2] is not None:
        return None
    if biases and biases[-1] == count:
        stored[2] = (len(biases) - 1, channels)
    return FeatureCut({0: WHOLE}, channels, stored)


def _neighbours(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    """Cut an LRN: at its edges a worker needs channels of its neighbours."""
    count = _channels_of(node.inputs[0])
    if count is None or count < around.num_workers:
        return None
    half, own = node.attributes["size"].as_int() // 2, shares(count, around.num_workers)
    wider = by_feature([((max(0, a - half), min(count, b + half)),) for a, b in own])
    return FeatureCut({0: wider}, tuple((share,) for share in own), form="halo")


def _joined_channels(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    rank = len(_dims(node.outputs[0]) or ())
    if node.attributes["axis"].as_int() % max(rank, 1) != 1 or any(map(is_stored, filter(None, node.inputs))):
        return None
    inputs: dict[int, Sharding] = {}
    ranges: list[list[Range]] = [[] for _ in range(around.num_workers)]
    first = 0
    for index, value in enumerate(node.inputs):
        count = _channels_of(value)
        if value is None or count is None:
            return None
        channels = around.channels(value, count)
        inputs[index] = by_feature(channels)
        for own, added in zip(ranges, channels, strict=True):
            own += [(first + a, first + b) for a, b in added]
        first += count
    return FeatureCut(inputs, tuple(map(joined, ranges)))


def _flat(node: ir.Node, around: Surroundings) -> FeatureCut | None:
    """Cut what makes one axis of channels and places: all places of a channel are side by side."""
    before, after = _dims(node.inputs[0]), _dims(node.outputs[0])
    if before is None or after is None or node.inputs[0] is None or None in before[1:]:
        return None
    places = prod(size or 0 for size in before[2:])
    if len(after) != 2 or after[1] != places * (before[1] or 0):
        return None
    channels = around.sharding(node.inputs[0]).channels
    scaled = tuple(tuple((a * places, b * places) for a, b in ranges) for ranges in channels)
    return FeatureCut({0: by_feature(channels)}, scaled, form="flat")


_VIEWS = ("Flatten", "Reshape", "Squeeze")

_EACH_CHANNEL = (
    "Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Div", "Dropout", "Elu", "Exp", "Gelu",
    "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Max",
    "MaxPool", "Mean", "Min", "Mul", "Neg", "PRelu", "Pow", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign",
    "Sqrt", "Sub", "Sum", "Tanh",
)  # fmt: skip

_RULES: dict[tuple[str, str], Rule] = {
    **{("", name): _each_channel for name in _EACH_CHANNEL},
    **{(DOMAIN, name): _each_channel for name in ("AveragePool", "ChannelLRN", "MaxPool")},
    **{("", name): _flat for name in _VIEWS},
    ("", "Concat"): _joined_channels,
    ("", "Conv"): _convolution,
    ("", "ConvTranspose"): _transposed_convolution,
    ("", "Gemm"): _dense,
    ("", "LRN"): _neighbours,
    ("", "MatMul"): _dense,
}


def is_even(channels: Channels) -> bool:
    """Return whether each worker has a channel."""
    return all(map(length, channels))
