"""Operators that can be cut by feature or by image: what each worker computes, and what it needs for that.

To add one: a function from a node and the shardings before it to a ``FeatureCut``, or from a node and the
parts of its output to an ``ImageCut``, and a row in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from netweave.graph.attributes import attributes_of
from netweave.graph.checks import known_shape
from netweave.graph.opset import DOMAIN
from netweave.graph.passes.partition.shardings import (
    WHOLE,
    Range,
    Ranges,
    Sharding,
    by_feature,
    by_image,
    joined,
    length,
    shares,
    tiles,
)
from netweave.graph.passes.windows import part_of_windows

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


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a node that computes a part of an image.

    Attributes:
        attributes: Its attributes then; None for the same.
        kept: The part of its output that counts, along each axis of the image; empty for all of it.
    """

    attributes: Mapping[str, Any] | None = None
    kept: Ranges = ()


@dataclass(frozen=True, slots=True)
class ImageCut:
    """A node of which each worker computes some rows and columns.

    Attributes:
        inputs: The sharding that each input from the net must have.
        places: What each worker computes of every output.
        changes: What becomes of the node on each worker.
    """

    inputs: Mapping[int, Sharding]
    places: tuple[Ranges, ...]
    changes: tuple[Change, ...]


def image_cut(node: ir.Node, around: Surroundings, grid: tuple[int, int]) -> ImageCut | str:
    """Return how a node is cut by image among the workers of a grid, or why it cannot be, for people."""
    used = [value for value in node.outputs if value.uses() or value.is_graph_output()]
    shapes = [_dims(value) for value in used]
    if any(one is None or None in one[1:] for one in shapes):
        return "the size of its output is unknown; give the sizes of the inputs"
    height, width = _image(used[0]) if used else (0, 0)
    if not height or any(_image(value) != (height, width) for value in used):
        shown = ", ".join(dict.fromkeys(" x ".join(map(str, one[1:])) for one in shapes if one is not None))
        return (
            f"its output is no image, (N, C, H, W), but {shown} numbers for each sample; use "
            "partition_dim: 0 or 1"
        )
    for size, count, name in zip((height, width), grid, ("rows", "columns"), strict=True):
        if size < count:
            shown = f"{size} {name[:-1] if size == 1 else name}"
            return (
                f"its output has {shown} for {count} parts; use partition_dim: 0 for it and the layers "
                "behind it, or fewer parts"
            )
    rule = _IMAGE_RULES.get((node.domain, node.op_type))
    if rule is None:
        return "a part of its output needs more than a part of its input; use partition_dim: 0"
    places = tiles(grid, (height, width))
    return rule(node, around, places)


def _image(value: ir.Value | None) -> tuple[int, int]:
    """Return the height and width of an image, zeros for anything else."""
    dims = _dims(value)
    if dims is None or len(dims) != 4 or dims[2] is None or dims[3] is None:
        return 0, 0
    return dims[2], dims[3]


Places = tuple[Ranges, ...]
ImageRule = Callable[["ir.Node", Surroundings, Places], ImageCut | str]


def _each_place(node: ir.Node, around: Surroundings, places: Places) -> ImageCut | str:
    """Cut an operator that computes each place from the same place of its inputs."""
    axis = attributes_of(node).get("axis", 1)
    if node.op_type in _OF_CHANNELS and axis not in {1, -3}:
        return f"its axis is {axis}, and only that of the channels, 1, is whole in each part"
    size = _image(next(value for value in node.outputs if _image(value) != (0, 0)))
    inputs: dict[int, Sharding] = {}
    for index, value in enumerate(node.inputs):
        if value is None or (index and node.op_type in _WITH_VECTORS):
            continue
        dims = _dims(value)
        if dims is None:
            return f"the size of {value.name!r} is unknown; give the sizes of the inputs"
        if around.sharding(value).kind == "constant":
            if any(dim != 1 for dim in dims[-2:]):
                return f"{value.name!r} has numbers for each place; use partition_dim: 0"
        elif len(dims) == 4 and dims[2:] in {size, (1, 1)}:
            inputs[index] = by_image(places) if dims[2:] == size else WHOLE
        else:
            return f"its input {value.name!r} is no image of {size[0]} x {size[1]}; use partition_dim: 0"
    return ImageCut(inputs, places, (Change(),) * len(places))


def _windows(node: ir.Node, around: Surroundings, places: Places) -> ImageCut | str:
    """Cut a convolution or pooling: each worker needs the rows and columns that its windows reach into."""
    if node.op_type == "MaxPool" and _has_readers(node.outputs[1:]):
        return "indices of maxima count through the whole image; use partition_dim: 0"
    reads, changes = [], []
    for own in places:
        found = next(
            filter(None, (_window_change(node, own, more) for more in product((0, 1), repeat=2))), None
        )
        if found is None:
            return "some of its windows lie outside the image; use partition_dim: 0, or fewer workers"
        reads.append(found[0])
        changes.append(found[1])
    return ImageCut({0: by_image(reads)}, places, tuple(changes))


