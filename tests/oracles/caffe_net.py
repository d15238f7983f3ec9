"""A Caffe net of any generation cut to what OpenCV can run: one phase, inputs instead of data, no losses.

Written from the description of the formats, apart from Netweave's own reader, so that the two check each
other: each knows by itself which layers a phase has, what shape every blob has and what every layer stores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, prod

from tests.oracles import prototxt
from tests.oracles.prototxt import Message, every, last, word

ALIASES = {"conv": "convolution", "pool": "pooling", "images": "imagedata"}
"""V0's names of kinds that the later generations call otherwise."""

DATA = {"data", "imagedata", "windowdata", "hdf5data", "memorydata", "dummydata", "input", "annotateddata"}
SINKS = re.compile(r"accuracy|.*loss|silence|hdf5output|detectionevaluate")
OLD_FIELDS = {"kernelsize": "kernel_size", "biasterm": "bias_term", "cropsize": "crop_size"}

Shape = tuple[int, ...]


@dataclass
class Layer:
    """A layer of any generation: ``kind`` is its type in small letters without underscores."""

    name: str
    type: str
    kind: str
    bottoms: list[str]
    tops: list[str]
    settings: dict[str, list[str]]
    shares: list[str]
    message: Message = field(repr=False)

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return the last value of a whole-numbered setting."""
        return int(self.settings[name][-1]) if name in self.settings else default


@dataclass
class Body:
    """A net cut to one phase.

    Attributes:
        generation: 0, 1 or 2: which of the three forms the file is written in.
        layers: All layers of the phase, data and losses too, in the order of the file.
        declared: Shapes of the inputs that the file itself gives.
    """

    name: str
    generation: int
    layers: list[Layer]
    declared: dict[str, Shape]

    @property
    def inner(self) -> list[Layer]:
        """The layers between data and losses."""
        return [layer for layer in self.layers if layer.kind not in DATA and not SINKS.fullmatch(layer.kind)]

    @property
    def inputs(self) -> list[str]:
        """The blobs that the inner layers read and no inner layer made before."""
        made: set[str] = set()
        read: dict[str, None] = {}
        for layer in self.inner:
            read.update((name, None) for name in layer.bottoms if name not in made)
            made.update(layer.tops)
        return list(read)

    def text(self, inputs: dict[str, Shape]) -> str:
        """Return the inner layers, with these inputs, in the file's own generation."""
        head: Message = [("name", f'"{self.name}"')]
        for name, shape in inputs.items():
            head.append(("input", f'"{name}"'))
            if self.generation == 2:
                head.append(("input_shape", [("dim", str(size)) for size in shape]))
            else:
                head += [("input_dim", str(size)) for size in (*shape, 1, 1)[:4]]
        field_name = "layer" if self.generation == 2 else "layers"
        return prototxt.dump(head + [(field_name, layer.message) for layer in self.inner])


def read(text: str, *, phase: str, stages: tuple[str, ...] = ()) -> Body:
    """Cut a net to a phase."""
    net = prototxt.parse(text)
    messages = every(net, "layers") + every(net, "layer")
    generation = 2 if every(net, "layer") else 0 if any(every(m, "layer") for m in messages) else 1
    layers = [_layer(message) for message in messages if _included(message, phase, stages)]
    return Body(word(last(net, "name", '""')), generation, layers, _declared(net, layers))


def _layer(message: Message) -> Layer:
    own = last(message, "layer", message)
    settings: dict[str, list[str]] = {}
    for name, value in own:
        pairs = value if isinstance(value, list) and name.endswith("_param") else [(name, value)]
        for key, inner in pairs:
            if isinstance(inner, str):
                settings.setdefault(OLD_FIELDS.get(key, key), []).append(word(inner))
    written = word(last(own, "type"))
    kind = written.lower().replace("_", "")
    shares = [word(last(p, "name", '""') if isinstance(p, list) else p) for p in every(message, "param")]
    bottoms, tops = ([word(v) for v in every(message, side)] for side in ("bottom", "top"))
    name = word(last(own, "name"))
    return Layer(name, written, ALIASES.get(kind, kind), bottoms, tops, settings, shares, message)


