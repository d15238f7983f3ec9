"""Faults planted in the text or the weights of Caffe nets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.faults.arrays import array_faults, spread
from benchmarks.faults.caffe_nets import FORMS, NETS, CaffeNet, read, rewrite
from benchmarks.faults.model import Fault, Subject, Subjects, Wanted
from tests.oracles.caffe_net import Body, Layer

if TYPE_CHECKING:
    from tests.oracles.prototxt import Message

COUNT = 2
"""Faults of one kind in one net."""

LARGE = frozenset({"googlenet", "resnet_50"})
"""Nets that take long: one fault of a kind."""


def subjects(corpus: Path, wanted: Wanted) -> Subjects:
    """Yield every net that is wanted with its other forms and its faults."""
    for name in filter(lambda name: wanted(f"caffe-{name}"), NETS):
        net = read(corpus, name)
        forms = {} if name == "googlenet" else {form: make(net) for form, make in FORMS.items()}
        yield Subject(
            f"caffe-{name}",
            net.net(),
            {form: made.net() for form, (made, _) in forms.items()},
            list(faults(net, count=1 if name in LARGE else COUNT)),
            {form: names for form, (_, names) in forms.items()},
        )


def faults(net: CaffeNet, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a net."""
    yield from _settings(net, count)
    yield from _structure(net.body, lambda body: net.with_body(body), count)
    for found in array_faults(net.stored(), net.arrays, count=count):
        shared = {key: found.values for key in net.arrays if net.arrays[key] is net.arrays[found.stored.key]}
        made = net.with_arrays({found.stored.key: found.values, **shared}).net()
        yield Fault(found.kind, found.stored.layer, found.mismatches, made, found.in_table)


PARAMS = {
    "convolution": "convolution_param",
    "pooling": "pooling_param",
    "lrn": "lrn_param",
    "relu": "relu_param",
    "batchnorm": "batch_norm_param",
}
"""Field that holds the settings of a kind of layer."""

Value = Callable[[Layer], str]


def _pad(layer: Layer) -> int:
    return layer.number("pad", 0) or 0


def _kernel(layer: Layer) -> int:
    return layer.number("kernel_size", 1) or 1


def _dilated(layer: Layer) -> str:
    return str(_pad(layer) + (_kernel(layer) - 1) // 2)


def _undivided(layer: Layer) -> str:
    return repr(float(layer.settings.get("alpha", ["1"])[-1]) * (layer.number("local_size", 5) or 5))


def _other_pool(layer: Layer) -> str:
    return "AVE" if layer.settings.get("pool", ["MAX"])[-1] == "MAX" else "MAX"


def _other_region(layer: Layer) -> str:
    within = layer.settings.get("norm_region", [""])[-1] == "WITHIN_CHANNEL"
    return "ACROSS_CHANNELS" if within else "WITHIN_CHANNEL"


def _grown(name: str, default: int) -> Value:
    return lambda layer: str((layer.number(name, default) or default) + 1)


def _to(text: str) -> Value:
    return lambda layer: text


EDITS: tuple[tuple[str, str, dict[str, Value], set[str]], ...] = (
    ("conv: dilation", "convolution", {"dilation": _to("2"), "pad": _dilated}, {"dilation", "padding"}),
    ("conv: padding", "convolution", {"pad": _grown("pad", 0)}, {"padding"}),
    ("conv: stride", "convolution", {"stride": _grown("stride", 1)}, {"stride"}),
    ("pool: operator", "pooling", {"pool": _other_pool}, {"operator"}),
    ("pool: kernel", "pooling", {"kernel_size": _grown("kernel_size", 1)}, {"kernel-size"}),
    ("pool: padding", "pooling", {"pad": _grown("pad", 0)}, {"padding"}),
    ("pool: stride", "pooling", {"stride": _grown("stride", 1)}, {"stride"}),
    ("lrn: alpha not divided", "lrn", {"alpha": _undivided}, {"lrn-alpha"}),
    ("lrn: size", "lrn", {"local_size": _to("7")}, {"lrn-size"}),
    ("lrn: beta", "lrn", {"beta": _to("0.5")}, {"lrn-beta"}),
    ("lrn: k", "lrn", {"k": _to("2")}, {"lrn-k"}),
    ("lrn: region", "lrn", {"norm_region": _other_region}, {"operator"}),
    ("relu: leaky", "relu", {"negative_slope": _to("0.1")}, {"operator", "leaky-slope"}),
    ("relu: sigmoid", "relu", {"type": _to('"Sigmoid"')}, {"operator"}),
    ("sigmoid: tanh", "sigmoid", {"type": _to('"TanH"')}, {"operator"}),
    ("bn: eps", "batchnorm", {"eps": _to("0.05")}, {"epsilon"}),
)
"""Kind of fault, kind of layer, what is set to what, keys of the mismatches that explain it."""


def _settings(net: CaffeNet, count: int) -> Iterator[Fault]:
    for kind, layer_kind, changes, mismatches in EDITS:
        places = [index for index, layer in enumerate(net.body.inner) if layer.kind == layer_kind]
        if layer_kind == "pooling":
            places = [i for i in places if "global_pooling" not in net.body.inner[i].settings]
        for place in spread(places, count):
            body = copy.deepcopy(net.body)
            layer = body.inner[place]
            for name, value in changes.items():
                path = (name,) if name == "type" else (PARAMS[layer_kind], name)
                set_field(layer.message, path, value(layer))
            yield Fault(kind, layer.name, frozenset(mismatches), net.with_body(body).net())


def set_field(message: Message, path: tuple[str, ...], value: str) -> None:
    """Set a field of a parsed message, making the messages on the way."""
    if len(path) == 1:
        message[:] = [*((key, old) for key, old in message if key != path[0]), (path[0], value)]
        return
    inner = next((old for key, old in message if key == path[0]), None)
    if inner is None:
        inner = []
        message.append((path[0], inner))
    set_field(inner, path[1:], value)


def _structure(body: Body, made: Callable[[Body], CaffeNet], count: int) -> Iterator[Fault]:
    """Yield faults of the graph itself: a layer left out, a layer twice, branches swapped."""
    layers = body.layers
    in_place = [
        i
        for i, layer in enumerate(layers)
        if layer.bottoms == layer.tops and layer.kind in {"relu", "sigmoid", "batchnorm"}
    ]
    for place in spread(in_place, count):
        other = copy.deepcopy(body)
        gone = other.layers.pop(place)
        missing = frozenset({"missing-layer"})
        yield Fault("layer left out", gone.name, missing, made(other).net(), in_table=False)
    for place in spread([i for i in in_place if layers[i].kind == "sigmoid"], count):
        other = copy.deepcopy(body)
        again = copy.deepcopy(other.layers[place])
        again.name += "_again"
        rewrite(again, {})
        other.layers.insert(place + 1, again)
        twice = frozenset({"missing-layer"})
        yield Fault("layer twice", again.name, twice, made(other).net(), in_table=False)
    for place in spread([i for i, layer in enumerate(layers) if layer.kind == "concat"], count):
        other = copy.deepcopy(body)
        layer = other.layers[place]
        layer.bottoms[:2] = layer.bottoms[1::-1]
        rewrite(layer, {})
        order = frozenset({"input-order"})
        yield Fault("branches swapped", layer.name, order, made(other).net(), in_table=False)
