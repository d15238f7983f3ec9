"""Caffe nets of the corpus with seeded weights, renamed partners, and faults planted in text or weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.faults.model import Fault, Net, Subject
from tests.oracles import caffe_net, recipe
from tests.oracles.caffe_net import Body
from tests.oracles.caffemodel import caffemodel
from tests.oracles.prototxt import every, word

NETS = {
    "lenet": ("head-1.0/examples__mnist__lenet.prototxt", (2, 1, 28, 28)),
    "cifar10_quick": ("head-1.0/examples__cifar10__cifar10_quick.prototxt", (2, 3, 32, 32)),
    "cifar10_full": ("head-1.0/examples__cifar10__cifar10_full.prototxt", (2, 3, 32, 32)),
    "cifar10_bn": ("head-1.0/examples__cifar10__cifar10_full_sigmoid_train_test_bn.prototxt", (2, 3, 32, 32)),
    "siamese": ("head-1.0/examples__siamese__mnist_siamese.prototxt", (2, 1, 28, 28)),
    "googlenet": ("head-1.0/models__bvlc_googlenet__deploy.prototxt", (2, 3, 224, 224)),
}

Arrays = dict[str, list[np.ndarray]]
Message = list


def subjects(corpus: Path) -> Iterator[Subject]:
    """Yield every net with its partner and its faults."""
    for name, (path, shape) in NETS.items():
        body = caffe_net.read((corpus / "caffe" / path).read_text(), phase="TEST")
        inputs = dict.fromkeys(body.inputs[:1], shape)
        arrays = drawn(body, inputs)
        net = made(name, body, inputs, arrays)
        faults = [*setting_faults(name, body, inputs, arrays), *weight_faults(name, body, inputs, arrays)]
        yield Subject(net, {"renamed": renamed(name, body, inputs, arrays)}, faults)


def drawn(body: Body, inputs: dict[str, tuple[int, ...]]) -> Arrays:
    """Draw the stored arrays by the oracles' recipe."""
    _, blobs = caffe_net.stored(body, inputs)
    found: Arrays = {}
    for layer, entries in blobs.items():
        found[layer] = [recipe.weight(blob.owner, blob.shape, blob.role) for blob in entries]
        if body_kind(body, layer) == "batchnorm":
            factor = np.float32(997.0)
            found[layer] = [found[layer][0] * factor, found[layer][1] * factor, np.array([factor])]
    return found


def body_kind(body: Body, name: str) -> str:
    """Return the kind of a layer."""
    return next(layer.kind for layer in body.inner if layer.name == name)


def made(name: str, body: Body, inputs: dict[str, tuple[int, ...]], arrays: Arrays) -> Net:
    """Return a net's files."""
    layers = [(key, body_kind(body, key), values) for key, values in arrays.items()]
    text = body.text(inputs).encode()
    model = caffemodel(layers, generation=max(1, body.generation))
    return Net(name, "caffe", {"net.prototxt": text, "net.caffemodel": model}, inputs)


def renamed(name: str, body: Body, inputs: dict[str, tuple[int, ...]], arrays: Arrays) -> Net:
    """Return the net with other names for its layers; blobs stay."""
    other = copy.deepcopy(body)
    for number, layer in enumerate(other.inner):
        set_field(layer.message, ("name",), f'"l{number}_{layer.kind}"')
        layer.name = f"l{number}_{layer.kind}"
    moved = {new.name: arrays[old.name] for old, new in zip(body.inner, other.inner, strict=True) if old.name in arrays}
    return made(f"{name}-renamed", other, inputs, moved)


def set_field(message: Message, path: tuple[str, ...], value: str) -> None:
    """Set a field of a parsed message, making the messages on the way."""
    if len(path) > 1:
        inner = next((v for k, v in message if k == path[0]), None)
        if inner is None:
            inner = []
            message.append((path[0], inner))
        set_field(inner, path[1:], value)
        return
    kept = [(k, v) for k, v in message if k != path[0]]
    message[:] = [*kept, (path[0], value)]


Edit = tuple[str, str, tuple[tuple[tuple[str, ...], str], ...], set[str]]
"""Kind of fault, kind of layer, (field path, value) to set, traps that explain it."""