def _included(message: Message, phase: str, stages: tuple[str, ...]) -> bool:
    def met(rule: Message) -> bool:
        wanted = [word(stage) for stage in every(rule, "stage")]
        unwanted = [word(stage) for stage in every(rule, "not_stage")]
        right_phase = last(rule, "phase", phase) == phase
        return right_phase and set(wanted) <= set(stages) and not set(unwanted) & set(stages)

    include, exclude = every(message, "include"), every(message, "exclude")
    return any(map(met, include)) if include else not any(map(met, exclude))


def _declared(net: Message, layers: list[Layer]) -> dict[str, Shape]:
    names = [word(name) for name in every(net, "input")]
    shapes = [_dims(shape) for shape in every(net, "input_shape")]
    flat = [int(dim) for dim in every(net, "input_dim")]
    shapes = shapes or [tuple(flat[i : i + 4]) for i in range(0, len(flat), 4)]
    found = dict(zip(names, shapes, strict=False))
    for layer in layers:
        for param in every(layer.message, "input_param") + every(layer.message, "dummy_data_param"):
            given = [_dims(shape) for shape in every(param, "shape")]
            found.update((top, given[min(i, len(given) - 1)]) for i, top in enumerate(layer.tops))
    return found


def _dims(shape: Message) -> Shape:
    return tuple(int(dim) for dim in every(shape, "dim"))


@dataclass(frozen=True)
class Blob:
    """A stored array: its key ``<layer>/<index>``, sizes, role, and the key of the array it shares."""

    key: str
    shape: Shape
    role: str
    owner: str


def stored(body: Body, inputs: dict[str, Shape]) -> tuple[dict[str, Shape], dict[str, list[Blob]]]:
    """Return the shape that every blob has last, and the stored arrays by layer."""
    shapes = dict(inputs)
    blobs: dict[str, list[Blob]] = {}
    owners: dict[str, str] = {}
    for layer in body.inner:
        given = [shapes[name] for name in layer.bottoms]
        entries = [(shape, role) for shape, role in _arrays(layer, given) if shape]
        for index, (shape, role) in enumerate(entries):
            key = f"{layer.name}/{index}"
            share = layer.shares[index] if index < len(layer.shares) else ""
            owner = owners.setdefault(share, key) if share else key
            blobs.setdefault(layer.name, []).append(Blob(key, shape, role, owner))
        shapes.update(zip(layer.tops, _outputs(layer, given), strict=True))
    return shapes, blobs


