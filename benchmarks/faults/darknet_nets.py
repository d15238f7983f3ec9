"""Small nets of Darknet with seeded weights, and the same with their normalisation folded away."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from benchmarks.faults.arrays import Stored
from benchmarks.faults.model import Net
from tests.oracles import recipe

EPSILON = 1e-5
"""What Darknet adds to a variance."""

Section = tuple[str, dict[str, str]]
"""A section's type and its settings."""


def _section(kind: str, **settings: object) -> Section:
    return kind, {name: str(value) for name, value in settings.items()}


def _net(size: int, channels: int = 3) -> Section:
    return _section("net", batch=1, width=size, height=size, channels=channels)


def _conv(
    filters: int, size: int, stride: int = 1, activation: str = "leaky", norm: int = 1, **more: int
) -> Section:
    settings = {"batch_normalize": norm, "filters": filters, "size": size, "stride": stride, "pad": 1}
    return _section("convolutional", **settings, **more, activation=activation)


def _yolo(mask: str) -> Section:
    anchors = "4,6, 9,11, 14,12, 20,30, 33,25, 50,48"
    return _section("yolo", mask=mask, anchors=anchors, classes=3, num=6, ignore_thresh=0.7)


NETS: dict[str, list[Section]] = {
    "plain": [
        _net(32), _conv(8, 3), _section("maxpool", size=2, stride=2), _conv(12, 3),
        _section("maxpool", size=3, stride=2), _conv(16, 3, activation="relu"), _conv(8, 1),
        _section("avgpool"), _section("connected", output=10, activation="linear"), _section("softmax"),
    ],
    "residual": [
        _net(32), _conv(8, 3, 2, "mish"), _conv(8, 1), _conv(8, 3, activation="logistic"),
        _section("shortcut", **{"from": -3}, activation="linear"), _conv(16, 3, 2),
        _conv(16, 3, norm=0, groups=4),
        _section("shortcut", **{"from": -2}, activation="leaky"),
        _conv(10, 1, norm=0, activation="linear"), _section("avgpool"),
    ],
    "routes": [
        _net(32), _conv(8, 3, 2), _conv(6, 1), _section("upsample", stride=2),
        _section("maxpool", size=2, stride=2), _section("route", layers="-1,-4"),
        _conv(12, 3, activation="swish"), _section("route", layers="-1,-3"),
        _conv(8, 3, 2), _conv(10, 1, norm=0, activation="linear"),
    ],
    "spatial": [
        _net(26), _conv(8, 3), _section("maxpool", size=5, stride=1), _section("route", layers="-2"),
        _section("maxpool", size=9, stride=1), _section("route", layers="-1,-3,-4"), _conv(12, 1),
        _conv(8, 3, 2, "relu"), _section("avgpool"), _section("softmax"),
    ],
    "tiny": [
        _net(64), _conv(8, 3), _section("maxpool", size=2, stride=2),
        _conv(12, 3), _section("maxpool", size=2, stride=2),
        _conv(16, 3), _section("maxpool", size=2, stride=2),
        _conv(20, 3), _section("maxpool", size=2, stride=2),
        _conv(24, 3), _section("maxpool", size=2, stride=1),
        _conv(32, 3), _conv(12, 1), _conv(24, 3), _conv(16, 1, norm=0, activation="linear"),
        _yolo("3,4"),
        _section("route", layers="-4"), _conv(8, 1), _section("upsample", stride=2),
        _section("route", layers="-1, 6"), _conv(16, 3), _conv(16, 1, norm=0, activation="linear"),
        _yolo("1,2"),
    ],
    "partial": [
        _net(32), _conv(8, 3, 2), _conv(16, 3), _section("route", layers=-1, groups=2, group_id=1),
        _conv(8, 3), _conv(8, 3, activation="swish"), _section("route", layers="-1,-2"), _conv(16, 1),
        _section("route", layers="-6,-1"), _section("maxpool", size=2, stride=2),
        _conv(16, 3, activation="mish"), _conv(16, 1),
        _section("shortcut", **{"from": -2}, activation="leaky"), _conv(12, 3, 2, groups=2),
        _conv(10, 1, norm=0, activation="linear"), _section("avgpool"),
        _section("softmax"),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class DarknetNet:
    """The sections of a ``.cfg`` and the arrays of its ``.weights``, by layer and role."""

    sections: list[Section]
    arrays: dict[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the input."""
        settings = self.sections[0][1]
        return int(settings["channels"]), int(settings["height"]), int(settings["width"])

    def text(self) -> str:
        """Return the ``.cfg``."""
        return "\n".join(
            "\n".join([f"[{kind}]", *(f"{name}={value}" for name, value in settings.items()), ""])
            for kind, settings in self.sections
        )

    def weights(self) -> bytes:
        """Return the ``.weights``: a header of version 0.2, and the arrays in the order of the layers."""
        stored = [values.astype("<f4").tobytes() for values in self.arrays.values()]
        return np.array([0, 2, 0, 0, 0], "<i4").tobytes() + b"".join(stored)

    def net(self) -> Net:
        """Return the net's files."""
        files = {"net.cfg": self.text().encode(), "net.weights": self.weights()}
        return Net("darknet", files, {"data": self.shape})

    def stored(self) -> list[Stored]:
        """Return what is stored, by role."""
        found = []
        for key, values in self.arrays.items():
            layer, _, role = key.partition("/")
            found.append(
                Stored(key, layer, role if role != "weights" else "filter" if values.ndim == 4 else "matrix")
            )
        return found

    def having(self, place: int, **settings: str | None) -> DarknetNet:
        """Return the net with other settings of one section; None takes one away."""
        sections = copy.deepcopy(self.sections)
        for name, value in settings.items():
            if value is None:
                sections[place][1].pop(name, None)
            else:
                sections[place][1][name.rstrip("_")] = value
        return replace(self, sections=sections)


def layer_name(sections: list[Section], place: int) -> str:
    """Return the name of a layer: its type and number, which the net's own section has no part in."""
    return f"{sections[place][0]}_{place - 1}"


def draw(name: str) -> DarknetNet:
    """Return a net with seeded weights."""
    sections = copy.deepcopy(NETS[name])
    net = DarknetNet(sections, {})
    sizes = [net.shape]
    for place, (kind, settings) in enumerate(sections[1:], 1):
        layer = layer_name(sections, place)
        made, shapes = WALK.get(kind, _same)(settings, sizes)
        for role, shape in shapes.items():
            drawn = {"weights": "filter" if len(shape) == 4 else "matrix", "gamma": "scale"}.get(role, role)
            net.arrays[f"{layer}/{role}"] = recipe.weight(f"{name} {layer} {role}", shape, drawn)
        sizes.append(made)
    return net


def folded(net: DarknetNet) -> DarknetNet:
    """Return the same net with every normalisation inside its convolution."""
    sections, arrays = copy.deepcopy(net.sections), {}
    for place, (_, settings) in enumerate(sections):
        layer = layer_name(sections, place)
        own = {key.partition("/")[2]: x for key, x in net.arrays.items() if key.startswith(f"{layer}/")}
        if "gamma" in own:
            factor = own["gamma"] / np.sqrt(own["variance"] + EPSILON)
            own = {
                "bias": own["bias"] - own["mean"] * factor,
                "weights": own["weights"] * factor.reshape(-1, *[1] * (own["weights"].ndim - 1)),
            }
            settings["batch_normalize"] = "0"
        arrays |= {f"{layer}/{role}": values for role, values in own.items()}
    return DarknetNet(sections, arrays)


Sizes = tuple[int, int, int]
Shapes = dict[str, tuple[int, ...]]


def _same(settings: dict[str, str], sizes: list[Sizes]) -> tuple[Sizes, Shapes]:
    return sizes[-1], {}


def _convolution(settings: dict[str, str], sizes: list[Sizes]) -> tuple[Sizes, Shapes]:
    channels, *image = sizes[-1]
    filters, size, stride, groups = (int(settings.get(n, 1)) for n in ("filters", "size", "stride", "groups"))
    statistics = ("gamma", "mean", "variance") if settings["batch_normalize"] == "1" else ()
    shapes: Shapes = dict.fromkeys(("bias", *statistics), (filters,))
    height, width = ((length + 2 * (size // 2) - size) // stride + 1 for length in image)
    return (filters, height, width), shapes | {"weights": (filters, channels // groups, size, size)}


def _dense(settings: dict[str, str], sizes: list[Sizes]) -> tuple[Sizes, Shapes]:
    count = int(settings["output"])
    return (count, 1, 1), {"bias": (count,), "weights": (count, prod(sizes[-1]))}


def _pool(settings: dict[str, str], sizes: list[Sizes]) -> tuple[Sizes, Shapes]:
    channels, *image = sizes[-1]
    size, stride = int(settings["size"]), int(settings["stride"])
    height, width = ((length + size - 1 - size) // stride + 1 for length in image)
    return (channels, height, width), {}


def _average(settings: dict[str, str], sizes: list[Sizes]) -> tuple[Sizes, Shapes]:
    return (sizes[-1][0], 1, 1), {}


def _upsample(settings: dict[str, str], sizes: list[Sizes]) -> tuple[Sizes, Shapes]:
    channels, height, width = sizes[-1]
    return (channels, 2 * height, 2 * width), {}


def _route(settings: dict[str, str], sizes: list[Sizes]) -> tuple[Sizes, Shapes]:
    numbers = [int(number) for number in settings["layers"].split(",")]
    parts = [sizes[number if number < 0 else number + 1] for number in numbers]
    channels = sum(part[0] for part in parts) // int(settings.get("groups", 1))
    return (channels, *parts[0][1:]), {}


WALK = {
    "convolutional": _convolution, "connected": _dense, "maxpool": _pool, "avgpool": _average,
    "upsample": _upsample, "route": _route,
}  # fmt: skip