EDITS: tuple[Edit, ...] = (
    ("conv: dilation", "convolution", ((("convolution_param", "dilation"), "2"), (("convolution_param", "pad"), "PAD*2")), {"dilation", "padding"}),
    ("conv: padding", "convolution", ((("convolution_param", "pad"), "PAD+1"),), {"padding"}),
    ("conv: stride", "convolution", ((("convolution_param", "stride"), "STRIDE+1"),), {"stride"}),
    ("pool: max to average", "pooling", ((("pooling_param", "pool"), "OTHER"),), {"operator"}),
    ("pool: kernel", "pooling", ((("pooling_param", "kernel_size"), "KERNEL+1"),), {"kernel-size"}),
    ("pool: padding", "pooling", ((("pooling_param", "pad"), "PAD+1"),), {"padding"}),
    ("pool: stride", "pooling", ((("pooling_param", "stride"), "STRIDE+1"),), {"stride"}),
    ("lrn: alpha not divided", "lrn", ((("lrn_param", "alpha"), "ALPHA*N"),), {"lrn-alpha"}),
    ("lrn: size", "lrn", ((("lrn_param", "local_size"), "7"),), {"lrn-size"}),
    ("lrn: beta", "lrn", ((("lrn_param", "beta"), "0.5"),), {"lrn-beta"}),
    ("lrn: k", "lrn", ((("lrn_param", "k"), "2"),), {"lrn-k"}),
    ("relu: leaky slope", "relu", ((("relu_param", "negative_slope"), "0.1"),), {"operator", "leaky-slope"}),
    ("relu: sigmoid", "relu", ((("type",), '"Sigmoid"'),), {"operator"}),
    ("sigmoid: tanh", "sigmoid", ((("type",), '"TanH"'),), {"operator"}),
    ("bn: eps", "batchnorm", ((("batch_norm_param", "eps"), "0.05"),), {"epsilon"}),
)  # fmt: skip


def setting_faults(
    name: str, body: Body, inputs: dict[str, tuple[int, ...]], arrays: Arrays
) -> Iterator[Fault]:
    """Yield one fault for every setting of every layer that it can be planted in, three layers a kind."""
    for kind, layer_kind, changes, traps in EDITS:
        places = [index for index, layer in enumerate(body.inner) if layer.kind == layer_kind]
        for place in spread(places, 3):
            other = copy.deepcopy(body)
            layer = other.inner[place]
            for path, value in changes:
                set_field(layer.message, path, _value(layer, value))
            yield Fault(kind, layer.name, frozenset(traps), made(name, other, inputs, arrays))
    yield from structure_faults(name, body, inputs, arrays)


def spread(places: list[int], count: int) -> list[int]:
    """Return at most ``count`` places, spread evenly."""
    if len(places) <= count:
        return places
    return [places[round(i * (len(places) - 1) / (count - 1))] for i in range(count)]