def _window_change(node: ir.Node, own: Ranges, more: Sequence[int]) -> tuple[Ranges, Change] | None:
    """Return what a worker reads, with so many more windows ahead of its own, so that the last one fits."""
    if any(start < extra for (start, _), extra in zip(own, more, strict=True)):
        return None
    part = part_of_windows(
        node, [(start - extra, stop) for (start, stop), extra in zip(own, more, strict=True)]
    )
    if part is None:
        return None
    kept = tuple((extra, extra + stop - start) for (start, stop), extra in zip(own, more, strict=True))
    if any(stop > count for (_, stop), count in zip(kept, part.num_windows, strict=True)):
        return None
    is_all = kept == tuple((0, count) for count in part.num_windows)
    return part.reads, Change(part.attributes, () if is_all else kept)


def _neighbouring_places(node: ir.Node, around: Surroundings, places: Places) -> ImageCut | str:
    """Cut an LRN within channels: its window ends where it began."""
    half, size = attributes_of(node)["size"] // 2, _image(node.outputs[0])
    reads, changes = [], []
    for own in places:
        wider = tuple(
            (max(0, start - half), min(count, stop + half))
            for (start, stop), count in zip(own, size, strict=True)
        )
        kept = tuple((a - low, b - low) for (a, b), (low, _) in zip(own, wider, strict=True))
        reads.append(wider)
        changes.append(Change(None, kept))
    return ImageCut({0: by_image(reads)}, places, tuple(changes))


def _transposed_windows(node: ir.Node, around: Surroundings, places: Places) -> ImageCut | str:
    """Cut a transposed convolution: each worker needs what its outputs are sums of."""
    attributes, weights, sizes = attributes_of(node), _stored_dims(node, 1), _image(node.inputs[0])
    if weights is None or attributes.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in attributes:
        return "its weights and pads are not numbers that are known; use partition_dim: 0"
    strides, dilations = (attributes.get(name) or [1, 1] for name in ("strides", "dilations"))
    pads = attributes.get("pads") or [0] * 4
    reads, changes = [], []
    for own in places:
        lines, begins, ends, added = [], [], [], []
        for axis, (start, stop) in enumerate(own):
            stride, extent = strides[axis], (weights[2 + axis] - 1) * dilations[axis] + 1
            first, last = start + pads[axis], stop - 1 + pads[axis]  # of the output without pads
            low = min(max(0, -(-(first - extent + 1) // stride)), first // stride, sizes[axis] - 1)
            high = max(min(sizes[axis] - 1, last // stride), low)
            over = stride * (high - low) + extent - (first - low * stride) - (stop - start)
            lines.append((low, high + 1))
            begins.append(first - low * stride)
            ends.append(max(over, 0))
            added.append(max(-over, 0))
        reads.append(tuple(lines))
        changes.append(Change({**attributes, "pads": [*begins, *ends], "output_padding": added}))
    return ImageCut({0: by_image(reads)}, places, tuple(changes))


def _repeated_places(node: ir.Node, around: Surroundings, places: Places) -> ImageCut | str:
    """Cut a Resize that repeats each element a whole number of times."""
    attributes, before, after = attributes_of(node), _image(node.inputs[0]), _image(node.outputs[0])
    by_sizes = len(node.inputs) > 3 and node.inputs[3] is not None
    where = attributes.get("coordinate_transformation_mode", "half_pixel")
    repeats = where == "half_pixel" or (where, attributes.get("nearest_mode")) == ("asymmetric", "floor")
    is_nearest = attributes.get("mode", "nearest") == "nearest" and repeats and not attributes.get("axes")
    if (
        by_sizes
        or not is_nearest
        or not all(before)
        or any(a % b for a, b in zip(after, before, strict=True))
    ):
        return "it does not repeat each element a whole number of times; use partition_dim: 0"
    times = [a // b for a, b in zip(after, before, strict=True)]
    reads, changes = [], []
    for own in places:
        read = tuple((start // n, -(-stop // n)) for (start, stop), n in zip(own, times, strict=True))
        kept = tuple(
            (start - low * n, stop - low * n)
            for (start, stop), (low, _), n in zip(own, read, times, strict=True)
        )
        reads.append(read)
        changes.append(Change(None, kept))
    return ImageCut({0: by_image(reads)}, places, tuple(changes))


_WITH_VECTORS = ("BatchNormalization", "Clip", "Dropout", "Split")
"""Operators whose further inputs are no images."""

_OF_CHANNELS = ("Concat", "LogSoftmax", "Softmax", "Split")
"""Operators with an axis, which must be that of the channels."""

_OF_PLACES = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")

_IMAGE_RULES: dict[tuple[str, str], ImageRule] = {
    **{("", name): _each_place for name in _EACH_CHANNEL if name not in _OF_PLACES},
    **{("", name): _each_place for name in ("LRN", "Mish", *_OF_CHANNELS)},
    **{(domain, name): _windows for domain in ("", DOMAIN) for name in ("AveragePool", "MaxPool")},
    ("", "Conv"): _windows,
    ("", "ConvTranspose"): _transposed_windows,
    ("", "Resize"): _repeated_places,
    (DOMAIN, "ChannelLRN"): _neighbouring_places,
}