def _arrays(layer: Layer, given: list[Shape]) -> list[tuple[Shape, str]]:
    if layer.kind == "batchnorm":
        channels = (given[0][1],)
        return [(channels, "mean"), (channels, "variance"), ((1,), "scale")]
    if layer.kind == "normalize":
        shared = layer.settings.get("channel_shared", ["true"])[-1] == "true"
        return [((1 if shared else given[0][1],), "scale")]
    if layer.kind in {"scale", "prelu"}:
        channels = (given[0][1],)
        bias = [(channels, "bias")] if layer.settings.get("bias_term") == ["true"] else []
        return [(channels, "scale" if layer.kind == "scale" else "slope"), *bias]
    if layer.kind not in {"convolution", "deconvolution", "innerproduct"}:
        return []
    outputs = layer.number("num_output")
    if layer.kind == "deconvolution":
        weight = ((given[0][1], outputs // layer.number("group", 1), *_window(layer, "kernel", 0)), "filter")
    elif layer.kind == "convolution":
        kernel = _window(layer, "kernel", 0)
        weight = ((outputs, given[0][1] // layer.number("group", 1), *kernel), "filter")
    else:
        weight = ((outputs, prod(given[0][1:])), "matrix")
    has_bias = layer.settings.get("bias_term", ["true"])[-1] in {"true", "1"}
    return [weight, ((outputs,), "bias")] if has_bias else [weight]


def _window(layer: Layer, name: str, default: int) -> Shape:
    stem = f"{name}_size" if name == "kernel" else name
    both = layer.number(stem, default)
    return layer.number(f"{name}_h", both), layer.number(f"{name}_w", both)


def _outputs(layer: Layer, given: list[Shape]) -> list[Shape]:
    if not given:
        return []
    first = given[0]
    if layer.kind in {"convolution", "deconvolution", "pooling", "padding"}:
        return [_spatial(layer, first)]
    if layer.kind == "crop":
        axis = layer.number("axis", 2)
        return [first[:axis] + given[1][axis:]]
    if layer.kind == "innerproduct":
        return [(first[0], layer.number("num_output"))]
    if layer.kind == "flatten":
        return [(first[0], prod(first[1:]))]
    if layer.kind == "concat":
        axis = layer.number("axis", 1)
        return [(*first[:axis], sum(shape[axis] for shape in given), *first[axis + 1 :])]
    if layer.kind == "slice":
        points = [0, *map(int, layer.settings.get("slice_point", [])), first[1]]
        return [(first[0], end - begin, *first[2:]) for begin, end in pairwise(points)]
    if layer.kind in _SSD:
        return [_SSD[layer.kind](layer, first)]
    return [first] * len(layer.tops)


def _permuted(layer: Layer, first: Shape) -> Shape:
    return tuple(first[int(axis)] for axis in layer.settings["order"])


def _priors(layer: Layer, first: Shape) -> Shape:
    return (1, 2, 4 * first[2] * first[3] * _num_priors(layer))


def _detections(layer: Layer, first: Shape) -> Shape:
    return (1, 1, 0, 7)


def _reshaped(layer: Layer, first: Shape) -> Shape:
    known = [size or first[axis] for axis, size in enumerate(_dims(_shape(layer)))]
    return tuple(prod(first) // -prod(known) if size == -1 else size for size in known)


_SSD = {
    "permute": _permuted,
    "priorbox": _priors,
    "detectionoutput": _detections,
    "reshape": _reshaped,
}
"""Output shapes of the layers that SSD's nets have and others have not."""


def _shape(layer: Layer) -> Message:
    return last(last(layer.message, "reshape_param"), "shape")


def _num_priors(layer: Layer) -> int:
    """Return the number of boxes of a cell; the settings have flips, and no ratio twice."""
    mins, maxs, ratios = (
        len(layer.settings.get(name, [])) for name in ("min_size", "max_size", "aspect_ratio")
    )
    return mins * (1 + 2 * ratios) + maxs


def _spatial(layer: Layer, shape: Shape) -> Shape:
    pads = _window(layer, "pad", 0)
    if layer.kind == "padding":
        return (*shape[:2], *(size + 2 * pad for size, pad in zip(shape[2:], pads, strict=True)))
    if layer.settings.get("global_pooling") == ["true"]:
        return (*shape[:2], 1, 1)
    axes = list(zip(shape[2:], _window(layer, "kernel", 0), _window(layer, "stride", 1), pads, strict=True))
    if layer.kind == "deconvolution":
        return (shape[0], layer.number("num_output"), *((i - 1) * s + k - 2 * p for i, k, s, p in axes))
    if layer.kind == "convolution":
        spread = layer.number("dilation", 1)
        spatial = ((i + 2 * p - spread * (k - 1) - 1) // s + 1 for i, k, s, p in axes)
        return (shape[0], layer.number("num_output"), *spatial)
    sizes = [(ceil((i + 2 * p - k) / s) + 1, i, s, p) for i, k, s, p in axes]
    clip = any(pads)
    return (*shape[:2], *(n - 1 if clip and (n - 1) * s >= i + p else n for n, i, s, p in sizes))