def _value(layer: caffe_net.Layer, text: str) -> str:
    pad, stride = layer.number("pad", 0) or 0, layer.number("stride", 1) or 1
    kernel = layer.number("kernel_size", 1) or 1
    size = layer.number("local_size", 5) or 5
    alpha = float(layer.settings.get("alpha", ["1"])[-1])
    pool = layer.settings.get("pool", ["MAX"])[-1]
    values = {
        "PAD*2": str(pad + (kernel - 1) // 2),
        "PAD+1": str(pad + 1),
        "STRIDE+1": str(stride + 1),
        "KERNEL+1": str(kernel + 1),
        "OTHER": "AVE" if pool == "MAX" else "MAX",
        "ALPHA*N": repr(alpha * size),
    }
    return values.get(text, text)


def structure_faults(
    name: str, body: Body, inputs: dict[str, tuple[int, ...]], arrays: Arrays
) -> Iterator[Fault]:
    """Yield faults of the graph itself: a missing layer, a layer twice, branches swapped."""
    in_place = [i for i, l in enumerate(body.layers) if l.kind in {"relu", "sigmoid"} and l.bottoms == l.tops]
    for place in spread(in_place, 2):
        other = copy.deepcopy(body)
        gone = other.layers.pop(place)
        fault = made(name, other, inputs, arrays)
        yield Fault("a layer left out", gone.name, frozenset({"missing-layer"}), fault, in_table=False)
    twice = [i for i, l in enumerate(body.layers) if l.kind == "sigmoid" and l.bottoms == l.tops]
    for place in spread(twice, 1):
        other = copy.deepcopy(body)
        again = copy.deepcopy(other.layers[place])
        again.name = again.name + "_again"
        set_field(again.message, ("name",), f'"{again.name}"')
        other.layers.insert(place + 1, again)
        fault = made(name, other, inputs, arrays)
        yield Fault("a layer twice", again.name, frozenset({"missing-layer"}), fault, in_table=False)
    concats = [i for i, l in enumerate(body.layers) if l.kind == "concat"]
    for place in spread(concats, 2):
        other = copy.deepcopy(body)
        message = other.layers[place].message
        bottoms = every(message, "bottom")
        swapped = iter([bottoms[1], bottoms[0], *bottoms[2:]])
        message[:] = [(k, next(swapped) if k == "bottom" else v) for k, v in message]
        other.layers[place].bottoms = [word(v) for v in every(message, "bottom")]
        fault = made(name, other, inputs, arrays)
        yield Fault("branches swapped", other.layers[place].name, frozenset({"input-order"}), fault, in_table=False)


Change = Callable[[list[np.ndarray]], list[np.ndarray] | None]


def weight_faults(
    name: str, body: Body, inputs: dict[str, tuple[int, ...]], arrays: Arrays
) -> Iterator[Fault]:
    """Yield faults in the stored arrays."""
    for kind, layer_kind, change, traps, in_table in WEIGHTS:
        names = [layer.name for layer in body.inner if layer.kind == layer_kind and layer.name in arrays]
        if kind.startswith("channel order"):
            names = names[1:]
        for place in spread(list(range(len(names))), 3):
            changed = change([array.copy() for array in arrays[names[place]]])
            if changed is not None:
                net = made(name, body, inputs, {**arrays, names[place]: changed})
                yield Fault(kind, names[place], frozenset(traps), net, in_table=in_table)


def _one(values: list[np.ndarray]) -> list[np.ndarray]:
    flat = values[0].reshape(-1)
    flat[len(flat) // 3] += 3 * np.abs(flat).max()
    return values


def _channels(values: list[np.ndarray]) -> list[np.ndarray] | None:
    if values[0].shape[1] < 2:
        return None
    return [np.ascontiguousarray(values[0][:, ::-1]), *values[1:]]


def _turned(values: list[np.ndarray]) -> list[np.ndarray] | None:
    if values[0].shape[2] != values[0].shape[3] or values[0].shape[2] == 1:
        return None
    return [np.ascontiguousarray(values[0].swapaxes(2, 3)), *values[1:]]


def _flattened(values: list[np.ndarray]) -> list[np.ndarray] | None:
    outputs, inputs = values[0].shape
    for channels in (16, 32, 50, 64, 1024):
        side = round((inputs / channels) ** 0.5)
        if channels * side * side == inputs and side > 1:
            moved = values[0].reshape(outputs, channels, side, side).transpose(0, 2, 3, 1)
            return [np.ascontiguousarray(moved.reshape(outputs, inputs)), *values[1:]]
    return None


def _rolled(values: list[np.ndarray]) -> list[np.ndarray]:
    flat = np.roll(values[0].reshape(-1), values[0].size // 2)
    return [np.ascontiguousarray(flat[::-1].reshape(values[0].shape)), *values[1:]]


def _no_bias(values: list[np.ndarray]) -> list[np.ndarray] | None:
    return [values[0], values[1] * 0] if len(values) == 2 else None


def _unscaled(values: list[np.ndarray]) -> list[np.ndarray]:
    return [values[0], values[1], np.ones(1, np.float32)]


WEIGHTS: tuple[tuple[str, str, Change, set[str], bool], ...] = (
    ("one weight changed", "convolution", _one, {"weights"}, False),
    ("one weight changed", "innerproduct", _one, {"weights"}, False),
    ("wrong weights loaded", "convolution", _rolled, {"weights"}, False),
    ("bias lost", "convolution", _no_bias, {"weights"}, False),
    ("channel order", "convolution", _channels, {"channel-order"}, True),
    ("axis order", "convolution", _turned, {"axis-order"}, True),
    ("flatten order", "innerproduct", _flattened, {"flatten-order"}, True),
    ("bn: scale factor", "batchnorm", _unscaled, {"bn-scale-factor"}, True),
)
